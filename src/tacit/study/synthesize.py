"""`Study.synthesize`: a synthetic dataset in place of private records, and the synthesizer that draws more of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import DataError, HardwareError
from tacit.methods import find_method, list_names, load
from tacit.study import synthesis_report, words
from tacit.study.synthesis_report import CLINIC, MODEL, RowsFormat, SynthesisJob
from tacit.study.verbs import Request, make_tracker
from tacit.units import RowsShape

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories
    from tacit.privacy.certificate.certificate import Release
    from tacit.study.folder import RunFolder
    from tacit.study.records import Source
    from tacit.study.verbs import Curator

AUTO = "auto"
"""The method that is best for the records, by what is public of them."""
FEW = 8_000
"""Of people times epsilon: with fewer, the effects of `people` are as uncertain as they are large."""
CHECKPOINT = "checkpoint"
TRAINING = "Training with privacy"
"""A phase of a run."""
_COUNTS = {"rows": 100_000, "trajectories": 1_000}
"""Written where no number is asked for."""
option_error, no_effect_error = partial(words.option_error, "synthesize"), partial(words.no_effect_error, "synthesize")


def synthesize(
    curator: Curator,
    /,
    *,
    epsilon: float,
    delta: float | None = None,
    method: str = AUTO,
    public: Path | None = None,
    provenance: str | None = None,
    paper: bool = False,
    expected_batch_size: float | None = None,
    curiosity_rate: float | None = None,
    no_match: bool = False,
    choose: tuple[str, ...] = (),
    device: str = "cpu",
    rows: int | None = None,
    trajectories: int | None = None,
    format: RowsFormat = "parquet",
    shape: RowsShape = "pairs",
    world: str | None = None,
    holdout: Path | None = None,
    nonprivate_diagnostics: bool = False,
    seed: int = 0,
    resume: bool = False,
    yes: bool = False,
    out: Path | None = None,
    track: Path | None = None,
    **settings: Any,
) -> Request[Any]:
    """Learn a synthesizer with differential privacy, and write a synthetic dataset and its certificate.

    The rows of `--method privorl` are single steps. Where a unit owns several records (a patient, an episode), many of
    them enter a noisy gradient at once, and noisy histograms weight the rows. Whole trajectories come from `privorl-j`.

    Args:
        epsilon: the promise to every unit, for all that this run releases.
        delta: slack of the promise, below 1 / population; by default a tenth of that.
        method: "auto", which takes "people" where these own several rows of named columns that are not all numbers,
            "structured" where rows of few numbers are units and there are --public ones, and else "privorl". "people"
            are whole people from structured noisy tables, with columns that never change and as many visits as people
            have; "structured" are single steps from such tables, which public records choose; "privorl" is a diffusion
            model of single steps, "privorl-j" one of whole trajectories. To compare with: "mst", "aim" and "pgm"
            (graphical models of noisy marginals), "privsyn" (noisy marginals, gradually adapted), "pate-gan" and
            "pre-pate-gan" (a generator that learns from noisy votes of teachers; the latter begins with public
            records).
        public: folder of public records of the same shape to pre-train on, or to choose bins by. They are never
            compared with the private ones: what becomes of a run does not depend on who is on both sides.
        provenance: where the public records come from and why they hold no private one; it is printed in the
            certificate.
        paper: the published settings of privorl or privorl-j, with millions of parameters (for an accelerator), not
            ours.
        expected_batch_size: expected number of units in a noisy gradient.
        curiosity_rate: share of each public batch that novel generated rows replace in privorl's pre-training, with
            --public (the paper's curiosity; its rate is 0.3).
        no_match: leave out the noisy histograms of the rows that privorl and privorl-j release besides the model,
            within the same promise, and by which they weight what is sampled. With --public, their bins are cut by the
            public records.
        choose: settings of privorl to choose from by the records themselves, each as NAME=VALUE,VALUE: all combinations
            are candidates, of which a secret number is run and the best released, within the same promise. Names:
            steps, expected-batch-size, clip-norm, rows-per-unit, noise-multiplicity, learning-rate, curiosity-rate. It
            takes about ten times as long; how long exactly must not become known, and it cannot be resumed.
        device: where the diffusion model is trained and sampled: cpu, or an accelerator such as cuda.
        rows: how many synthetic transitions to write; 100,000 by default.
        trajectories: how many synthetic trajectories to write, for people and privorl-j; 1,000 by default.
        format: of the synthetic rows: "parquet" (OUT/rows.parquet), "csv", "npz", "minari" or "folder" (tacit's own).
        shape: of a parquet or csv file, "pairs" of what was observed before and after every step, or "visits", one row
            each, as most exports have them.
        world: the simulator that the records are of, a maze (umaze, medium ...) or "clinic": the report draws what was
            synthesized in it, and compares it with its steps.
        holdout: folder of records of the same kind that nothing is learned from, to see whether records were copied.
        nonprivate_diagnostics: also compute closeness to the records WITHOUT privacy for the curator, under
            OUT/private/.
        seed: of sampling and public pre-training (never of the privacy noise, which is secret).
        resume: go on with a run that was interrupted; give the same options.
        yes: carry out also what will teach nothing for its noise, which is refused otherwise.
        out: folder of the run; it will hold nothing private but what lies under OUT/private/.
        track: file for the length of every value that leaves a mechanism, one JSON object a step; this costs no
            privacy.
        settings: fields of the method's plan.

    Raises:
        TacitError: a word is wrong, or the ledger does not pay; nothing is spent before the training begins.
    """
    from tacit.data.store import read_public
    from tacit.data.trajectories import Trajectories, copied_ends_error
    from tacit.study import synthesis_plans as plans
    from tacit.study.account import VerbPhrases
    from tacit.study.advice import Advice, synthesis_figures, synthesis_notes
    from tacit.study.durations import synthesis_duration
    from tacit.study.folder import Stopwatch, require_free, require_packages
    from tacit.validation import require_valid

    source, said = curator.source, tuple[str, ...]()
    if method == AUTO:
        own: dict[str, Any] = {"paper": paper, "public": public, "rows": rows, "no_match": no_match, "choose": choose}
        own |= {"expected_batch_size": expected_batch_size, "curiosity_rate": curiosity_rate, **settings}
        own |= {"device": device != "cpu"}
        method, why = plans.choose_method(source.kind, source.spec, {name for name, value in own.items() if value})
        said = (f"Method: {method}, since {why}; --method names another.",)
    if method not in list_names("synthesize"):
        expected = f"{AUTO}, or one of {', '.join(list_names('synthesize'))}"
        raise option_error(f"there is no method {method!r}", expected, "name one")
    method_settings = {**settings, "expected_batch_size": expected_batch_size, "curiosity_rate": curiosity_rate}
    method_settings = {name: value for name, value in method_settings.items() if value is not None}
    more = {"public": public, "provenance": provenance, "rows": rows, "trajectories": trajectories}
    options = plans.SynthesisOptions(
        method=method,
        unit=curator.unit,
        epsilon=epsilon,
        settings=method_settings,
        given_names=(*method_settings, *(name for name, value in more.items() if value is not None)),
        paper=paper,
        match=not no_match,
        choose=choose,
        provenance=provenance,
        spec=source.spec,
        unit_is_row=source.kind == "transition",
    )
    options.require_meaning()
    warning = None
    if method == plans.PEOPLE and curator.unit.size * epsilon < FEW:
        warning = f"Few {curator.unit.noun}s for this epsilon.", "How actions change what follows will hardly be told."
        said += (" ".join(warning),)
    if source.copied_ends and method not in plans.WHOLE_METHODS:
        if source.open_steps is None:
            raise copied_ends_error(source.name)
        curator = dataclasses.replace(curator, source=dataclasses.replace(source, open=source.open_steps))
        said += ("Nothing is learned from the last row of an episode that is cut: its next observation is not known.",)
    if device != "cpu" and method not in plans.DIFFUSION_METHODS:
        expected = f"it with {' or '.join(plans.DIFFUSION_METHODS)}, the methods that an accelerator makes faster"
        raise no_effect_error("--device", expected)
    if nonprivate_diagnostics and curator.lead.ranks is not None:
        raise no_effect_error("--nonprivate-diagnostics", "it with one process: none of several holds all records")
    what = "trajectories" if method in plans.WHOLE_METHODS else "rows"
    count = next((number for number in (rows, trajectories) if number is not None), _COUNTS[what])
    if count < 1:
        wrong, expected = f"the number of synthetic {what} is below 1", f"--{what} of at least 1"
        raise DataError(wrong, where="synthesize", expected=expected, remedy="choose another number")
    _require_machine(method, device)
    if out is not None:
        synthesis_report.require_folder(out, "synthesize")
        require_packages("jinja2", "safetensors")
        synthesis_report.require_format(format, shape, count, what, "synthesize")
        require_free(out, resume=resume)
    _require_records(source, method, world, holdout, diagnose=nonprivate_diagnostics)
    if public is not None:
        _require_other_records(public, source, "public")
        if method != plans.PRIVORL_J and read_public(public).copied_ends:
            raise copied_ends_error(str(public))
    records = None if public is None else Trajectories.open(public)
    options = dataclasses.replace(options, public=records)
    options.require_public()

    slack, resumes = curator.delta(delta), method in plans.DIFFUSION_METHODS and not choose and out is not None
    phrases = VerbPhrases(f"{curator.unit.noun}s", "synthesis", "learned from", "synthesize")
    account = curator.account(phrases, epsilon, slack, resumes=resumes)
    require_valid("epsilon", epsilon, 0 < epsilon < math.inf, "a finite number > 0")
    released = resume and out is not None and (out / MODEL).exists()
    if not released:
        account.require_same_terms()
    candidates = plans.list_candidates(options)
    with curator.narrator.progress("Calibrating the noise"):
        plan = plans.build_choice_plan(tuple(candidates.values())) if choose else plans.build_plan(options)
        plan = plan.calibrate(unit=curator.unit, epsilon=epsilon, delta=slack)
    if not released:
        account.require_payable(plan, resumed=resume)
    needs_folder = {**more, "world": world, "holdout": holdout, "nonprivate_diagnostics": nonprivate_diagnostics}
    needs_folder = {**needs_folder, "resume": resume, "public": None, "provenance": None}
    job = SynthesisJob(
        method=method,
        plan=plan,
        account=account,
        candidates=tuple(candidates),
        public=records,
        device=device,
        seed=seed,
        count=count,
        format=format,
        shape=shape,
        world=world,
        holdout=holdout,
        diagnose=nonprivate_diagnostics and not source.simulated,
        compares=source.simulated and curator.lead.ranks is None,
        warning=warning,
        resume=resume,
        out=out,
        track=track,
        folder_option=next((name for name, value in needs_folder.items() if value), None),
        watch=Stopwatch(),
    )
    foreseen = Advice(
        plan,
        synthesis_figures,
        "fewer columns, or coarser labels",
        synthesis_notes(plan, source.spec),
        synthesis_duration(plan, source.spec, count),
        accepted=yes or source.simulated,
    )
    return Request(plan, partial(release, curator, job), said, advice=foreseen)


def release(curator: Curator, job: SynthesisJob, options: Mapping[str, Any]) -> Release[Any]:
    """Open the records, reserve, train, release, sample and save.

    Args:
        curator: of the study.
        asked: what is learned, and what is written of it.
        options: that a run is resumed with.

    Raises:
        TacitError: the records are damaged, the ledger does not pay, or the training failed.
        ModuleNotFoundError: a package is missing that the release is written with.
    """
    from tacit import hub
    from tacit.data.trajectories import receipt_of
    from tacit.study.folder import RunFolder

    if job.out is None and job.folder_option is not None:
        raise no_effect_error(job.folder_option, "it with --out, the folder of a run")
    narrator, learned, drawn = curator.narrator, None, None
    with narrator.progress("Opening the records"):
        data, _ = curator.source.open(), job.other_records
        if job.method == "privorl-j":
            data.require_ends()
    with RunFolder.attempt_optional(job.out, job.command, options, resume=job.resume) as run:
        if run is not None and run.resolve(MODEL).exists():
            learned = hub.load(run.resolve(MODEL))
        if run is not None and run.read()["finished"] and learned is not None:
            narrator.say("The run was finished already.")
            synthesis_report.say_outputs(job, run, learned)
            return learned
        if learned is None or job.diagnose:
            ledger = job.account.open_ledger(run, None if curator.lead.ranks else receipt_of(data))
            with ledger as opened, curator.lead.vault(data, opened, make_tracker(job.track)) as vault:
                if learned is None:
                    fit, settings = _fit(curator, job, run)
                    title = f"{TRAINING}, a secret number of times" if job.candidates else TRAINING
                    with job.watch.phase(TRAINING), narrator.progress(title) as advance:
                        shown = {} if job.candidates else {"progress": advance}
                        learned = fit(job.plan, vault, **settings, **shown)
                    if job.candidates:
                        best = job.candidates[learned.choice.candidate]
                        narrator.say(f"Chosen of {len(job.candidates):,} candidates: {best}")
                    if run is not None:
                        hub.save(learned, run.resolve(MODEL))
                        run.remove(CHECKPOINT)  # which a release needs no more
                if run is not None and job.diagnose:
                    drawn = synthesis_report.publish(job, run, learned)
                    synthesis_report.run_diagnostics(job, run, vault, drawn)
        if run is not None:
            synthesis_report.write(job, run, learned, drawn, data)
    return learned


def _fit(curator: Curator, job: SynthesisJob, run: RunFolder | None) -> tuple[Any, dict[str, Any]]:
    """What learns by the plan, and its settings; networks are trained on the public records first."""
    from tacit.study.synthesis_plans import DIFFUSION_METHODS, STRUCTURED

    plan, method = job.plan, find_method("synthesize", job.method)
    starts: dict[Any, Any] = {}
    if job.public is not None and method.public == "training":
        with job.watch.phase("Public pre-training"):
            for one in plan.candidates if job.candidates else (plan,):
                if one.pretraining not in starts:
                    starts[one.pretraining] = _start(curator, job, one, job.public)
    if job.candidates:
        from tacit.methods import synthesis

        attempt = partial(synthesis.fit, pretrained=starts or None, device=job.device)
        return load(find_method("synthesize", "choose").fit), {"attempt": attempt, "judge": synthesis.Closeness()}
    settings: dict[str, Any] = {"pretrained": starts[plan.pretraining]} if starts else {}
    if job.method in DIFFUSION_METHODS:
        folder = None if run is None else run.resolve(CHECKPOINT)
        settings |= {"folder": folder, "resume": job.resume, "device": job.device}
    else:
        settings["seed"] = job.seed
    if job.method == STRUCTURED and job.public is not None:
        from tacit.methods.synthesis.structured import public_means, split_worlds

        settings["means"] = public_means(plan.structure, split_worlds(job.public))
    return load(method.fit), settings


def _start(curator: Curator, job: SynthesisJob, plan: Any, public: Trajectories) -> Any:
    from tacit.methods import synthesis
    from tacit.methods.synthesis import trajectories

    spec = curator.source.spec
    with curator.narrator.progress("Training on the public records") as advance:
        settings: dict[str, Any] = {"seed": job.seed, "progress": advance}
        if job.method == "privorl-j":
            worlds = public if plan.local_context is None else public.split_by_unit()
            encoder = trajectories.public_encoder(spec, worlds)
            return trajectories.pretrain(plan, encoder, worlds, device=job.device, **settings)
        encoder = synthesis.Encoder.from_public(spec, public.columns)
        if job.method == "privorl":
            return synthesis.pretrain(plan, encoder, public.columns, device=job.device, **settings)
        from tacit.methods.synthesis.baselines.pate_gan import pretrain_gan

        return pretrain_gan(plan, encoder, public.columns, **settings)


def _require_machine(method: str, device: str) -> None:
    """Miss the packages of the method, and a device that is not there, before anything is spent."""
    from tacit.study import folder

    folder.require_packages("torch", *getattr(load(find_method("synthesize", method).plan), "needs", ()))
    if device == "cpu":
        return
    from tacit.hardware import torch_device

    try:
        torch_device(device, where="--device")
    except HardwareError as error:
        remedy = "give --device cpu, or install a PyTorch that was built for the accelerator"
        raise HardwareError(error.what, where=error.where, expected=error.expected, remedy=remedy) from error


def _require_records(source: Source, method: str, world: str | None, holdout: Path | None, *, diagnose: bool) -> None:
    if world is not None:
        _require_world(world, source)
    if method in ("privorl-j", "people") and source.kind == "transition":
        what = f"{method} learns whole trajectories, and every row of these records is a unit of its own"
        expected = "records whose units own whole episodes, such as an episode or a patient"
        remedy = "import them again with such a unit, or take --method privorl for single rows"
        raise DataError(what, where=source.name, expected=expected, remedy=remedy)
    if holdout is not None and not (source.simulated or diagnose):
        what = "distances to private records are not differentially private"
        expected = "it with simulated records, or with --nonprivate-diagnostics, for the curator alone"
        remedy = "leave --holdout out, or add --nonprivate-diagnostics"
        raise DataError(what, where="--holdout", expected=expected, remedy=remedy)
    if holdout is not None:
        _require_other_records(holdout, source, "other")


def _require_world(name: str, source: Source) -> None:
    from tacit.study import simulators

    layouts = simulators.load("maze_layouts").LAYOUTS
    if name != CLINIC and name not in layouts:
        what, expected = f"there is no world {name!r}", f"one of {', '.join((*layouts, CLINIC))}"
        raise DataError(what, where="--world", expected=expected, remedy="choose one of these, or leave --world out")
    bounds = simulators.load("clinic").spec() if name == CLINIC else simulators.load("maze").spec(layouts[name])
    if (bounds.observation, bounds.action) != (source.spec.observation, source.spec.action):
        what, expected = f"the records have other bounds than {name}", "the simulator that the records are of"
        raise DataError(what, where="--world", expected=expected, remedy="choose another world, or leave --world out")


def _require_other_records(path: Path, source: Source, what: str) -> None:
    """Refuse further records that are the private ones, or of other fields."""
    from tacit.data.store import read_spec

    shapes = [
        [(type(space).__name__, space.size) for space in (spec.observation, spec.action)]
        for spec in (read_spec(path)[0], source.spec)
    ]
    if shapes[0] != shapes[1] or (source.path is not None and path.samefile(source.path)):
        what = f"the {what} records are the private ones, or of other fields"
        expected = "other records, with observations and actions of the same kind and width"
        raise DataError(what, where=str(path), expected=expected, remedy="choose records of the same problem")
