"""`tacit learn`: what experts logged, or their policies, in; one policy with its certificate out."""

from __future__ import annotations

import dataclasses
from typing import Any

from tacit import hub
from tacit.cli import learn_report, learn_sources, outcome, payable
from tacit.cli.budget import ledger_path
from tacit.cli.console import Interrupted, progress, say
from tacit.cli.expert_commands import Learn
from tacit.cli.folders import RunFolder, require_free
from tacit.cli.learn_options import require_sound
from tacit.cli.learn_words import Planned, least_floor, opened, planned, unit
from tacit.data.trajectories import Trajectories
from tacit.envs.populations import World
from tacit.evaluation.report import ExpertsReport
from tacit.hub.experts import level
from tacit.methods import experts
from tacit.methods.experts import Learned
from tacit.methods.experts.anchors import require_policies
from tacit.methods.experts.published import claimed
from tacit.privacy.vault.vault import Vault

FOLDER = "policy"
SIMULATED = "The experts are simulated: nobody is behind them, and the certificate and the report say so."
GUESSED = (
    "Of logs that are not opened two actions are assumed, and one number to observe: with others the bound of a norm "
    "is another, the noise multiplier and the promise are not."
)
WORDS = payable.Words(
    people="experts",
    doing="learning",
    done="learned from",
    do="learn",
    anew="give another --seed, or slightly less --epsilon",
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
        found = planned(command, None, world)
        learn_sources.require_enough(command, found.plan)
        _promise(command, found)
        if world is None:
            say(GUESSED)
        say("Dry run: no file was opened and nothing was spent.")
        return
    learn_sources.require_source(command, world)
    found = planned(command, learn_sources.spec_of(command, world), world)
    learn_sources.require_enough(command, found.plan)
    payable.require_payable(command, found.plan, WORDS)
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
    data, played = _experts(command, found, world)
    asked = played.experts if played is not None and level(found.plan) == "policies" else None
    if asked is not None:
        require_policies(asked, data.spec, floor=least_floor(command))
    settings = {k: v for k, v in dataclasses.asdict(command).items() if k not in ("dry_run", "out")}
    simulated = data.simulated
    with RunFolder.attempt(command.out, "learn", settings, resume=None) as run:
        with payable.opened(command, found.plan, run) as ledger:
            vault = Vault(data, ledger, experts=asked)
            with progress("Learning with privacy"), payable.spending(ledger, WORDS):
                release = experts.fit(found.plan, vault, found.simulator, anchors=found.anchors)
            hub.save(release, run.inside(FOLDER), notes=_notes(world))
            outcome.certify(run, release.certificate)
        report = learn_report.report(command, found, release, world, run.path.name)
        outcome.finish(run, report)
        if world is not None:
            report = _compared(run, report, command, found, release.value, world, played if simulated else None)
            size = ("Parameters", f"{release.value.policy.parameters:,}")
            report = dataclasses.replace(report, costs=(size, *watch.costs()) if simulated else ())
            outcome.finish(run, report)
    _closing(command, run, report)


def _compared(
    run: RunFolder,
    report: ExpertsReport,
    command: Learn,
    found: Planned,
    value: Learned,
    world: World,
    played: learn_sources.Played | None,
) -> ExpertsReport:
    """The report with what the policy returns; an interruption leaves the one without.

    Raises:
        KeyboardInterrupt: as it came; an `Interrupted` says what is there already.
    """
    try:
        return learn_report.compared(report, command, found, value, world, played)
    except KeyboardInterrupt:
        done = f"the policy is released and saved in {run.inside(FOLDER)}"
        raise Interrupted(f"{done}, and {run.inside(outcome.REPORT)} lacks its returns alone") from None


def _experts(command: Learn, found: Planned, world: World | None) -> tuple[Trajectories, learn_sources.Played | None]:
    """The logs, and the policies that played them where that happened here."""
    if command.source is not None and learn_sources.is_logs(command.source):
        return learn_sources.logs(command), None
    assert world is not None
    played = learn_sources.played(command, found.plan, world)
    with progress("Checking the logs"):
        return learn_sources.trajectories(played, world, simulated=learn_sources.nobody(command)), played


def _notes(world: World | None) -> dict[str, Any] | None:
    """What `tacit play` needs to know."""
    return None if world is None else {"environment": world.name, "horizon": world.evaluation, "repeat": 1}


def _closing(command: Learn, run: RunFolder, report: ExpertsReport) -> None:
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
    ledger = folder / payable.LEDGER if payable.inside(command) else ledger_path(command)
    say(f"Budget   tacit ledger show {ledger}")
