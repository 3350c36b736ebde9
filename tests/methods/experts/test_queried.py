"""Policies that are asked: whatever would break the count is found on public states, before a vault exists."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tacit.agents.features import OneHot, Scaled
from tacit.agents.stacked import StackedPolicies
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import DataError
from tacit.methods.experts.anchors import require_policies

SPEC = PublicSpec(Box((-1.0,), (1.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared")


def linear(floor: float = 0.1) -> StackedPolicies:
    weights = np.array([[[-1.0, 1.0]], [[2.0, -2.0]], [[0.5, -0.5]]], np.float32)
    return StackedPolicies(Scaled((-1.0,), (1.0,)), (1, 2), ((weights, np.zeros((3, 2), np.float32)),), floor)


@dataclasses.dataclass(frozen=True)
class Bent:
    """Policies of which the second answers otherwise than a distribution."""

    factor: float = 1.0
    other: float = 0.0
    count: int = 3
    floor: float = float("nan")

    def probabilities(self, observations: Any, which: Any) -> np.ndarray:
        even = np.full((len(observations), 2), 0.5)
        return np.where(np.asarray(which)[:, None] == 1, self.factor * even + [self.other, -self.other], even)

    def likelihoods(self, observations: Any, actions: Any) -> np.ndarray:
        return np.full((self.count, len(observations)), 0.5)


@pytest.mark.parametrize("floor", [0.0, 0.1, float("nan")])
def test_sound_policies_pass(floor: float) -> None:
    require_policies(linear(floor), SPEC, floor=0.0 if np.isnan(floor) else floor)


def test_states_may_be_discrete() -> None:
    weights = np.random.default_rng(0).normal(size=(2, 5, 2)).astype(np.float32)
    known = StackedPolicies(OneHot(5), (5, 2), ((weights, np.zeros((2, 2), np.float32)),))
    require_policies(known, dataclasses.replace(SPEC, observation=Discrete(5)))


@pytest.mark.parametrize(
    ("experts", "floor", "message"),
    [
        (Bent(factor=1.1), 0.0, "the probabilities of policy 1 do not sum to one"),
        (Bent(factor=np.nan), 0.0, "the probabilities of policy 1 do not sum to one"),
        (Bent(other=0.7), 0.0, "the probabilities of policy 1 do not sum to one"),  # one of them is negative
        (Bent(other=0.45), 0.1, "policy 1 gives an action less than the declared floor; expected at least 0.1"),
        (Bent(other=0.2), 0.1, "what policy 1 plays is not what it is counted with"),
        (linear(0.05), 0.1, "policy 0 gives an action less than the declared floor"),
    ],
)
def test_others_are_named(experts: Any, floor: float, message: str) -> None:
    with pytest.raises(DataError, match=message):
        require_policies(experts, SPEC, floor=floor)


def test_policies_for_other_actions_are_refused() -> None:
    with pytest.raises(DataError, match="policy 0 has other actions"):
        require_policies(linear(), dataclasses.replace(SPEC, action=Discrete(3)))
    with pytest.raises(DataError, match="the actions are continuous"):
        require_policies(linear(), dataclasses.replace(SPEC, action=Box((0.0,), (1.0,))))
