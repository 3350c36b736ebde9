"""What every run that releases a synthesizer does: train or take up, write the release, tell what was written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit import hub
from tacit.cli.console import progress, say
from tacit.cli.folders import RunFolder
from tacit.cli.outcome import CERTIFICATE, REPORT, VERIFY, certify
from tacit.measure.report import Report
from tacit.methods import synthesis
from tacit.methods.synthesis.pretraining import Pretrained
from tacit.privacy.release import Release
from tacit.privacy.vault import Vault

MODEL, DATASETS, CHECKPOINT = "model", "minari", "checkpoint"
DATASET = "synthetic-v0"
"""Id of the synthetic dataset inside the run's folder of Minari datasets."""
Value = TypeVar("Value")


def train(
    run: RunFolder,
    plan: synthesis.Plan,
    vault: Vault,
    *,
    pretrained: Pretrained | None,
    resume: bool,
    device: str = "cpu",
) -> Release[synthesis.Synthesizer]:
    """Fine-tune behind the vault and save the release in the run's folder."""
    folder = run.inside(CHECKPOINT)
    with progress("Training with privacy") as advance:
        release = synthesis.fit(
            plan, vault, pretrained=pretrained, folder=folder, resume=resume, progress=advance, device=device
        )
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
    run: RunFolder, release: Release[Any], rows: int, *, seed: int, **sampling: Any
) -> Mapping[str, NDArray[Any]]:
    """Write certificate and synthetic dataset into the run's folder, and return the dataset's columns.

    Args:
        run: the folder.
        release: of a synthesizer.
        rows, seed: how many are sampled, and how.
        sampling: what else this synthesizer's `sample` takes.
    """
    certificate = release.certificate
    certify(run, certificate)
    with progress(f"Sampling {rows:,} rows and writing the dataset"):
        data = release.value.sample(rows, seed=seed, **sampling)
        root = run.inside(DATASETS)
        if not (root / DATASET).exists():
            root.mkdir(exist_ok=True)
            data.to_minari(DATASET, root=root, certificate=certificate.to_json(), description=certificate.sentence)
    columns: Mapping[str, NDArray[Any]] = data.columns
    return columns


def report(release: Release[Any], title: str, sections: Mapping[str, Any]) -> Report:
    """The report of a release: its certificate, and whatever sections were measured."""
    return Report(title=title, certificate=release.certificate.to_json(), verify=VERIFY, **sections)


def closing(run: RunFolder) -> None:
    """What was written, what to open and how to verify."""
    folder = run.path
    say()
    say(f"Open     {folder / REPORT}")
    say(f"Verify   tacit certificate verify {folder / CERTIFICATE}")
    say(f"Dataset  {folder / DATASETS / DATASET} (Minari: MINARI_DATASETS_PATH={folder / DATASETS}, id {DATASET})")
    say(f"More     tacit sample --model {folder / MODEL} --count 1000000 --out ROWS")


def size_of(release: Release[Any]) -> tuple[str, str]:
    """How many numbers the release holds, for a report."""
    value = release.value
    if isinstance(value, synthesis.Synthesizer):
        return "Parameters", f"{sum(int(np.prod(weight.shape)) for weight in value.weights.values()):,}"
    return "Released numbers", f"{sum(array.size for array in value.arrays().values()):,}"
