"""`tacit play`, `export` and `complete`: what a released policy does, its file, and what a steered model writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.agents.heads import Gaussian
from tacit.cli.console import say
from tacit.cli.declarations import Complete, Export, Play
from tacit.data.spec import Box, PublicSpec
from tacit.envs.rollouts import Domain, MemoryDomain
from tacit.envs.serving import Actor, returns
from tacit.errors import DataError, FileError, PlanError
from tacit.methods.experts.learned import LearnedPolicies as Taught
from tacit.methods.improvement import Improvement
from tacit.methods.policy_gradient import OneHot, Policy, TrainedPolicies
from tacit.privacy.certificate.certificate import Release
from tacit.study.folder import load_release
from tacit.study.policies import memory_of
from tacit.study.words import option_error, require_minimum

if TYPE_CHECKING:
    from tacit.envs.gym_domain import GymDomain


def play(command: Play) -> None:
    """Verify, play, print the returns.

    Raises:
        FileError: the folder is damaged or holds something else.
        CertificateError: the certificate was edited.
        DataError: the environment is unknown, or not one for this policy.
        PlanError: no environment is given, or there are no episodes.
    """
    from tacit import hub

    require_minimum("play", vars(command), episodes=1, seed=0)
    folder, release = load_release(command.policy, "policy")
    notes = hub.notes(folder)
    name = command.environment or notes.get("environment")
    if not isinstance(name, str):
        where, what = f"play {command.policy}", "the policy says no environment"
        raise option_error(where, what, "an environment", "name one with --environment")
    native = name == notes.get("environment")
    domain, limit = _playground(name, release.value.policy, render=command.render)
    horizon, repeat = (notes["horizon"], notes["repeat"]) if native else (limit, 1)
    _say_promise(release)
    actor, memory = _actor(release.value, command), memory_of(release.value)
    domain = domain if memory is None else MemoryDomain(domain, memory)
    totals = []
    for episode in range(command.episodes):
        generator = np.random.default_rng((command.seed, episode))
        with _translate_render_errors():
            (total,) = returns(domain, actor, 1, 1, horizon=horizon, repeat=repeat, generator=generator)
        totals.append(float(total[0]))
        say(f"Episode {episode + 1}: {totals[-1]:g}")
    spread = f" ± {np.std(totals, ddof=1) / np.sqrt(len(totals)):.2g} (standard error)" if len(totals) > 1 else ""
    say(f"Mean: {np.mean(totals):.5g}{spread}")


def export(command: Export) -> None:
    """Write the ONNX model.

    Raises:
        FileError: the folder is damaged or holds something else, or the output exists.
        CertificateError: the certificate was edited.
    """
    from tacit import hub

    _, release = load_release(command.policy, "policy")
    hub.to_onnx(release, command.out, average=command.averaged)
    say(f"Wrote {command.out}")
    _say_promise(release)


def _actor(value: TrainedPolicies | Taught | Improvement, command: Play) -> Actor:
    """Who plays; only what people taught can draw its actions."""
    if isinstance(value, TrainedPolicies):
        return value.actor(greedy=command.greedy, average=command.averaged)
    if command.averaged:
        what = "the policy has no average"
        expected = "the policy of a run of `tacit train` with --averaged"
        raise option_error("play", what, expected, "leave --averaged out")
    return value.actor()


def _say_promise(release: Release[Any]) -> None:
    private = release.certificate.private
    say(f"Verified: {release.certificate.sentence}" if private else "NOT PRIVATE: its certificate promises nothing.")


def _playground(name: str, policy: Policy, *, render: bool) -> tuple[Domain, int]:
    """Where a policy is played, and its longest episode: Gymnasium's own environment, or one that is tacit's."""
    from tacit.study.environments import LONGEST, TACITS_OWN, UserDomain, builtin_simulator, find_world, list_worlds

    builtin, known = builtin_simulator(name) if name in TACITS_OWN else None, list_worlds()
    if name in known:
        world = find_world(name, None, 0)
        builtin = world.domain, world.spec, world.evaluation_horizon
    if builtin is not None:
        if render:
            what, expected = f"{name} has no pictures", "--render with one of Gymnasium's environments"
            raise DataError(what, where="play", expected=expected, remedy="leave --render out")
        domain, spec, limit = builtin
    else:
        environment = UserDomain(name, known=(*TACITS_OWN, *known), **({"render_mode": "human"} if render else {}))
        domain, spec, limit = environment, _policy_spec(environment, policy), environment.limit or LONGEST
    try:
        policy.require_fit(spec)
    except PlanError as error:
        raise _unfit_error(name) from error
    return domain, limit


@contextmanager
def _translate_render_errors() -> Iterator[None]:
    """Turn Gymnasium's own error about a missing package, which comes with the first picture, into a sentence."""
    import gymnasium

    try:
        yield
    except gymnasium.error.DependencyNotInstalled:
        what = "a package that shows the environment is not installed"
        expected, remedy = "what Gymnasium draws with, such as pygame", "install it, or leave --render out"
        raise DataError(what, where="play", expected=expected, remedy=remedy) from None


def _policy_spec(domain: GymDomain, policy: Policy) -> PublicSpec:
    """The environment's spaces with the bounds that the policy has."""
    features, head = policy.features, policy.head
    observation = None if isinstance(features, OneHot) else Box(features.low, features.high)
    action = Box(head.low, head.high) if isinstance(head, Gaussian) else None
    try:
        return domain.public_spec(observation=observation, action=action, reward=(-1.0, 1.0))
    except DataError as error:
        raise _unfit_error(domain.name) from error


def _unfit_error(name: str) -> DataError:
    what = f"the policy is not one for {name}"
    expected = "an environment with observations and actions like those that the policy was learned from"
    return DataError(what, where="play", expected=expected, remedy="choose another environment")


def complete(command: Complete) -> None:
    """Verify, complete, print.

    Raises:
        FileError: the folder is damaged or holds something else, or it does not say where the base model is.
        CertificateError: the certificate was edited.
        PlanError: the base model is another one, or a prompt is empty.
    """
    from tacit import hub
    from tacit.agents.language import llama
    from tacit.methods.alignment import Steered
    from tacit.study.align import FOLDER
    from tacit.study.folder import RunFolder

    release = hub.load(command.run / FOLDER)
    if not isinstance(release.value, Steered):
        what, expected = "the release is no steered language model", "the folder of a run of `tacit align`"
        raise FileError(what, where=str(command.run), expected=expected, remedy="name such a folder")
    path = command.model or Path(str(RunFolder(command.run).read()["settings"]["model"]))
    value = release.value.with_model(*llama.load(path))
    say(f"Verified: {release.certificate.sentence}")
    for reference in (True, False) if command.reference else (False,):
        say()
        say("Base model" if reference else "Steered")
        texts = value.complete(command.prompts, tokens=command.tokens, seed=command.seed, reference=reference)
        for text in texts:
            say(f"  {text}")
