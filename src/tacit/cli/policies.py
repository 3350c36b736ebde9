"""Policies: `tacit play`, `tacit export`, and those that the words of `tacit evaluate` name.

The hub and the environments are loaded where a command needs them: an evaluation of the records' own policy does not.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tacit.agents.features import fits
from tacit.cli.console import say
from tacit.cli.declarations import Export, Play
from tacit.cli.options import refused, require_least
from tacit.cli.plan_declarations import Activation
from tacit.data.memory import Memory
from tacit.data.spec import Discrete, PublicSpec, Space
from tacit.envs.rollouts import Remembered
from tacit.envs.serving import Actor, returns
from tacit.errors import FileError, PlanError, TacitError
from tacit.methods.experts.learned import Learned as Taught
from tacit.methods.improvement import Improvement
from tacit.methods.off_policy_evaluation.features import ends
from tacit.methods.off_policy_evaluation.policies import Callable, Network, Policy, Uniform, imported
from tacit.methods.policy_gradient import Learned
from tacit.privacy.certificate.certificate import Release

STATE_DICT = ".safetensors"


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


def memory_of(value: Any) -> Memory | None:
    """What a released policy acts on in place of observations, if that is a memory."""
    return value.memory if isinstance(value, Improvement) else None


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


def released_policy(folder: Path) -> Release[Any]:
    """The policy of a run of `tacit train`, `tacit learn` or `tacit improve`.

    Raises:
        FileError: the folder is damaged or holds something else.
        CertificateError: the certificate does not recompute.
    """
    from tacit import hub

    inside = folder / "policy"
    if not folder.is_dir() or not any((folder / name).exists() for name in (hub.MODEL, hub.CONFIG)):
        run = inside.is_dir()
        what = "this is the folder of a run" if run else "there is no policy in this folder"
        if not folder.is_dir():
            what = "this is a file" if folder.exists() else "there is no such folder"
        raise FileError(
            what,
            where=str(folder),
            expected="the folder of a policy, RUN/policy of a run of `tacit train`, `tacit learn` or `tacit improve`",
            remedy=f"did you mean {inside}" if run else "check the path, or go on with the run (--resume)",
        )
    release = hub.load(folder)
    if not isinstance(release.value, Learned | Taught | Improvement):
        moves = hasattr(release.value, "generate")
        raise FileError(
            f"the release is a {'simulator of movement' if moves else 'synthesizer'}, and does not act",
            where=str(folder),
            expected="the policy of a run of `tacit train`, `tacit learn` or `tacit improve`",
            remedy=f"draw {'days' if moves else 'rows'} from it with `tacit {'generate' if moves else 'sample'}`",
        )
    return release


# Policies that a command line names.


def remembered(*words: str | None) -> Memory | None:
    """The memory that the policies of these words act on, where one is the folder of a policy that has one.

    Raises:
        PlanError: they act on different ones, and there is one set of records.
        FileError, CertificateError: a folder holds no policy.
    """
    folders = [Path(word) for word in words if word is not None and Path(word).is_dir()]
    memories = [memory_of(released_policy(folder).value) for folder in folders]
    if len(set(memories)) > 1:
        raise refused("--policy, --behaviour", "one acts on another memory", "policies of one memory", "name another")
    return memories[0] if memories else None


def named(words: str, option: str, activation: Activation | None) -> Network | None:
    """The network in the file, or the folder of a released policy, that these words name; None where they name none.

    Raises:
        PlanError: the words are of no known form, or name a function that cannot be imported.
        FileError, CertificateError: there is no such file or folder, or it holds no policy over discrete actions.
    """
    path = Path(words)
    if path.is_dir():
        return Network.of(released_policy(path).value.feed_forward())
    if ":" in words:
        own_function(words)
    elif path.suffix or os.sep in words:
        return Network.load(path, activation=activation or "relu")
    elif words not in ("behaviour", "uniform"):
        expected = "behaviour, uniform, a .safetensors or .onnx file, the folder of a policy or package.module:function"
        raise unknown(option, words, expected)
    return None


def policy_of(words: str, spec: PublicSpec, option: str, activation: Activation | None) -> Policy:
    """The policy of these words, tried on the ends of the public bounds.

    Raises:
        PlanError: its words are of no known form, or it does not fit the observations or the actions.
        FileError, CertificateError: there is no such file or folder, or it holds no policy.
    """
    space, network = spec.action, named(words, option, activation)
    if not isinstance(space, Discrete):
        raise PlanError(
            "the actions are continuous",
            where=option,
            expected="records of discrete actions, or --policy behaviour",
            remedy="cut the actions into public bins before importing the records",
        )
    policy: Policy = network or (Uniform(space.n) if words == "uniform" else Callable(words, space.n))
    if policy.actions != space.n:
        raise PlanError(
            f"the policy has {policy.actions} actions",
            where=option,
            expected=f"{space.n}, as the records have",
            remedy="choose a policy for these actions",
        )
    if network is not None and not _takes(network, spec.observation):
        raise unfit(option, "a network that takes the observation, or of a discrete one its indicators or its number")
    probabilities = np.asarray(tried(policy.probabilities, option, spec))
    if not np.isfinite(probabilities).all():
        raise unfit(option, "finite probabilities")
    return policy


def _takes(network: Network, space: Space) -> bool:
    if network.features is not None:
        return fits(network.features, space)
    inputs = network.layers[0][0].shape[1]
    return inputs == space.size or (isinstance(space, Discrete) and inputs == 1)


def tried(function: Any, option: str, spec: PublicSpec) -> Any:
    """What a function makes of the two ends of the public bounds; no record is involved."""
    try:
        return function(ends(spec.observation))
    except TacitError:
        raise
    except Exception as error:
        raise unfit(option, f"a function of observations within the public bounds ({type(error).__name__})") from None


def own_function(words: str) -> Any:
    """The user's function of this name, whose module may lie in the working folder, after everything installed.

    Raises:
        PlanError: there is none.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return imported(words)


def unknown(option: str, text: str, expected: str) -> PlanError:
    """Words that say nothing."""
    return PlanError(f"{text!r} is of no known form", where=option, expected=expected, remedy="choose one of these")


def unfit(option: str, expected: str) -> PlanError:
    """A policy or features for other observations."""
    return PlanError(
        "it does not fit the observations",
        where=option,
        expected=expected,
        remedy="try it on invented observations of these public bounds",
    )
