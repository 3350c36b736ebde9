"""`tacit play` and `tacit export`: a released policy in its environment, and as an ONNX model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacit import hub
from tacit.cli import worlds
from tacit.cli.console import say
from tacit.cli.declarations import Export, Play
from tacit.cli.options import refused, require_least
from tacit.envs.serving import Actor, returns
from tacit.errors import FileError
from tacit.methods.experts.learned import Learned as Taught
from tacit.methods.policy_gradient import Learned
from tacit.privacy.certificate.certificate import Release


def play(command: Play) -> None:
    """Verify, play, print the returns.

    Raises:
        FileError: the folder is damaged or holds something else.
        CertificateError: the certificate was edited.
        DataError: the environment is unknown, or not one for this policy.
        PlanError: no environment is given, or there are no episodes.
    """
    require_least("play", command, episodes=1, seed=0)
    release = _policy(command.policy)
    notes = hub.notes(command.policy)
    name = command.environment or notes.get("environment")
    if not isinstance(name, str):
        where, what = f"play {command.policy}", "the policy says no environment"
        raise refused(where, what, "an environment", "name one with --environment")
    native = name == notes.get("environment")
    domain, limit = worlds.playground(name, release.value.policy, render=command.render)
    horizon, repeat = (notes["horizon"], notes["repeat"]) if native else (limit, 1)
    _verified(release)
    actor = _actor(release.value, command)
    paid = []
    for episode in range(command.episodes):
        generator = np.random.default_rng((command.seed, episode))
        with worlds.rendering():
            (played,) = returns(domain, actor, 1, 1, horizon=horizon, repeat=repeat, generator=generator)
        paid.append(float(played[0]))
        say(f"Episode {episode + 1}: {paid[-1]:g}")
    spread = f" ± {np.std(paid, ddof=1) / np.sqrt(len(paid)):.2g} (standard error)" if len(paid) > 1 else ""
    say(f"Mean: {np.mean(paid):.5g}{spread}")


def export(command: Export) -> None:
    """Write the ONNX model.

    Raises:
        FileError: the folder is damaged or holds something else, or the output exists.
        CertificateError: the certificate was edited.
    """
    release = _policy(command.policy)
    hub.to_onnx(release, command.out, average=command.averaged)
    say(f"Wrote {command.out}")
    _verified(release)


def _actor(value: Learned | Taught, command: Play) -> Actor:
    """Who plays; what experts taught takes its best action in any case.

    Raises:
        PlanError: there is no averaged policy.
    """
    if isinstance(value, Learned):
        return value.actor(greedy=command.greedy, average=command.averaged)
    if command.averaged:
        what = "a policy that experts taught has no average"
        expected = "the policy of a run of `tacit train` with --averaged"
        raise refused("play", what, expected, "leave --averaged out")
    return value.actor()


def _verified(release: Release[Any]) -> None:
    """What the certificate promises, or that it promises nothing."""
    private = release.certificate.private
    say(f"Verified: {release.certificate.sentence}" if private else "NOT PRIVATE: its certificate promises nothing.")


def _policy(folder: Path) -> Release[Any]:
    inside = folder / "policy"
    if not folder.is_dir() or not any((folder / name).exists() for name in (hub.MODEL, hub.CONFIG)):
        run = inside.is_dir()
        what = "this is the folder of a run" if run else "there is no policy in this folder"
        if not folder.is_dir():
            what = "this is a file" if folder.exists() else "there is no such folder"
        raise FileError(
            what,
            where=str(folder),
            expected="the folder of a policy, RUN/policy of a run of `tacit train` or `tacit learn`",
            remedy=f"did you mean {inside}" if run else "check the path, or go on with the run (--resume)",
        )
    release = hub.load(folder)
    if not isinstance(release.value, Learned | Taught):
        moves = hasattr(release.value, "generate")
        raise FileError(
            f"the release is a {'simulator of movement' if moves else 'synthesizer'}, and does not act",
            where=str(folder),
            expected="the policy of a run of `tacit train` or `tacit learn`",
            remedy=f"draw {'days' if moves else 'rows'} from it with `tacit {'generate' if moves else 'sample'}`",
        )
    return release
