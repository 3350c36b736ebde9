"""What every run that releases a synthesizer does, and `tacit sample`: more rows or trajectories at no further cost.

A dry run loads this module: PyTorch and the report are imported where they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tacit import hub, plain_files
from tacit.cli.console import progress, say
from tacit.cli.declarations import Sample
from tacit.cli.options import refused
from tacit.cli.plan_declarations import RowsFormat
from tacit.cli.synthesis_plan import PRIVORL_J
from tacit.data import outputs
from tacit.data.trajectories import Trajectories
from tacit.errors import FileError
from tacit.evaluation.sequences import Sequences
from tacit.methods import synthesis
from tacit.methods.synthesis import trajectories
from tacit.methods.synthesis.discretisation import as_trajectories as single_steps
from tacit.parallel import mapped
from tacit.privacy.certificate.certificate import Certificate, Release
from tacit.privacy.vault.vault import Vault
from tacit.study import folder as run_folder
from tacit.study.folder import CERTIFICATE, REPORT, VERIFY, RunFolder, certify

if TYPE_CHECKING:
    from tacit.evaluation.report import Report

MODEL, CHECKPOINT = "model", "checkpoint"
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
Value = TypeVar("Value")


def train(
    run: RunFolder,
    fit: Callable[..., Release[Value]],
    plan: Any,
    vault: Vault,
    *,
    pretrained: Any,
    resume: bool,
    device: str = "cpu",
) -> Release[Value]:
    """Fine-tune behind the vault by a method that keeps checkpoints, and save the release in the run's folder."""
    folder = run.inside(CHECKPOINT)
    with progress("Training with privacy") as advance:
        release = fit(plan, vault, pretrained=pretrained, folder=folder, resume=resume, progress=advance, device=device)
    return keep(run, release)


def keep(run: RunFolder, release: Release[Value]) -> Release[Value]:
    """Save the release in the run's folder, which needs no checkpoint from then on."""
    hub.save(release, run.inside(MODEL))
    run.remove(CHECKPOINT)
    return release


def trained(run: RunFolder) -> bool:
    """Whether the run's training is over and its release saved."""
    return run.inside(MODEL).exists()


def load(run: RunFolder) -> Release[Any]:
    """The release that `keep` saved."""
    return hub.load(run.inside(MODEL))


def publish(
    run: RunFolder, release: Release[Any], count: int, *, seed: int, form: RowsFormat = "parquet", **sampling: Any
) -> Sequences:
    """Write certificate and synthetic dataset into the run's folder, and return what is in the dataset.

    Args:
        run: the folder.
        release: of a synthesizer.
        count, seed: how many trajectories are sampled, or else rows, each of which then is a trajectory; and how.
        form: what the dataset is written as.
        sampling: what else this synthesizer's `sample` takes.
    """
    from tacit.methods.synthesis.trajectories.algorithm import as_trajectories

    certificate, stitches = release.certificate, None
    certify(run, certificate)
    with progress(f"Sampling {count:,} {sampled(release)} and writing the dataset"):
        if isinstance(release.value, trajectories.TrajectorySynthesizer):
            stitched = release.value.sample_trajectories(count, seed=seed, **sampling)
            data, stitches = as_trajectories(stitched, release.value.encoder), stitched.stitches
        else:
            data = release.value.sample(count, seed=seed, **sampling)
        if not run.inside(ROWS[form]).exists():
            write_rows(data, run.inside(ROWS[form]), form, certificate)
    return Sequences.of(data, stitches)


def write_rows(data: Trajectories, out: Path, form: RowsFormat, certificate: Certificate) -> None:
    """Write synthetic rows with their certificate.

    Raises:
        FileError: the place is taken or cannot be written to.
        DataError: there are too many rows for the format.
    """
    promised = certificate.to_json()
    match form:
        case "parquet":
            data.to_parquet(out, certificate=promised)
        case "csv":
            data.to_csv(out, certificate=promised)
        case "npz":
            data.to_npz(out, certificate=promised)
        case "minari":
            out.mkdir(parents=True)
            data.to_minari(DATASET, root=out, certificate=promised, description=certificate.sentence)
        case "folder":
            data.save(out)
            certificate.save(out / CERTIFICATE)


def require_form(form: RowsFormat, count: int, what: str, where: str) -> None:
    """Refuse a format whose packages are missing, or that does not hold so many of what is drawn.

    Args:
        form: the format.
        count: how many "trajectories", "transitions" or "rows" are drawn.
        what: which of them.
        where: the command.

    Raises:
        ModuleNotFoundError: a package is missing.
        DataError: there are too many rows for it.
    """
    run_folder.require_packages(*PACKAGES[form])
    if form == "minari" and what != "trajectories":
        outputs.require_few(count, where)


def require_folder(out: Path, where: str) -> None:
    """Refuse the name of a file for the folder of a run.

    Raises:
        PlanError: it is one.
    """
    if out.suffix.lower() in _FORMS:
        expected = f"the folder of a run, in which the rows will be {' or '.join(_FILES)}"
        raise refused(where, f"--out ends in {out.suffix}, and a run is a folder", expected, "give --out RUN")


def form_of(out: Path, form: RowsFormat | None, where: str) -> RowsFormat:
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
        raise refused(where, what, expected, "choose another name")
    return named


def sampled(release: Release[Any]) -> str:
    """What a synthesizer draws."""
    return "trajectories" if isinstance(release.value, trajectories.TrajectorySynthesizer) else "rows"


def report(
    release: Release[Any], title: str, count: int, contents: Mapping[str, Any], costs: tuple[tuple[str, str], ...]
) -> Report:
    """The report of a release: how much was drawn, and whatever was measured (`report.synthesis.sections`)."""
    from tacit.evaluation.report import Report, synthesis

    drawn, certificate = f"{count:,} synthetic {sampled(release)}", release.certificate.to_json()
    return Report(
        title=title,
        certificate=certificate,
        sections=synthesis.sections(certificate, drawn=drawn, **contents),
        verify=VERIFY,
        costs=costs,
        shows_records=contents.get("reference") == "simulated",
    )


def closing(run: RunFolder) -> None:
    """What was written, what to open and how to verify."""
    folder = run.path
    say()
    say(f"Open     {folder / REPORT}")
    say(f"Verify   tacit certificate verify {folder / CERTIFICATE}")
    for name in ROWS.values():
        if (folder / name).exists():
            say(f"Dataset  {folder / name}")
    whole = run.read()["settings"].get("method") == PRIVORL_J
    more = "10000 --out TRAJECTORIES.parquet" if whole else "1000000 --out ROWS.parquet"
    say(f"More     tacit sample --model {folder / MODEL} --count {more}")


def size_of(release: Release[Any]) -> tuple[str, str]:
    """How many numbers the release holds, for a report."""
    value = release.value
    if isinstance(value, synthesis.Synthesizer):
        return "Parameters", _size(*value.weights.values())
    if isinstance(value, trajectories.TrajectorySynthesizer):
        return "Parameters", _size(*value.starts.values(), *value.fragments.values())
    return "Released numbers", _size(*value.arrays().values())


def _size(*arrays: Any) -> str:
    return f"{sum(int(np.prod(array.shape)) for array in arrays):,}"


def sample(command: Sample) -> None:
    """Draw and write.

    Raises:
        PlanError: a count below 1, a name that contradicts the format, or transitions of a model that has no
            trajectories.
        DataError: more rows than the format holds.
        FileError: the model is damaged, or the output exists.
        CertificateError: the model's certificate was edited.
        ModuleNotFoundError: a package that models are loaded with is not there.
    """
    run_folder.require_packages("torch", "safetensors")
    form = form_of(command.out, command.format, "sample")
    if command.count < 1:
        raise refused("sample", "the count is below 1", "--count of at least 1", "choose another number")
    if command.jobs < 1 or command.jobs > command.count:
        what = "more jobs than are drawn" if command.jobs > 1 else "the number of jobs is below 1"
        raise refused("sample", what, "--jobs from 1 to --count", "choose another number")
    plain_files.require_free(command.out)
    inside = command.model / "model"
    if not command.model.is_dir() or (inside.is_dir() and not (command.model / hub.CONFIG).exists()):
        run = inside.is_dir()
        raise FileError(
            "this is the folder of a run" if run else "there is no such folder",
            where=str(command.model),
            expected="the folder of a model, RUN/model of a run of `tacit demo` or `tacit synthesize`",
            remedy=f"did you mean {inside}" if run else "check the path",
        )
    release = hub.load(command.model)
    if not hasattr(release.value, "sample"):
        moves = hasattr(release.value, "generate")
        raise FileError(
            f"the release is a {'simulator of movement' if moves else 'policy'}, and rows come from a synthesizer",
            where=str(command.model),
            expected="the model of a run of `tacit demo` or `tacit synthesize`",
            remedy="draw days with `tacit generate`" if moves else "play the policy with `tacit play`",
        )
    what = sampled(release)
    if command.transitions and what != "trajectories":
        expected = "it with a model of trajectories, of which it draws single steps"
        remedy = "leave --transitions out: this model draws transitions anyway"
        raise refused("sample", "--transitions has no meaning here", expected, remedy)
    drawn = "transitions" if command.transitions else what
    require_form(form, command.count, drawn, "sample")
    with progress(f"Sampling {command.count:,} {drawn}"):
        if command.jobs == 1 and command.ray is None:
            data = draw(release.value, command.count, command.seed, transitions=command.transitions)
        else:
            with mapped(_drawn_part, _parts(command), jobs=command.jobs, address=command.ray) as parts:
                data = joined(list(parts))
    write_rows(data, command.out, form, release.certificate)
    say(f"Wrote {command.out}, with its certificate")
    say(release.certificate.sentence)


@dataclass(frozen=True)
class Part:
    """What one process draws: so many transitions or trajectories of the model in a folder, with a seed of its own."""

    model: Path
    count: int
    seed: int
    transitions: bool


def _parts(command: Sample) -> list[Part]:
    """One part a job; together they have the count."""
    ends = [command.count * number // command.jobs for number in range(command.jobs + 1)]
    seeds = [int(np.random.SeedSequence([command.seed, job]).generate_state(1)[0]) for job in range(command.jobs)]
    model = command.model.resolve()
    return [
        Part(model, stop - start, seed, command.transitions)
        for (start, stop), seed in zip(pairwise(ends), seeds, strict=True)
    ]


def _drawn_part(part: Part) -> Trajectories:
    return draw(hub.load(part.model).value, part.count, part.seed, transitions=part.transitions)


def draw(synthesizer: Any, count: int, seed: int, *, transitions: bool) -> Trajectories:
    """So many trajectories or rows of a synthesizer, or single steps of one of trajectories."""
    data: Trajectories
    if transitions:
        data = single_steps(synthesizer.sample_columns(count, seed=seed), synthesizer.encoder.spec)
    else:
        data = synthesizer.sample(count, seed=seed)
    return data


def joined(parts: Sequence[Trajectories]) -> Trajectories:
    """What was drawn in parts as one set, in which each transition or trajectory still is a unit of its own."""
    blocks, first = [], 0
    for part in parts:
        count = part.counts()["episodes"]
        owner = first + np.repeat(np.arange(count), np.diff(part.episodes))
        steps = part.unit_kind == "transition"
        blocks.append({**part.columns, "unit_ids": ":transition" if steps else owner, "episode_ids": owner})
        first += count
    return Trajectories.from_blocks(blocks, spec=parts[0].spec, simulated=True)
