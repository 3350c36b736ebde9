"""What every run that releases a synthesizer does: train or take up, write the release, measure, report."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import hub
from tacit.cli.console import progress, say
from tacit.cli.folders import RunFolder
from tacit.measure.report import Report, render, storage
from tacit.methods import synthesis
from tacit.methods.synthesis.pretraining import Pretrained
from tacit.privacy.release import Release
from tacit.privacy.vault import Vault

CERTIFICATE, REPORT, MODEL, DATASETS, CHECKPOINT = (
    "certificate.json",
    "report.html",
    "model",
    "minari",
    "checkpoint",
)
DATASET = "synthetic-v0"
"""Id of the synthetic dataset inside the run's folder of Minari datasets."""

VERIFY = (f"tacit certificate verify {CERTIFICATE}",)


def train(
    run: RunFolder, plan: synthesis.Plan, vault: Vault, *, pretrained: Pretrained | None, resume: bool
) -> Release[synthesis.Synthesizer]:
    """Fine-tune behind the vault and save the release in the run's folder."""
    with progress("Training with privacy") as advance:
        release = synthesis.fit(
            plan, vault, pretrained=pretrained, folder=run.inside(CHECKPOINT), resume=resume, progress=advance
        )
    hub.save(release, run.inside(MODEL))
    run.remove(CHECKPOINT)
    return release


def trained(run: RunFolder) -> bool:
    """Whether the run's training is over and its release saved."""
    return run.inside(MODEL).exists()


def load(run: RunFolder) -> Release[synthesis.Synthesizer]:
    """The release that `train` saved."""
    return hub.load(run.inside(MODEL))


def publish(
    run: RunFolder, release: Release[synthesis.Synthesizer], rows: int, *, seed: int
) -> Mapping[str, NDArray[Any]]:
    """Write certificate and synthetic dataset into the run's folder, and return the dataset's columns."""
    certificate = release.certificate
    certificate.save(run.inside(CERTIFICATE))
    run.write("certificate.md", certificate.to_markdown())
    with progress(f"Sampling {rows:,} rows and writing the dataset"):
        data = release.value.sample(rows, seed=seed)
        root = run.inside(DATASETS)
        if not (root / DATASET).exists():
            root.mkdir(exist_ok=True)
            data.to_minari(DATASET, root=root, certificate=certificate.to_json(), description=certificate.sentence)
    return data.columns


def report(release: Release[synthesis.Synthesizer], title: str, sections: Mapping[str, Any]) -> Report:
    """The report of a release: its certificate, and whatever sections were measured."""
    return Report(title=title, certificate=release.certificate.to_json(), verify=VERIFY, **sections)


def finish(run: RunFolder, report: Report) -> None:
    """Write report.html, and run.json with all that it shows."""
    run.write(REPORT, render(report))
    run.write("run.json", {**run.read(), "finished": True, "report": storage.to_json(report)})


def closing(run: RunFolder) -> None:
    """What was written, what to open and how to verify."""
    folder = run.path
    say()
    say(f"Open     {folder / REPORT}")
    say(f"Verify   tacit certificate verify {folder / CERTIFICATE}")
    say(f"Dataset  {folder / DATASETS / DATASET} (Minari: MINARI_DATASETS_PATH={folder / DATASETS}, id {DATASET})")
    say(f"More     tacit sample --model {folder / MODEL} --count 1000000 --out ROWS")


class Stopwatch:
    """Time and memory of this process, for runs on simulated data (on private data they could depend on records)."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def costs(self) -> tuple[tuple[str, str], ...]:
        """(name, value) pairs for a report."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return (
            ("Wall time", f"{time.perf_counter() - self._wall:.0f} s"),
            ("Processor time", f"{time.process_time() - self._cpu:.0f} s"),
            ("Peak memory", f"{peak / 1e9:.1f} GB"),
        )


def size_of(release: Release[synthesis.Synthesizer]) -> tuple[str, str]:
    """The model's size, for a report."""
    return "Parameters", f"{sum(int(np.prod(weight.shape)) for weight in release.value.weights.values()):,}"
