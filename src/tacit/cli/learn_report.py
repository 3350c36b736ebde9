"""What `tacit learn` measures after the release, and shows: all of it public, or of simulated experts."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from pathlib import Path

import numpy as np

from tacit.agents.policies import Acting
from tacit.cli import outcome
from tacit.cli.console import progress
from tacit.cli.expert_commands import Learn
from tacit.cli.learn_sources import Played, at_random, trajectories
from tacit.cli.learn_words import Plan, Planned
from tacit.envs import populations
from tacit.envs.populations import World
from tacit.evaluation.report import Consensus, ExpertsReport, Votes
from tacit.evaluation.report import Played as Row
from tacit.evaluation.report.experts import Role
from tacit.hub.experts import level
from tacit.methods import experts
from tacit.methods.experts import Learned
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.mechanisms.above_threshold import AboveThreshold, Prefixes
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault.vault import Vault

METHODS = {
    "votes": "votes of one clone for each expert, at public states",
    "return-weighted": "imitation, in noisy steps that weigh experts by their own returns",
    "consensus": "beginnings of trajectories that many experts agree with, and noisy steps on their other episodes",
}
TITLES = {"cart_pole": "cart-pole", "acrobot": "acrobot", "lunar_lander": "lunar lander", "hiv": "HIV treatment"}
MARKS = 2_000
"""States in the picture, the first ones of the public anchors."""
SAMPLE = 200
"""Of simulated experts, those whose own returns are measured."""


def report(
    command: Learn, planned: Planned, release: Release[Learned], world: World | None, title: str
) -> ExpertsReport:
    """The page's inputs, without what the policy returns.

    Args:
        command: the options.
        planned: the plan.
        release: what came out.
        world: where the experts' records are from, if it is a public simulator.
        title: of the page.
    """
    value, plan = release.value, planned.plan
    return ExpertsReport(
        title=title,
        certificate=release.certificate.to_json(),
        verify=outcome.VERIFY,
        level=level(plan),
        method=METHODS[command.method],
        votes=votes(value, plan, world),
        consensus=None if value.prefixes is None else consensus(value.prefixes[0], plan),
    )


def compared(
    page: ExpertsReport, command: Learn, planned: Planned, value: Learned, world: World, played: Played | None
) -> ExpertsReport:
    """The page with what the policy returns, beside others where the experts are simulated.

    Args:
        page: without that.
        command: the options.
        planned: the plan.
        value: the policy.
        world: where it is evaluated.
        played: simulated experts with their logs, to compare with; None for real ones.
    """
    rows = tuple(_returns(command, planned, value, world, played))
    name = TITLES.get(world.name, str(world.name))
    return dataclasses.replace(page, world=name, episodes=command.evaluate, returns=rows)


def votes(value: Learned, plan: Plan, world: World | None) -> Votes | None:
    """The picture of where experts agree: over the two dimensions that tell most of their choice."""
    if value.agreement is None:
        return None
    states, shares = value.agreement.states[0], value.agreement.shares[0]
    part = next(part for part in plan.parts() if isinstance(part, PoissonSum))
    assert plan.unit is not None
    actions = shares.shape[1]
    noise = part.clip * (part.noise_multiplier or 0.0) / plan.unit.size * math.sqrt(1 - 1 / actions)
    if states.ndim == 1:
        states = np.stack([states, np.zeros_like(states)], axis=1)
        (i, j), names = (0, 1), ["state", " "]
    else:
        i, j = telling(states, shares)
        names = [] if world is None else list(world.dimensions)
        if len(names) != states.shape[1]:
            names = [f"observation_{k}" for k in range(states.shape[1])]
    shown = slice(MARKS)
    return Votes(
        x=names[i],
        y=names[j],
        positions=states[shown][:, [i, j]].astype(np.float64),
        actions=actions,
        choice=shares[shown].argmax(axis=1).astype(np.float64),
        share=np.clip(shares[shown].max(axis=1), 0.0, 1.0),
        error=noise,
    )


def telling(states: np.ndarray, shares: np.ndarray) -> tuple[int, int]:
    """The two dimensions with the largest slopes of a linear fit of the noisy shares, in order."""
    if states.shape[1] < 2:
        return 0, 0
    x = (states - states.mean(axis=0)) / np.maximum(states.std(axis=0), 1e-12)
    slopes, *_ = np.linalg.lstsq(x.astype(np.float64), shares - shares.mean(axis=0), rcond=None)
    first, second = sorted(np.argsort(-np.linalg.norm(slopes, axis=1), kind="stable")[:2].tolist())
    return first, second


def consensus(prefixes: Prefixes, plan: Plan) -> Consensus:
    """The lengths of what was released, beside the threshold."""
    part = next(part for part in plan.parts() if isinstance(part, AboveThreshold))
    return Consensus(prefixes.lengths.astype(np.float64), part.horizon, part.thresholds.threshold, part.experts)


def _returns(command: Learn, planned: Planned, value: Learned, world: World, played: Played | None) -> list[Row]:
    seed, count = command.seed + 1_000_003, command.evaluate

    def measured(actor: Acting, label: str, role: Role) -> Row:
        with progress(f"Playing {count:,} episodes ({label})"):
            paid = populations.returns(world, actor, count, seed=seed)[0]
        half = 1.96 * float(paid.std(ddof=1)) / math.sqrt(count)
        return Row(label, role, float(paid.mean()), float(paid.mean()) - half, float(paid.mean()) + half)

    rows = [measured(value.actor(), f"epsilon {command.epsilon:g}, released", "released")]
    if played is None:
        return rows
    quiet = _without_noise(planned.plan)
    ceiling: list[Row] = []
    if quiet is not None:
        with progress("Learning the same without noise"):
            learned = _again(planned, quiet, played, world)
        ceiling = [measured(learned.actor(), "the same without noise", "ceiling")]
    with progress("Learning from actions at random"):
        learned = _again(planned, planned.plan, at_random(played, world.actions, seed=seed), world)
    floor = measured(learned.actor(), "actions at random", "floor")
    return [*ceiling, _own(played, world, seed), *rows, floor]


def _own(played: Played, world: World, seed: int) -> Row:
    """What the experts themselves return, at their best."""
    some = dataclasses.replace(played.experts.take(slice(SAMPLE)), floor=0.0)
    with progress("Playing episodes of the experts themselves"):
        paid = populations.returns(world, populations.Playing(some), 5, seed=seed, replicates=some.count)
    each = paid.mean(axis=1)
    low, high = np.quantile(each, [0.05, 0.95]).tolist()
    return Row("the experts themselves", "experts", float(each.mean()), low, high)


def _again(planned: Planned, plan: Plan, played: Played, world: World) -> Learned:
    """Another plan, under a ledger that is thrown away: everybody in it is simulated."""
    assert plan.unit is not None
    assert plan.delta is not None
    assert planned.plan.epsilon is not None
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger(Path(folder, "ledger"), plan.unit, epsilon=planned.plan.epsilon, delta=plan.delta) as ledger,
    ):
        data = trajectories(played, world, simulated=True)
        vault = Vault(data, ledger, experts=played.experts if level(plan) == "policies" else None)
        return experts.fit(plan, vault, planned.simulator, anchors=planned.anchors).value


def _without_noise(plan: Plan) -> Plan | None:
    """The same plan without noise, or None where it has no noisy sums: its threshold's noise belongs to what it is."""
    assert plan.unit is not None
    assert plan.delta is not None
    if not any(isinstance(part, PoissonSum) for part in plan.parts()):
        return None
    return dataclasses.replace(plan, noise_multiplier=0.0).price(unit=plan.unit, delta=plan.delta)
