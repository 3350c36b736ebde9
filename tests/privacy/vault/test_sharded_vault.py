"""The vault over shards: the same sums as in one process, the law of the noise, refusals; ranks are threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from shard_cases import KEY, SIGMA, WIDE, dealt, p_of_law, released_steps, shard, together
from torch import Tensor, nn
from vault_cases import GivenParts, Regression, Rewards, Silent, priced, unit_of

from tacit.errors import DataError, LedgerError, MechanismError, PlanError
from tacit.privacy.gradients.clipped_sums import assign_gradient
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.sums import FixedSizeSum, PoissonSum
from tacit.privacy.noise.lattice import combine_shares, count_in_units, share_unit, step
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.base import Label
from tacit.privacy.vault.sharded_vault import ShardedVault, require_room
from tacit.privacy.vault.steps import VectorStep
from tacit.privacy.vault.vault import Vault
from tacit.units import Promise

PEOPLE = [[float(i % 7 - 3), 1.0 + i % 2] for i in range(40)]


@dataclass(frozen=True)
class Plain(Regression):
    """The regression without its random draws."""

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        return {"jitter": torch.zeros(units, rows_per_unit, 1)}


def model_of() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))


def both_sums(vault: Vault, noise_multiplier: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    run = vault.reserve(priced(vault, noise_multiplier=noise_multiplier, clip_norm=0.5, rows_per_unit=2))
    gradient = vault.noisy_gradient(run, "sum", [model_of()], Plain())
    return vault.noisy_sum(run, "sum", Rewards()), gradient.numpy()


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_without_noise_the_sums_are_those_of_one_process(tmp_path: Path, ranks: int) -> None:
    with Ledger(tmp_path / "one.ledger", unit_of(), epsilon=1e6, delta=0.005, composition=SUM) as ledger:
        expected = both_sums(Vault(shard(PEOPLE, range(40)), ledger))
    result, errors = together(tmp_path, dealt(PEOPLE, ranks), both_sums)
    assert errors == []
    for mean, whole in zip(result, expected, strict=True):
        assert mean.dtype == whole.dtype
        assert np.linalg.norm(mean - whole) <= 1e-5 * np.linalg.norm(whole)


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_shares_add_up_to_the_stated_noise(tmp_path: Path, ranks: int) -> None:
    """Against the exact masses of whole steps, and the exact law of their sum of squares; seeds are fixed."""
    steps = released_steps(tmp_path, ranks, seeds=10 * ranks)
    assert p_of_law(steps) > 1e-3
    squares = float(((steps * step(SIGMA) / SIGMA) ** 2).sum())
    assert 1e-3 < stats.chi2(WIDE).cdf(squares) < 1 - 1e-3


def test_every_rank_has_the_weights_of_each_step(tmp_path: Path) -> None:
    """The model learns between steps, is frozen in part, and is another one at last."""

    def learned(vault: Vault) -> np.ndarray:
        run = vault.reserve(priced(vault, noise_multiplier=0.0, clip_norm=0.5, steps=300, rows_per_unit=2))
        model, gradients = model_of(), []
        for turn in range(4):
            gradient = vault.noisy_gradient(run, "sum", [model], Plain())[0]
            gradients.append(gradient)
            if turn == 1:
                model[0].weight.requires_grad_(False)
            elif turn == 2:
                model = model_of()
            else:
                assign_gradient(model, gradient)
                torch.optim.SGD(model.parameters(), lr=1.0).step()
        return torch.cat(gradients).numpy()

    with Ledger(tmp_path / "one.ledger", unit_of(), epsilon=1e6, delta=0.005, composition=SUM) as ledger:
        expected = learned(Vault(shard(PEOPLE, range(40)), ledger))
    result, errors = together(tmp_path, dealt(PEOPLE, 2), learned)
    assert errors == []
    assert np.linalg.norm(result - expected) <= 1e-5 * np.linalg.norm(expected)


def test_shares_are_counted_and_rounded_once() -> None:
    """Whole numbers of three ranks against rounding the exact sum: 0.4 + 0.4 + 0.4 steps are one step, not none."""
    grid, unit = step(2.0), share_unit(2.0, 1.0)
    assert unit == grid / 1048576
    share = np.empty(3, np.int64)
    count_in_units(np.array([0.4, -0.4, 10.25]) * grid, unit, share)
    assert combine_shares(3 * share, 2.0, 1.0).tolist() == [grid, -grid, 31 * grid]
    count_in_units(np.array([0.25]), share_unit(0.0, 1.0), share[:1])
    assert combine_shares(share[:1], 0.0, 1.0).tolist() == [0.25]


def test_the_certificate_names_the_ranks_and_recomputes(tmp_path: Path) -> None:
    def released(vault: ShardedVault) -> Any:
        run = vault.reserve(priced(vault, noise_multiplier=1.0))
        return vault.release(run, vault.noisy_sum(run, "sum", Rewards()), label=Label((), (), ()))

    result, _ = together(tmp_path, dealt(PEOPLE, 3), released)
    said = [line for line in result.certificate.lines("assumptions") if "rank" in line]
    assert len(said) == 1
    assert said[0].startswith("the user's 3 rank(s), on which the records lay in shards, are trusted: ")
    result.certificate.verify()


def error_of(tmp_path: Path, shards: Any, do: Any, **options: Any) -> Exception:
    result, _ = together(tmp_path, shards, do, **options)
    assert isinstance(result, Exception), result
    return result


def reserved(vault: ShardedVault) -> Any:
    return vault.reserve(priced(vault, noise_multiplier=1.0))


@pytest.mark.parametrize("twin", ["2", 2, " 2 "])
def test_a_unit_in_two_shards_is_refused_before_anything_is_charged(tmp_path: Path, twin: Any) -> None:
    """Whole numbers, and texts of them, are one id."""
    shards = [shard([[1.0], [2.0]], [1, 2]), shard([[3.0], [1.0]], [twin, twin if twin == 2 else "4"])]
    error = error_of(tmp_path, shards, reserved)
    assert isinstance(error, DataError)
    assert error.what == "a person lies in two shards"
    assert Ledger.read(tmp_path / "sharded.ledger").plans() == []


@pytest.mark.parametrize("keys", [(None, None), (KEY, None), (KEY, KEY[::-1])])
def test_shards_whose_units_nobody_can_compare_are_refused(tmp_path: Path, keys: Any) -> None:
    shards = [shard([[1.0]], [i], key=key) for i, key in enumerate(keys)]
    error = error_of(tmp_path, shards, reserved)
    assert isinstance(error, DataError)
    assert "nobody can compare their units" in str(error)


def test_more_units_than_the_population_are_refused(tmp_path: Path) -> None:
    error = error_of(tmp_path, dealt(PEOPLE, 2), reserved, unit=unit_of(39))
    assert "the shards hold more persons together than the declared population" in str(error)


def test_two_ranks_of_one_seed_are_refused(tmp_path: Path) -> None:
    noises = [partial(SecretNoise.for_tests, 1)] * 2
    error = error_of(tmp_path, dealt(PEOPLE, 2), reserved, noises=noises)
    assert isinstance(error, MechanismError)
    assert "two ranks draw the same secret numbers" in str(error)


def test_seeded_noise_on_any_rank_voids_the_ledger(tmp_path: Path) -> None:
    noises = [SecretNoise, partial(SecretNoise.for_tests, 1)]
    result, _ = together(tmp_path, dealt(PEOPLE, 2), lambda vault: vault.ledger.void_reason, noises=noises)
    assert result.startswith("a rank's noise is seeded")


@dataclass(frozen=True)
class FailsOnNines(Rewards):
    """Runs on rows of rewards below 9 alone."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        if (rows["rewards"] == 9.0).any():
            raise MemoryError("a secret")
        return super().__call__(rows, state)


def test_a_rank_that_fails_burns_the_step_and_ends_the_vault(tmp_path: Path) -> None:
    """Nothing of its error is shown; the step stays claimed, and no later one runs."""
    shards = [shard([[1.0]], ["ann"]), shard([[9.0]], ["bob"])]

    def two_sums(vault: ShardedVault) -> tuple[MechanismError, LedgerError, int]:
        run = reserved(vault)
        with pytest.raises(MechanismError) as first:
            vault.noisy_sum(run, "sum", FailsOnNines())
        with pytest.raises(LedgerError) as second:
            vault.noisy_sum(run, "sum", Rewards())
        return first.value, second.value, vault.ledger.claimed(run.plan_id, "sum")

    (first, second, claimed), errors = together(tmp_path, shards, two_sums)
    assert "the step is burnt, and nothing was released" in str(first)
    assert "secret" not in f"{first}{first.__cause__}{first.__context__}"
    assert "a rank was lost" in str(second)
    assert claimed == 1
    assert [type(error) for error in errors] == [MechanismError]


def test_a_share_lies_under_the_sum_before_a_record_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank's sum begins with its noise: no process ever holds the sum of its shard alone."""
    begun: list[float] = []
    added = VectorStep.add_samples

    def watched(self: Any, records: Any, noise: Any, sums: Any, expected: float) -> Any:
        begun.append(float(sums[0, 0]))
        return added(self, records, noise, sums, expected)

    monkeypatch.setattr(VectorStep, "add_samples", watched)
    together(tmp_path, dealt(PEOPLE, 2), lambda vault: vault.noisy_sum(reserved(vault), "sum", Rewards()))
    assert len(begun) == 2
    assert 0 not in begun


WIDEST = PoissonSum(name="sum", steps=1, sampling_rate=0.1, clip_norm=3.0, noise_multiplier=0.25)


def test_other_parts_looks_and_sums_beyond_64_bits_are_refused(tmp_path: Path) -> None:
    def refusals(vault: ShardedVault) -> list[str]:
        part = FixedSizeSum(name="sum", steps=1, batch_size=5, population=100, clip_norm=1.0, noise_multiplier=1.0)
        plan = GivenParts((part,), promise=Promise(unit_of(100, "replace_one"), 1e5, 0.005))
        said = []
        for refused in (
            lambda: vault._require_fit(plan),
            lambda: vault.nonprivate(len, reason="to see"),
            lambda: require_room(WIDEST, unit_of(2**32)),
        ):
            with pytest.raises((PlanError, MechanismError)) as error:
                refused()
            said.append(error.value.what)
        return said

    require_room(WIDEST, unit_of(2**30))
    result, _ = together(tmp_path, dealt(PEOPLE, 2), refusals)
    assert result == [
        "the plan has a part that a ShardedVault does not serve",
        "no rank holds all records",
        "sums over the population do not fit the whole numbers that ranks send",
    ]


@dataclass(frozen=True)
class Signs:
    """How many of a unit's rows have a reward above 0: a tally."""

    sizes: tuple[int, ...] = (2,)

    def cells(self, rows: Mapping[str, np.ndarray], state: Any) -> list[np.ndarray]:
        return [(rows["rewards"] > 0).astype(np.int64)]


def test_counted_rows_add_up_over_ranks(tmp_path: Path) -> None:
    def counts(vault: Vault) -> np.ndarray:
        run = vault.reserve(priced(vault, noise_multiplier=1.0, rows_per_unit=2))
        return vault.noisy_sum(run, "sum", Signs())

    shards = dealt(PEOPLE, 2)
    result, errors = together(tmp_path, shards, counts, noises=[Silent, Silent])
    assert errors == []
    with Ledger(tmp_path / "one.ledger", unit_of(), epsilon=1e6, delta=0.005, composition=SUM) as ledger:
        expected = counts(Vault(shard(PEOPLE, range(40)), ledger, noise=Silent()))
    assert np.abs(result - expected).max() <= step(1.0) / 100
