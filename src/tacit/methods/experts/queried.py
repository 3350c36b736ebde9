"""Policies that are asked what they would do: tried on public states before a vault gets them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import DataError
from tacit.privacy.mechanisms.base import Experts

Array = NDArray[Any]

_SUM, _EQUAL = 1e-6, 1e-9
"""How far a sum of probabilities may be from one, and one answer of a policy from the other."""


def require_policies(
    experts: Experts, spec: PublicSpec, *, floor: float = 0.0, states: int = 64, seed: int = 0
) -> None:
    """Ask every policy about public states, drawn from the bounds of the records; no record is read.

    Args:
        experts: m policies, as `Vault(experts=...)` takes them.
        spec: the public bounds.
        floor: the least probability of an action that was declared; 0 if none was.
        states: how many.
        seed: of their draw.

    Raises:
        DataError: the actions are continuous; or some policy's answers there are not finite, do not sum to one, fall
            under the floor, or contradict each other.
    """
    if not isinstance(spec.action, Discrete):
        raise _refused("the actions are continuous", "discrete actions, which experts can agree on")
    seen, actions = _states(spec, states, seed), np.arange(states) % spec.action.n
    chances = np.asarray(experts.chances(seen, actions))
    if chances.shape != (experts.count, states):
        raise _refused("the chances are of another shape", f"one for each policy and state, [{experts.count}, N]")
    for k in range(experts.count):
        given = np.asarray(experts.probabilities(seen, np.full(states, k)), np.float64)
        if given.shape != (states, spec.action.n):
            raise _refused(f"policy {k} has other actions", f"probabilities [N, {spec.action.n}]")
        if not np.isfinite(given).all() or (given < 0).any() or (np.abs(given.sum(axis=1) - 1) > _SUM).any():
            raise _refused(f"the probabilities of policy {k} do not sum to one", "distributions over the actions")
        if (given < floor * (1 - _SUM)).any():
            raise _refused(
                f"policy {k} gives an action less than the declared floor", f"at least {floor:g} for every action"
            )
        if (np.abs(given[np.arange(states), actions] - chances[k]) > _EQUAL).any():
            raise _refused(f"what policy {k} plays is not what it is counted with", "chances like the probabilities")


def _states(spec: PublicSpec, count: int, seed: int) -> Array:
    generator, space = np.random.default_rng(seed), spec.observation
    if isinstance(space, Discrete):
        return generator.integers(space.n, size=count)
    assert isinstance(space, Box)
    low, high = space.single()
    drawn = generator.uniform(low, high, (count, space.size)).astype(np.float32)
    return np.asarray(np.clip(drawn, low, high), np.float32)


def _refused(what: str, expected: str) -> DataError:
    remedy = "mend the policy, or leave the expert out: what is wrong here would be wrong in the guarantee"
    return DataError(what, where="experts' policies", expected=expected, remedy=remedy)
