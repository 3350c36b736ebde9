"""Small and random trajectories for the tests of this folder."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tacit.data import Box, Discrete, PublicSpec, Trajectories

SPEC = PublicSpec(Box((-1, 0), (1, 2)), Discrete(3), Box((0,), (1,)), "declared")
LOGGED = dataclasses.replace(SPEC, propensities=True)


def arrays(**changes: Any) -> dict[str, Any]:
    """Five transitions, three episodes, two units: episode 0 and 2 are one unit's."""
    values: dict[str, Any] = {
        "observations": np.array([[0.0, 0.5], [0.1, 0.6], [0.2, 0.7], [-0.5, 1.0], [0.3, 1.5]]),
        "actions": np.array([0, 1, 2, 1, 0]),
        "rewards": np.array([0.0, 0.5, 1.0, 0.25, 0.75]),
        "next_observations": np.array([[0.1, 0.6], [0.2, 0.7], [0.3, 0.8], [-0.4, 1.1], [0.4, 1.6]]),
        "terminations": np.array([False, False, True, False, True]),
        "truncations": np.array([False, False, False, True, False]),
        "unit_ids": np.array(["ann", "ann", "ann", "bob", "ann"]),
        "episode_ids": np.array([7, 7, 7, 3, 9]),
        "spec": SPEC,
    }
    return {**values, **changes}


def with_propensities(values: Any = (0.5, 1.0, 0.25, 0.1, 1e-9), **changes: Any) -> dict[str, Any]:
    """The same five transitions with the probabilities of their actions."""
    return arrays(propensities=values, spec=LOGGED, **changes)


def same(a: Trajectories, b: Trajectories) -> None:
    """Equal to the bit: columns, units, episodes and spec."""
    assert a.spec == b.spec
    assert list(a.columns) == list(b.columns)
    for name, column in a.columns.items():
        assert b.columns[name].dtype == column.dtype
        np.testing.assert_array_equal(b.columns[name], column, err_msg=name)
    for mine, other in zip((*a._unit_rows, a.episodes), (*b._unit_rows, b.episodes), strict=True):
        np.testing.assert_array_equal(mine, other)


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectories:
    """Ragged episodes of 1 to 6 rows that chain or not, continuous or discrete, of up to 4 units.

    Discrete actions have propensities or not.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = draw(st.lists(st.integers(1, draw(st.sampled_from([1, 6]))), min_size=1, max_size=8))
    rows, chained = sum(lengths), draw(st.booleans())

    def space(discrete: bool) -> Box | Discrete:
        return Discrete(4) if discrete else Box((-1e3, -0.1, 0.1), (1e3, 0.7, 1e-1 + 1e-3))

    spec = PublicSpec(space(draw(st.booleans())), space(draw(st.booleans())), Box((-0.3,), (0.3,)), "declared")
    if isinstance(spec.action, Discrete) and draw(st.booleans()):
        spec = dataclasses.replace(spec, propensities=True)

    def values(of: Box | Discrete, n: int) -> Any:
        if isinstance(of, Discrete):
            return rng.integers(0, of.n, n)
        found = rng.normal(size=(n, of.size)) * 2.0 ** rng.integers(-140, 120, (n, of.size)).astype(float)
        found[-1] = np.add(of.low, of.high) / 2  # bounds that clip every value are refused
        return found

    observations = values(spec.observation, rows)
    following = values(spec.observation, rows)
    ends = np.cumsum(lengths) - 1
    if chained:
        inside = np.setdiff1d(np.arange(rows), ends)
        following[inside] = observations[inside + 1]
    owners = rng.integers(0, 4, len(lengths))
    ids: Any = np.array(["u-é", "b", "c d", "0"])[owners] if draw(st.booleans()) else owners * 10**12 - 5
    return Trajectories.from_arrays(
        observations=observations,
        actions=values(spec.action, rows),
        rewards=np.append(rng.normal(size=rows - 1), 0.0),
        next_observations=following,
        terminations=(rng.random(rows) < 0.4) & np.isin(np.arange(rows), ends),
        truncations=(rng.random(rows) < 0.4) & np.isin(np.arange(rows), ends),
        propensities=2.0 ** -rng.uniform(0, 140, rows) if spec.propensities else None,
        unit_ids=np.repeat(ids, lengths),
        episode_ids=np.repeat(rng.permutation(len(lengths)), lengths),
        spec=spec,
        simulated=True,
    )
