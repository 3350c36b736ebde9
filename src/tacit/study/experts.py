"""Experts whose policies are played in a public world, before anything is learned from what they do, and what policies
return there."""

from __future__ import annotations

import copy
import dataclasses
import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import hub
from tacit.agents.policies import PolicyActor
from tacit.agents.stacked import StackedPolicies
from tacit.data.trajectories import Trajectories
from tacit.envs.rollouts import Domain
from tacit.evaluation.report.experts import PolicyReturn as Row
from tacit.evaluation.report.experts import Role
from tacit.methods import experts
from tacit.methods.experts import LearnedPolicies
from tacit.methods.experts.learned import promise_scope
from tacit.privacy.vault.vault import Vault
from tacit.study import simulators
from tacit.study.account import temporary_ledger
from tacit.study.words import Narrator

if TYPE_CHECKING:
    from tacit_worlds.populations import World

Plan = experts.Votes | experts.ReturnWeighted | experts.Consensus
EPISODES = 20
IN_MEMORY = 2**24
"""Rows that are played here and kept in memory; more of them are written to a folder and mapped."""
SAMPLE = 200
"""Of simulated experts, those whose own returns are measured."""


def simulator_of(plan: Plan, world: World | None) -> Domain | None:
    """The simulator that a plan plays clones in, or puts new anchors by; None where it needs none."""
    if isinstance(plan, experts.Consensus):
        plays = plan.releases_prefixes and plan.clone is not None
    else:
        plays = isinstance(plan, experts.Votes) and plan.rounds > 1
    return world.domain if plays and world is not None else None


@dataclass(frozen=True, eq=False)
class SimulatedLogs:
    """Logs that were played here, with the policies that played them: the k-th is that of unit k."""

    data: Trajectories
    experts: StackedPolicies
    replay: Callable[[], Iterator[Mapping[str, Any]]]  # plays the same rows once more, a few experts' at a time
    store: Path | None  # the folder where the logs lie; None where they are held in memory


def play(
    world: World,
    folder: Path | None,
    arguments: Mapping[str, Any],
    scratch: Path,
    require_enough: Callable[[int], None],
    narrator: Narrator,
) -> SimulatedLogs:
    """What experts do in a world.

    Args:
        world: where they are played.
        folder: of their policies; None where they are simulated.
        given: words of `Study.learn` that concern them, with the floor.
        scratch: an empty folder, for more than `IN_MEMORY` rows.
        require_enough: refuses a number of policies.
        narrator: is told.

    Raises:
        FileError: a file holds no policy.
        DataError: a policy is not one for the world, two are the same, or there are too few or too many of them.
    """
    populations, floor = simulators.load("populations"), arguments["floor"]
    if folder is None:
        with narrator.progress("Simulating experts"):
            kind, count = arguments.get("kind", "good"), arguments["experts"]
            policies = populations.population(world, kind, count, seed=arguments["seed"], floor=floor)
    else:
        with narrator.progress("Reading the policies"):
            activation = arguments.get("activation", "relu")
            policies = hub.load_experts(folder, world.spec, activation=activation, floor=floor)
        require_enough(policies.count)
    # What real experts' policies play must not be known to anybody: released prefixes are protected by that alone.
    seed = arguments["seed"] if arguments["simulated"] else secrets.randbits(128)
    episodes, horizon = arguments.get("episodes", EPISODES), arguments.get("horizon", world.horizon)
    replay = partial(populations.log_blocks, world, policies, episodes, horizon, seed=seed)
    store = scratch / "logs" if policies.count * episodes * horizon > IN_MEMORY else None
    with narrator.progress("Playing episodes of all experts"):
        data = Trajectories.from_blocks(replay(), spec=world.spec, simulated=arguments["simulated"], store=store)
    return SimulatedLogs(data, policies, replay, store)


def compare(
    value: LearnedPolicies,
    world: World,
    anchors: np.ndarray | None,
    played: SimulatedLogs | None,
    arguments: Mapping[str, Any],
    narrator: Narrator,
) -> tuple[Row, ...]:
    """What a released policy returns in a world, beside others where the experts are simulated.

    Args:
        value: the policy.
        world: where it plays.
        anchors: the public states of its plan, where it has them given.
        played: simulated experts; None for real ones.
        given: words of `Study.learn`.
        narrator: is told.
    """
    plan: Any = value.plan
    populations, episodes, seed = simulators.load("populations"), arguments["evaluate"], arguments["seed"] + 1_000_003

    def measure(actor: PolicyActor, label: str, role: Role) -> Row:
        with narrator.progress(f"Playing {episodes:,} episodes ({label})"):
            total = populations.returns(world, actor, episodes, seed=seed)[0]
        mean, half = float(total.mean()), 1.96 * float(total.std(ddof=1)) / math.sqrt(episodes)
        return Row(label, role, mean, mean - half, mean + half)

    def learn(other: Plan, data: Trajectories, experts_: StackedPolicies) -> PolicyActor:
        """By another plan, under a ledger that is thrown away: everybody in it is simulated."""
        with temporary_ledger(other, epsilon=plan.epsilon) as ledger:
            vault = Vault(copy.copy(data), ledger, experts=experts_ if promise_scope(other) == "policies" else None)
            return experts.fit(other, vault, simulator_of(other, world), anchors=anchors).value.actor()

    rows = (measure(value.actor(), f"epsilon {arguments['epsilon']:g}, released", "released"),)
    if played is None:
        return rows
    ceiling: tuple[Row, ...] = ()
    # Of prefixes alone there is nothing without noise: their threshold's noise belongs to what they are.
    if not isinstance(plan, experts.Consensus) or plan.private_steps:
        noiseless = dataclasses.replace(plan, noise_multiplier=0.0).account(unit=plan.unit, delta=plan.delta)
        with narrator.progress("Learning the same without noise"):
            actor = learn(noiseless, played.data, played.experts)
        ceiling = (measure(actor, "the same without noise", "ceiling"),)
    with narrator.progress("Learning from actions at random"):
        generator = np.random.default_rng(seed)
        blocks = (
            {**block, "actions": generator.integers(world.actions, size=len(block["actions"]))}
            for block in played.replay()
        )
        store = None if played.store is None else played.store.with_name("random")
        data = Trajectories.from_blocks(blocks, spec=world.spec, simulated=True, store=store)
        actor = learn(plan, data, played.experts)
    floor = measure(actor, "actions at random", "floor")
    sample = dataclasses.replace(played.experts.take(slice(SAMPLE)), floor=0.0)
    with narrator.progress("Playing episodes of the experts themselves"):
        total = populations.returns(world, populations.ExpertActor(sample), 5, seed=seed, replicates=sample.count)
    each = total.mean(axis=1)
    low, high = np.quantile(each, [0.05, 0.95]).tolist()
    return (*ceiling, Row("the experts themselves", "experts", float(each.mean()), low, high), *rows, floor)
