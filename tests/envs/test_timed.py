"""The domain that shows the time: dynamics of its domain, observations t S + s, time that stops at the horizon."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.data.spec import Discrete
from tacit.envs.rollouts import TimedDomain
from tacit.envs.serving import serve
from tacit.errors import DataError
from tacit_worlds import river_swim

RIVER = river_swim.RiverSwim()


def test_it_moves_as_its_domain_and_counts_steps() -> None:
    timed, state, plain = TimedDomain(RIVER, 6, 3), np.arange(6), np.arange(6)
    one, other = np.random.default_rng(0), np.random.default_rng(0)
    for t in range(1, 6):
        state, paid, ended = timed.step(state, np.ones(6, np.int64), one)
        plain, expected, _ = RIVER.step(plain, np.ones(6, np.int64), other)
        np.testing.assert_array_equal(state, min(t, 3) * 6 + plain)
        np.testing.assert_array_equal(paid, expected)
        assert not ended.any()


def test_its_rows_are_inside_its_spec() -> None:
    timed = TimedDomain(RIVER, 6, 20)
    spec = timed.spec(river_swim.spec())
    assert spec.observation == Discrete(126)

    def actor(seen: np.ndarray, replicate: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return np.ones(len(seen), np.int64)

    rows = serve(timed, actor, np.zeros(5, np.int64), horizon=20, generator=np.random.default_rng(1))
    np.testing.assert_array_equal(rows["observations"] // 6, np.broadcast_to(np.arange(20), (5, 20)))
    np.testing.assert_array_equal(rows["next_observations"] // 6, np.broadcast_to(np.arange(1, 21), (5, 20)))
    assert rows["next_observations"].max() < 126


@pytest.mark.parametrize(("states", "horizon"), [(0, 3), (3, 0)])
def test_nothing_to_time_is_refused(states: int, horizon: int) -> None:
    with pytest.raises(DataError, match="at least one of each"):
        TimedDomain(RIVER, states, horizon)
