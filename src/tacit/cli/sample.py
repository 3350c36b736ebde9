"""`tacit sample`: more rows or trajectories of a released synthesizer, at no further cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tacit import hub, plain_files
from tacit.cli.console import progress, say
from tacit.cli.declarations import Sample
from tacit.data.trajectories import Trajectories, how_read, owners_of
from tacit.methods.synthesis.discretisation import to_trajectories as single_steps
from tacit.parallel import parallel_map
from tacit.study.folder import load_release, require_packages
from tacit.study.synthesis_report import require_format, resolve_format, sample_kind, write_rows
from tacit.study.words import option_error


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
    require_packages("torch", "safetensors")
    form = resolve_format(command.out, command.format, "sample")
    if command.count < 1:
        raise option_error("sample", "the count is below 1", "--count of at least 1", "choose another number")
    if command.jobs < 1 or command.jobs > command.count:
        what = "more jobs than are drawn" if command.jobs > 1 else "the number of jobs is below 1"
        raise option_error("sample", what, "--jobs from 1 to --count", "choose another number")
    plain_files.require_free(command.out)
    model, release = load_release(command.model, "model")
    what = sample_kind(release.value)
    if command.transitions and not hasattr(release.value, "sample_trajectories"):
        expected = "it with a model of trajectories, of which it draws single steps"
        draws = "transitions anyway" if what == "rows" else "whole people"
        remedy = f"leave --transitions out: this model draws {draws}"
        raise option_error("sample", "--transitions has no meaning here", expected, remedy)
    drawn = "transitions" if command.transitions else what
    require_format(form, command.shape, command.count, drawn, "sample")
    with progress(f"Sampling {command.count:,} {drawn}"):
        if command.jobs == 1 and command.ray is None:
            data = draw(release.value, command.count, command.seed, transitions=command.transitions)
        else:
            parts = _parts(command, model.resolve())
            with parallel_map(_run_job, parts, jobs=command.jobs, address=command.ray) as drawings:
                data = join_parts(list(drawings))
    write_rows(data, command.out, form, release.certificate, command.shape)
    say(f"Wrote {command.out}, with its certificate")
    say(release.certificate.sentence)


@dataclass(frozen=True)
class SampleJob:
    """What one process draws: so many transitions or trajectories of the model in a folder, with a seed of its own."""

    model: Path
    count: int
    seed: int
    transitions: bool


def _parts(command: Sample, model: Path) -> list[SampleJob]:
    """One part a job; together they have the count."""
    ends = [command.count * number // command.jobs for number in range(command.jobs + 1)]
    seeds = [int(np.random.SeedSequence([command.seed, job]).generate_state(1)[0]) for job in range(command.jobs)]
    return [
        SampleJob(model, stop - start, seed, command.transitions)
        for (start, stop), seed in zip(pairwise(ends), seeds, strict=True)
    ]


def _run_job(part: SampleJob) -> Trajectories:
    return draw(hub.load(part.model).value, part.count, part.seed, transitions=part.transitions)


def draw(synthesizer: Any, count: int, seed: int, *, transitions: bool) -> Trajectories:
    """So many trajectories or rows of a synthesizer, or single steps of one of trajectories."""
    data: Trajectories
    if transitions:
        data = single_steps(synthesizer.sample_columns(count, seed=seed), synthesizer.encoder.spec)
    else:
        data = synthesizer.sample(count, seed=seed)
    return data


def join_parts(parts: Sequence[Trajectories]) -> Trajectories:
    """What was drawn in parts as one set, in which each transition or trajectory still is a unit of its own."""
    blocks, first = [], 0
    for part in parts:
        count = part.counts()["episodes"]
        episodes = first + np.repeat(np.arange(count), np.diff(part.episodes))
        owners = ":transition" if part.unit_kind == "transition" else first + owners_of(part)
        blocks.append({**part.spec.raw(part.columns), "unit_ids": owners, "episode_ids": episodes})
        first += count
    copied = how_read(parts[0])["copied_ends"]
    return Trajectories.from_blocks(blocks, spec=parts[0].spec, simulated=True, copied_ends=copied)
