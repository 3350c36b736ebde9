"""Synthesis of named, typed columns: whole numbers stay whole, categories stay one of their labels."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.methods.synthesis.trajectories.trajectory_cases import PEOPLE, small, vault_of

from tacit.data import Box, Column, PublicSpec, Trajectories
from tacit.data.spec import space_of
from tacit.evaluation.fidelity import fidelity
from tacit.methods import synthesis
from tacit.methods.synthesis import trajectories
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.methods.synthesis.encoding import Encoder, groups
from tacit.methods.synthesis.table_matching import TableMatching, cell_codes
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.marginals import DIFFERENCES
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

SPEC = PublicSpec(
    observation=space_of(
        Column("age", "integer", 18, 95, step=1),
        Column("pulse", low=30, high=200, missing="flag", step=10),
        Column("ward", "category", labels=("north", "east", "south")),
    ),
    action=space_of(
        Column("drug", "category", labels=("none", "a", "b")),
        Column("visits", "integer", 0, 4),
    ),
    reward=space_of(Column("relief", low=0, high=1)),
    source="declared",
)
UNIT = Unit("transition", "add_or_remove", 10_000)


def rows(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Rows whose next ward is the ward itself, but for a tenth."""
    rng = np.random.default_rng(seed)
    missing = rng.random(count) < 0.2
    pulse = np.where(missing, 30.0, rng.normal(70, 10, count).clip(30, 200))
    ward = rng.choice(3, count, p=[0.6, 0.3, 0.1])
    now = np.stack([rng.integers(30, 80, count), pulse, missing, ward], axis=1).astype(np.float32)
    later = now.copy()
    later[:, 0] += rng.random(count) < 0.5
    later[:, 3] = np.where(rng.random(count) < 0.1, rng.integers(0, 3, count), ward)
    return {
        "observations": now,
        "actions": np.stack([ward, rng.integers(0, 5, count)], axis=1).astype(np.float32),
        "rewards": rng.random(count).astype(np.float32),
        "next_observations": later,
        "terminations": rng.random(count) < 0.1,
    }


def tensors(columns: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(values) for name, values in columns.items()}


def test_each_category_is_one_hot_and_its_next_value_is_itself() -> None:
    encoder = Encoder.from_bounds(SPEC)
    assert groups(SPEC.observation) == ((2, 0), (2, 2), (3, 3))
    assert encoder.size == 2 * 7 + 4 + 1 + 1
    given = tensors(rows(1_000))
    encoded = encoder.encode(given, torch.randn(1_000, encoder.bounded_size))
    one_hot = encoded[:, 4:7]
    assert torch.equal(one_hot.argmax(1), given["observations"][:, 3].long())
    assert set(one_hot.unique().tolist()) == {-1.0, 1.0}
    assert torch.equal(encoded[:, 16:19].argmax(1), given["next_observations"][:, 3].long())
    back = encoder.decode(encoded)
    for name in ("observations", "actions", "next_observations", "rewards"):
        torch.testing.assert_close(back[name], given[name], atol=1e-4, rtol=0)
    assert torch.equal(back["observations"][:, 0], given["observations"][:, 0])
    assert Encoder.from_json(encoder.to_json()) == encoder


def test_scores_that_are_not_one_hot_are_decoded_to_columns_of_the_spec() -> None:
    encoder = Encoder.from_bounds(SPEC)
    drawn = encoder.decode(3 * torch.randn(500, encoder.size, generator=torch.Generator().manual_seed(0)))
    for name, space in (("observations", SPEC.observation), ("next_observations", SPEC.observation)):
        assert isinstance(space, Box)
        whole = torch.tensor(space.whole)
        assert torch.equal(drawn[name][:, whole], drawn[name][:, whole].round())
        assert bool((drawn[name] >= torch.tensor(space.low)).all() & (drawn[name] <= torch.tensor(space.high)).all())
    assert set(drawn["actions"][:, 0].tolist()) == {0.0, 1.0, 2.0}


def test_bins_are_labels_and_whole_numbers() -> None:
    cut = Discretisation(SPEC, 8)
    names = [(axis.column, axis.index, len(axis.edges) - 1) for axis in cut.axes]
    assert ("observations", 3, 3) in names
    assert ("next_observations", 3, 3) in names
    assert ("observations", 2, 2) in names
    assert ("actions", 0, 3) in names
    assert ("actions", 1, 5) in names  # 0 to 4, one bin each
    assert [index for column, index, _ in names if column == DIFFERENCES] == [0, 1]
    real = rows(2_000)
    codes = np.stack(cell_codes([(axis,) for axis in cut.axes], real), axis=1).astype(np.int32)
    back = cut.decode(codes, np.random.default_rng(0))
    np.testing.assert_array_equal(back["observations"][:, 2:], real["observations"][:, 2:])
    np.testing.assert_array_equal(back["next_observations"][:, 2:], real["next_observations"][:, 2:])
    np.testing.assert_array_equal(back["actions"], real["actions"])
    np.testing.assert_array_equal(back["observations"][:, 0], np.rint(back["observations"][:, 0]))


@pytest.mark.parametrize("matched", [False, True])
def test_released_rows_are_rows_of_the_spec_and_like_the_real_ones(tmp_path: Path, matched: bool) -> None:
    real = rows(10_000)
    data = Trajectories.from_arrays(**real, unit_ids=":transition", spec=SPEC, simulated=True)  # type: ignore[arg-type]
    vault = Vault(data, Ledger(tmp_path / "ledger", UNIT, epsilon=20.0, delta=2e-5, composition=SUM))
    plan = synthesis.TransitionsPlan(
        steps=150,
        sampling_rate=0.05,
        width=32,
        depth=2,
        warmup=5,
        ema=0.9,
        learning_rate=2e-2,
        matching=TableMatching.of(SPEC, pool=5_000) if matched else None,
    ).calibrate(unit=UNIT, epsilon=8.0, delta=1e-5)
    release = synthesis.fit(plan, vault)
    drawn = release.value.sample(5_000, seed=0)
    assert drawn.spec == SPEC
    synthetic = drawn.columns
    assert set(np.unique(synthetic["observations"][:, 3])) <= {0.0, 1.0, 2.0}
    same = synthetic["observations"][:, 3] == synthetic["next_observations"][:, 3]
    shares = np.bincount(synthetic["observations"][:, 3].astype(int), minlength=3) / 5_000
    if matched:
        np.testing.assert_allclose(shares, [0.6, 0.3, 0.1], atol=0.03)
    assert same.mean() > 0.5
    assert fidelity(real, synthetic, spec=SPEC).marginal > (0.9 if matched else 0.8)


@pytest.mark.parametrize("network", ["transformer", "autoregressive"])
def test_trajectories_of_categories_go_on_from_label_to_label(tmp_path: Path, network: str) -> None:
    people, length = 40, 5
    columns = rows(people * length)
    columns["next_observations"][:-1] = columns["observations"][1:]
    columns["terminations"] = np.arange(people * length) % length == length - 1
    data = Trajectories.from_arrays(
        **columns,  # type: ignore[arg-type]
        unit_ids=np.repeat(np.arange(people), length),
        spec=SPEC,
        simulated=True,
    )
    fields = {"network": network, "rows_per_token": 1 if network == "autoregressive" else 2}
    plan = small(**fields, longest=8, horizon=4).calibrate(unit=PEOPLE, epsilon=8.0, delta=1e-4)
    released = trajectories.fit(plan, vault_of(tmp_path, data)).value.sample(50, seed=0)
    now, later = released.columns["observations"], released.columns["next_observations"]
    inside = np.ones(len(now), bool)
    inside[released.episodes[1:] - 1] = False
    np.testing.assert_array_equal(later[:-1][inside[:-1]], now[1:][inside[:-1]])
    assert set(np.unique(later[:, 3])) <= {0.0, 1.0, 2.0}
    assert set(np.unique(released.columns["actions"][:, 1])) <= set(range(5))


def test_a_spec_without_steps_is_refused_with_the_remedy() -> None:
    observation = space_of(Column("age", "integer", 18, 95), Column("pulse", low=30, high=200, step=10))
    assert dataclasses.replace(SPEC, difference=None).difference == (1.0, 10.0, 1.0, 1.0)
    with pytest.raises(Exception, match="expected in the spec a step for each number"):
        Discretisation(dataclasses.replace(SPEC, observation=observation, difference=None))
