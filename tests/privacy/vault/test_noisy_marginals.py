"""The door `measure`: exact counts, laws of noise and choice, what one unit moves, and the budget of quanta."""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.stats import chi2
from vault_cases import GivenParts, Silent, begun, open_vault, records, unit_of

from tacit.errors import AccountingError, CertificateError, MechanismError, PlanError, PlanExhausted
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting import concentrated
from tacit.privacy.accounting.events import GaussianEvent, flatten
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.certificate.markdown import mechanisms
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.marginals import Cells, Dependence, Marginal, MarginalChoice, Marginals
from tacit.privacy.mechanisms.releases import Axis
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Label, Run
from tacit.privacy.vault.vault import Vault
from tacit.units import Relation

REWARD = Axis("rewards", 0, (-10.0, 0.0, 5.0, 10.0))
PLACE = Axis("observations", 0, (-4.0, -0.5, 0.5, 4.0))
STEP = Axis("differences", 0, (-1.0, -0.1, 0.1, 1.0))
UNITS = [[-5.0, 7.0], [1.0], [1.0, 1.0, 2.0], [10.0]]


def part(**fields: Any) -> Marginals:
    return Marginals(
        **{"name": "cells", "steps": 100, "axes": (REWARD, PLACE, STEP), "noise_multiplier": 5.0, **fields}
    )


def opened(
    folder: Path,
    units: Sequence[Sequence[float]] = UNITS,
    *,
    noise: SecretNoise | None = None,
    name: str = "a",
    **fields: Any,
) -> tuple[Vault, Run]:
    vault = open_vault(folder, units, noise=noise, unit=unit_of(10), name=name)
    return vault, vault.reserve(plans.account(GivenParts((part(**fields),)), unit=vault.unit, delta=1e-4))


def test_counts_without_noise_are_the_tables(tmp_path: Path) -> None:
    vault, run = opened(tmp_path, noise=Silent(), rows_per_unit=3)
    assert vault.noisy_marginals(run, "cells", Marginal((0,), 1)) == pytest.approx([0.5, 2.0, 1.5], abs=0.01)
    joint = vault.noisy_marginals(run, "cells", Marginal((1, 0), 1))
    assert joint.shape == (3, 3)
    assert joint.sum(axis=0) == pytest.approx([0.5, 2.0, 1.5], abs=0.01)
    assert vault.noisy_marginals(run, "cells", Marginal((2,), 1)) == pytest.approx(
        [0.0, 4.0, 0.0], abs=0.01
    )  # nobody moves


def test_rows_may_weigh_alike(tmp_path: Path) -> None:
    vault, run = opened(tmp_path, noise=Silent(), rows_per_unit=4, weigh="rows")
    counts = vault.noisy_marginals(run, "cells", Marginal((0,), 1))
    assert counts == pytest.approx([1 / 4, 4 / 4, 2 / 4], abs=0.01)  # 1, 4 and 2 rows, whoever has them
    assert "4 of its rows, every row as 1 / 4, under noise" in part(rows_per_unit=4, weigh="rows").describe(unit_of(10))
    with pytest.raises(PlanError, match="weigh"):
        part(weigh="units")


def test_dependence_is_the_distance_from_the_product(tmp_path: Path) -> None:
    units = [[-5.0]] * 2 + [[1.0]] * 3 + [[7.0]] * 5  # places are spread evenly over -1 .. 1 in this order
    vault, run = opened(tmp_path, units, noise=Silent())
    joint = vault.noisy_marginals(run, "cells", Marginal((0, 1), 1))
    expected = np.abs(joint - np.outer(joint.sum(1), joint.sum(0)) / joint.sum()).sum()
    found = vault.noisy_marginals(run, "cells", Dependence(((0, 1), (0, 2)), 1))
    assert found == pytest.approx([expected, 0.0], abs=0.05)
    assert expected > 5


@pytest.mark.parametrize("quanta", [1, 25])
def test_noise_has_the_law_of_its_quanta(tmp_path: Path, quanta: int) -> None:
    edges = tuple(np.linspace(-4, 4, 4001))
    axes = (Axis("observations", 0, edges), REWARD)
    vault, run = opened(tmp_path, [[0.0]], axes=axes, noise_multiplier=30.0)
    noisy = vault.noisy_marginals(run, "cells", Marginal((0,), quanta))
    assert stats.kstest(noisy * math.sqrt(quanta) / 30.0, "norm").pvalue > 1e-8
    pairs = ((0, 1),) * 400
    distances = vault.noisy_marginals(run, "cells", Dependence(pairs, quanta))
    assert stats.kstest(distances * math.sqrt(quanta) / (30.0 * 4 * 20), "norm").pvalue > 1e-8


def test_choices_follow_the_exponential_mechanism(tmp_path: Path) -> None:
    vault, run = opened(tmp_path, [[-5.0]] * 3 + [[7.0]], steps=12_000, noise_multiplier=8.0)
    expected = (np.array([1.0, 0.0, 0.0]), np.zeros(3), np.zeros(3))  # distances 3 + 0, 4, 4
    query = MarginalChoice(
        ((0,), (0,), (2,)), (expected[0], expected[1], expected[2]), (1.0, 0.5, 1.0), (0.0, 0.0, 2.0), 4
    )
    chosen = np.bincount([vault.noisy_marginals(run, "cells", query)[0] for _ in range(3_000)], minlength=3)
    scores = np.array([3.0, 2.0, 2.0])
    law = np.exp(scores * 2 * math.sqrt(4) / 8.0 / 2)
    law /= law.sum()
    assert ((chosen - 3_000 * law) ** 2 / (3_000 * law)).sum() < chi2.ppf(0.9999, 2)
    assert vault.steps_left(run, "cells") == 0


@pytest.mark.parametrize("weigh", [None, "rows"])
def test_one_unit_moves_counts_by_one_and_distances_by_four(weigh: str | None) -> None:
    rng, largest, axes = np.random.default_rng(0), np.zeros(2), (REWARD, Axis("observations", 0, (-4.0, 0.0, 4.0)))
    cells = part(axes=axes, noise_multiplier=0.0, rows_per_unit=4, weigh=weigh)
    for _ in range(300):
        lengths = rng.integers(1, 5, size=rng.integers(2, 6))
        mask = np.arange(4) < lengths[:, None]
        shape = mask.shape
        rows = {
            "rewards": rng.choice([-5.0, 1.0, 7.0], size=shape),
            "observations": rng.choice([-1.0, 1.0], size=shape),
        }
        rows = {name: column[..., None] if name == "observations" else column for name, column in rows.items()}
        answers = []
        for first in (0, 1):
            cut = Cells(cells, {**{name: column[first:] for name, column in rows.items()}, "mask": mask[first:]})
            queries = (Marginal((0, 1), 1), Dependence(((0, 1),), 1))
            answers.append([cut.answer(cells, query, SecretNoise()) for query in queries])
        moved = [np.abs(one - other).sum() for one, other in zip(*answers, strict=True)]
        largest = np.maximum(largest, moved)
        assert moved[0] <= 1.0
        assert moved[1] <= 4.0
    assert largest[0] == 1.0
    assert largest[1] > 0.9


def test_the_budget_is_kept_and_what_is_too_dear_takes_nothing(tmp_path: Path) -> None:
    vault, run = opened(tmp_path, steps=10)
    vault.noisy_marginals(run, "cells", Marginal((0,), 7))
    with pytest.raises(PlanExhausted, match="3 steps are left"):
        vault.noisy_marginals(run, "cells", Marginal((0,), 4))
    vault.noisy_marginals(run, "cells", Marginal((0,), 3))
    with pytest.raises(PlanExhausted):
        vault.noisy_marginals(run, "cells", Marginal((0,), 1))


def test_with_choices_the_concentration_is_what_is_certified() -> None:
    free, bound = part(choices=False), part()
    assert flatten(free.event) == ((GaussianEvent(5.0), 100),)
    assert concentrated.rho(flatten(bound.event)[0][0]) * 100 == pytest.approx(100 / 50)
    tight, loose = (
        accounting.epsilon(one.event, delta=1e-6, relation="add_or_remove").epsilon for one in (free, bound)
    )
    assert 1.0 < loose / tight < 1.15


@pytest.mark.parametrize(
    "query",
    [
        Marginal((), 1),
        Marginal((0, 0), 1),
        Marginal((3,), 1),
        Marginal((-1,), 1),
        Marginal((0,), 0),
        Marginal((0,), 101),
        Dependence((), 1),
        Dependence(((0,),), 1),
        MarginalChoice(((0,),), (np.zeros(3),), (1.0,), (0.0,), 1),
        MarginalChoice(((0,), (1,)), (np.zeros(3), np.zeros(2)), (1.0, 1.0), (0.0, 0.0), 1),
        MarginalChoice(((0,), (1,)), (np.zeros(3), np.zeros(3)), (1.0, 0.0), (0.0, 0.0), 1),
        MarginalChoice(((0,), (1,)), (np.zeros(3), np.full(3, np.nan)), (1.0, 1.0), (0.0, 0.0), 1),
        Marginal([0], 1),  # type: ignore[arg-type]
        "all of it",
    ],
)
def test_queries_that_do_not_fit_take_nothing(tmp_path: Path, query: Any) -> None:
    vault, run = opened(tmp_path)
    with pytest.raises(MechanismError, match="cannot be asked"):
        vault.noisy_marginals(run, "cells", query)
    assert vault.steps_left(run, "cells") == 100


def test_without_choices_none_may_be_asked(tmp_path: Path) -> None:
    vault, run = opened(tmp_path, choices=False)
    query = MarginalChoice(((0,), (1,)), (np.zeros(3), np.zeros(3)), (1.0, 1.0), (0.0, 0.0), 1)
    with pytest.raises(MechanismError, match="choices=True"):
        vault.noisy_marginals(run, "cells", query)


@pytest.mark.parametrize(
    "fields",
    [
        {"steps": 0},
        {"axes": ()},
        {"noise_multiplier": -1.0},
        {"rows_per_unit": 0},
        {"rows_per_unit": 1.5},
        {"choices": "no"},
        {"axes": (Axis("rewards", -1, (0.0, 1.0)),)},
    ],
)
def test_parts_out_of_range_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        part(**fields)


def test_replicates_ask_for_vaults_of_their_own(tmp_path: Path) -> None:
    first, _ = opened(tmp_path)
    ledgers = [
        Ledger(tmp_path / f"r{r}.ledger", first.unit, epsilon=1e6, delta=0.05, composition=SUM) for r in range(2)
    ]
    vault = Vault(records(UNITS), ledgers)
    run = vault.reserve(plans.account(GivenParts((part(),)), unit=vault.unit, delta=1e-4))
    with pytest.raises(MechanismError, match="several ledgers"):
        vault.noisy_marginals(run, "cells", Marginal((0,), 1))


@pytest.mark.parametrize("choices", [True, False])
def test_a_certificate_recomputes_its_epsilon(tmp_path: Path, choices: bool) -> None:
    vault, run = opened(tmp_path, choices=choices)
    certificate = vault.release(begun(vault, run), 1, label=Label((), (), ())).certificate
    assert certificate.verify().epsilon == pytest.approx(run.bound.epsilon, rel=1e-5)
    (words,) = mechanisms(certificate.to_json())
    assert "at most 1 to the counts" in words
    assert ("exponential mechanism" in words) == choices


@pytest.mark.parametrize(("relation", "word"), [("add_or_remove", "exact"), ("replace_one", "upper_bound")])
def test_where_counts_move_by_less_than_is_charged_mu_is_a_bound(tmp_path: Path, relation: Relation, word: str) -> None:
    vault = open_vault(tmp_path, UNITS, unit=unit_of(10, relation))
    run = vault.reserve(plans.account(GivenParts((part(choices=False, steps=10),)), unit=vault.unit, delta=1e-4))
    certificate = vault.release(begun(vault, run), 1, label=Label((), (), ())).certificate
    assert certificate.to_json()["mu_range"] == word


def test_axes_in_another_order_are_the_same_counts(tmp_path: Path) -> None:
    vault, run = opened(tmp_path, noise=Silent())
    orders = list(itertools.permutations((0, 1, 2)))
    answers = [vault.noisy_marginals(run, "cells", Marginal(order, 1)) for order in orders]
    for order, answer in zip(orders, answers, strict=True):
        np.testing.assert_array_equal(answer, answers[0].transpose(order))


LARGE = np.array([0.0, -(2.0**17) + 4.0, 0.0])


@pytest.mark.parametrize("units", [4, 5, 6])
@pytest.mark.parametrize(
    ("sigma", "expected", "weights", "offsets"),
    [
        (10.0, np.zeros(3), (1.7e308, 1e300), (4.0, 0.0)),  # w q overflows at 6 units
        (1 / 3, np.zeros(3), (5e-324, 5e-324), (5.0, 5.0)),  # max w sigma is 0
        (10.0, LARGE, (1.0, 1.0), (-(2.0**70), -(2.0**70))),  # the offset's digits
    ],
    ids=["overflow", "underflow", "offset"],
)
def test_no_public_number_drowns_the_randomness_of_a_choice(
    tmp_path: Path,
    units: int,
    sigma: float,
    expected: np.ndarray,
    weights: tuple[float, float],
    offsets: tuple[float, float],
) -> None:
    query = MarginalChoice(((0,), (0,)), (expected, np.zeros(3)), weights, offsets, 1)
    vault, run = opened(tmp_path, [[1.0]] * units, noise_multiplier=sigma, steps=60)
    with contextlib.suppress(MechanismError):  # refused, which is as good
        drawn = {int(vault.noisy_marginals(run, "cells", query)[0]) for _ in range(60)}
        assert drawn == {0, 1}  # each has a probability of more than a tenth, whatever the units


class Single:
    """An array of another library, which does its arithmetic in float32, as jax's arrays do."""

    __array_ufunc__ = None

    def __init__(self, values: list[float]) -> None:
        self.values = np.array(values, np.float32)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.values.astype(dtype or np.float32)

    def __rsub__(self, counts: np.ndarray) -> np.ndarray:
        return counts.astype(np.float32) - self.values


@pytest.mark.parametrize("units", [63, 65])
def test_estimates_in_float32_leave_counts_in_float64(tmp_path: Path, units: int) -> None:
    expected: Any = Single([0.0, 2.0**31, 0.0])  # float32 has numbers 128 apart there
    query = MarginalChoice(((0,), (0,)), (expected, np.asarray(expected, np.float64)), (1.0, 1.0), (0.0, 0.0), 1)
    vault = open_vault(tmp_path, [[1.0]] * units, unit=unit_of(100))
    run = vault.reserve(plans.account(GivenParts((part(noise_multiplier=5.0),)), unit=vault.unit, delta=1e-4))
    drawn = [
        int(vault.noisy_marginals(run, "cells", query)[0]) for _ in range(100)
    ]  # both candidates have the same score
    assert 10 < sum(drawn) < 90


@pytest.mark.parametrize("choices", [True, False])
@pytest.mark.parametrize("sigma", [1e-200, 1e200])
def test_a_noise_beyond_float64_is_an_error_of_tacit(tmp_path: Path, sigma: float, choices: bool) -> None:
    with pytest.raises(AccountingError):
        plans.account(GivenParts((part(noise_multiplier=sigma, choices=choices),)), unit=unit_of(10), delta=1e-4)
    vault, run = opened(tmp_path, choices=choices)
    fields = vault.release(begun(vault, run), 1, label=Label((), (), ())).certificate.to_json()
    fields["parts"][0]["noise_multiplier"] = sigma
    with pytest.raises(CertificateError):
        Certificate.from_json(fields).verify()


def test_words_hold_for_replacement_too(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, UNITS, unit=unit_of(10, "replace_one"))
    run = vault.reserve(plans.account(GivenParts((part(),)), unit=vault.unit, delta=1e-4))
    (words,) = mechanisms(vault.release(begun(vault, run), 1, label=Label((), (), ())).certificate.to_json())
    assert "moves the counts of one measurement by at most 1" not in words  # a replaced unit moves them by 2


def test_threads_share_what_was_counted(tmp_path: Path) -> None:
    axes = tuple(Axis("rewards", 0, (-10.0, i / 100, 10.0)) for i in range(25))
    vault, run = opened(tmp_path, axes=axes, steps=600, noise_multiplier=200.0, choices=False)
    queries = [Marginal(axes, 1) for axes in itertools.permutations(range(25), 2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda query: vault.noisy_marginals(run, "cells", query), queries))
    finally:
        sys.setswitchinterval(interval)
    assert all(answer.shape == (2, 2) for answer in answers)
