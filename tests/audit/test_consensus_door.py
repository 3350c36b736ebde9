"""The real door against the law of the proof: 200,000 trajectories of clones, every prefix."""

from __future__ import annotations

import pytest
from crowds import CROWDS, counted_and_expected
from scipy import stats

from tacit.privacy.mechanisms.thresholds import Floor


@pytest.mark.parametrize(("floor", "limits"), CROWDS)
def test_prefixes_follow_the_law_that_was_enumerated(floor: Floor, limits: tuple[float, ...]) -> None:
    seen, expected = counted_and_expected(floor, limits, 200_000)
    assert expected.sum() == pytest.approx(200_000)
    often = expected >= 20
    assert often.sum() == 4  # 0, 1, 2 and 3 steps of the common action
    assert stats.poisson.sf(seen[~often].sum() - 1, expected[~often].sum()) > 1e-7
    assert stats.chisquare(seen[often], expected[often] * seen[often].sum() / expected[often].sum()).pvalue > 1e-7
