"""Public states at which experts are asked what they would do: nothing in them depends on records."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.agents.policies import Acting
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.serving import serve
from tacit.errors import DataError, PlanError
from tacit.privacy.mechanisms.base import Experts, World
from tacit.validation import check

Array = NDArray[Any]

EPISODES = 50
"""How many episodes are played to find the states of a further round."""


@dataclass(frozen=True, kw_only=True)
class Uniform:
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
        check("anchors.low, high", (self.low, self.high), box, "a finite box, the lower bounds first")
        _check_count(self.count)

    def points(self) -> Array:
        """[N, d] float32."""
        low, high = np.asarray(self.low), np.asarray(self.high)
        drawn = low + (high - low) * np.random.default_rng(self.seed).random((self.count, len(low)))
        return np.asarray(drawn, np.float32)


@dataclass(frozen=True, kw_only=True)
class Given:
    """States that the caller brings along; `Given.of(points)` makes it, and `fit(..., anchors=points)` gets them.

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
    def of(cls, points: Array) -> Given:
        """The declaration of these states, [N, d] numbers or [N] whole numbers of a discrete observation."""
        points = _plain(points)
        return cls(count=len(points), digest=_digest(points))


Anchors = Uniform | Given


def points(anchors: Anchors, given: Array | None, spec: PublicSpec) -> Array:
    """The states of a plan's first round, [N, d] float32 or [N] int64."""
    if isinstance(anchors, Given) != (given is not None):
        raise _refused("the plan and anchors= do not fit each other", "anchors= with a plan of Given.of(...) alone")
    states = anchors.points() if isinstance(anchors, Uniform) else _plain(np.asarray(given))
    if isinstance(anchors, Given) and (len(states), _digest(states)) != (anchors.count, anchors.digest):
        raise _refused("the anchors are not those that the plan declares", "the states that Given.of(...) was made of")
    require_inside(states, spec)
    return states


def visited(
    actor: Acting, world: World, count: int, spec: PublicSpec, *, horizon: int, explore: float, seed: int
) -> Array:
    """States that released policies come to in a public world, [R, N, ...]: where to ask next."""
    # actor: the policies of R replicates; count: N, drawn with replacement from the states of a replicate's own policy
    generator, replicates = np.random.default_rng(seed), len(actor.theta)
    assert isinstance(spec.action, Discrete)
    people = np.repeat(np.arange(replicates), EPISODES)
    rows = serve(world, _Exploring(actor, explore, spec.action.n), people, horizon=horizon, generator=generator)
    samples = []
    for r in range(replicates):
        episodes = slice(r * EPISODES, (r + 1) * EPISODES)
        states = rows["observations"][episodes][rows["mask"][episodes]]
        samples.append(states[generator.integers(len(states), size=count)])
    states = np.stack(samples)
    if isinstance(spec.observation, Box):
        states = np.clip(np.nan_to_num(states), *spec.observation.single())
    return states


@dataclass(frozen=True, eq=False)
class _Exploring:
    actor: Acting
    explore: float
    actions: int

    def __call__(self, observations: Array, replicate: NDArray[np.int64], generator: np.random.Generator) -> Array:
        played = self.actor(observations, replicate, generator)
        random_actions = generator.integers(self.actions, size=len(played))
        return np.where(generator.random(len(played)) < self.explore, random_actions, played)


def require_inside(states: Array, spec: PublicSpec) -> None:
    """Refuse states that no record could hold.

    Raises:
        PlanError: the states have another shape than observations, or some are outside the public bounds.
    """
    space = spec.observation
    if isinstance(space, Box):
        low, high = space.single()
        fits = states.ndim == 2 and states.shape[1] == space.size and bool(np.isfinite(states).all())
        inside = fits and bool(((states >= low) & (states <= high)).all())
        expected = f"states [N, {space.size}] within the bounds of the records' observations"
    else:
        fits = states.ndim == 1 and np.issubdtype(states.dtype, np.integer)
        inside = fits and bool(((states >= 0) & (states < space.n)).all())
        expected = f"whole numbers [N] from 0 to {space.n - 1}"
    if not inside:
        raise _refused("anchors are outside the public bounds, or not observations at all", expected)


def _plain(points: Array) -> Array:
    points = np.asarray(points)
    whole = np.issubdtype(points.dtype, np.integer) and points.ndim == 1
    return np.ascontiguousarray(points, np.int64 if whole else np.float32)


def _digest(points: Array) -> str:
    header = f"{points.dtype} {points.shape}".encode()
    return hashlib.sha256(header + points.tobytes()).hexdigest()


def _check_count(count: object) -> None:
    check("anchors.count", count, type(count) is int and count >= 1, "a whole number >= 1")


def _refused(what: str, expected: str) -> PlanError:
    return PlanError(what, where="experts.fit", expected=expected, remedy="choose other anchors")


# Policies that are asked what they would do: tried on public states before a vault gets them.


_SUM, _EQUAL = 1e-6, 1e-9
"""How far a sum of probabilities may be from one, and one answer of a policy from the other."""


def require_policies(
    experts: Experts, spec: PublicSpec, *, floor: float = 0.0, states: int = 64, seed: int = 0
) -> None:
    """Ask every policy about public states, drawn from the bounds of the records; no record is read.

    Args:
        experts: m policies, as `Vault(experts=...)` takes them.
        spec: the public bounds.
        floor: the least probability of an action that was declared; 0 if none was.
        states: how many.
        seed: of their draw.

    Raises:
        DataError: the actions are continuous; or some policy's answers there are not finite, do not sum to one, fall
            under the floor, or contradict each other.
    """
    if not isinstance(spec.action, Discrete):
        raise _bad_policy("the actions are continuous", "discrete actions, which experts can agree on")
    seen, actions = _states(spec, states, seed), np.arange(states) % spec.action.n
    chances = np.asarray(experts.chances(seen, actions))
    if chances.shape != (experts.count, states):
        raise _bad_policy("the chances are of another shape", f"one for each policy and state, [{experts.count}, N]")
    for k in range(experts.count):
        probabilities = np.asarray(experts.probabilities(seen, np.full(states, k)), np.float64)
        if probabilities.shape != (states, spec.action.n):
            raise _bad_policy(f"policy {k} has other actions", f"probabilities [N, {spec.action.n}]")
        if (
            not np.isfinite(probabilities).all()
            or (probabilities < 0).any()
            or (np.abs(probabilities.sum(axis=1) - 1) > _SUM).any()
        ):
            raise _bad_policy(f"the probabilities of policy {k} do not sum to one", "distributions over the actions")
        if (probabilities < floor * (1 - _SUM)).any():
            raise _bad_policy(
                f"policy {k} gives an action less than the declared floor", f"at least {floor:g} for every action"
            )
        if (np.abs(probabilities[np.arange(states), actions] - chances[k]) > _EQUAL).any():
            raise _bad_policy(f"what policy {k} plays is not what it is counted with", "chances like the probabilities")


def _states(spec: PublicSpec, count: int, seed: int) -> Array:
    generator, space = np.random.default_rng(seed), spec.observation
    if isinstance(space, Discrete):
        return generator.integers(space.n, size=count)
    assert isinstance(space, Box)
    low, high = space.single()
    drawn = generator.uniform(low, high, (count, space.size)).astype(np.float32)
    return np.asarray(np.clip(drawn, low, high), np.float32)


def _bad_policy(what: str, expected: str) -> DataError:
    remedy = "mend the policy, or leave the expert out: what is wrong here would be wrong in the guarantee"
    return DataError(what, where="experts' policies", expected=expected, remedy=remedy)
