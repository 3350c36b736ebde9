"""`tacit learn`: what experts logged, or their policies, in; one policy with its certificate out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tacit import hub
from tacit.cli import learn_report, learn_sources, outcome
from tacit.cli.budget import ledger_path, open_ledger
from tacit.cli.console import progress, say
from tacit.cli.expert_commands import Learn
from tacit.cli.folders import RunFolder, require_free
from tacit.cli.learn_options import require_sound
from tacit.cli.learn_words import Planned, least_floor, opened, planned, unit
from tacit.data.trajectories import Trajectories
from tacit.envs.populations import World
from tacit.errors import BudgetExceeded, PlanExhausted
from tacit.hub.experts import level
from tacit.measure.report import ExpertsReport
from tacit.methods import experts
from tacit.methods.experts import Learned
from tacit.methods.experts.published_recipes import claimed
from tacit.methods.experts.queried import require_policies
from tacit.privacy.ledger import Ledger
from tacit.privacy.release import Release
from tacit.privacy.vault import Vault

FOLDER, LEDGER = "policy", "ledger"
SIMULATED = "The experts are simulated: nobody is behind them, and the certificate and the report say so."
GUESSED = (
    "Of logs that are not opened two actions are assumed, and one number to observe; the noise does not depend on it."
)
LEVELS = {
    "logs": "Protected: everything in one expert's log. Not protected: whoever is in the logs of many experts.",
    "policies": (
        "Protected: the experts' policies, and nothing else. Not protected: patients, states, rewards and transitions; "
        "released prefixes show them as they are."
    ),
}


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
        _promise(command, planned(command, None, world))
        if world is None:
            say(GUESSED)
        say("Dry run: no file was opened and nothing was spent.")
        return
    learn_sources.require_source(command, world)
    found = planned(command, learn_sources.spec_of(command, world), world)
    _promise(command, found)
    _produce(command, found, world)


def _promise(command: Learn, found: Planned) -> None:
    say(str(found.plan))
    if command.paper:
        assert isinstance(found.plan, experts.Consensus)
        say(str(claimed(found.plan)))
    say(LEVELS[level(found.plan)])
    if learn_sources.nobody(command):
        say(SIMULATED)


def _produce(command: Learn, found: Planned, world: World | None) -> None:
    watch = outcome.Stopwatch()
    data, played = _experts(command, world)
    if played is not None:
        learn_sources.require_enough(command, found.plan, played)
    asked = played.experts if played is not None and level(found.plan) == "policies" else None
    if asked is not None:
        require_policies(asked, data.spec, floor=least_floor(command))
    settings = {k: v for k, v in dataclasses.asdict(command).items() if k not in ("dry_run", "out")}
    simulated = data.simulated
    with RunFolder.attempt(command.out, "learn", settings, resume=None) as run, _ledger(command, found, run) as ledger:
        vault = Vault(data, ledger, experts=asked)
        with progress("Learning with privacy"), _spent(ledger):
            release = experts.learn(found.plan, vault, found.simulator, anchors=found.anchors)
        hub.save(release, run.inside(FOLDER), notes=_notes(world))
        outcome.certify(run, release.certificate)
        compared = played if simulated else None
        report = learn_report.report(command, found, release, world, compared, run.path.name)
        size = ("Parameters", f"{release.value.policy.parameters:,}")
        outcome.finish(run, dataclasses.replace(report, costs=(size, *watch.costs()) if simulated else ()))
    _closing(command, run, report, release)


def _experts(command: Learn, world: World | None) -> tuple[Trajectories, learn_sources.Played | None]:
    """The logs, and the policies that played them where that happened here."""
    if command.source is not None and learn_sources.is_logs(command.source):
        return learn_sources.logs(command), None
    assert world is not None
    played = learn_sources.played(command, world)
    with progress("Checking the logs"):
        return learn_sources.trajectories(played, world, simulated=learn_sources.nobody(command)), played


@contextmanager
def _ledger(command: Learn, found: Planned, run: RunFolder) -> Iterator[Ledger]:
    """The budget of the experts: beside their folder, or in the run's where they are simulated."""
    plan = found.plan
    assert plan.unit is not None
    assert plan.epsilon is not None
    if not command.simulates or command.ledger is not None:
        with open_ledger(dataclasses.replace(command, epsilon=plan.epsilon), plan.unit) as ledger:
            yield ledger
        return
    with Ledger(run.inside(LEDGER), plan.unit, epsilon=plan.epsilon, delta=command.delta) as ledger:
        yield ledger


@contextmanager
def _spent(ledger: Ledger) -> Iterator[None]:
    """Say of a refusal of the ledger what it means on the command line."""
    told = "a release that its budget covers"
    try:
        yield
    except PlanExhausted:
        what = "this very learning was begun before and is paid for, whether or not it came to its end"
        remedy = "keep its release; if it was interrupted and the budget allows another, give another --seed"
        raise PlanExhausted(what, where=str(ledger.path), expected=told, remedy=remedy) from None
    except BudgetExceeded:
        what = "the budget of these experts does not cover another learning"
        remedy = "keep the earlier release, or learn with the --epsilon and --delta that are left"
        raise BudgetExceeded(what, where=str(ledger.path), expected=told, remedy=remedy) from None


def _notes(world: World | None) -> dict[str, Any] | None:
    """What `tacit play` needs to know."""
    return None if world is None else {"environment": world.name, "horizon": world.evaluation, "repeat": 1}


def _closing(command: Learn, run: RunFolder, report: ExpertsReport, release: Release[Learned]) -> None:
    folder = run.path
    say()
    row = report.released
    if row is not None:
        say(f"Return   {row.mean:.5g}, {row.low:.5g} to {row.high:.5g} (95 % of the mean), in {report.world}")
    if report.consensus is not None:
        lengths = report.consensus.lengths
        some = int((lengths > 0).sum())
        say(f"Prefixes {int(lengths.sum()):,} steps in all, {some} of {len(lengths)} not empty")
    say(f"Open     {folder / outcome.REPORT}")
    say(f"Verify   tacit certificate verify {folder / outcome.CERTIFICATE}")
    if report.world is not None:
        say(f"Play     tacit play {folder / FOLDER}")
    say(f"Export   tacit export {folder / FOLDER} {FOLDER}.onnx")
    inside = command.simulates and command.ledger is None
    say(f"Budget   tacit ledger show {folder / LEDGER if inside else ledger_path(command)}")
