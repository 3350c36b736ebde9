"""Public pre-training: it learns, it is reproducible, and curiosity enters it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from tacit.errors import DataError, PlanError
from tacit.methods.synthesis import pretraining
from tacit.methods.synthesis.diffusion import draw, row_losses, sample
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Curiosity, Pretraining, TransitionsPlan
from tacit.methods.synthesis.pretraining import initial_model, pretrain
from tacit_worlds import maze

LAYOUT = maze.LAYOUTS["ring"]
ENCODER = Encoder.from_bounds(maze.spec(LAYOUT))
COLUMNS: dict[str, Any] = maze.collect(LAYOUT, 20_000, agents=64, seed=0)
PLAN = TransitionsPlan(
    width=32, depth=2, pretraining=Pretraining(provenance="the public ring maze", steps=150, batch=256)
)


def short(**change: Any) -> TransitionsPlan:
    assert PLAN.pretraining is not None
    settings = {"steps": 4, "batch": 16, "warmup": 1, **change}
    return dataclasses.replace(PLAN, pretraining=dataclasses.replace(PLAN.pretraining, **settings))


def test_it_learns_public_rows() -> None:
    """The loss on rows that it never saw falls well below the start, and sampled positions avoid the middle wall."""
    losses: list[float] = []
    trained = pretrain(PLAN, ENCODER, COLUMNS, seed=1, progress=lambda _done, _all, loss: losses.append(loss))
    assert len(losses) == 150
    fresh = {k: torch.as_tensor(v) for k, v in maze.collect(LAYOUT, 4_000, agents=64, seed=9).items()}
    clean = ENCODER.encode(fresh, torch.zeros(4_000, ENCODER.bounded_size))
    draws = draw(torch.Generator().manual_seed(0), 4_000, 1, encoder=ENCODER)

    def loss(model: Any) -> float:
        with torch.no_grad():
            return row_losses(model, clean, draws["sigma"][:, 0], draws["noise"][:, 0]).mean().item()

    start, end = loss(initial_model(PLAN, ENCODER, seed=1)), loss(trained.model(PLAN))
    assert end < 0.75 * start
    rows = sample(trained.model(PLAN), 2_000, PLAN.sampler, torch.Generator().manual_seed(0))
    moved = rows["next_observations"] - rows["observations"]
    along = (rows["observations"][:, 2:] * moved[:, :2]).sum(1) > 0
    assert along.double().mean() > 0.9


def test_the_same_seed_gives_the_same_weights() -> None:
    one, two, other = (pretrain(short(), ENCODER, COLUMNS, seed=seed) for seed in (5, 5, 6))
    assert all(torch.equal(one.average[name], two.average[name]) for name in one.average)
    assert not all(torch.equal(one.average[name], other.average[name]) for name in one.average)


def test_the_global_random_state_is_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    pretrain(short(), ENCODER, COLUMNS, seed=5)
    assert torch.equal(torch.rand(1), expected)


def test_fine_tuning_starts_from_the_average() -> None:
    trained = pretrain(short(ema=0.9), ENCODER, COLUMNS, seed=5)
    model = trained.model(PLAN)
    values = dict(model.network.named_parameters())
    assert all(torch.equal(values[name], trained.average[name]) for name in values)
    assert any(not torch.equal(trained.weights[name], trained.average[name]) for name in values)
    assert trained.provenance == "the public ring maze"


def test_without_pretraining_the_weights_are_the_seeds() -> None:
    plan = dataclasses.replace(PLAN, pretraining=None)
    trained = pretrain(plan, ENCODER, None, seed=5)
    assert trained.provenance == "none"
    expected = dict(initial_model(plan, ENCODER, seed=5).network.named_parameters())
    assert all(torch.equal(trained.average[name], expected[name]) for name in expected)


@pytest.mark.parametrize(("plan", "columns"), [(PLAN, None), (dataclasses.replace(PLAN, pretraining=None), COLUMNS)])
def test_rows_and_plan_go_together(plan: TransitionsPlan, columns: Any) -> None:
    with pytest.raises(DataError, match="go together"):
        pretrain(plan, ENCODER, columns, seed=0)


def test_weights_of_another_network_are_refused() -> None:
    trained = pretrain(short(), ENCODER, COLUMNS, seed=5)
    with pytest.raises(PlanError, match="another network"):
        trained.model(dataclasses.replace(PLAN, width=48))


@pytest.mark.parametrize(
    ("settings", "pools", "batch"),
    [
        (Curiosity(mode="replace", rate=0.3, sampler_steps=2), [16] * 4, [16] * 4),
        # 48 rows are 3 batches of 16: pools are drawn before steps 0 and 3.
        (Curiosity(mode="append_pool", rate=0.1, pool=100, appended=5, sampler_steps=2), [100, 100], [21] * 4),
    ],
)
def test_curiosity_enters_each_batch(
    settings: Curiosity, pools: list[int], batch: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:

    generated: list[int] = []
    trained_on: list[int] = []
    novel = pretraining.most_novel
    loss = row_losses

    def spy_pool(novelty: Any, rows: torch.Tensor, count: int) -> torch.Tensor:
        generated.append(len(rows))
        assert count == int(settings.rate * len(rows))
        return novel(novelty, rows, count)

    def spy_loss(model: Any, clean: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        trained_on.append(len(clean))
        return loss(model, clean, *rest)

    monkeypatch.setattr(pretraining, "most_novel", spy_pool)
    monkeypatch.setattr(pretraining, "row_losses", spy_loss)
    few = {name: np.asarray(column)[:48] for name, column in COLUMNS.items()}
    pretrain(short(curiosity=settings), ENCODER, few, seed=2)
    assert generated == pools
    assert trained_on == batch
