"""Policies: public features, a network and a distribution over actions, for many parameter vectors at once. The
parameters theta of a policy are one flat float32 vector [P]: those of the network, then those of the head. Nothing here
keeps state; the same policy serves all replicates, whose parameters are the rows of [R, P]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from tacit.agents import features as maps
from tacit.agents import heads
from tacit.agents.features import Features, OneHot
from tacit.agents.heads import Categorical, Gaussian, Head
from tacit.agents.networks import FunctionalNetwork, Mlp
from tacit.data.spec import Box, PublicSpec
from tacit.errors import PlanError
from tacit.serialization import Json, Kinds

Array = NDArray[Any]
Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class Policy(Json):
    """pi(a | s): `head` over the outputs of `network` (`Mlp`, or `TorchNetwork`) on public `features` of the
    observation. Raises PlanError where the widths do not fit each other."""

    features: Features
    network: Annotated[FunctionalNetwork, Kinds(Mlp)]
    head: Annotated[Head, Kinds(Categorical, Gaussian)]

    def __post_init__(self) -> None:
        if not isinstance(getattr(self.network, "inputs", None), int):
            what = f"the network is a {type(self.network).__name__}"
            expected = "an Mlp, or a torch module inside a TorchNetwork"
            remedy = "wrap it: TorchNetwork(module, inputs=features.size)"
            raise PlanError(what, where="Policy", expected=expected, remedy=remedy)
        inside, outside = (self.network.inputs, self.network.outputs), (self.features.size, self.head.outputs)
        if inside != outside:
            what = f"the network has {inside[0]} inputs and {inside[1]} outputs"
            expected = f"{outside[0]} inputs, as the features give, and {outside[1]} outputs, as the head reads"
            remedy = "change the first or the last width of the network"
            raise PlanError(what, where="Policy", expected=expected, remedy=remedy)

    @classmethod
    def default(cls, spec: PublicSpec, hidden: tuple[int, ...] = (64, 64)) -> Policy:
        """A tanh network of these widths over the spec's own bounds; `hidden=()` is log-linear."""
        features, head = maps.default_features(spec.observation), heads.default_head(spec.action)
        return cls(features, Mlp((features.size, *hidden, head.outputs), gain=0.01 if hidden else 0.0), head)

    @property
    def parameters(self) -> int:
        """P: the network's parameters and the head's own."""
        return self.network.parameters + self.head.parameters

    def initial_parameters(self, generator: np.random.Generator, groups: int) -> Float32:
        """First parameters [groups, P]: the network's own start, zeros for the head."""
        free = np.zeros((groups, self.head.parameters), np.float32)
        return np.concatenate([self.network.initial_parameters(generator, groups), free], axis=1)

    def split(self, theta: Float32) -> tuple[Float32, Float32]:
        """Parameters [G, P] as the network's [G, P - e] and the head's own [G, e] (views)."""
        count = self.network.parameters
        return theta[:, :count], theta[:, count:]

    def act(
        self,
        theta: Float32,
        observations: Array,
        replicate: NDArray[np.int64],
        generator: np.random.Generator,
        *,
        greedy: bool = False,
        single: bool = False,
    ) -> Array:
        """Actions for N observations, each under the parameters of its replicate.

        With an `Mlp` they do not depend, to the last bit, on which other observations there are (`tacit.rowwise`).

        Args:
            theta: [R, P].
            observations: [N, d], or [N] where they are discrete.
            replicate: [N] in 0 .. R - 1.
            generator: of the actions' randomness.
            greedy: the most probable action (the middle) instead of a random one.
            single: whether a replicate has one observation at most; then its products have one shape as they are.

        Returns:
            int64 [N], or float32 [N, a].
        """
        layout = _ReplicateLayout.of(replicate, len(theta))
        network, free = self.split(theta if len(layout.groups) == len(theta) else theta[layout.groups])
        x = layout.group_rows(self.features(observations))
        if isinstance(self.network, Mlp) and not single:
            outputs = self.network.forward_rowwise(network, x)
        else:
            outputs, _ = self.network.forward(network, x)
        actions = self.head.greedy(outputs) if greedy else self.head.draw(outputs, free, generator)
        return layout.ungroup_rows(actions)

    def gradient(
        self, theta: Float32, observations: Array, actions: Array, weights: Array, entropy: float = 0.0
    ) -> Float32:
        """sum_t weights_t grad log pi(a_t | s_t) + entropy grad H(s_t) for each of G people.

        Args:
            theta: [G, P], one row a person.
            observations: [G, n, d] or [G, n].
            actions: [G, n] or [G, n, a], as they were played.
            weights: [G, n].
            entropy: coefficient of the distribution's entropy H in each of the states.

        Returns:
            [G, P].
        """
        network, free = self.split(theta)
        outputs, cache = self.network.forward(network, self.features(observations))
        weights = np.asarray(weights, np.float32)
        by_outputs, by_free = self.head.slopes(outputs, free, actions, weights, entropy)
        return np.concatenate([self.network.backward(network, cache, by_outputs)[:, 0], by_free], axis=1)

    def require_fit(self, spec: PublicSpec) -> None:
        """Refuse (PlanError) records whose observations the features do not take, or whose actions are not the
        head's."""
        if not maps.is_compatible(self.features, spec.observation) or not heads.is_compatible(self.head, spec.action):
            what = "the policy is not one for these people's observations and actions"
            expected = f"features of {_describe_space(spec.observation)} and actions of {_describe_space(spec.action)}"
            raise PlanError(what, where="Policy", expected=expected, remedy="build it with Policy.default(vault.spec)")

    def to_json(self) -> dict[str, Any]:
        """The policy as JSON values, without parameters; `from_json` gives back an equal one. Raises PlanError unless
        the network is an `Mlp`."""
        if not isinstance(self.network, Mlp):
            what = f"a {type(self.network).__name__} cannot be written as JSON"
            expected, remedy = "an Mlp", "save such a network by its own means"
            raise PlanError(what, where="Policy.to_json", expected=expected, remedy=remedy)
        return super().to_json()


@dataclass(frozen=True, eq=False)
class PolicyActor:
    """A policy with its public parameters [R, P], one row a replicate, as people are served with it (an `Actor`).
    `single` says whether every replicate has one observation at a time (see `Policy.act`)."""

    policy: Policy
    theta: Float32
    greedy: bool = False
    single: bool = False

    def __call__(self, observations: Array, replicate: NDArray[np.int64], generator: np.random.Generator) -> Array:
        """Actions [N] or [N, a] (see `Policy.act`)."""
        how = {"greedy": self.greedy, "single": self.single}
        return self.policy.act(self.theta, observations, replicate, generator, **how)

    def predict(
        self,
        observation: Array,
        state: None = None,
        episode_start: Array | None = None,
        deterministic: bool = False,
        *,
        generator: np.random.Generator | None = None,
    ) -> tuple[Array, None]:
        """Act as a model of Stable-Baselines3 does, so that tools for these take the policy.

        Args:
            observation: one, [d] or a number, or N of them, [N, d] or [N].
            state, episode_start: of recurrent policies; this one has no memory.
            deterministic: the most probable action (the middle), as a greedy policy always takes.
            generator: of random actions; None takes a fresh one.

        Returns:
            The action, or actions [N], and None in place of a state.

        Raises:
            PlanError: there are policies of several replicates.
        """
        if len(self.theta) != 1:
            what, expected = f"there are policies of {len(self.theta)} replicates", "one policy"
            raise PlanError(what, where="predict", expected=expected, remedy="take one with .replicate(r)")
        generator = np.random.default_rng() if generator is None else generator

        def act(observations: Array) -> Array:
            replicate = np.zeros(len(observations), np.int64)
            return self.policy.act(self.theta, observations, replicate, generator, greedy=self.greedy or deterministic)

        return predict_actions(act, observation, 0 if isinstance(self.policy.features, OneHot) else 1)


def predict_actions(act: Callable[[Array], Array], observation: Array, rank: int) -> tuple[Array, None]:
    """What `predict` of Stable-Baselines3 gives: actions of N observations, or of one, and no state.

    Args:
        act: observations [N, ...] to actions [N, ...].
        observation: one, or N of them.
        rank: dimensions of the array of one observation.
    """
    observations = np.asarray(observation)
    return (np.asarray(act(observations[None])[0]) if observations.ndim == rank else act(observations)), None


@dataclass(frozen=True, eq=False)
class ValueFunction:
    """A value function v(s): a network with one output on public features; what a shared critic is. Raises PlanError
    where the widths do not fit."""

    features: Features
    network: FunctionalNetwork

    def __post_init__(self) -> None:
        if (self.network.inputs, self.network.outputs) != (self.features.size, 1):
            what = f"the network has {self.network.inputs} inputs and {self.network.outputs} outputs"
            expected = f"{self.features.size} inputs, as the features give, and one output"
            remedy = "change the first or the last width of the network"
            raise PlanError(what, where="Value", expected=expected, remedy=remedy)

    def __call__(self, phi: Float32, observations: Array) -> Float32:
        """Values [G, n] of observations [G, n, ...] under parameters [G, Q]."""
        return self.network.forward(phi, self.features(observations))[0][..., 0]

    def gradient(self, phi: Float32, observations: Array, weights: Array) -> Float32:
        """sum_t weights_t grad v(s_t), [G, Q], for weights [G, n]."""
        _, cache = self.network.forward(phi, self.features(observations))
        return self.network.backward(phi, cache, np.asarray(weights, np.float32)[..., None])[:, 0]


@dataclass(frozen=True, eq=False)
class _ReplicateLayout:
    """N rows, seated by replicate: [G, width, ...] for the G replicates that have any."""

    groups: NDArray[np.int64]  # [G], which replicates these are
    # ([N] group, [N] place) of every row; None where rows come replicate by replicate, equally many of each
    positions: tuple[NDArray[np.int64], NDArray[np.int64]] | None
    width: int  # largest number of rows of a replicate

    @classmethod
    def of(cls, replicate: NDArray[np.int64], replicates: int) -> _ReplicateLayout:
        all_replicates = np.arange(replicates)
        rows_each, rest = divmod(len(replicate), replicates)
        if not rest and np.array_equal(replicate, np.repeat(all_replicates, rows_each)):
            return cls(all_replicates, None, rows_each)
        counts = np.bincount(replicate, minlength=replicates)
        order = np.argsort(replicate, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        group = (np.cumsum(counts > 0) - 1)[replicate]
        return cls(np.flatnonzero(counts), (group, place), int(counts.max(initial=0)))

    def group_rows(self, rows: Array) -> Array:
        if self.positions is None:
            return rows.reshape(len(self.groups), self.width, *rows.shape[1:])
        seated = np.zeros((len(self.groups), self.width, *rows.shape[1:]), rows.dtype)
        seated[self.positions] = rows
        return seated

    def ungroup_rows(self, seated: Array) -> Array:
        if self.positions is None:
            return seated.reshape(-1, *seated.shape[2:])
        return np.asarray(seated[self.positions])


def _describe_space(space: object) -> str:
    return f"{space.size} dimensions" if isinstance(space, Box) else f"{space.size} values"  # type: ignore[attr-defined]
