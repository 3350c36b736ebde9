"""Public states at which experts are asked what they would do: nothing in them depends on records."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.agents import features as maps
from tacit.agents.policies import PolicyActor
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.serving import serve
from tacit.errors import DataError, PlanError
from tacit.privacy.mechanisms.base import EpisodeSimulator, Experts
from tacit.validation import require_valid

Array = NDArray[Any]

EPISODES = 50
"""How many episodes are played to find the states of a further round."""


@dataclass(frozen=True, kw_only=True)
class UniformAnchors:
    """States drawn uniformly from a public box with a public seed.

    Args:
        low, high: the box, (d,): where decisions matter, which may be narrower than the bounds of the records.
        count: N.
        seed: of the draw.

    Raises:
        PlanError: the box is not finite or inverted, or there is no state in it.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    count: int = 1_000
    seed: int = 0
    kind: Literal["uniform"] = field(default="uniform", init=False)

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, tuple(float(v) for v in getattr(self, name)))
        low, high = np.asarray(self.low), np.asarray(self.high)
        sane = len(low) == len(high) > 0 and bool(np.isfinite(low).all() and np.isfinite(high).all())
        box = sane and bool((low < high).all())
        require_valid("anchors.low, high", (self.low, self.high), box, "a finite box, the lower bounds first")
        _check_count(self.count)

    def points(self) -> Array:
        """[N, d] float32."""
        low, high = np.asarray(self.low), np.asarray(self.high)
        drawn = low + (high - low) * np.random.default_rng(self.seed).random((self.count, len(low)))
        return np.asarray(drawn, np.float32)


@dataclass(frozen=True, kw_only=True)
class GivenAnchors:
    """States that the caller brings; `GivenAnchors.of(points)` makes it, and `fit(..., anchors=points)` gets them.

    Args:
        count: N.
        digest: of the states, so that a plan is about these alone.

    Raises:
        PlanError: there is no state.
    """

    count: int
    digest: str
    kind: Literal["given"] = field(default="given", init=False)

    def __post_init__(self) -> None:
        _check_count(self.count)

    @classmethod
    def of(cls, points: Array) -> GivenAnchors:
        """The declaration of these states, [N, d] numbers or [N] whole numbers of a discrete observation."""
        points = _to_state_array(points)
        return cls(count=len(points), digest=_digest(points))


Anchors = UniformAnchors | GivenAnchors


def anchor_states(anchors: Anchors, provided: Array | None, spec: PublicSpec) -> Array:
    """The states of a plan's first round, [N, d] float32 or [N] int64."""
    if isinstance(anchors, GivenAnchors) != (provided is not None):
        expected = "anchors= with a plan of GivenAnchors.of(...) alone"
        raise _anchors_error("the plan and anchors= do not fit each other", expected)
    states = anchors.points() if isinstance(anchors, UniformAnchors) else _to_state_array(np.asarray(provided))
    if isinstance(anchors, GivenAnchors) and (len(states), _digest(states)) != (anchors.count, anchors.digest):
        expected = "the states that GivenAnchors.of(...) was made of"
        raise _anchors_error("the anchors are not those that the plan declares", expected)
    require_inside(states, spec)
    return states


def sample_visited_states(
    actor: PolicyActor,
    world: EpisodeSimulator,
    count: int,
    spec: PublicSpec,
    *,
    horizon: int,
    explore: float,
    seed: int,
) -> Array:
    """States that released policies come to in a public world, [R, N, ...]: where to ask next."""
    # actor: the policies of R replicates; count: N, drawn with replacement from the states of a replicate's own policy
    generator, replicates = np.random.default_rng(seed), len(actor.theta)
    assert isinstance(spec.action, Discrete)
    people = np.repeat(np.arange(replicates), EPISODES)
    rows = serve(world, _ExploringActor(actor, explore, spec.action.n), people, horizon=horizon, generator=generator)
    samples = []
    for r in range(replicates):
        episodes = slice(r * EPISODES, (r + 1) * EPISODES)
        states = rows["observations"][episodes][rows["mask"][episodes]]
        samples.append(states[generator.integers(len(states), size=count)])
    states = np.stack(samples)
    if isinstance(spec.observation, Box):
        states = np.clip(np.nan_to_num(states), *spec.observation.float32_bounds())
    return states


@dataclass(frozen=True, eq=False)
class _ExploringActor:
    actor: PolicyActor
    explore: float
    actions: int

    def __call__(self, observations: Array, replicate: NDArray[np.int64], generator: np.random.Generator) -> Array:
        actions = self.actor(observations, replicate, generator)
        random_actions = generator.integers(self.actions, size=len(actions))
        return np.where(generator.random(len(actions)) < self.explore, random_actions, actions)


def require_inside(states: Array, spec: PublicSpec) -> None:
    """Refuse states that no record could hold.

    Raises:
        PlanError: the states have another shape than observations, or some are outside the public bounds.
    """
    space = spec.observation
    if isinstance(space, Box):
        low, high = space.float32_bounds()
        fits = states.ndim == 2 and states.shape[1] == space.size and bool(np.isfinite(states).all())
        inside = fits and bool(((states >= low) & (states <= high)).all())
        expected = f"states [N, {space.size}] within the bounds of the records' observations"
    else:
        fits = states.ndim == 1 and np.issubdtype(states.dtype, np.integer)
        inside = fits and bool(((states >= 0) & (states < space.n)).all())
        expected = f"whole numbers [N] from 0 to {space.n - 1}"
    if not inside:
        raise _anchors_error("anchors are outside the public bounds, or not observations at all", expected)


def _to_state_array(points: Array) -> Array:
    points = np.asarray(points)
    whole = np.issubdtype(points.dtype, np.integer) and points.ndim == 1
    return np.ascontiguousarray(points, np.int64 if whole else np.float32)


def _digest(points: Array) -> str:
    header = f"{points.dtype} {points.shape}".encode()
    return hashlib.sha256(header + points.tobytes()).hexdigest()


def _check_count(count: object) -> None:
    require_valid("anchors.count", count, type(count) is int and count >= 1, "a whole number >= 1")


def _anchors_error(what: str, expected: str) -> PlanError:
    return PlanError(what, where="experts.fit", expected=expected, remedy="choose other anchors")


# Policies that are asked what they would do: tried on public states before a vault gets them.


_SUM, _EQUAL = 1e-6, 1e-9
"""How far a sum of probabilities may be from one, and one answer of a policy from the other."""


def require_policies(experts: Experts, spec: PublicSpec, *, floor: float = 0.0) -> None:
    """Ask every policy about public states, drawn from the bounds of the records; no record is read.

    Args:
        experts: m policies, as `Vault(experts=...)` takes them.
        spec: the public bounds.
        floor: the least probability of an action that was declared; 0 if none was.

    Raises:
        DataError: the actions are continuous; or some policy's answers there are not finite, do not sum to one, fall
            under the floor, or contradict each other.
    """
    if not isinstance(spec.action, Discrete):
        raise _policy_error("the actions are continuous", "discrete actions, which experts can agree on")
    features = getattr(experts, "features", None)
    if isinstance(features, maps.Scaled | maps.OneHot | maps.Quadratic) and not maps.is_compatible(
        features, spec.observation
    ):
        raise _policy_error("the policies are for other observations", "features of the records' observations")
    states = 64
    observations, actions = _draw_states(spec, states, seed=0), np.arange(states) % spec.action.n
    chances = np.asarray(experts.likelihoods(observations, actions))
    if chances.shape != (experts.count, states):
        raise _policy_error("the chances are of another shape", f"one for each policy and state, [{experts.count}, N]")
    for k in range(experts.count):
        probabilities = np.asarray(experts.probabilities(observations, np.full(states, k)), np.float64)
        if probabilities.shape != (states, spec.action.n):
            raise _policy_error(f"policy {k} has other actions", f"probabilities [N, {spec.action.n}]")
        if (
            not np.isfinite(probabilities).all()
            or (probabilities < 0).any()
            or (np.abs(probabilities.sum(axis=1) - 1) > _SUM).any()
        ):
            raise _policy_error(f"the probabilities of policy {k} do not sum to one", "distributions over the actions")
        if (probabilities < floor * (1 - _SUM)).any():
            raise _policy_error(
                f"policy {k} gives an action less than the declared floor", f"at least {floor:g} for every action"
            )
        if (np.abs(probabilities[np.arange(states), actions] - chances[k]) > _EQUAL).any():
            expected = "chances like the probabilities"
            raise _policy_error(f"what policy {k} plays is not what it is counted with", expected)


def _draw_states(spec: PublicSpec, count: int, seed: int) -> Array:
    generator, space = np.random.default_rng(seed), spec.observation
    if isinstance(space, Discrete):
        return generator.integers(space.n, size=count)
    assert isinstance(space, Box)
    low, high = space.float32_bounds()
    drawn = generator.uniform(low, high, (count, space.size)).astype(np.float32)
    return np.asarray(np.clip(drawn, low, high), np.float32)


def _policy_error(what: str, expected: str) -> DataError:
    remedy = "mend the policy, or leave the expert out: what is wrong here would be wrong in the guarantee"
    return DataError(what, where="experts' policies", expected=expected, remedy=remedy)
