"""The paper's accounting beside the honest one: golden figures of both, and that the first is no bound."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tacit.errors import PlanError
from tacit.methods.experts.published import MixedTraining, published_total
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import GaussianEvent, PoissonSampledEvent, SelfComposedEvent

DELTA = 1 / 6_000


def training(noisy_share: float, sigma: float) -> MixedTraining:
    return MixedTraining(experts=3_000, batch=256, noisy_share=noisy_share, noise_multiplier=sigma)


# p, sigma, steps until the published accountant says 5, and what those steps honestly cost.
CLAIMS = [(0.5, 80.0, 5_876_095, 7.683), (0.2, 60.0, 20_647_540, 13.902), (0.1, 50.0, 57_286_268, 22.289)]


@pytest.mark.parametrize(("p", "sigma", "steps", "honest"), CLAIMS)
def test_what_the_paper_calls_five(p: float, sigma: float, steps: int, honest: float) -> None:
    mixed = training(p, sigma)
    assert mixed.published_epsilon(steps, DELTA) == pytest.approx(5.0, abs=1e-4)
    assert mixed.honest_epsilon(steps, DELTA) == pytest.approx(honest, abs=2e-3)
    assert mixed.limit_epsilon(mixed.noisy_steps(steps), DELTA) == pytest.approx(honest, rel=1e-3)
    assert honest > 5.0 / math.sqrt(p)


@pytest.mark.parametrize(("sigma", "steps"), [(2.0, 781), (10.0, 22_818)])
def test_noisy_steps_that_five_really_allows(sigma: float, steps: int) -> None:
    mixed = training(1.0, sigma)
    found = mixed.honest_steps(5.0, DELTA)
    assert found == pytest.approx(steps, rel=2e-3)
    assert mixed.published_steps(5.0, DELTA) == found  # the two agree where every step is noisy
    certified = accounting.epsilon(mixed.event(found), delta=DELTA, relation="add_or_remove").epsilon
    assert certified == pytest.approx(5.0, rel=2e-3)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_published_figure_is_no_bound(p: float) -> None:
    """A schedule of K noisy steps costs more than K / p steps at the rate p q, however many there are."""
    mixed = training(p, 3.0)
    for steps in (100, 4_000):
        event = mixed.event(steps)
        assert event == SelfComposedEvent(
            PoissonSampledEvent(256 / 3_000, GaussianEvent(3.0)), mixed.noisy_steps(steps)
        )
        honest = accounting.epsilon(event, delta=DELTA, relation="add_or_remove").epsilon
        assert mixed.published_epsilon(steps, DELTA) < honest
        assert honest == pytest.approx(mixed.honest_epsilon(steps, DELTA), rel=3e-3, abs=1e-3)


def test_sums_as_published() -> None:
    assert published_total((5.0, 5e-5), (5.0, DELTA)) == pytest.approx((10.0, DELTA + 5e-5))


def test_edges() -> None:
    assert training(0.3, 2.0).noisy_steps(10) == 3
    assert training(0.3, 2.0).noisy_steps(11) == 4
    assert training(1.0, 0.2).honest_steps(0.5, DELTA) == 0
    whole = MixedTraining(experts=50, batch=50, noisy_share=1.0, noise_multiplier=9.0)
    assert whole.event(7) == SelfComposedEvent(GaussianEvent(9.0), 7)
    assert whole.honest_steps(1.0, 1e-3) == whole.published_steps(1.0, 1e-3) > 0


@pytest.mark.parametrize(
    "bad",
    [{"batch": 0}, {"batch": 51}, {"noisy_share": 0.0}, {"noisy_share": 1.1}, {"noise_multiplier": 0.0}],
    ids=str,
)
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    good = {"experts": 50, "batch": 10, "noisy_share": 0.5, "noise_multiplier": 2.0}
    with pytest.raises(PlanError, match=next(iter(bad))):
        MixedTraining(**(good | bad))


def test_no_more_steps_than_can_be_counted() -> None:
    with pytest.raises(PlanError, match="steps"):
        training(0.001, 5_000.0).published_steps(50.0, DELTA)
