"""`Study.imitate`: a simulator of how people move, from which days are drawn at no further cost."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from tacit.methods import find_method, list_names
from tacit.study import words
from tacit.study.verbs import Request, make_tracker

if TYPE_CHECKING:
    import numpy as np

    from tacit.data.mobility.days import Days
    from tacit.data.mobility.grids import Grid
    from tacit.data.trajectories import Trajectories
    from tacit.evaluation.movement.divergences import MapAdvice
    from tacit.evaluation.report import Report
    from tacit.methods.mobility import OneShotPlan, Simulator
    from tacit.methods.mobility.baselines import BaselinePlan, BlockChain
    from tacit.methods.mobility.pategail import PateGailPlan
    from tacit.privacy.certificate.certificate import Release
    from tacit.privacy.ledger.ledger import Ledger
    from tacit.privacy.vault.federated_vault import FederatedVault
    from tacit.privacy.vault.vault import Vault
    from tacit.study.account import Account
    from tacit.study.folder import RunFolder
    from tacit.study.verbs import Curator
    from tacit.study.words import Narrator

    Plan = OneShotPlan | BaselinePlan | PateGailPlan
    Generator = Simulator | BlockChain

FOLDER, CHECKPOINT, MAP = "simulator", "checkpoint", "map.html"
DAYS = 10_000
"""Of each side, as many are compared at most."""
REASON = "measures of movement"
option_error, no_effect_error = partial(words.option_error, "imitate"), partial(words.no_effect_error, "imitate")


def imitate(
    curator: Curator,
    /,
    *,
    epsilon: float,
    delta: float | None = None,
    method: str = "one-shot",
    critics: Literal["linear", "table", "samples", "gradient"] | None = None,
    noise: Literal["server", "shared", "device"] = "server",
    homes: tuple[float, float, float, float] | None = None,
    days: int | None = None,
    seed: int = 0,
    nonprivate_diagnostics: bool = False,
    resume: bool = False,
    yes: bool = False,
    out: Path | None = None,
    track: Path | None = None,
    **settings: Any,
) -> Request[Generator]:
    """Learn a simulator of movement from people's whereabouts, with differential privacy for every person.

    Args:
        epsilon: the promise to every person, for all that this run releases.
        delta: slack of the promise, below 1 / population; by default a tenth of that.
        method: "one-shot" imitates one noisy release; to compare with: "table", "epr", "markov", "timegeo", and
            "pategail" (PateGAIL++, critics that never leave their people's devices).
        critics: what critics are asked (pategail); by default linear.
        noise: who adds it: the server, all devices together (shared), or each device for itself (device).
        homes: public SOUTH WEST NORTH EAST that is declared to hold nearly all homes (one-shot).
        days: most days of one person that are read, the first ones. A city has so many of each.
        seed: of simulated people and of played days (never of the privacy noise, which is secret).
        nonprivate_diagnostics: also compare with the records WITHOUT privacy, for the curator, under OUT/private/.
        resume: go on with a run that was interrupted, after its release or (pategail) between its rounds; give the
            same options.
        yes: carry out also what will teach nothing for its noise, which is refused otherwise.
        out: folder of the run; it will hold nothing private but what lies under OUT/private/.
        track: file for the length of every value that leaves a mechanism, one JSON object a step; this costs no
            privacy.
        settings: fields of the method's plan.

    Raises:
        TacitError: a word is wrong, or the ledger does not pay; nothing is spent before the imitation begins.
    """
    from tacit.study.account import VerbPhrases
    from tacit.study.advice import Advice
    from tacit.study.durations import imitation_duration
    from tacit.study.folder import SIMULATED, require_free

    source, movement = curator.source, curator.source.movement
    if movement is None:
        expected = "days, or points with a public grid (box= and cell=, or grid=) and the time zone of the days (zone=)"
        remedy = "tell the study how they become days"
        raise option_error("these records do not say where people were", expected, remedy)
    if method not in list_names("imitate"):
        raise option_error(f"there is no method {method!r}", f"one of {', '.join(list_names('imitate'))}", "name one")
    words.require_minimum("imitate", {"days": days, "seed": seed, **settings}, seed=0, days=1, rounds=1, floor=1)
    for name, value, of in (
        ("critics", critics, "pategail"),
        ("homes", homes, "one-shot"),
        ("rounds", settings.get("rounds"), "pategail"),
    ):
        if value is not None and method != of:
            raise no_effect_error(name, f"--method {of}, not {method}")
    if noise != "server" and method not in ("one-shot", "pategail"):
        raise no_effect_error(f"--noise {noise}", f"--method one-shot or pategail, not {method}")
    if "floor" in settings and noise != "shared":
        raise no_effect_error("--floor", "--noise shared")
    if nonprivate_diagnostics and source.simulated:
        expected = "real records: the report compares with simulated ones anyhow"
        raise no_effect_error("--nonprivate-diagnostics", expected)
    if nonprivate_diagnostics and (method == "pategail" or noise != "server"):
        expected = "records that one vault holds: --noise server and a method other than pategail"
        raise no_effect_error("--nonprivate-diagnostics", expected)
    promise = {"unit": curator.unit, "epsilon": epsilon, "delta": curator.delta(delta)}
    fields = {"critics": critics, "noise": noise, "homes": homes, "days": days or movement.days_each, **settings}
    plan = _plan(method, promise, fields)
    if movement.choose is not None:
        # no advice where no homes are released: then no map can be read
        source = movement.choose(lambda grid: any(one.usable for one in advice(plan, grid)[:1]))
        curator = dataclasses.replace(curator, source=source)
        movement = curator.source.movement
        assert movement is not None
    grid = movement.grid
    assert grid is not None
    _require_grid(plan, grid)

    if out is not None:
        require_free(out, resume=resume)
    phrases = VerbPhrases("people", "imitation", "made of", "imitate")
    account = curator.account(phrases, plan.epsilon or epsilon, curator.delta(delta), resumes=True)
    if not resume:
        account.require_payable(plan)

    def carry_out(options: Mapping[str, Any]) -> Release[Generator]:
        if nonprivate_diagnostics and out is None:
            raise no_effect_error("--nonprivate-diagnostics", "it with --out, in whose private/ they are kept")
        job = _Imitation(curator, plan, grid, account, method, seed, resume, nonprivate_diagnostics, track)
        return job.carry_out(out, options)

    from tacit.evaluation.movement.divergences import BY_DAY
    from tacit.methods.mobility.blocks import side_km

    name = curator.unit.noun
    public = f"what most {name}s have in common, and the rules by which records became days"
    promised = f"Protected: everything of one {name}. Not protected: {public}."
    more = (
        f"Public grid: {grid.size:,} cells of about {1000 * side_km(grid):,.0f} m.",
        promised,
        *((f"The people {SIMULATED}",) if source.simulated else ()),
    )
    foreseen = Advice(
        plan,
        lambda plan: advice(plan, grid)[:1],  # of where days pass; pairs of cells are far noisier anyhow
        "a larger --cell (--cell auto takes the smallest that can be read)",
        (*(one.to_sentence() for one in advice(plan, grid)[1:]), *[BY_DAY] * (getattr(plan, "model", "") != "markov")),
        duration=imitation_duration(plan),
        accepted=yes or source.simulated,
    )
    return Request(plan, carry_out, more, advice=foreseen)


@dataclasses.dataclass(frozen=True)
class _Imitation:
    curator: Curator
    plan: Plan
    grid: Grid
    account: Account
    method: str
    seed: int
    resume: bool
    diagnose: bool
    track: Path | None

    def carry_out(self, out: Path | None, options: Mapping[str, Any]) -> Release[Generator]:
        """The release, also of a run that had made it when it was interrupted."""
        from tacit import hub
        from tacit.study.folder import RunFolder, Stopwatch, certify, finish

        if self.method == "pategail":
            import_module("tacit.privacy.ledger.checkpoint")  # misses torch before the ledger pays
        watch, people = Stopwatch(), self.curator.source.movement
        assert people is not None
        with RunFolder.attempt_optional(out, "imitate", options, resume=self.resume) as run:
            done = run is not None and run.resolve(FOLDER).exists()
            if run is not None and run.read()["finished"]:
                self.curator.narrator.say("The run was finished already.")
            release = hub.load(run.resolve(FOLDER)) if run is not None and done else self.make_release(run)
            if run is not None and not run.read()["finished"]:
                run.remove(CHECKPOINT)
                certify(run, release.certificate)
                page = self.report(release, None if people.days is None else people.days(), run)
                finish(run, dataclasses.replace(page, costs=() if people.days is None else watch.costs()))
        _tell(self.curator.narrator, release, run, self.account)
        return release

    def make_release(self, run: RunFolder | None) -> Release[Generator]:
        """The release, saved; an interruption that leaves nothing to go on from says what is lost."""
        from tacit import hub
        from tacit.data.trajectories import receipt_of
        from tacit.study.words import Interrupted

        source = self.curator.source
        if self.resume:
            self.account.require_payable(self.plan, resumed=_has_checkpoint(run))
        with self.curator.narrator.progress("Opening the records"):
            data = source.open()
        with self.account.open_ledger(run, receipt_of(data)) as ledger:
            vault, before = make_vault(self.plan, data, ledger, self.track), len(ledger.entries())
            try:
                title = "Asking people's critics" if self.method == "pategail" else "Imitating with privacy"
                release = self.fit_plan(self.plan, vault, title, None if run is None else run.resolve(CHECKPOINT))
                if run is not None:
                    zone = source.movement and source.movement.zone
                    hub.save(release, run.resolve(FOLDER), notes=None if zone is None else {"zone": zone})
            except KeyboardInterrupt:
                if len(ledger.entries()) == before or _has_checkpoint(run):
                    raise
                charged = f"what was charged stays charged (see tacit ledger show {ledger.path})"
                nobody = "nobody's budget is lost: begin again with another folder"
                lost = nobody if self.account.ledger_in_run else f"{charged}, and this imitation is lost"
                raise Interrupted(lost) from None
            if self.diagnose and run is not None:
                _run_diagnostics(vault, release.value, run)
        return release

    def fit_plan(
        self, plan: Plan, vault: Vault | FederatedVault, title: str, folder: Path | None = None
    ) -> Release[Generator]:
        """The release of a plan; `folder` is where a method of many rounds keeps its checkpoints."""
        from tacit.methods import mobility
        from tacit.methods.mobility import baselines, pategail

        with self.curator.narrator.progress(title) as advance:
            if isinstance(plan, pategail.PateGailPlan):
                rounds: dict[str, Any] = {"folder": folder, "resume": self.resume, "progress": advance}
                return pategail.fit(plan, vault, grid=self.grid, seed=self.seed, **rounds)  # type: ignore[arg-type, return-value]
            if isinstance(plan, mobility.OneShotPlan):
                return mobility.fit(plan, vault, grid=self.grid, seed=self.seed)  # type: ignore[return-value]
            return baselines.fit(plan, vault, grid=self.grid)

    def report(self, release: Release[Generator], people: Days | None, run: RunFolder) -> Report:
        """The page, with simulated people to compare with; the map that it names is written."""
        import numpy as np

        from tacit.evaluation.movement import divergences, maps
        from tacit.evaluation.report import Report, movement
        from tacit.methods.mobility.plan import forbidden_uses
        from tacit.study.account import temporary_ledger
        from tacit.study.folder import VERIFY

        progress, lines = self.curator.narrator.progress, list[Any]()
        with progress("Drawing days"):
            drawn = release.value.generate(DAYS, seed=self.seed + 1)
        panels = [maps.Panel("Drawn days", drawn, "synthetic")]
        if people is not None:
            # what another plan makes of simulated days, under a ledger that is thrown away
            noise_plan = _noise_only_plan(self.plan)
            with temporary_ledger(noise_plan) as ledger:
                vault = make_vault(noise_plan, people.trajectories(simulated=True), ledger)
                fresh = dataclasses.replace(self, resume=False)
                control = fresh.fit_plan(noise_plan, vault, "Imitating noise alone").value
            noise = control.generate(DAYS, seed=self.seed)
            with progress("Comparing with the simulated people"):
                days = type(people)(people.cells[:DAYS], people.person[:DAYS], people.grid)
                for metrics in ("sequence", "robust"):
                    lines += divergences.compare_measures(days, drawn, metrics=metrics, control=noise)
            # Of every kind: a map of the first few people would show their homes alone.
            sample = np.unique(np.linspace(0, len(people.cells) - 1, min(DAYS, len(people.cells))).astype(np.int64))
            panels.append(
                maps.Panel(
                    "Simulated people",
                    type(people)(people.cells[sample], people.person[sample], people.grid),
                    "simulated",
                )
            )
        advised, certificate = advice(self.plan, release.value.grid), release.certificate.to_json()
        with progress("Drawing the map"):
            page = maps.render(
                panels,
                title=f"Simulated movement: {run.path.name}",
                promise=release.certificate.sentence,
                cautions=forbidden_uses(certificate) or movement.unusable_notes(certificate, advised),
            )
        run.write(MAP, page)
        sections = movement.sections(
            certificate,
            method=find_method("imitate", self.method).words,
            days=DAYS,
            advice=advised,
            lines=lines,
            picture=movement.picture(drawn),
            noise=rhythm_noise(self.plan),
            map=MAP,
        )
        return Report(title=run.path.name, certificate=certificate, sections=sections, verify=VERIFY)


def _plan(method: str, promise: dict[str, Any], fields: dict[str, Any]) -> Plan:
    from tacit.data.mobility.days import SLOTS
    from tacit.methods import mobility
    from tacit.methods.mobility import baselines, pategail

    options = {name: value for name, value in fields.items() if value is not None}
    critics, homes, noise = options.pop("critics", "linear"), options.pop("homes", None), options.pop("noise")
    if method == "one-shot":
        return mobility.OneShotPlan(box=homes, noise=noise, **options).calibrate(**promise)
    if method == "pategail":
        epsilon, days = promise["epsilon"], options.pop("days", None)
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise option_error(f"--epsilon is {epsilon:g}", "a finite number > 0", "choose another one")
        rows = {} if days is None else {"rows_per_unit": days * (SLOTS - 1)}
        recipe = pategail.recipe(critics, promise["unit"].size, epsilon)
        return dataclasses.replace(recipe, noise=noise, **options, **rows).calibrate(**promise)
    if method == "table":  # with as many states as the one-shot method would take
        options["layout"] = mobility.OneShotPlan(**options).calibrate(**promise).layout
    return baselines.BaselinePlan(model=method, **options).calibrate(**promise)  # type: ignore[arg-type]


def _require_grid(plan: Plan, grid: Grid) -> None:
    """Refuse a plan that would fail on this grid, before the records are read."""
    from tacit.errors import DataError
    from tacit.methods import mobility

    if isinstance(plan, mobility.OneShotPlan):
        try:
            mobility.build_contributions(plan, grid)
        except DataError as error:
            remedy = "mend --homes, or leave it out"
            raise DataError(error.what, where="--homes", expected=error.expected, remedy=remedy) from None


def _noise_only_plan(plan: Plan) -> Plan:
    from tacit.methods.mobility import pategail

    # A linear critic has no such control, and that of a table of rewards takes its place.
    if not isinstance(plan, pategail.PateGailPlan) or plan.kind != "linear":
        return dataclasses.replace(plan, zero_contribution=True)
    unit, epsilon, delta = plan.unit, plan.epsilon, plan.delta
    table = dataclasses.replace(pategail.recipe("table", plan.people, epsilon), noise=plan.noise, floor=plan.floor)
    rows = {"rounds": plan.rounds, "rows_per_unit": plan.rows_per_unit}
    silent = dataclasses.replace(table, zero_contribution=True, **rows)  # type: ignore[arg-type]
    return silent.calibrate(unit=unit, epsilon=epsilon, delta=delta)


def make_vault(plan: Plan, data: Trajectories, ledger: Ledger, track: Path | None = None) -> Vault | FederatedVault:
    """The vault whose mechanisms the plan needs: one over devices where these add noise or keep critics.

    Raises:
        DataError: there are more people than the population.
    """
    from tacit.privacy.vault.devices import StackedDevices
    from tacit.privacy.vault.federated_vault import FederatedVault
    from tacit.privacy.vault.vault import Vault

    if getattr(plan, "noise", "server") != "server" or hasattr(plan, "critic"):
        return FederatedVault(StackedDevices(data), ledger, tracker=make_tracker(track))
    return Vault(data, ledger, tracker=make_tracker(track))


def _has_checkpoint(run: RunFolder | None) -> bool:
    return run is not None and (run.path / CHECKPOINT / "checkpoint.safetensors").exists()


def advice(plan: Plan, grid: Grid) -> tuple[MapAdvice, ...]:
    """Which maps can be read, from the known noise of where days begin."""
    from tacit.evaluation.movement.divergences import map_advice
    from tacit.methods import mobility
    from tacit.methods.mobility import pategail
    from tacit.methods.mobility.places import CLIP, STARTS, HomeSums

    if isinstance(plan, mobility.OneShotPlan) and not plan.shares.starts:
        return ()
    if isinstance(plan, mobility.OneShotPlan | pategail.PateGailPlan):
        noise = plan.noise_std(STARTS)
    else:
        noise = (plan.part_noise_multiplier(STARTS) or 0.0) * CLIP / plan.unit.size
    if HomeSums.for_people(grid, plan.unit.size, noise).farther is not None:
        noise *= math.sqrt(2)
    return map_advice(noise, grid.size)


def rhythm_noise(plan: Plan) -> float:
    """Standard deviation of the known noise in the share of days that move in a half-hour; infinite if none is known.

    It adds up over the states of a block of the day and the four actions that move; one block knows no time of day.
    """
    from tacit.methods import mobility
    from tacit.methods.mobility import pategail
    from tacit.methods.mobility.moves import CLIP, MOVES_PART

    if isinstance(plan, mobility.OneShotPlan):
        layout, noise = plan.layout, plan.noise_std(MOVES_PART)
    elif isinstance(plan, pategail.PateGailPlan) or plan.model != "table":
        return math.inf
    else:
        layout, noise = plan.layout, (plan.part_noise_multiplier(MOVES_PART) or 0.0) * CLIP / plan.unit.size
    return math.inf if layout is None or layout.times == 1 else noise * math.sqrt(4 * layout.size * layout.times)


def _run_diagnostics(vault: Vault | FederatedVault, simulator: Generator, run: RunFolder) -> None:
    """The curator's own figures, under private/, noted in the ledger."""
    import numpy as np

    from tacit.data.mobility.days import SLOTS, Days
    from tacit.evaluation.movement import divergences
    from tacit.privacy.vault.vault import Vault

    run.resolve("private")
    drawn = simulator.generate(DAYS, seed=0)

    def measure(rows: Mapping[str, np.ndarray]) -> dict[str, Any]:
        seen, following = (rows[name].reshape(-1, SLOTS - 1) for name in ("observations", "next_observations"))
        cells = np.concatenate([seen, following[:, -1:]], axis=1)
        real = Days(cells, np.arange(len(cells)), simulator.grid)
        return {name: divergences.divergences(real, drawn, metrics=name) for name in get_args(divergences.MetricSet)}

    assert isinstance(vault, Vault)
    vault.nonprivate(measure, reason=REASON, folder=run.path)


def _tell(narrator: Narrator, release: Release[Generator], run: RunFolder | None, account: Account) -> None:
    from tacit.methods.mobility.plan import forbidden_uses
    from tacit.study.folder import say_private

    if run is not None and (run.path / "private").exists():
        say_private(run, narrator)
    narrator.say()
    for line in forbidden_uses(release.certificate.to_json()):
        narrator.say(f"Caution  {line}.")
    more = []
    if run is not None:
        more = [f"Map      {run.path / MAP}", f"Days     tacit generate {run.path / FOLDER} --days 1000 --out days.csv"]
    account.tell(run, *more)
