"""`tacit sample`: more rows, or whole trajectories, from a released model, at no further cost."""

from __future__ import annotations

from tacit import hub
from tacit.cli.console import progress, say
from tacit.cli.outcome import CERTIFICATE
from tacit.cli.runs import sampled
from tacit.cli.synthesis_commands import Sample
from tacit.errors import DataError, FileError
from tacit.methods.synthesis.cut import as_trajectories


def sample(command: Sample) -> None:
    """Draw and write.

    Raises:
        DataError: no output or two, a count below 1, or transitions of a model that has no trajectories.
        FileError: the model is damaged, or the output exists or leads out of the folder.
        CertificateError: the model's certificate was edited.
    """
    if (command.out is None) == (command.minari is None) or command.count < 1:
        raise DataError(
            "the count is below 1" if command.count < 1 else "there is no output, or there are two",
            where="sample",
            expected="--count of at least 1, and --out FOLDER or --minari NAME-v0",
            remedy="name one place for the rows",
        )
    if command.root is not None and command.minari is None:
        raise DataError(
            "--root has no meaning here",
            where="sample",
            expected="--root together with --minari",
            remedy="leave --root out",
        )
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
        raise DataError(
            "--transitions has no meaning here",
            where="sample",
            expected="it with a model of trajectories, of which it draws single steps",
            remedy="leave --transitions out: this model draws transitions anyway",
        )
    with progress(f"Sampling {command.count:,} {'transitions' if command.transitions else what}"):
        if command.transitions:
            columns = release.value.sample_columns(command.count, seed=command.seed)
            data = as_trajectories(columns, release.value.encoder.spec)
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
