"""What a run of `Study.synthesize` writes besides its model: synthetic rows, the report, and what the curator sees."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tacit.study.words import no_effect_error, option_error
from tacit.units import RowsShape

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories
    from tacit.evaluation.report import Report
    from tacit.evaluation.sequences import Sequences
    from tacit.privacy.certificate.certificate import Certificate, Release
    from tacit.privacy.vault.vault import Vault
    from tacit.study.account import Account
    from tacit.study.folder import RunFolder, Stopwatch

MODEL = "model"
CLINIC = "clinic"
"""The one world that is no maze."""
RowsFormat = Literal["parquet", "csv", "npz", "minari", "folder"]
"""What synthetic rows are written as."""
ROWS: Mapping[RowsFormat, str] = {
    "parquet": "rows.parquet",
    "csv": "rows.csv",
    "npz": "rows.npz",
    "minari": "minari",
    "folder": "rows",
}
"""What the synthetic rows of a run are called, by their format."""
DATASET = "synthetic-v0"
"""Id of the synthetic dataset in a folder of Minari datasets."""
PACKAGES: Mapping[RowsFormat, tuple[str, ...]] = {
    "parquet": ("pyarrow",),
    "csv": ("pyarrow",),
    "npz": (),
    "minari": ("minari", "h5py"),
    "folder": (),
}
"""Packages that rows are written with."""
_FILES = tuple(name for name in ROWS.values() if "." in name)
_FORMS: Mapping[str, RowsFormat] = {Path(name).suffix: form for form, name in ROWS.items() if "." in name}
LOOK = "closeness of the synthetic rows to the records"
"""Why the curator looks at the records after a release, as the ledger has it."""
SAMPLING = "Sampling"
"""A phase of a run."""
SYMPTOMS = (0, "symptoms")
"""What a time line of the clinic shows."""


@dataclass(frozen=True, kw_only=True)
class SynthesisJob:
    """What is learned, and what is written of it.

    Args:
        method, plan: the plan is calibrated.
        account: what pays.
        candidates: what is said of each, where the plan is a choice.
        public: records to begin with.
        device, seed, count, format, shape, world, holdout, resume, out, track: as of `synthesize`.
        look: whether the curator looks at the private records.
        compares: whether the report compares with the records, behind which nobody is.
        warning: what the report says first of the rows' use: a heading and a sentence.
        of_folder: a word that has no meaning without a folder.
        watch: what phases are timed by.
        command: that the folder is of.
        page: makes another report than that of `synthesize`.
    """

    method: str
    plan: Any
    account: Account
    candidates: tuple[str, ...] = ()
    public: Trajectories | None = None
    device: str = "cpu"
    seed: int
    count: int
    format: RowsFormat
    shape: RowsShape = "pairs"
    world: str | None = None
    holdout: Path | None = None
    diagnose: bool = False
    compares: bool
    warning: tuple[str, str] | None = None
    resume: bool
    out: Path | None
    track: Path | None = None
    folder_option: str | None = None
    watch: Stopwatch
    command: str = "synthesize"
    page: Callable[[Release[Any], Sequences, Trajectories], Report] | None = None

    @cached_property
    def other_records(self) -> Trajectories | None:
        """The records that nothing is learned from."""
        from tacit.data.trajectories import Trajectories

        return None if self.holdout is None else Trajectories.open(self.holdout)


def publish(job: SynthesisJob, run: RunFolder, learned: Release[Any]) -> Sequences:
    """Write certificate and synthetic dataset into the run's folder, and return what is in the dataset."""
    from tacit.evaluation.sequences import Sequences
    from tacit.study.folder import certify

    value, place, stitches = learned.value, run.resolve(ROWS[job.format]), None
    certify(run, learned.certificate)
    settings: dict[str, Any] = {"seed": job.seed, **({} if job.device == "cpu" else {"device": job.device})}
    title = f"Sampling {job.count:,} {sample_kind(value)} and writing the dataset"
    with job.watch.phase(SAMPLING), job.account.narrator.progress(title):
        if hasattr(value, "sample_trajectories"):
            from tacit.methods.synthesis.trajectories.algorithm import to_trajectories

            stitched = value.sample_trajectories(job.count, **settings)
            data, stitches = to_trajectories(stitched, value.encoder), stitched.stitches
        else:
            data = value.sample(job.count, **settings)
        if not place.exists():
            write_rows(data, place, job.format, learned.certificate, job.shape)
    return Sequences.of(data, stitches)


def run_diagnostics(job: SynthesisJob, run: RunFolder, vault: Vault, drawn: Sequences) -> None:
    """The curator's own figures, under private/, noted in the ledger."""
    from tacit.evaluation.report import tables
    from tacit.study.folder import say_private

    run.resolve("private")
    others = None if job.other_records is None else job.other_records.columns

    def compare(real: Mapping[str, Any]) -> dict[str, float]:
        return tables.curator_figures(vault.spec, drawn.columns, real, others, seed=job.seed)

    vault.nonprivate(compare, reason=LOOK, folder=run.path)
    say_private(run, job.account.narrator)


def write(
    job: SynthesisJob, run: RunFolder, learned: Release[Any], drawn: Sequences | None, data: Trajectories
) -> None:
    """Write the rows, where they were not drawn before, and the report.

    Raises:
        ModuleNotFoundError: a package is missing; the release is saved.
    """
    from tacit.study.folder import finish

    try:
        drawn = publish(job, run, learned) if drawn is None else drawn
        if job.page is not None:
            finish(run, job.page(learned, drawn, data))
        else:
            with job.account.narrator.progress("Measuring and writing the report"):
                contents = _contents(job, learned, drawn, data)
                costs = (size_of(learned), *(job.watch.costs() if job.compares else ()))
                finish(run, report(learned, run.path.name, job.count, contents, costs))
    except ModuleNotFoundError:
        saved = "The release is saved and nothing is lost: install the package and repeat with --resume."
        job.account.narrator.warn(saved)
        raise
    say_outputs(job, run, learned)


def _contents(job: SynthesisJob, learned: Release[Any], drawn: Sequences, data: Trajectories) -> dict[str, Any]:
    """What a report shows: private records are never compared with, only simulated ones."""
    from tacit.evaluation.neighbours import nearest_records
    from tacit.evaluation.report import tables
    from tacit.evaluation.report.evidence import Cost
    from tacit.evaluation.sequences import Sequences
    from tacit.methods.synthesis.people import PeopleSynthesizer
    from tacit.study import simulators

    seed, synthetic = job.seed, drawn.columns
    real = data.columns if job.compares else None
    contents = tables.sections(data.spec, synthetic, real, seed=seed)
    world = None if job.world in (None, CLINIC) else simulators.plane_world(str(job.world))
    scores = contents.get("scores", ())
    if world is not None:
        scores += tables.physics_scores(world, synthetic, ())
        panels: list[tuple[str, Any, tables.Table]] = [("Synthetic rows", "synthetic", synthetic)]
        if real is not None:
            panels.insert(0, ("Protected rows", "reference", real))
        contents["map"] = tables.plane_map(world, panels, seed=seed)
    if sample_kind(learned.value) == "trajectories":
        whole = tables.whole_trajectories(
            data.spec,
            drawn,
            Sequences.of(data) if job.compares else None,
            None if job.public is None else Sequences.of(job.public),
            longest=learned.value.plan.longest,
            seed=seed,
            world=world,
            **({"state": SYMPTOMS} if job.world == CLINIC else {}),
        )
        contents["whole_trajectories"], scores = whole["whole_trajectories"], scores + whole["scores"]
    contents |= {"scores": scores, "warning": job.warning}
    if sample_kind(learned.value) == "rows" and (distinct := count_distinct(synthetic)) < len(synthetic["rewards"]):
        contents["distinct"] = distinct
    if isinstance(learned.value, PeopleSynthesizer):
        contents["dependence"] = learned.value.scheme.dependence()
    if real is None:
        return contents
    contents["embedding"] = tables.picture(real, synthetic, seed=seed)
    if job.other_records is not None:
        contents["nearest"] = nearest_records(synthetic, real, job.other_records.columns, seed=seed)
    cost = Cost(job.method, "synthetic", tuple(job.watch.phases.items()), job.watch.peak_memory())
    return {**contents, "synthesizers": (cost,)}


def count_distinct(columns: Mapping[str, Any]) -> int:
    """How many rows of a table, of columns [N, ...], differ."""
    import numpy as np

    numbers = [np.asarray(column, np.float32).reshape(len(column), -1) for column in columns.values()]
    return len(np.unique(np.concatenate(numbers, axis=1), axis=0))


def report(
    learned: Release[Any], title: str, count: int, contents: Mapping[str, Any], costs: tuple[tuple[str, str], ...]
) -> Report:
    """The report of a release: how much was drawn, and whatever was measured (`report.synthesis.sections`)."""
    from tacit.evaluation.report import Report, synthesis
    from tacit.study.folder import VERIFY

    drawn, certificate = f"{count:,} synthetic {sample_kind(learned.value)}", learned.certificate.to_json()
    return Report(
        title=title,
        certificate=certificate,
        sections=synthesis.sections(certificate, drawn=drawn, **contents),
        verify=VERIFY,
        costs=costs,
        shows_records=contents.get("reference") == "simulated",
    )


def size_of(learned: Release[Any]) -> tuple[str, str]:
    """How many numbers the release holds, for a report."""
    from tacit.methods.synthesis import Synthesizer, trajectories

    value, name = learned.value, "Parameters"
    if isinstance(value, Synthesizer):
        arrays = [*value.weights.values()]
    elif isinstance(value, trajectories.TrajectorySynthesizer):
        arrays = [*value.starts.values(), *value.fragments.values()]
    else:
        name, arrays = "Released numbers", [*value.arrays().values()]
    return name, f"{sum(math.prod(array.shape) for array in arrays):,}"


def say_outputs(job: SynthesisJob, run: RunFolder, learned: Release[Any]) -> None:
    """Say what was written, what to open and how to verify, and how more is drawn."""
    rows = [f"Dataset  {run.path / name}" for name in ROWS.values() if (run.path / name).exists()]
    whole = sample_kind(learned.value) == "trajectories"
    more = "10000 --out TRAJECTORIES.parquet" if whole else "1000000 --out ROWS.parquet"
    job.account.narrator.say()
    job.account.tell(run, *rows, f"More     tacit sample --model {run.path / MODEL} --count {more}")


def write_rows(
    data: Trajectories, out: Path, form: RowsFormat, certificate: Certificate, shape: RowsShape = "pairs"
) -> None:
    """Write synthetic rows with their certificate.

    Raises:
        FileError: the place is taken or cannot be written to.
        DataError: there are too many rows for the format.
    """
    from tacit.study.folder import CERTIFICATE

    promised = certificate.to_json()
    match form:
        case "parquet":
            data.to_parquet(out, certificate=promised, shape=shape)
        case "csv":
            data.to_csv(out, certificate=promised, shape=shape)
        case "npz":
            data.to_npz(out, certificate=promised)
        case "minari":
            out.mkdir(parents=True)
            data.to_minari(DATASET, root=out, certificate=promised, description=certificate.sentence)
        case "folder":
            data.save(out)
            certificate.save(out / CERTIFICATE)


def require_format(form: RowsFormat, shape: RowsShape, count: int, what: str, where: str) -> None:
    """Refuse a format whose packages are missing, or that does not hold so many of what is drawn.

    Args:
        form: the format.
        shape: of tables alone, whether they have one row a step or one a visit.
        count: how many "trajectories", "transitions" or "rows" are drawn.
        what: which of them.
        where: the command.

    Raises:
        ModuleNotFoundError: a package is missing.
        DataError: there are too many rows for it.
    """
    from tacit.study.folder import require_packages

    require_packages(*PACKAGES[form])
    if shape != "pairs" and form not in ("parquet", "csv"):
        raise no_effect_error(where, "shape", f"--format parquet or csv, not {form}")
    if form == "minari" and what != "trajectories":
        from tacit.data.outputs import require_few_episodes

        require_few_episodes(count, where)


def require_folder(out: Path, where: str) -> None:
    """Refuse the name of a file for the folder of a run.

    Raises:
        PlanError: it is one.
    """
    if out.suffix.lower() in _FORMS:
        expected = f"the folder of a run, in which the rows will be {' or '.join(_FILES)}"
        raise option_error(where, f"--out ends in {out.suffix}, and a run is a folder", expected, "give --out RUN")


def resolve_format(out: Path, form: RowsFormat | None, where: str) -> RowsFormat:
    """What rows are written as: what the option says, or else the ending of the name.

    Raises:
        PlanError: the two contradict each other, or nothing is written with this ending.
    """
    ending = out.suffix.lower()
    if not ending.strip(".0123456789"):
        return form or "folder"
    named = _FORMS.get(ending)
    if named is None or form not in (None, named):
        what = f"--out ends in {out.suffix}" + ("" if form is None else f", and --format is {form}")
        expected = f"{', '.join(_FORMS)} for a file of that format, or a folder without an ending"
        raise option_error(where, what, expected, "choose another name")
    return named


def sample_kind(synthesizer: Any) -> str:
    """What a synthesizer draws: "trajectories" or "rows"."""
    return "trajectories" if getattr(synthesizer, "draws_trajectories", False) else "rows"
