"""From the words of `tacit evaluate` to features, policies and a calibrated plan."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tacit.cli.commands import Activation, Evaluate
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import FileError, PlanError, TacitError
from tacit.methods.off_policy_evaluation import (
    Behaviour,
    BehaviourPolicy,
    Callable,
    Custom,
    DoublyRobust,
    Estimator,
    Features,
    FittedQ,
    Fourier,
    Gpope,
    ImportanceSampling,
    Lsl,
    Lsw,
    Network,
    OneHot,
    Policy,
    Problem,
    ResidualRegression,
    SufficientStatistics,
    Uniform,
)
from tacit.methods.off_policy_evaluation.features import ends
from tacit.methods.off_policy_evaluation.overlap import Overlap
from tacit.methods.off_policy_evaluation.policies import Target, imported
from tacit.units import Unit
from tacit.validation import check

_CLIPPED = ("pdis", "wpdis", "fqe", "dr", "gpope", "ssp")
_ON_POLICY, _OFF_POLICY = ("lsw", "lsl"), ("fqe", "dr")
NETWORK = ".safetensors"
_STAND_IN = PublicSpec(Discrete(2), Discrete(2), Box((0.0,), (1.0,)), "declared", propensities=True)
"""Where no file is opened: the promise does not depend on what the observations and actions are."""


def problem(command: Evaluate) -> Problem:
    """What is asked for.

    Raises:
        PlanError: gamma, the horizon, the number of episodes or the range is out of range.
    """
    return Problem(
        gamma=command.gamma,
        horizon=command.horizon,
        episodes_per_unit=command.episodes_per_unit,
        return_range=command.range,
    )


def diagnosed(command: Evaluate) -> Overlap | None:
    """The calibrated plan of the overlap diagnostics with their share of epsilon and delta, if they are asked for.

    Raises:
        PlanError: the share is not inside (0, 1), or the policy is that of the records.
    """
    share = command.overlap
    if share is None:
        return None
    check("overlap", share, 0 < share < 1, "a share of epsilon and delta, such as 0.1")
    if command.policy == "behaviour":
        raise _meaningless("--overlap", "another --policy than behaviour")
    unit = Unit(command.unit, command.relation, command.population)
    plan = Overlap(problem=problem(command), level=command.level)
    return plan.calibrate(unit=unit, epsilon=share * command.epsilon, delta=share * command.delta)


def planned(command: Evaluate, spec: PublicSpec | None) -> Estimator:
    """The calibrated plan of the evaluation, with what the overlap diagnostics leave of epsilon and delta.

    Args:
        command: the options.
        spec: the public bounds of the records; None for a dry run, which stands in for them.

    Raises:
        PlanError: an option is out of range, does not fit the method or the observations, or one is missing.
    """
    unit, method = Unit(command.unit, command.relation, command.population), command.method
    asked, level = problem(command), command.level
    if command.find_range and (method != "residual" or command.range is not None):
        raise _meaningless("--find-range", "--method residual without --range")
    if command.clip is not None and method not in _CLIPPED:
        raise _meaningless("--clip", f"one of the methods {', '.join(_CLIPPED)}")
    if (method in _ON_POLICY and command.policy != "behaviour") or (
        method in _OFF_POLICY and command.policy == "behaviour"
    ):
        raise PlanError(
            f"--method {method} does not evaluate this policy",
            where="evaluate",
            expected="--policy behaviour for lsw and lsl, any other one for fqe and dr",
            remedy="choose the method residual, which evaluates both",
        )
    own: dict[str, Any] = {} if command.clip is None else {"clip": command.clip}
    plan: Estimator
    if method in ("pdis", "wpdis"):
        if command.features is not None:
            raise _meaningless("--features", "a method with a value function")
        plan = ImportanceSampling(problem=asked, weighting=method, level=level, **own)
    else:
        phi = features(None if spec is None else command.features, _STAND_IN if spec is None else spec)
        match method:
            case "residual":
                on_policy = command.policy == "behaviour"
                plan = ResidualRegression(
                    problem=asked, features=phi, on_policy=on_policy, range_finder=command.find_range, level=level
                )
            case "fqe":
                plan = FittedQ(problem=asked, features=phi, level=level, **own)
            case "dr":
                plan = DoublyRobust(problem=asked, features=phi, level=level, **own)
            case "gpope":
                plan = Gpope(problem=asked, features=phi, level=level, **own)
            case "ssp":
                plan = SufficientStatistics(problem=asked, features=phi, level=level, clip=_needed(command.clip))
            case "lsw":
                plan = Lsw(problem=asked, features=phi)
            case "lsl":
                plan = Lsl(problem=asked, features=phi)
    # Rounding must not lift the sum of both shares above the budget.
    rest = 1.0 if command.overlap is None else (1 - command.overlap) * (1 - 1e-12)
    return plan.calibrate(unit=unit, epsilon=rest * command.epsilon, delta=rest * command.delta)


def features(words: str | None, spec: PublicSpec) -> Features:
    """The feature map of these words, or the default one: one-hot, or Fourier of order 3.

    Raises:
        PlanError: the words are of no known form, or the features do not fit the observation.
    """
    space = spec.observation
    default = "one-hot" if isinstance(space, Discrete) else "fourier:3"
    kind, _, rest = (default if words is None else words).partition(":")
    phi: Features
    if kind == "one-hot":
        if not isinstance(space, Discrete):
            raise PlanError(
                "one-hot features need a discrete observation",
                where="--features",
                expected="fourier:ORDER or package.module:function",
                remedy="choose one of these for numbers",
            )
        phi = OneHot(_whole("--features", rest) if rest else space.n)
    elif kind == "fourier":
        low, high = ((0.0,), (space.n - 1.0,)) if isinstance(space, Discrete) else (space.low, space.high)
        phi = Fourier(_whole("--features", rest), low, high)
    elif rest:
        _find_modules_here()
        found = np.asarray(_tried(imported(str(words)), "--features", spec))
        if found.ndim != 2 or len(found) != 2:
            raise _unfit("--features", "numbers [N, n] for N observations")
        phi = Custom(str(words), found.shape[1])
    else:
        raise _unknown("--features", kind, "one-hot, one-hot:STATES, fourier:ORDER or package.module:function")
    _tried(phi, "--features", spec)
    return phi


def target(command: Evaluate, spec: PublicSpec) -> Target:
    """The evaluated policy, tried on the ends of the public bounds.

    Raises:
        PlanError: its words are of no known form, it does not fit the observations or the actions, or an activation is
            given without a network.
        FileError: there is no such file, or it holds no policy.
    """
    networks = [words for words in (command.policy, command.behaviour) if words and words.endswith(NETWORK)]
    if command.activation is not None and not networks:
        raise _meaningless("--activation", f"a network FILE{NETWORK}")
    if command.policy == "behaviour":
        return Behaviour()
    return _policy(command.policy, spec, "--policy", command.activation)


def behaviour(command: Evaluate, spec: PublicSpec) -> BehaviourPolicy | None:
    """The known behaviour policy, or None where the logged propensities serve.

    Raises:
        PlanError: neither is there, or a known one comes without its source, or is not needed.
        FileError: there is no such file, or it holds no policy.
    """
    on_policy = command.policy == "behaviour"
    if command.behaviour is None:
        if command.behaviour_source is not None:
            raise _meaningless("--behaviour-source", "--behaviour")
        if not on_policy and not spec.propensities:
            raise PlanError(
                "the records have no propensities",
                where="evaluate",
                expected="records that were imported with propensities, or --behaviour, or --policy behaviour",
                remedy="log the probability of each action, and import it with --propensity",
            )
        return None
    if on_policy:
        raise _meaningless("--behaviour", "another --policy than behaviour")
    if command.behaviour_source is None:
        raise PlanError(
            "the source of the behaviour policy is missing",
            where="evaluate",
            expected="--behaviour-source environment, physics, declared or public_data",
            remedy="say how it is known without the records; one that was fitted to them is refused",
        )
    return BehaviourPolicy(
        _policy(command.behaviour, spec, "--behaviour", command.activation), command.behaviour_source
    )


def _policy(words: str, spec: PublicSpec, option: str, activation: Activation | None) -> Policy:
    space = spec.action
    if not isinstance(space, Discrete):
        raise PlanError(
            "the actions are continuous",
            where=option,
            expected="records of discrete actions, or --policy behaviour",
            remedy="cut the actions into public bins before importing the records",
        )
    policy: Policy
    if words == "uniform":
        policy = Uniform(space.n)
    elif words.endswith(NETWORK):
        policy = _network(Path(words), activation, spec, option)
    elif ":" in words:
        _find_modules_here()
        policy = Callable(words, space.n)
    else:
        raise _unknown(option, words, "behaviour, uniform, FILE.safetensors or package.module:function")
    if policy.actions != space.n:
        raise PlanError(
            f"the policy has {policy.actions} actions",
            where=option,
            expected=f"{space.n}, as the records have",
            remedy="choose a policy for these actions",
        )
    found = np.asarray(_tried(policy.probabilities, option, spec))
    if not np.isfinite(found).all():
        raise _unfit(option, "finite probabilities")
    return policy


def _network(path: Path, activation: Activation | None, spec: PublicSpec, option: str) -> Network:
    from safetensors import SafetensorError

    if not path.is_file():
        raise FileError(
            "there is no such file",
            where=str(path),
            expected="a policy in a .safetensors file",
            remedy=f"check the path after {option}",
        )
    try:
        network = Network.load(path, activation=activation or "relu")
    except (OSError, SafetensorError, KeyError, PlanError):
        raise FileError(
            "the file holds no policy of the known layout",
            where=str(path),
            expected="tensors NAME.weight [out, in] and NAME.bias [out] of each layer, with numbered names (0.weight, "
            "0.bias, 2.weight, ...) whose numbers are the order, and logits of the actions at the end",
            remedy="save the state dict of a torch.nn.Sequential of Linear layers, or name a function instead",
        ) from None
    inputs, space = network.layers[0][0].shape[1], spec.observation
    if isinstance(space, Discrete) and inputs not in (1, space.n):
        raise _unfit(option, f"a network of {space.n} inputs, one for each discrete observation, or of one")
    return network


def _tried(function: Any, option: str, spec: PublicSpec) -> Any:
    """What a function makes of the two ends of the public bounds; no record is involved."""
    try:
        return function(ends(spec.observation))
    except TacitError:
        raise
    except Exception as error:
        raise _unfit(option, f"a function of observations within the public bounds ({type(error).__name__})") from None


def _find_modules_here() -> None:
    """Let a user's module lie in the working folder, after everything that is installed."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def _whole(option: str, text: str) -> int:
    if not text.isdecimal():
        raise _unknown(option, text, "a whole number after the colon, such as fourier:3 or one-hot:40")
    return int(text)


def _needed(clip: float | None) -> float:
    if clip is None:
        raise PlanError(
            "the clip is missing",
            where="evaluate",
            expected="--clip, the largest norm of one unit's statistics",
            remedy="choose it without looking at the records, or use the method residual, which needs none",
        )
    return clip


def _meaningless(option: str, expected: str) -> PlanError:
    return PlanError(f"{option} has no meaning here", where="evaluate", expected=expected, remedy=f"leave {option} out")


def _unknown(option: str, given: str, expected: str) -> PlanError:
    return PlanError(f"{given!r} is of no known form", where=option, expected=expected, remedy="choose one of these")


def _unfit(option: str, expected: str) -> PlanError:
    return PlanError(
        "it does not fit the observations",
        where=option,
        expected=expected,
        remedy="try it on invented observations of these public bounds",
    )
