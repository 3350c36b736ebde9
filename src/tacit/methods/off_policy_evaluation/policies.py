"""Policies that are evaluated, and behaviour policies that are known: functions of an observation, fixed and public."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable as Function
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tacit import rowwise
from tacit.agents import policy_files
from tacit.agents.features import OneHot, Quadratic, Scaled, is_compatible
from tacit.agents.policies import predict_actions
from tacit.agents.policy_files import Activation, FeedForward
from tacit.data.spec import Discrete, PublicSpec, Space
from tacit.envs.rollouts import draw
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.decision_lists import DecisionList
from tacit.privacy.vault.invented import edge_rows, invented_rows, try_public
from tacit.validation import require_valid

Float64 = NDArray[np.float64]

_MAPS = ("tacit.agents.features", "tacit.methods.off_policy_evaluation.features")


@runtime_checkable
class DiscretePolicy(Protocol):
    """A policy over discrete actions: a frozen dataclass."""

    @property
    def actions(self) -> int:
        """How many actions there are."""

    def probabilities(self, observations: np.ndarray) -> Float64:
        """Observations [N, d], or [N] of a discrete space -> probabilities [N, A], rows that sum to 1."""


class FeatureMap(Protocol):
    """What a linear policy needs of features (see `features.Features`)."""

    def __call__(self, observations: np.ndarray) -> NDArray[np.float32]:
        """Observations -> [N, n]."""


@dataclass(frozen=True)
class Behaviour:
    """The policy that made the records, evaluated on itself (on-policy): every ratio is 1, no propensities needed."""


@dataclass(frozen=True)
class Uniform:
    """Every action with the same probability.

    Args:
        actions: how many there are.
    """

    actions: int

    def probabilities(self, observations: np.ndarray) -> Float64:
        """1 / A everywhere."""
        return np.full((len(observations), self.actions), 1 / self.actions)


@dataclass(frozen=True, eq=False)
class Tabular:
    """A table of probabilities for discrete observations, or for observations of categories alone.

    Args:
        table: [S, A], rows that sum to 1. States from S on take every action alike. Of several categories it has one
            axis each, [S1, S2, ..., A].

    Raises:
        PlanError: a row is no distribution.
    """

    table: np.ndarray

    def __post_init__(self) -> None:
        table = np.array(self.table, np.float64)
        valid = table.ndim > 1 and bool((table >= 0).all()) and bool(np.allclose(table.sum(-1), 1, atol=1e-6))
        require_valid("table", table.shape, valid, "probabilities [S, A] whose rows sum to 1")
        table /= table.sum(-1, keepdims=True)
        table.setflags(write=False)
        object.__setattr__(self, "table", table)

    @property
    def actions(self) -> int:
        """A."""
        return int(self.table.shape[-1])

    def probabilities(self, observations: np.ndarray) -> Float64:
        """The states' rows."""
        return self.action_probabilities(np.asarray(observations)[:, None], np.arange(self.actions))

    def action_probabilities(self, observations: np.ndarray, actions: np.ndarray) -> Float64:
        """The probability of one action in each state; states and actions of shapes that broadcast."""
        states, sizes = observations.astype(np.int64, copy=False), self.table.shape[:-1]
        if len(sizes) > 1:
            states = np.ravel_multi_index(tuple(np.moveaxis(states, -1, 0)), sizes, mode="clip")
        known = np.append(self.table, np.full(self.actions, 1 / self.actions))
        return np.asarray(known.take(np.minimum(states, math.prod(sizes)) * self.actions + actions))


@dataclass(frozen=True, eq=False)
class LinearQ:
    """A policy from a linear action value, Q(s, a) = phi(s) . weights[:, a].

    Args:
        features: phi.
        weights: [n, A], public.
        kind: `softmax` of Q / temperature, or `epsilon_greedy`.
        temperature: of the softmax.
        epsilon: probability that epsilon-greedy spreads over all actions alike.
    """

    features: FeatureMap
    weights: np.ndarray
    kind: Literal["softmax", "epsilon_greedy"] = "softmax"
    temperature: float = 1.0
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        weights = np.array(self.weights, np.float64)
        valid = bool(weights.ndim == 2 and np.isfinite(weights).all())
        require_valid("weights", weights.shape, valid, "finite numbers [n, A]")
        require_valid("kind", self.kind, self.kind in ("softmax", "epsilon_greedy"), "softmax or epsilon_greedy")
        require_valid("temperature", self.temperature, 0 < self.temperature < np.inf, "a finite number > 0")
        require_valid("epsilon", self.epsilon, 0 <= self.epsilon <= 1, "a number in [0, 1]")
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)

    @property
    def actions(self) -> int:
        """A."""
        return int(self.weights.shape[1])

    def probabilities(self, observations: np.ndarray) -> Float64:
        """Softmax or epsilon-greedy over Q."""
        phi = np.asarray(self.features(observations), np.float64)
        values = rowwise.product(phi, self.weights)
        if self.kind == "softmax":
            return rowwise.softmax(values / self.temperature)
        return (1 - self.epsilon) * rowwise.one_hot(values) + self.epsilon / self.actions


@dataclass(frozen=True, eq=False)
class Network:
    """Softmax over the outputs of a multi-layer perceptron, or its best action.

    Args:
        layers: (weight [out, in], bias [out]) of each layer, as PyTorch's `Linear` keeps them.
        activation: between the layers, `relu` or `tanh`.
        features: of the observation, what the first layer takes; None for the observation itself.
        greedy: whether the action of the largest output is taken always.

    Raises:
        PlanError: layers do not fit each other, or the features.
    """

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    activation: Activation = "relu"
    features: Scaled | OneHot | Quadratic | None = None
    greedy: bool = False

    def __post_init__(self) -> None:
        layers = tuple((np.array(w, np.float64), np.array(b, np.float64)) for w, b in self.layers)
        fits = bool(layers) and all(w.ndim == 2 and b.shape == w.shape[:1] for w, b in layers)
        fits = fits and all(a[0].shape[0] == b[0].shape[1] for a, b in itertools.pairwise(layers))
        fits = fits and (self.features is None or self.features.size == layers[0][0].shape[1])
        fits = fits and all(np.isfinite(array).all() for array in itertools.chain.from_iterable(layers))
        require_valid(
            "layers",
            [w.shape for w, _ in layers],
            fits,
            "finite weights [out, in] that fit one another and the features",
        )
        require_valid("activation", self.activation, self.activation in ("relu", "tanh"), "relu or tanh")
        for array in itertools.chain.from_iterable(layers):
            array.setflags(write=False)
        object.__setattr__(self, "layers", layers)

    @classmethod
    def of(cls, network: FeedForward, *, activation: Activation = "relu") -> Network:
        """What a file or a released policy holds (`value.feed_forward()`); `activation` where that does not say it."""
        layers = tuple((weight.T, bias) for weight, bias in network.layers)
        return cls(layers, network.activation or activation, network.features, network.greedy)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, activation: Activation = "relu") -> Network:
        """From a file (see `tacit.agents.policy_files`); `activation` is for state dicts, which do not say it.

        Raises:
            FileError: there is no such file, or it holds no policy.
        """
        return cls.of(policy_files.read(Path(path)), activation=activation)

    @property
    def actions(self) -> int:
        """Outputs of the last layer."""
        return int(self.layers[-1][0].shape[0])

    def probabilities(self, observations: np.ndarray) -> Float64:
        """Of every action, [N, A]; without features whole-numbered observations enter as indicators."""
        inputs = self.layers[0][0].shape[1]
        if self.features is not None:
            x = self.features(observations).astype(np.float64)
        else:
            x = np.asarray(observations, np.float64)
            x = np.asarray(x[:, None] == np.arange(inputs), np.float64) if x.ndim == 1 and inputs > 1 else x
        x = x.reshape(len(x), inputs)
        for i, (weight, bias) in enumerate(self.layers):
            x = rowwise.product(x, weight.T) + bias
            if i < len(self.layers) - 1:
                x = np.maximum(x, 0) if self.activation == "relu" else rowwise.tanh(x)
        return rowwise.one_hot(x) if self.greedy else rowwise.softmax(x)

    def accepts(self, space: Space) -> bool:
        """Whether the first layer takes observations of this space: of a discrete one indicators, or its number."""
        if self.features is not None:
            return is_compatible(self.features, space)
        inputs = self.layers[0][0].shape[1]
        return inputs == space.size or (isinstance(space, Discrete) and inputs == 1)

    def predict(
        self,
        observation: np.ndarray,
        state: None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
        *,
        generator: np.random.Generator | None = None,
    ) -> tuple[np.ndarray, None]:
        """Act as a model of Stable-Baselines3 does (see `tacit.agents.policies.PolicyActor.predict`).

        Args:
            observation: one, [d], or N of them, [N, d]; behind features of discrete ones a number, or [N].
            state, episode_start: of recurrent policies; this one has no memory.
            deterministic: the most probable action.
            generator: of random actions; None takes a fresh one.
        """
        generator = np.random.default_rng() if generator is None else generator

        def act(observations: np.ndarray) -> np.ndarray:
            chances = self.probabilities(observations)
            return rowwise.argmax(chances) if deterministic else draw(chances, generator)

        return predict_actions(act, observation, 0 if isinstance(self.features, OneHot) else 1)


@dataclass(frozen=True)
class Callable:
    """The user's own policy; the certificate names the function as an assumption.

    Args:
        function: "package.module:function", observations -> probabilities [N, A].
        actions: A.

    Raises:
        PlanError: the function cannot be imported.
    """

    function: str
    actions: int

    def __post_init__(self) -> None:
        import_function(self.function)

    def probabilities(self, observations: np.ndarray) -> Float64:
        """What the function says; rows that are no distribution become uniform.

        Raises:
            PlanError: the shape is not [N, A]. Wrong values raise nothing: an error could tell about a record.
        """
        return self._normalise([observations])

    def row_probabilities(self, observations: np.ndarray) -> Float64:
        """The same of observations that the function meets one at a time: what it says depends on no other row."""
        return self._normalise([observations[i : i + 1] for i in range(len(observations))])

    def require_distributions(self, observations: np.ndarray) -> None:
        """Try the function on public observations, before any record is read.

        Raises:
            PlanError: it does not return distributions.
        """
        if not self._evaluate([observations])[1].all():
            raise self._distribution_error()

    def _normalise(self, batches: list[np.ndarray]) -> Float64:
        values, valid, total = self._evaluate(batches)
        return np.asarray(np.where(valid[:, None], values / np.where(valid, total, 1.0)[:, None], 1 / self.actions))

    def _evaluate(self, batches: list[np.ndarray]) -> tuple[Float64, NDArray[np.bool_], Float64]:
        """The values [N, A], which rows of them are distributions [N], and their sums [N] in the order of actions."""
        function, found = import_function(self.function), [np.zeros((0, self.actions))]
        for batch in batches:
            found.append(np.asarray(function(batch), np.float64))
            if found[-1].shape != (len(batch), self.actions):
                raise self._distribution_error()
        values = np.concatenate(found)
        total = values[:, 0].copy()  # by itself, as `rowwise.softmax` does: NumPy may add up a batch in another order
        for action in range(1, self.actions):
            total += values[:, action]
        valid = np.isfinite(values).all(axis=1) & (values >= 0).all(axis=1) & (np.abs(total - 1) <= 1e-4)
        return values, np.asarray(valid), total

    def _distribution_error(self) -> PlanError:
        what = "the policy does not return distributions over the actions"
        expected = f"probabilities of shape [N, {self.actions}] whose rows sum to 1"
        return PlanError(what, where=self.function, expected=expected, remedy="normalise them inside the function")


@dataclass(frozen=True)
class ModelledPolicy:
    """A policy as a private model has it, mixed with the uniform one so that no probability is below floor / A."""

    policy: DiscretePolicy  # the model
    floor: float  # the share of the uniform policy

    def __post_init__(self) -> None:
        require_valid("floor", self.floor, 0 <= self.floor <= 1, "a number in [0, 1]")

    @property
    def actions(self) -> int:
        """A."""
        return self.policy.actions

    def probabilities(self, observations: np.ndarray) -> Float64:
        """(1 - floor) p + floor / A."""
        return (1 - self.floor) * self.policy.probabilities(observations) + self.floor / self.actions


Target = DiscretePolicy | Behaviour
"""What is evaluated."""


def row_probabilities(policy: DiscretePolicy, observations: np.ndarray) -> Float64:
    """Probabilities [N, A] of observations of private rows: each a function of its own observation, to the last bit."""
    # Policies that are tacit's throughout promise that for any batch (`tacit.rowwise`). What others compute on a batch
    # may be rounded by who else is in it, and a tie decided by that; so they meet one observation at a time.
    if _is_rowwise(policy):
        return policy.probabilities(observations)
    if type(policy) is Callable:
        return policy.row_probabilities(observations)
    rows = [policy.probabilities(observations[i : i + 1]) for i in range(len(observations))]
    return np.concatenate([np.zeros((0, policy.actions)), *rows])


def _is_rowwise(policy: object) -> bool:
    if type(policy) is ModelledPolicy:
        return _is_rowwise(policy.policy)
    if type(policy) in (LinearQ, Network):  # what is no feature map of tacit's own, or calls a function, is another's
        features = getattr(policy, "features", None)
        return features is None or (type(features).__module__ in _MAPS and not hasattr(features, "function"))
    return type(policy) in (Uniform, Tabular, DecisionList)


_FUNCTION = "a function of observations within the public bounds"


def try_function(function: Function[[np.ndarray], Any], name: str, spec: PublicSpec, where: str) -> list[Any]:
    """What a function makes of invented observations, of all of them and of single ones; no record is involved.

    Args:
        function: of observations [N, d], or [N] of a discrete space.
        name: what it is called, for errors.
        spec: the public bounds.
        where: it was given, for errors.

    Raises:
        PlanError: it fails.
    """
    drawn = invented_rows(spec, 64, 1, seed=0)["observations"][:, 0]
    ends = [rows["observations"][:, 0] for rows in edge_rows(spec, 64, 1)]
    batches, error = (np.concatenate([drawn, *ends]), *np.split(drawn, len(drawn))), unfit_error(name, where, _FUNCTION)
    words = {"where": where, "expected": _FUNCTION, "remedy": error.remedy}
    return try_public(lambda: [function(each.copy()) for each in batches], lambda _: True, error.what, **words)


def try_policy(policy: DiscretePolicy, spec: PublicSpec, where: str = "off_policy_evaluation") -> None:
    """Try what estimators ask of a policy on invented observations, before any record is read or paid for.

    Args:
        policy: with as many actions as the records.
        spec: the public bounds.
        where: it was given, for errors.

    Raises:
        PlanError: it fails on them, or what it returns are no distributions over the actions.
    """
    if isinstance(policy, Callable):
        try_function(policy.require_distributions, policy.function, spec, where)
        return
    if isinstance(policy, Network) and not policy.accepts(spec.observation):
        expected = "a network that takes the observation, or of a discrete one its indicators or its number"
        raise unfit_error("the network", where, expected)
    name = type(policy).__name__
    found = try_function(
        lambda rows: (len(rows), np.asarray(policy.probabilities(rows), np.float64)), name, spec, where
    )
    for rows, values in found:
        fits = values.shape == (rows, policy.actions) and bool((values >= 0).all())
        if not (fits and np.allclose(values.sum(axis=1), 1, rtol=0, atol=1e-4)):
            raise unfit_error(name, where, f"finite probabilities [N, {policy.actions}] whose rows sum to 1")


def unfit_error(name: str, where: str, expected: str) -> PlanError:
    """A policy or features for other observations."""
    what, remedy = f"{name} does not fit the observations", "try it on invented observations of these public bounds"
    return PlanError(what, where=where, expected=expected, remedy=remedy)


def behaviour_error() -> PlanError:
    """The refusal of records that no importance ratio can be made of, with both ways out."""
    return PlanError(
        "the records have no propensities, so the behaviour policy is unknown",
        where="off_policy_evaluation",
        expected="the probability of each logged action, or a policy that is known or modelled privately",
        remedy="import a column of propensities (--propensity), or spend a share of the budget on a private model "
        "(--behaviour model, behaviour_model=BehaviourModel(...))",
    )


@lru_cache(maxsize=64)
def import_function(path: str) -> Function[[np.ndarray], Any]:
    """The function "package.module:function".

    Raises:
        PlanError: there is none.
    """
    module, _, name = path.partition(":")
    try:
        function: Function[[np.ndarray], Any] = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        what = f"{path!r} cannot be imported"
        expected, remedy = "'package.module:function'", "check the spelling and that the package is installed"
        raise PlanError(what, where="off_policy_evaluation", expected=expected, remedy=remedy) from error
    return function
