"""`tacit learn`: what experts logged, or their policies, in; one policy with its certificate out."""

from __future__ import annotations

import copy
import dataclasses
import math
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import hub
from tacit.agents.policies import Acting
from tacit.agents.stacked import Stacked
from tacit.cli import learn_plan
from tacit.cli.console import progress, say
from tacit.cli.learn_plan import Plan, Planned, least_floor, opened, planned, require_sound, unit
from tacit.cli.plan_declarations import Learn
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError
from tacit.evaluation.report import Consensus, ExpertsReport, Votes
from tacit.evaluation.report import Played as Row
from tacit.evaluation.report.experts import Role
from tacit.hub.experts import level
from tacit.methods import experts, find_method
from tacit.methods.experts import Learned
from tacit.methods.experts.anchors import require_policies
from tacit.methods.experts.consensus import CONSENSUS
from tacit.methods.experts.published import claimed
from tacit.methods.experts.votes import PART
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.above_threshold import Prefixes
from tacit.privacy.vault.vault import Vault
from tacit.study import simulators
from tacit.study.account import LEDGER, Account, Words, promised, thrown_away
from tacit.study.folder import (
    CERTIFICATE,
    REPORT,
    SIMULATED,
    VERIFY,
    RunFolder,
    Stopwatch,
    certify,
    finish,
    require_free,
    settings_of,
)
from tacit.study.narration import Interrupted

if TYPE_CHECKING:
    from tacit_worlds.populations import World

FOLDER = "policy"
GUESSED = (
    "Of logs that are not opened two actions are assumed, and one number to observe: with others the bound of a norm "
    "is another, the noise multiplier and the promise are not."
)
WORDS = Words(
    people="experts",
    doing="learning",
    done="learned from",
    do="learn",
    retry="give another --seed, or slightly less --epsilon",
)
LEVELS = {
    "logs": "Protected: everything in one expert's log. Not protected: people in the logs of many experts.",
    "policies": (
        "Protected: the experts' policies, and nothing else. Not protected: patients, states, rewards and transitions; "
        "released prefixes show them as they are."
    ),
}
TITLES = {"cart_pole": "cart-pole", "acrobot": "acrobot", "lunar_lander": "lunar lander", "hiv": "HIV treatment"}
MARKS = 2_000
"""States in the picture, the first ones of the public anchors."""
SAMPLE = 200
"""Of simulated experts, those whose own returns are measured."""
IN_MEMORY = 2**24
"""Rows that are played here and kept in memory; more of them are written to a folder and mapped."""


@dataclass(frozen=True, eq=False)
class Played:
    """Logs that were played here, with the policies that played them.

    Attributes:
        data: the logs, one unit a policy.
        experts: the k-th is the policy of unit k.
        again: plays the same rows once more, a few experts' at a time.
        store: the folder where the logs lie; None where they are held in memory.
    """

    data: Trajectories
    experts: Stacked
    again: Callable[[], Iterator[Mapping[str, Any]]]
    store: Path | None


def learn(command: Learn) -> None:
    """Plan, promise, learn, release, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`; nothing is spent before the learning begins.
    """
    require_sound(command)
    unit(command)
    if not command.dry_run:
        require_free(command.out, resume=None)
    world = opened(command)
    if command.dry_run:
        setup = planned(command, None, world)
        learn_plan.require_enough(command, setup.plan)
        _promise(command, setup)
        if world is None:
            say(GUESSED)
        say("Dry run: no file was opened and nothing was spent.")
        return
    learn_plan.require_source(command, world)
    setup = planned(command, learn_plan.spec_of(command, world), world)
    learn_plan.require_enough(command, setup.plan)
    _account(command, setup.plan).require_payable(setup.plan)
    _promise(command, setup)
    _produce(command, setup, world)


def _account(command: Learn, plan: learn_plan.Plan) -> Account:
    protected, epsilon, _ = promised(plan)
    return command.account(protected, WORDS, epsilon=epsilon)


def _promise(command: Learn, setup: Planned) -> None:
    say(str(setup.plan))
    if command.paper:
        assert isinstance(setup.plan, experts.Consensus)
        say(str(claimed(setup.plan)))
    say(LEVELS[level(setup.plan)])
    if learn_plan.nobody(command):
        say(f"The experts {SIMULATED}")


def _produce(command: Learn, setup: Planned, world: World | None) -> None:
    watch = Stopwatch()
    with tempfile.TemporaryDirectory(prefix="tacit-learn-") as scratch:
        data, played = _experts(command, setup, world, Path(scratch))
        asked = played.experts if played is not None and level(setup.plan) == "policies" else None
        if asked is not None:
            require_policies(asked, data.spec, floor=least_floor(command))
        settings = settings_of(command)
        simulated = data.simulated
        with RunFolder.attempt(command.out, "learn", settings, resume=None) as run:
            with _account(command, setup.plan).opened(run) as ledger:
                vault = Vault(data, ledger, experts=asked, tracker=command.tracker)
                with progress("Learning with privacy"):
                    release = experts.fit(setup.plan, vault, setup.simulator, anchors=setup.anchors)
                hub.save(release, run.inside(FOLDER), notes=_notes(world))
                certify(run, release.certificate)
            page = report(command, setup, release, world, run.path.name)
            finish(run, page)
            if world is not None:
                page = _compared(run, page, command, setup, release.value, world, played if simulated else None)
                size = ("Parameters", f"{release.value.policy.parameters:,}")
                page = dataclasses.replace(page, costs=(size, *watch.costs()) if simulated else ())
                finish(run, page)
    _closing(command, run, page)


def _compared(
    run: RunFolder,
    page: ExpertsReport,
    command: Learn,
    setup: Planned,
    value: Learned,
    world: World,
    played: Played | None,
) -> ExpertsReport:
    """The page with what the policy returns; an interruption leaves the one without.

    Raises:
        KeyboardInterrupt: as it came; an `Interrupted` says what is there already.
    """
    try:
        return compared(page, command, setup, value, world, played)
    except KeyboardInterrupt:
        done = f"the policy is released and saved in {run.inside(FOLDER)}"
        raise Interrupted(f"{done}, and {run.inside(REPORT)} lacks its returns alone") from None


def _experts(command: Learn, setup: Planned, world: World | None, scratch: Path) -> tuple[Trajectories, Played | None]:
    """The logs, and the policies that played them where that happened here."""
    if command.source is not None and learn_plan.is_logs(command.source):
        return _logs(command), None
    assert world is not None
    played = _played(command, setup.plan, world, scratch)
    return played.data, played


def _played(command: Learn, plan: Plan, world: World, scratch: Path) -> Played:
    """Simulated experts, or those whose policies lie in the folder, and what they play.

    Args:
        command, plan, world: as planned.
        scratch: an empty folder, for more than `IN_MEMORY` rows.

    Raises:
        FileError: a file holds no policy.
        DataError: a policy is not one for the world, two are the same, or there are too few or too many of them.
    """
    floor = least_floor(command)
    if command.source is None:
        with progress("Simulating experts"):
            policies = simulators.load("populations").population(
                world, command.kind or "good", learn_plan.simulated(command), seed=command.seed, floor=floor
            )
    else:
        with progress("Reading the policies"):
            policies = hub.load_experts(
                command.source, world.spec, activation=command.activation or "relu", floor=floor
            )
        learn_plan.require_enough(command, plan, policies.count)
    # What real experts' policies play must not be known to anybody: released prefixes are protected by that alone.
    seed = command.seed if learn_plan.nobody(command) else secrets.randbits(128)
    episodes, horizon = command.episodes or learn_plan.EPISODES, command.horizon or world.horizon
    again = partial(simulators.load("populations").log_blocks, world, policies, episodes, horizon, seed=seed)
    store = scratch / "logs" if policies.count * episodes * horizon > IN_MEMORY else None
    with progress("Playing episodes of all experts"):
        data = Trajectories.from_blocks(again(), spec=world.spec, simulated=learn_plan.nobody(command), store=store)
    return Played(data, policies, again, store)


def _logs(command: Learn) -> Trajectories:
    """The imported logs.

    Raises:
        FileError: a file is missing or damaged.
        DataError: there are no ids of experts, or one of them has all the records.
    """
    assert command.source is not None
    with progress("Opening the logs"):
        data = Trajectories.open(command.source)
        if data.unit_kind != "id":
            what = f"the logs say nothing of experts: every {data.unit_kind} is a unit of its own"
            expected = "logs that were imported with the ids of the experts"
            remedy = "import them again: tacit data import DATASET --unit EXPERT_ID"
            raise DataError(what, where=str(command.source), expected=expected, remedy=remedy)
        data.require_several()
    return data


def _notes(world: World | None) -> dict[str, Any] | None:
    """What `tacit play` needs to know."""
    return None if world is None else {"environment": world.name, "horizon": world.evaluation, "repeat": 1}


def _closing(command: Learn, run: RunFolder, page: ExpertsReport) -> None:
    folder = run.path
    say()
    row = page.released
    if row is not None:
        say(f"Return   {row.mean:.5g}, {row.low:.5g} to {row.high:.5g} (95 % of the mean), in {page.world}")
    if page.consensus is not None:
        lengths = page.consensus.lengths
        nonempty = int((lengths > 0).sum())
        say(f"Prefixes {int(lengths.sum()):,} steps in all, {nonempty} of {len(lengths)} not empty")
    say(f"Open     {folder / REPORT}")
    say(f"Verify   tacit certificate verify {folder / CERTIFICATE}")
    if page.world is not None:
        say(f"Play     tacit play {folder / FOLDER}")
    say(f"Export   tacit export {folder / FOLDER} {FOLDER}.onnx")
    account = command.account(unit(command), WORDS)
    ledger = folder / LEDGER if account.inside else account.path
    say(f"Budget   tacit ledger show {ledger}")


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
        verify=VERIFY,
        level=level(plan),
        method=find_method("learn", command.method).words,
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
    part = learn_plan.part(plan, PART)
    assert plan.unit is not None
    actions = shares.shape[1]
    noise = part.clip_norm * (part.noise_multiplier or 0.0) / plan.unit.size * math.sqrt(1 - 1 / actions)
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
    part = learn_plan.part(plan, CONSENSUS)
    return Consensus(prefixes.lengths.astype(np.float64), part.horizon, part.thresholds.threshold, part.experts)


def _returns(command: Learn, planned: Planned, value: Learned, world: World, played: Played | None) -> list[Row]:
    seed, count = command.seed + 1_000_003, command.evaluate
    populations = simulators.load("populations")

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
            learned = _again(planned, quiet, played)
        ceiling = [measured(learned.actor(), "the same without noise", "ceiling")]
    with progress("Learning from actions at random"):
        learned = _again(planned, planned.plan, at_random(played, world, seed=seed))
    floor = measured(learned.actor(), "actions at random", "floor")
    return [*ceiling, _own(played, world, seed), *rows, floor]


def _own(played: Played, world: World, seed: int) -> Row:
    """What the experts themselves return, at their best."""
    sample = dataclasses.replace(played.experts.take(slice(SAMPLE)), floor=0.0)
    populations = simulators.load("populations")
    with progress("Playing episodes of the experts themselves"):
        paid = populations.returns(world, populations.Playing(sample), 5, seed=seed, replicates=sample.count)
    each = paid.mean(axis=1)
    low, high = np.quantile(each, [0.05, 0.95]).tolist()
    return Row("the experts themselves", "experts", float(each.mean()), low, high)


def _again(planned: Planned, plan: Plan, played: Played) -> Learned:
    """Another plan, under a ledger that is thrown away: everybody in it is simulated."""
    with thrown_away(plan, epsilon=planned.plan.epsilon) as ledger:
        vault = Vault(copy.copy(played.data), ledger, experts=played.experts if level(plan) == "policies" else None)
        return experts.fit(plan, vault, planned.simulator, anchors=planned.anchors).value


def _without_noise(plan: Plan) -> Plan | None:
    """The same plan without noise, or None where it has no noisy sums: its threshold's noise belongs to what it is."""
    assert plan.unit is not None
    assert plan.delta is not None
    if isinstance(plan, experts.Consensus) and not plan.private_steps:
        return None
    return dataclasses.replace(plan, noise_multiplier=0.0).account(unit=plan.unit, delta=plan.delta)


def at_random(played: Played, world: World, *, seed: int) -> Played:
    """The same states with actions that say nothing: what a policy learns from noise."""
    generator = np.random.default_rng(seed)
    blocks = (
        {**block, "actions": generator.integers(world.actions, size=len(block["actions"]))} for block in played.again()
    )
    store = None if played.store is None else played.store.with_name("random")
    data = Trajectories.from_blocks(blocks, spec=world.spec, simulated=True, store=store)
    return dataclasses.replace(played, data=data)
