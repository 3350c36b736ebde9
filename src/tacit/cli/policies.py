"""`tacit play` and `tacit export`: what a released policy does in its environment, and as a file for other programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.cli.console import say
from tacit.cli.declarations import Export, Play
from tacit.cli.options import refused, require_least
from tacit.envs.rollouts import Remembered
from tacit.envs.serving import Actor, returns
from tacit.methods.experts.learned import Learned as Taught
from tacit.methods.improvement import Improvement
from tacit.methods.policy_gradient import Learned
from tacit.privacy.certificate.certificate import Release
from tacit.study.policies import memory_of, released_policy


def play(command: Play) -> None:
    """Verify, play, print the returns.

    Raises:
        FileError: the folder is damaged or holds something else.
        CertificateError: the certificate was edited.
        DataError: the environment is unknown, or not one for this policy.
        PlanError: no environment is given, or there are no episodes.
    """
    from tacit import hub
    from tacit.cli import worlds

    require_least("play", command, episodes=1, seed=0)
    release = released_policy(command.policy)
    notes = hub.notes(command.policy)
    name = command.environment or notes.get("environment")
    if not isinstance(name, str):
        where, what = f"play {command.policy}", "the policy says no environment"
        raise refused(where, what, "an environment", "name one with --environment")
    native = name == notes.get("environment")
    domain, limit = worlds.playground(name, release.value.policy, render=command.render)
    horizon, repeat = (notes["horizon"], notes["repeat"]) if native else (limit, 1)
    _verified(release)
    actor, memory = _actor(release.value, command), memory_of(release.value)
    domain = domain if memory is None else Remembered(domain, memory)
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
    from tacit import hub

    release = released_policy(command.policy)
    hub.to_onnx(release, command.out, average=command.averaged)
    say(f"Wrote {command.out}")
    _verified(release)


def _actor(value: Learned | Taught | Improvement, command: Play) -> Actor:
    """Who plays; only what people taught can draw its actions.

    Raises:
        PlanError: there is no averaged policy.
    """
    if isinstance(value, Learned):
        return value.actor(greedy=command.greedy, average=command.averaged)
    if command.averaged:
        what = "the policy has no average"
        expected = "the policy of a run of `tacit train` with --averaged"
        raise refused("play", what, expected, "leave --averaged out")
    return value.actor()


def _verified(release: Release[Any]) -> None:
    """What the certificate promises, or that it promises nothing."""
    private = release.certificate.private
    say(f"Verified: {release.certificate.sentence}" if private else "NOT PRIVATE: its certificate promises nothing.")
