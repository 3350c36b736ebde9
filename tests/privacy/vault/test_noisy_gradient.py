"""The door `noisy_gradient`: sensitivity, noise law, units of several rows, refusals, fresh draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from vault_cases import OneDeviation, Regression, Rewards, Silent, open_vault, priced, records, unit_of

from tacit.errors import MechanismError
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault import steps
from tacit.privacy.vault.isolation import draw_in_blocks
from tacit.privacy.vault.vault import Vault


def model_of(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))


@dataclass(frozen=True)
class Plain(Regression):
    """The regression without its random draws."""

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        return {"jitter": torch.zeros(units, rows_per_unit, 1)}


@pytest.mark.parametrize("clip", [0.01, 1.0, 1e4])
@pytest.mark.usefixtures("no_lattice")
def test_one_unit_moves_the_gradient_by_at_most_the_clip(tmp_path: Path, clip: float) -> None:
    units = [[3.0], [-9.0, 2.0], [10.0, 10.0, -10.0], [0.0]]
    model, sums = model_of(), []
    for name, present in (("all", units), *((f"without{i}", units[:i] + units[i + 1 :]) for i in range(4))):
        vault = open_vault(tmp_path, present, noise=Silent(), name=name)
        run = vault.reserve(priced(vault, noise_multiplier=1.0, clip_norm=clip, rows_per_unit=3))
        sums.append(vault.noisy_gradient(run, "sum", [model], FixedRows())[0] * vault.unit.size)
    for fewer in sums[1:]:
        assert torch.linalg.vector_norm(sums[0] - fewer) <= clip


@dataclass(frozen=True)
class FixedRows(Plain):
    """Observations replaced by a constant, since leaving a unit out shifts those of the test's records."""

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        return super().loss(model, {**rows, "observations": torch.ones_like(rows["observations"])})


@pytest.mark.usefixtures("no_lattice")
def test_without_noise_or_clip_it_is_the_plain_mean_gradient(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0], [-3.0]], noise=Silent(), unit=unit_of(3))
    run = vault.reserve(priced(vault, noise_multiplier=1.0, clip_norm=1e6))
    model = model_of()
    flat = vault.noisy_gradient(run, "sum", [model], Plain())[0]
    observations = torch.linspace(-1, 1, 3)[:, None]
    loss = (model(observations)[:, 0] - torch.tensor([1.0, 2.0, -3.0])).square().mean()
    expected = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
    torch.testing.assert_close(flat, expected)


@pytest.mark.parametrize("together", [1, 1 << 14])
@pytest.mark.usefixtures("own_callbacks", "no_lattice")
def test_chunks_that_share_a_pass_add_up_to_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(steps, "TOGETHER", together)
    monkeypatch.setattr(steps, "SPREAD", 0.0)  # so that half of the chunks have more units than places
    rewards = np.linspace(-9, 9, 3_000)
    vault = open_vault(tmp_path, [[reward] for reward in rewards], noise=Silent(), unit=unit_of(3_000))
    run = vault.reserve(priced(vault, noise_multiplier=1.0, clip_norm=1e6))
    model = model_of()
    flat = vault.noisy_gradient(run, "sum", [model], Plain())[0]
    observations = torch.linspace(-1, 1, 3_000)[:, None]
    loss = (model(observations)[:, 0] - torch.from_numpy(rewards).float()).square().mean()
    expected = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
    torch.testing.assert_close(flat, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("own_callbacks")
def test_noise_has_the_stated_law(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[0.0]], unit=unit_of(500))
    run = vault.reserve(priced(vault, noise_multiplier=1.5, clip_norm=2.0, sampling_rate=0.01, steps=200))
    model = model_of()
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()  # the gradient of the one unit is then almost zero: its reward is 0
    draws = torch.cat([vault.noisy_gradient(run, "sum", [model], Regression())[0] for _ in range(200)]).numpy()
    assert stats.kstest(draws * (0.01 * 500) / (1.5 * 2.0), "norm").pvalue > 1e-8


@pytest.mark.usefixtures("no_lattice")
@pytest.mark.parametrize(("sigma", "clip", "rate"), [(2.0, 0.5, 0.25), (0.7, 3.0, 1.0)])
def test_noise_of_both_doors_has_exactly_the_stated_scale(
    sigma: float, clip: float, rate: float, tmp_path: Path
) -> None:
    """A law of some thousand draws tells a scale that is off by a tenth, and hardly one that is off by a hundredth."""
    vault = open_vault(tmp_path, [[0.0]] * 3, noise=OneDeviation(), unit=unit_of(1000))
    run = vault.reserve(priced(vault, noise_multiplier=sigma, clip_norm=clip, sampling_rate=rate, steps=2))
    model = nn.Linear(1, 1)
    with torch.no_grad():
        model.weight.zero_(), model.bias.zero_()  # rewards of 0 have then no gradient
    gradient = vault.noisy_gradient(run, "sum", [model], Plain())[0].numpy()
    for released in (vault.noisy_sum(run, "sum", Rewards())[0], gradient):
        np.testing.assert_allclose(released * rate * 1000, sigma * clip, rtol=1e-3)


def test_replicates_get_their_own_sample_noise_and_model(tmp_path: Path) -> None:
    unit = unit_of(2)
    ledgers = [Ledger(tmp_path / f"{r}.ledger", unit, epsilon=1e6, delta=0.1, composition=SUM) for r in range(2)]
    vault = Vault(records([[1.0], [2.0]]), ledgers)
    run = vault.reserve(priced(vault, noise_multiplier=0.5))
    flat = vault.noisy_gradient(run, "sum", [model_of(0), model_of(1)], Regression())
    assert flat.shape == (2, 25)
    assert not torch.equal(flat[0], flat[1])
    with pytest.raises(MechanismError, match="1 models"):
        vault.noisy_gradient(run, "sum", [model_of()], Regression())


def test_the_objectives_draws_differ_between_steps(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0]], noise=Silent(), unit=unit_of(2))
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    model = model_of()
    released = []
    for _ in range(8):  # two of them may be the same multiples of the public step, all of them not
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002 - global seeds must not matter
        released.append(vault.noisy_gradient(run, "sum", [model], Regression()))
    assert not all(torch.equal(released[0], other) for other in released[1:])


@dataclass(frozen=True)
class BatchCentred(Regression):
    """A loss centred over the batch."""

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        losses = super().loss(model, rows)
        return losses - losses.mean()


class Statistics(nn.Module):
    """A layer that keeps a running mean of what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += x.detach().mean()
        out: Tensor = self.linear(x)
        return out


@pytest.mark.parametrize(
    ("model", "objective", "message"),
    [
        (
            nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)),
            Regression(),
            "another unit|buffers|BatchNorm",
        ),
        (Statistics(), Regression(), "buffers"),
        (model_of(), BatchCentred(), "another unit"),
    ],
)
def test_models_and_losses_that_mix_units_are_refused_before_a_step_is_claimed(
    tmp_path: Path, model: nn.Module, objective: Any, message: str
) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with pytest.raises(MechanismError, match=message):
        vault.noisy_gradient(run, "sum", [model], objective)
    assert not vault.has_started(run)


@pytest.mark.usefixtures("no_lattice", "own_callbacks")
def test_a_units_rows_are_drawn_inside_it(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0, 2.0, 4.0, 8.0]], noise=Silent(), unit=unit_of(2))
    run = vault.reserve(priced(vault, noise_multiplier=1.0, rows_per_unit=2, steps=300, clip_norm=1e5))
    model = nn.Linear(1, 1)
    with torch.no_grad():
        model.weight.zero_(), model.bias.zero_()
    gradients = [vault.noisy_gradient(run, "sum", [model], Plain())[0, 1].item() * 2 for _ in range(300)]
    means = -np.array(gradients) / 2  # the bias's gradient is -2 times the mean reward of the two rows drawn
    expected = [(a + b) / 2 for i, a in enumerate((1, 2, 4, 8)) for b in (1, 2, 4, 8)[i + 1 :]]
    counts = [(np.abs(means - value) < 1e-3).sum() for value in expected]
    assert sum(counts) == 300
    assert stats.chisquare(counts).pvalue > 1e-7  # of many more draws: `tests/privacy/noise/test_sampling.py`


def _watch_module(model: nn.Sequential, seen: list[object]) -> Any:
    return model[0].register_forward_hook(lambda module, given, out: seen.append(given))


def _watch_parameter(model: nn.Sequential, seen: list[object]) -> Any:
    return model[0].weight.register_hook(seen.append)


def _watch_everything(model: nn.Sequential, seen: list[object]) -> Any:
    return nn.modules.module.register_module_forward_pre_hook(lambda module, given: seen.append(given))


@pytest.mark.parametrize("watch", [_watch_module, _watch_parameter, _watch_everything])
def test_a_watched_model_is_refused_before_a_step_is_claimed(tmp_path: Path, watch: Any) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    model, seen = model_of(), list[object]()
    vault.noisy_gradient(run, "sum", [model], Plain())
    handle = watch(model, seen)
    with pytest.raises(MechanismError, match="hooks"):
        vault.noisy_gradient(run, "sum", [model], Plain())
    handle.remove()
    assert seen == []
    assert vault.steps_left(run, "sum") == 9
    vault.noisy_gradient(run, "sum", [model], Plain())


@dataclass(frozen=True)
class Parity(Regression):
    """Draws whose sign is the parity of how many units there are."""

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        return {"jitter": torch.full((units, rows_per_unit, 1), -1.0 if units % 2 else 1.0)}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        return (model(rows["jitter"].flatten(0, 1)).view_as(rows["rewards"]) * rows["mask"]).sum(1)


@pytest.mark.usefixtures("no_lattice")
def test_draws_cannot_depend_on_how_many_units_are_there(tmp_path: Path) -> None:
    sums = []
    for present in (600, 601):
        vault = open_vault(tmp_path, [[1.0]] * present, noise=Silent(), unit=unit_of(2_000), name=f"{present}")
        run = vault.reserve(priced(vault, noise_multiplier=8.0, clip_norm=1.0))
        sums.append(vault.noisy_gradient(run, "sum", [nn.Linear(1, 1, bias=False)], Parity())[0].double() * 2_000)
    assert abs(float(sums[1] - sums[0])) <= 1.001
    assert 599 < abs(float(sums[0])) < 601


def test_draws_of_several_blocks_are_other_draws() -> None:
    generator = torch.Generator().manual_seed(3)
    both = draw_in_blocks(Regression(), generator, 7, 2, 3)["jitter"]
    assert both.shape == (7, 2, 1)
    assert both.unique().numel() == 14
    assert draw_in_blocks(Regression(), generator, 0, 2, 3) == {}
    assert draw_in_blocks(Regression(), torch.Generator().manual_seed(3), 2, 2, 3)["jitter"].equal(both[:2])


class Places(nn.Module):
    """One table of places that is broadcast over all units, as in a GPT, and one layer that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.again, self.last = nn.Linear(1, 4), nn.Linear(4, 4), nn.Linear(4, 1)
        self.place = nn.Embedding(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x) + self.place(torch.arange(2)).mean(0)
        return self.last(torch.tanh(self.again(torch.tanh(self.again(hidden)))))


class Centred(Places):
    """Hidden units minus their mean over the batch: a unit's loss depends on the others."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        return self.last(hidden - hidden.mean(0))


@pytest.mark.usefixtures("no_lattice")
def test_a_model_that_book_keeping_cannot_follow_goes_a_unit_at_a_time_and_says_so(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0], [-3.0]], noise=Silent(), unit=unit_of(3))
    run = vault.reserve(priced(vault, noise_multiplier=1.0, clip_norm=0.5, steps=2, sampling_rate=1.0))
    model = Places()
    with pytest.warns(UserWarning, match="computed on its own by torch.func"):
        flat = vault.noisy_gradient(run, "sum", [model], Plain())[0]
    total = torch.zeros_like(flat)
    for observation, reward in zip(torch.linspace(-1, 1, 3), (1.0, 2.0, -3.0), strict=True):
        loss = (model(observation[None, None])[0, 0] - reward).square()
        own = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
        total += own * min(1.0, 0.5 / float(own.norm()))
    torch.testing.assert_close(flat, total / 3, rtol=1e-4, atol=1e-6)
    vault.noisy_gradient(run, "sum", [model], Plain())  # it is said once


def test_a_model_that_mixes_units_is_refused_and_not_run_a_unit_at_a_time(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0], [-3.0]], unit=unit_of(3))
    run = vault.reserve(priced(vault, noise_multiplier=1.0, clip_norm=0.5))
    with pytest.raises(MechanismError, match="another unit's rows do"):
        vault.noisy_gradient(run, "sum", [Centred()], Plain())
    assert vault.ledger.claimed(run.plan_id, "sum") == 0


def test_a_parameter_without_a_use_is_still_refused(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0], [-3.0]], unit=unit_of(3))
    run = vault.reserve(priced(vault, noise_multiplier=1.0, clip_norm=0.5))
    model = model_of()
    model.spare = nn.Linear(2, 2)  # type: ignore[assignment]
    model.forward = lambda x: nn.Sequential(*list(model)[:3])(x)  # type: ignore[method-assign]
    with pytest.raises(MechanismError, match="no gradient in this pass"):
        vault.noisy_gradient(run, "sum", [model], Plain())
