"""The plan of trajectories: its parts, what it refuses, and its way through JSON."""

from __future__ import annotations

from typing import Any

import pytest
from trajectory_cases import PEOPLE, maze_episodes, small

from tacit.errors import PlanError
from tacit.methods.synthesis.plan import Curiosity, Pretraining
from tacit.methods.synthesis.table_matching import TableMatching
from tacit.methods.synthesis.trajectories import TrajectoriesPlan
from tacit.methods.synthesis.trajectories.plan import Network
from tacit.privacy.vault import plan as plans


def test_its_parts_are_two_noisy_sums_that_one_epsilon_pays() -> None:
    plan = small(horizon=16, fragments_per_unit=3).calibrate(unit=PEOPLE, epsilon=2.0, delta=1e-5)
    starts, fragments = plan.parts()
    assert (starts.rows, starts.rows_per_unit, starts.horizon) == ("first", 1, 1)
    assert (fragments.rows, fragments.rows_per_unit, fragments.horizon) == ("drawn", 3, 18)
    assert starts.noise_multiplier == fragments.noise_multiplier == plan.noise_multiplier
    assert plans.certified_bound(plan).epsilon == pytest.approx(2.0, rel=1e-2)
    assert "at most 3 fragments of its episodes, of 18 rows each" in str(plan)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"fragments_per_unit": 0}, "at least one fragment a unit"),
        ({"horizon": 9}, "divisor"),
        ({"network": "unet", "rows_per_token": 4}, "four tokens"),
        ({"network": "autoregressive"}, "1 with"),
        ({"tokens": "components"}, "1 with"),
        ({"heads": 3}, "divisor of the width"),
        ({"longest": 0}, "whole number"),
        ({"network": "mlp"}, "transformer"),
        ({"ending_weight": 0.0}, "number > 0"),
        ({"ending_noise": -0.1}, "number >= 0"),
        ({"pretraining": Pretraining(provenance="x", curiosity=Curiosity(mode="append_pool"))}, "replace"),
    ],
)
def test_what_is_out_of_range_is_refused(fields: dict[str, object], named: str) -> None:
    with pytest.raises(PlanError, match=named):
        small(**fields)


def test_fragments_longer_than_every_trajectory_are_said_once() -> None:
    assert str(small(longest=4)).count("longer than every trajectory (4 steps)") == 1
    assert "longer" not in str(small(longest=8))


def test_it_goes_through_json() -> None:
    inner = Pretraining(provenance="simulated", curiosity=Curiosity())
    for plan in (small(), small(pretraining=inner).calibrate(unit=PEOPLE, epsilon=1.0, delta=1e-5)):
        assert TrajectoriesPlan.from_json(plans.public_fields(plan)) == plan
    with pytest.raises(PlanError, match="unknown"):
        TrajectoriesPlan.from_json(plans.public_fields(small()) | {"colour": "red"})


def test_the_papers_sizes() -> None:
    plan = TrajectoriesPlan.paper(population=10_000, provenance="simulated")
    assert (plan.horizon, plan.depth, plan.heads, plan.width, plan.tokens) == (32, 6, 4, 256, "components")
    assert plan.sampling_rate * 10_000 == pytest.approx(32)
    with pytest.raises(PlanError):
        TrajectoriesPlan.paper(population=31)


@pytest.mark.parametrize("network", ["transformer", "unet", "autoregressive"])
@pytest.mark.parametrize("longest", [1, 5, 24, 30, 300])
def test_settings_for_people_fit_every_length_and_network(network: Network, longest: int) -> None:
    plan = TrajectoriesPlan.for_people(
        population=10_000, longest=longest, network=network, episodes=3, provenance="simulated"
    )
    assert plan.horizon <= max(4, longest)
    assert plan.sampling_rate * 10_000 == pytest.approx(4_000)
    assert plan.start_rows == min(128, 3 * longest)
    assert TrajectoriesPlan.for_people(population=500, longest=longest).sampling_rate == 1.0
    with pytest.raises(PlanError, match="local_context"):
        TrajectoriesPlan.for_people(population=500, longest=longest, local_context=2)
    with pytest.raises(PlanError, match="episodes"):
        TrajectoriesPlan.for_people(population=500, longest=longest, episodes=0)


@pytest.mark.parametrize(("longest", "horizon", "batch"), [(300, 8, 1_024), (24, 8, 1_024), (5, 4, 2_048)])
def test_what_histograms_tell_is_learned_on_short_fragments(longest: int, horizon: int, batch: int) -> None:
    matching = TableMatching.of(maze_episodes(2).spec)
    given: dict[str, Any] = {
        "population": 500,
        "longest": longest,
        "matching": matching,
        "local_context": 2,
        "provenance": "simulated",
    }
    plan = TrajectoriesPlan.for_people(**given)
    assert plan.pretraining is not None
    assert (plan.horizon, plan.pretraining.batch, plan.steps) == (horizon, batch, 0)
    longer = TrajectoriesPlan.for_people(**given, horizon=16)
    assert longer.pretraining is not None
    assert longer.pretraining.batch == 512
