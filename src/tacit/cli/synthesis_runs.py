"""What every run that releases a synthesizer does, and `tacit sample`: more rows or trajectories at no further cost.

A dry run loads this module: PyTorch and the report are imported where they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tacit import hub
from tacit.cli.console import progress, say
from tacit.cli.declarations import Sample
from tacit.cli.options import meaningless, refused
from tacit.cli.run_folder import CERTIFICATE, REPORT, VERIFY, RunFolder, certify, require_packages
from tacit.cli.synthesis_plan import PRIVORL_J
from tacit.errors import FileError
from tacit.evaluation.sequences import Sequences
from tacit.methods import synthesis
from tacit.methods.synthesis import trajectories
from tacit.methods.synthesis.discretisation import as_trajectories as single_steps
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.vault import Vault

if TYPE_CHECKING:
    from tacit.evaluation.report import Report

MODEL, DATASETS, CHECKPOINT = "model", "minari", "checkpoint"
DATASET = "synthetic-v0"
"""Id of the synthetic dataset inside the run's folder of Minari datasets."""
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


def publish(run: RunFolder, release: Release[Any], count: int, *, seed: int, **sampling: Any) -> Sequences:
    """Write certificate and synthetic dataset into the run's folder, and return what is in the dataset.

    Args:
        run: the folder.
        release: of a synthesizer.
        count, seed: how many trajectories are sampled, or else rows, each of which then is a trajectory; and how.
        sampling: what else this synthesizer's `sample` takes.
    """
    from tacit.methods.synthesis.trajectories.synthesizer import as_trajectories

    certificate, stitches = release.certificate, None
    certify(run, certificate)
    with progress(f"Sampling {count:,} {sampled(release)} and writing the dataset"):
        if isinstance(release.value, trajectories.Synthesizer):
            stitched = release.value.sample_trajectories(count, seed=seed, **sampling)
            data, stitches = as_trajectories(stitched, release.value.encoder), stitched.stitches
        else:
            data = release.value.sample(count, seed=seed, **sampling)
        root = run.inside(DATASETS)
        if not (root / DATASET).exists():
            root.mkdir(exist_ok=True)
            data.to_minari(DATASET, root=root, certificate=certificate.to_json(), description=certificate.sentence)
    return Sequences.of(data, stitches)


def sampled(release: Release[Any]) -> str:
    """What a synthesizer draws."""
    return "trajectories" if isinstance(release.value, trajectories.Synthesizer) else "rows"


def report(release: Release[Any], title: str, sections: Mapping[str, Any]) -> Report:
    """The report of a release: its certificate, and whatever sections were measured."""
    from tacit.evaluation.report import Report

    return Report(title=title, certificate=release.certificate.to_json(), verify=VERIFY, **sections)


def closing(run: RunFolder) -> None:
    """What was written, what to open and how to verify."""
    folder = run.path
    say()
    say(f"Open     {folder / REPORT}")
    say(f"Verify   tacit certificate verify {folder / CERTIFICATE}")
    say(f"Dataset  {folder / DATASETS / DATASET} (Minari: MINARI_DATASETS_PATH={folder / DATASETS}, id {DATASET})")
    whole = run.read()["settings"].get("method") == PRIVORL_J
    more = "10000 --out TRAJECTORIES" if whole else "1000000 --out ROWS"
    say(f"More     tacit sample --model {folder / MODEL} --count {more}")


def size_of(release: Release[Any]) -> tuple[str, str]:
    """How many numbers the release holds, for a report."""
    value = release.value
    if isinstance(value, synthesis.Synthesizer):
        return "Parameters", _size(*value.weights.values())
    if isinstance(value, trajectories.Synthesizer):
        return "Parameters", _size(*value.starts.values(), *value.fragments.values())
    return "Released numbers", _size(*value.arrays().values())


def _size(*arrays: Any) -> str:
    return f"{sum(int(np.prod(array.shape)) for array in arrays):,}"


def sample(command: Sample) -> None:
    """Draw and write.

    Raises:
        PlanError: no output or two, a count below 1, or transitions of a model that has no trajectories.
        FileError: the model is damaged, or the output exists or leads out of the folder.
        CertificateError: the model's certificate was edited.
        ModuleNotFoundError: a package that models are loaded with is not there.
    """
    require_packages("torch", "safetensors")
    if (command.out is None) == (command.minari is None) or command.count < 1:
        what = "the count is below 1" if command.count < 1 else "there is no output, or there are two"
        expected = "--count of at least 1, and --out FOLDER or --minari NAME-v0"
        raise refused("sample", what, expected, "name one place for the rows")
    if command.root is not None and command.minari is None:
        raise meaningless("sample", "root", "--root together with --minari")
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
    with progress(f"Sampling {command.count:,} {'transitions' if command.transitions else what}"):
        if command.transitions:
            columns = release.value.sample_columns(command.count, seed=command.seed)
            data = single_steps(columns, release.value.encoder.spec)
        else:
            data = release.value.sample(command.count, seed=command.seed)
    if command.out is not None:
        data.save(command.out)
        release.certificate.save(command.out / CERTIFICATE)
        say(f"Wrote {command.out}, with its certificate")
    else:
        assert command.minari is not None
        certificate = release.certificate
        if command.root is not None:
            command.root.mkdir(parents=True, exist_ok=True)
        written = data.to_minari(
            command.minari, root=command.root, certificate=certificate.to_json(), description=certificate.sentence
        )
        say(f"Wrote {written}")
    say(release.certificate.sentence)
