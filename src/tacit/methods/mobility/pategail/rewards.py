"""What a person's device computes: her critic, trained on her own days, and its answer to a public query.

`LocalCritics` and `LinearCritic` are `Work`s of a `FederatedVault`: row u of everything is made of person u's
own rows and seed, and of public arrays. The public arrays of a round are

    codes [T]   the distinct state-action pairs of the server's rollouts (`embedding`), then zeros that no row names
    rows [G]    the rollouts in random order: an index into codes for every row
    query [B]   what is asked (kind "samples"): indices into codes, -1 for none
    weights     [B] or [K], public factors of the answer's coordinates (`allocation`)
    scales      [B] (with own noise): of the Laplace noise of an answer
    slopes      [T, P] (kind "gradient"): the policy gradient of a reward of 1 for each of the pairs (`training`)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.data.mobility import days
from tacit.methods.mobility.pategail import critics
from tacit.methods.mobility.pategail.critics import ACTIONS, DECISIONS, Critic, CriticArrays, Embedding, cell_indices
from tacit.methods.mobility.simulator import StateLayout
from tacit.validation import require_valid

Array = NDArray[Any]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Arrays = Mapping[str, Array]

Kind = Literal["samples", "table", "gradient"]
"""What a critic is asked: its rewards of B pairs, of K buckets, or the policy gradient that it wants."""

OwnNoise = Literal["even", "sensitive"]
"""Laplace noise that a device draws for its own answer: of public scales, or of scales over its own weights."""

LEAST = 0.05
"""delta' of the papers' weight 1 - R + delta'."""

CHUNK = 32
"""People whose critics are trained at once: what lies between the layers stays in the processor's cache."""
_BLOCK = 128  # pairs that a chunk of critics values at once


def person_codes(rows: Arrays, embedding: Embedding, last: bool = True) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The state-action pairs of each person's whole days, [U, M] with M from L alone, and how many there are [U]."""
    people, length = np.asarray(rows["mask"]).shape
    cells, person = days.days_of(rows)
    codes = np.zeros((people, max(1, length // DECISIONS) * DECISIONS), np.int32)
    count = np.bincount(person, minlength=people)
    if len(cells):
        rank = np.arange(len(person)) - (np.cumsum(count) - count)[person]
        codes[person[:, None], rank[:, None] * DECISIONS + np.arange(DECISIONS)] = pair_codes(cells, embedding, last)
    return codes, count * DECISIONS


def pair_codes(cells: Array, embedding: Embedding, last: bool = True) -> NDArray[np.int64]:
    """Codes [D, 47] of the state-action pairs of days [D, 48], labelled as everybody's are."""
    home = days.symbols(cells)[:, :-1] == 0
    slot = np.broadcast_to(np.arange(DECISIONS), home.shape)
    state = embedding.state(slot, days.distinct_counts(cells)[:, :-1], days.stay_lengths(cells)[:, :-1], home)
    return state * ACTIONS + days.actions(cells, last=last)


@dataclass(frozen=True)
class Calibration:
    """What makes one person's critic comparable with another's: only differences of a critic's values mean anything.

    z = (D - mean) / max(standard deviation, floor), both over the public rollouts; the reward is kappa z, clipped to
    [-1/2, 1/2] or squashed by tanh.

    Args:
        kappa: factor of z.
        floor: smallest standard deviation: a critic that sees no difference has rewards near 0, not noise of size 1.
        squash: "clip" or "tanh".
    """

    kappa: float = 0.25
    floor: float = 0.05
    squash: Literal["clip", "tanh"] = "clip"

    def __post_init__(self) -> None:
        require_valid("calibration.kappa", self.kappa, 0 < self.kappa < math.inf, "a finite number > 0")
        require_valid("calibration.floor", self.floor, 0 < self.floor < math.inf, "a finite number > 0")
        require_valid("calibration.squash", self.squash, self.squash in ("clip", "tanh"), "clip or tanh")

    def __call__(self, values: Array, counts: Array) -> Float64:
        """Rewards in [-1/2, 1/2] of critics' values [U, T] at pairs that occur counts [T] times in the rollouts."""
        values, share = np.asarray(values, np.float64), counts / max(1, counts.sum())
        z = values - (values * share).sum(axis=1, keepdims=True)
        z *= self.kappa / np.maximum(np.sqrt((z * z * share).sum(axis=1, keepdims=True)), self.floor)
        return np.asarray(np.clip(z, -0.5, 0.5) if self.squash == "clip" else np.tanh(2 * z) / 2)


def sensitivity_weights(rewards: Float64) -> Float64:
    """The papers' weights 1 - R + delta' of rewards R - 1/2: the less, the more real something looks."""
    return np.asarray(1.0 - np.clip(rewards + 0.5, 0.0, 1.0) + LEAST)


def laplace_noise(seeds: Array, size: int) -> Float64:
    """Laplace noise [U, size] of scale 1 from people's seeds [U], of 24 bits: for noise that nothing rests on."""
    drawn = _to_uniform(_mix_bits(seeds[:, None], np.uint64(2)) + np.arange(size, dtype=np.uint64)).astype(np.float64)
    centred = drawn - 0.5 + 2.0**-25
    return np.asarray(-np.sign(centred) * np.log1p(-2 * np.abs(centred)))


def append_square(rewards: Float64) -> Float64:
    """The answer that also tells the second moment: r [U, B] in [-1/2, 1/2] -> (r, 2 (r^2 - 1/4)) [U, 2 B]."""
    # A pair has norm at most 1/2, as r has alone: with u = r^2 its square u + 4 (u - 1/4)^2 is convex and 1/4 at both
    # ends, u = 0 and u = 1/4. So the variance among people costs nothing, in either relation.
    return np.concatenate([rewards, 2 * (rewards * rewards - 0.25)], axis=1)


def moments(answer: Float64) -> tuple[Float64, Float64]:
    """The mean reward and its variance among people from the mean of `append_square` answers [2 B]."""
    mean, square = np.split(answer, 2)
    return mean, np.maximum(0.0, square / 2 + 0.25 - mean * mean)


@dataclass(frozen=True, kw_only=True)
class LocalCritics:
    """Each person's own critic of state-action pairs, trained a little in every round, and what it is asked."""

    critic: Critic = field(default_factory=Critic)  # its shape and training
    embedding: Embedding = field(default_factory=Embedding)  # of the pairs
    kind: Kind = "samples"  # see `Kind`
    layout: StateLayout = field(default_factory=StateLayout)  # of the states of a table
    calibration: Calibration = field(default_factory=Calibration)  # of its values
    variance: bool = False  # whether the second moment is sent too (`append_square`); not for a gradient
    own_noise: OwnNoise | None = None  # see `OwnNoise`; drawn from the person's seeds, and no guarantee rests on it
    last: bool = True  # whether going back to the last place is an action of its own, and not a return
    zero_contribution: bool = False  # answer 0 always, untrained: the control whose rewards are noise alone

    def __post_init__(self) -> None:
        require_valid("kind", self.kind, self.kind in get_args(Kind), " or ".join(get_args(Kind)))
        sound = not (self.variance and self.kind == "gradient")
        require_valid("variance", self.variance, sound, "False with a gradient, which has no second moment")

    def begin(self, rows: Arrays, seeds: Array) -> dict[str, Array]:
        """The person's own pairs in random order and her critic's first parameters, which are public."""
        codes, count = person_codes(rows, self.embedding, self.last)
        places = np.arange(codes.shape[1], dtype=np.uint64)
        keys = np.where(places < count[:, None], _mix_bits(seeds[:, None], places) >> np.uint64(1), np.uint64(2**63))
        codes = np.take_along_axis(codes, np.argsort(keys, axis=1, kind="stable"), axis=1)
        theta = self.critic.initial(self.embedding.size, len(codes))
        state: dict[str, Array] = {
            "codes": codes,
            "count": count,
            "theta": theta,
            "taken": np.zeros(len(codes), np.int64),
        }
        state |= {"first": np.zeros_like(theta), "second": np.zeros_like(theta)}
        if self.critic.spectral:
            state["vectors"] = np.ones((len(codes), sum(self.critic.hidden) + 1), np.float32)
        return state

    def __call__(self, state: Arrays, public: Arrays, seeds: Array) -> tuple[Float64, dict[str, Array]]:
        """The answers [U, d], 0 for a person without a whole day, and everybody's critic as it is now."""
        if self.zero_contribution:
            return np.zeros((len(seeds), self.width(public))), dict(state)
        after = {name: column.copy() for name, column in state.items() if name != "codes"} | {"codes": state["codes"]}
        answers = []
        for start in range(0, len(seeds), CHUNK):
            part = {name: column[start : start + CHUNK] for name, column in after.items()}
            self._train(part, public, seeds[start : start + CHUNK])
            answers.append(self._answers(part, public, seeds[start : start + CHUNK]))
        return np.concatenate(answers) if answers else np.zeros((0, self.width(public))), after

    def width(self, public: Arrays) -> int:
        """d, the length of an answer."""
        if self.kind == "gradient":
            return int(public["slopes"].shape[1])
        return (len(public["query"]) if self.kind == "samples" else self.layout.size * ACTIONS) * (
            2 if self.variance else 1
        )

    def _train(self, state: dict[str, Array], public: Arrays, seeds: Array) -> None:
        critic, count = self.critic, np.maximum(state["count"], 1)[:, None]
        table, indices = _table(self.embedding), public["rows"]
        generated = table[np.asarray(public["codes"])]
        size, ahead = critic.batch, np.arange(critic.batch)
        rows = np.empty((len(seeds), 3 * size, table.shape[1]), np.float32)
        work = CriticArrays.of(critic, rows)
        begin, turn = _mix_bits(seeds, np.uint64(0))[:, None] >> np.uint64(33), _mix_bits(seeds, np.uint64(1))[:, None]
        theta, first, second = state["theta"], state["first"], state["second"]
        for step in range(critic.steps):
            places = begin.astype(np.int64) + step * size + ahead
            mine = np.take_along_axis(state["codes"], places % count, axis=1)
            samples = indices[(places + (turn >> np.uint64(33)).astype(np.int64)) % len(indices)]
            share = _to_uniform(turn + np.uint64(1 + step * size) + ahead.astype(np.uint64))[..., None]
            rows[:, :size], rows[:, size : 2 * size] = table[mine], generated[samples]
            np.subtract(rows[:, :size], rows[:, size : 2 * size], out=rows[:, 2 * size :])
            rows[:, 2 * size :] *= share
            rows[:, 2 * size :] += rows[:, size : 2 * size]
            rows[..., -1] = 1.0
            normalised = critic.normalise(theta, state.get("vectors"))
            slope = critic.slopes(normalised, rows, work)
            if critic.spectral:
                slope = critic.backprop_norms(theta, normalised, state["vectors"], slope)
            state["taken"] += 1
            critics.adam(theta, first, second, slope, state["taken"], critic.rate, critic.decays)

    def _answers(self, state: dict[str, Array], public: Arrays, seeds: Array) -> Float64:
        codes = np.asarray(public["codes"])
        counts = np.bincount(public["rows"], minlength=len(codes))
        theta = self.critic.normalise(state["theta"], state["vectors"].copy() if self.critic.spectral else None)
        x = _table(self.embedding)[codes][:, :-1]
        values = np.concatenate(
            [self.critic.values(theta, x[at : at + _BLOCK]) for at in range(0, len(x), _BLOCK)], axis=1
        )
        if self.critic.loss == "cross_entropy":  # a probability has a range of its own
            rewards = 1.0 / (1.0 + np.exp(np.minimum(-values.astype(np.float64), 50.0))) - 0.5
        else:
            rewards = self.calibration(values, counts)
        if self.kind == "gradient":
            answer = np.matmul(rewards[:, None], np.asarray(public["slopes"], np.float64))[:, 0]
        else:
            answer = self._answer_queries(rewards, codes, counts, public, seeds)
        return np.asarray(np.where(state["count"][:, None] > 0, answer, 0.0))

    def _answer_queries(self, rewards: Float64, codes: Array, counts: Array, public: Arrays, seeds: Array) -> Float64:
        if self.kind == "samples":
            query = np.asarray(public["query"])
            query_rewards, valid = rewards[:, query], query >= 0
        else:
            cell = cell_indices(self.layout, self.embedding, codes)
            mass = np.bincount(cell, weights=counts, minlength=self.layout.size * ACTIONS)
            valid, query_rewards = mass > 0, np.zeros((len(rewards), self.layout.size * ACTIONS))
            np.add.at(query_rewards.T, cell, (rewards * counts).T)
            query_rewards /= np.maximum(mass, 1)
        repeats = 2 if self.variance else 1
        answer = append_square(query_rewards) if self.variance else query_rewards
        answer = answer * np.tile(public["weights"] * valid, repeats)
        if self.own_noise:
            own = sensitivity_weights(query_rewards) if self.own_noise == "sensitive" else np.ones_like(query_rewards)
            answer += laplace_noise(seeds, answer.shape[1]) * np.tile(public["scales"] / own, (1, repeats))
        return np.asarray(answer)


@dataclass(frozen=True, kw_only=True)
class LinearCritic:
    """The best critic that is linear in buckets: by how much the person is in each of them oftener than the rollouts.
    It is not trained, needs no calibration, and its mean over people is the critic of the mean person: there is no bias
    from averaging. The vault's clip bounds it."""

    embedding: Embedding = field(default_factory=Embedding)  # of the pairs
    layout: StateLayout = field(default_factory=StateLayout)  # of the states; K cells are its buckets times the actions
    last: bool = True  # as for `LocalCritics`

    def begin(self, rows: Arrays, seeds: Array) -> dict[str, Array]:
        """The person's share of time in each cell, [U, K]."""
        codes, count = person_codes(rows, self.embedding, self.last)
        mine = np.arange(codes.shape[1]) < count[:, None]
        shares = np.zeros((len(codes), self.layout.size * ACTIONS))
        np.add.at(shares, (np.nonzero(mine)[0], cell_indices(self.layout, self.embedding, codes[mine])), 1.0)
        return {"shares": shares / np.maximum(count, 1)[:, None], "count": count}

    def __call__(self, state: Arrays, public: Arrays, seeds: Array) -> tuple[Float64, dict[str, Array]]:
        """Differences of shares times the weights, [U, K], 0 for a person without a whole day."""
        cell = cell_indices(self.layout, self.embedding, np.asarray(public["codes"])[np.asarray(public["rows"])])
        share = np.bincount(cell, minlength=self.layout.size * ACTIONS) / max(1, len(cell))
        answer = (state["shares"] - share) * np.asarray(public["weights"])
        return np.asarray(np.where(state["count"][:, None] > 0, answer, 0.0)), dict(state)

    def width(self, public: Arrays) -> int:
        """K."""
        return self.layout.size * ACTIONS


@functools.lru_cache(maxsize=4)
def _table(embedding: Embedding) -> Float32:
    """[codes, d + 1]: every pair's place in the embedding space, and a 1."""
    table = np.ones((embedding.codes, embedding.size + 1), np.float32)
    table[:, :-1] = embedding.embed(np.arange(embedding.codes))
    table.flags.writeable = False
    return table


def _mix_bits(seed: Array, counter: Array | np.uint64) -> NDArray[np.uint64]:
    """Pseudorandom 64-bit numbers of a seed and a counter (SplitMix64, Steele et al. 2014): the order of training."""
    with np.errstate(over="ignore"):
        x = np.asarray(seed, np.uint64) + (np.asarray(counter, np.uint64) + np.uint64(1)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(x ^ (x >> np.uint64(31)))


def _to_uniform(state: Array) -> Float32:
    return (_mix_bits(state, np.uint64(0)) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
