"""Wrong calls of learning from experts; none of them spends anything, and one voids the ledger."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from wrong_calls import DELTA, PRIVATE_ID, SPEC, UNIT, WrongCall, columns, data, ledger

from tacit import hub
from tacit.agents.features import Scaled
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.agents.stacked import StackedPolicies
from tacit.data import Box, Trajectories
from tacit.methods import experts
from tacit.methods.experts.anchors import require_policies
from tacit.privacy.mechanisms.thresholds import PMin
from tacit.privacy.vault.vault import Vault

FEATURES = Scaled((-4.0,), (4.0,))
POLICY = Policy(FEATURES, Mlp((1, 3), gain=0.0), Categorical(3))
CLONE = experts.LinearClone(features=FEATURES, actions=3)
VOTES = experts.Votes(anchors=experts.UniformAnchors(low=(-4.0,), high=(4.0,), count=3), clone=CLONE, policy=POLICY)
CONSENSUS = experts.Consensus(
    policy=POLICY, trajectories=1, horizon=2, experts=90, floor=PMin(0.1), stable_fraction=1.0, expected_batch_size=9
)


def stacked(count: int, floor: float = 0.1) -> StackedPolicies:
    weights = np.random.default_rng(0).normal(size=(count, 1, 3)).astype(np.float32)
    return StackedPolicies(FEATURES, (1, 3), ((weights, np.zeros((count, 3), np.float32)),), floor)


def learn(folder: Path, plan: Any, records: Trajectories, asked: StackedPolicies | None = None) -> None:
    """Calibrate and run."""
    with ledger(folder) as own:
        ready = plan.calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
        experts.fit(ready, Vault(records, own, experts=asked))


def experts_with_continuous_actions(folder: Path) -> None:
    continuous = dataclasses.replace(SPEC, action=Box((-4.0,), (4.0,)))
    learn(folder, VOTES, data(spec=continuous, actions=[[0.0], [1.0], [2.0]]))


def anchors_outside_the_public_bounds(folder: Path) -> None:
    far = experts.UniformAnchors(low=(-9.0,), high=(9.0,), count=50)
    learn(folder, dataclasses.replace(VOTES, anchors=far), data())


def encoder_that_clones_share(folder: Path) -> None:
    experts.LinearClone(features=Mlp((1, 3)), actions=3)  # type: ignore[arg-type]


def threshold_that_no_experts_reach(folder: Path) -> None:
    dataclasses.replace(CONSENSUS, trajectories=25).calibrate(unit=UNIT, epsilon=0.5, delta=DELTA)


def fewer_experts_than_the_threshold_counts_on(folder: Path) -> None:
    ready = CONSENSUS.calibrate(unit=UNIT, epsilon=2.0, delta=DELTA)
    with ledger(folder) as own:
        experts.fit(ready, Vault(data(), own, experts=stacked(2)))


def prefixes_of_logs_without_policies_to_ask(folder: Path) -> None:
    ready = CONSENSUS.calibrate(unit=UNIT, epsilon=2.0, delta=DELTA)
    with ledger(folder) as own:
        experts.fit(ready, Vault(data(), own))


def experts_without_trajectories(folder: Path) -> None:
    with ledger(folder) as own:
        Vault(data(), own, experts=stacked(5))


def one_expert_with_all_trajectories(folder: Path) -> None:
    Trajectories.from_arrays(**columns(unit_ids=[PRIVATE_ID] * 3)).require_several_units()


def expert_who_is_there_twice(folder: Path) -> None:
    hub.save_experts(stacked(2), folder / "experts")
    (folder / "experts" / "2.safetensors").write_bytes((folder / "experts" / "0.safetensors").read_bytes())
    hub.load_experts(folder / "experts", SPEC)


def expert_in_a_pickle(folder: Path) -> None:
    hub.save_experts(stacked(2), folder / "experts")
    (folder / "experts" / "2.pt").write_bytes(pickle.dumps(0))
    hub.load_experts(folder / "experts", SPEC)


def expert_with_other_actions(folder: Path) -> None:
    four = StackedPolicies(FEATURES, (1, 4), ((np.ones((1, 1, 4), np.float32), np.zeros((1, 4), np.float32)),))
    hub.save_experts(four, folder / "experts")
    hub.load_experts(folder / "experts", SPEC)


@dataclasses.dataclass(frozen=True)
class Bent:
    """Policies of somebody's own."""

    count: int = 1
    floor: float = float("nan")

    def probabilities(self, observations: Any, which: Any) -> np.ndarray:
        return np.full((len(observations), 3), 0.4)

    def likelihoods(self, observations: Any, actions: Any) -> np.ndarray:
        return np.full((1, len(observations)), 0.4)


def policy_whose_probabilities_do_not_sum_to_one(folder: Path) -> None:
    require_policies(Bent(), SPEC)  # type: ignore[arg-type]


def policy_under_the_declared_floor(folder: Path) -> None:
    require_policies(stacked(2, floor=0.01), SPEC, floor=0.05)


EXPERT_CALLS: tuple[WrongCall, ...] = (
    experts_with_continuous_actions,
    anchors_outside_the_public_bounds,
    encoder_that_clones_share,
    threshold_that_no_experts_reach,
    fewer_experts_than_the_threshold_counts_on,
    prefixes_of_logs_without_policies_to_ask,
    experts_without_trajectories,
    one_expert_with_all_trajectories,
    expert_who_is_there_twice,
    expert_in_a_pickle,
    expert_with_other_actions,
    policy_whose_probabilities_do_not_sum_to_one,
    policy_under_the_declared_floor,
)
EXPERT_VOIDED: tuple[WrongCall, ...] = (fewer_experts_than_the_threshold_counts_on,)
