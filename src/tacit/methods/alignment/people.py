"""People with texts of their own, who are known beforehand: a pool of a `UserVault`, which deals them into rounds.

A person's draws belong to their id: removing somebody moves nobody else's prompt, random numbers or tokens.
`CompletionActor` serves them, with completions and public values of these; `PersonGradient` is what one of them adds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.agents.language.adapters import Steering
from tacit.agents.language.judges import Reward
from tacit.agents.language.models import Writer
from tacit.agents.language.sampling import Completions, batch_indices, complete_in_batches, log_softmax, scores
from tacit.data import unit_keys
from tacit.data.spec import PublicSpec
from tacit.errors import DataError
from tacit.methods.alignment.judging import person_vectors
from tacit.methods.alignment.plan import AlignmentPlan
from tacit.privacy.vault.user_vault import UserActor
from tacit.units import UnitKey

Float32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class CompletionActor:
    """The actor of a round: a row of the result depends on the rows of its own prompt alone, to the last bit."""

    plan: AlignmentPlan  # sizes
    writer: Writer  # the model
    reward: Reward | None  # the public reward, or None
    theta: Tensor  # released parameters [P]
    # parameters of the base model [P], where people compare the two: at the same draws half of the completions are its
    base: Tensor | None = None

    def __call__(
        self, observations: NDArray[Any], replicate: NDArray[np.int64], generator: np.random.Generator
    ) -> Float32:
        """Rows [N, d] of prompts, K each in a row -> actions [N, a], laid out as `AlignmentPlan.spec` says."""
        prompts, draws = split_observations(self.plan, observations)
        if self.base is None:
            return np.concatenate(list(map(self._pack_actions, self._complete(prompts, draws, self.theta))))
        half = self.plan.completions // 2
        pairs = (self._complete(prompts, draws[:, :half], theta) for theta in (self.base, self.theta))
        packed, start = list[Float32](), 0
        for before, after in zip(*pairs, strict=True):
            swapped = comes_second(draws[start : start + len(before.prompts)])[:, None]
            start += len(before.prompts)
            columns = []
            for name in ("written", "residual"):
                one, other = getattr(before, name), getattr(after, name)
                order = swapped.view(-1, *[1] * (one.dim() - 1))
                one, other = torch.where(order, other, one), torch.where(order, one, other)
                columns.append(torch.cat([one, other, other[:, : self.plan.completions - 2 * half]], dim=1))
            packed.append(self._pack_actions(Completions(before.prompts, *columns)))
        return np.concatenate(packed)

    def _complete(self, prompts: Tensor, draws: Tensor, theta: Tensor) -> Iterator[Completions]:
        steering = Steering(self.plan.adapter, theta[None])
        return complete_in_batches(self.writer.model, self.writer.prefix_tokens, prompts, draws, steering)

    def _pack_actions(self, completions: Completions) -> Float32:
        rows = completions.written.shape[0] * completions.written.shape[1]
        values = self._values(completions)
        parts = (completions.written.reshape(rows, -1).float(), values, completions.residual.reshape(rows, -1))
        return torch.cat(parts, dim=1).numpy()

    def _values(self, completions: Completions) -> Tensor:
        """The public reward [B K, looks] of every completion and of its beginnings, prompt by prompt."""
        looks = self.plan.reward_lengths
        if self.reward is None:
            return torch.zeros(completions.written.shape[0] * completions.written.shape[1], len(looks))
        values = []
        for prompt, written in zip(completions.prompts, completions.written, strict=True):
            repeated = prompt.expand(len(written), -1)
            texts = [text for n in looks for text in self.writer.texts(repeated, written[:, :n])]
            values.append(torch.from_numpy(self.reward(texts)).view(len(looks), -1).T)
        return torch.cat(values).float()


def comes_second(draws: Tensor) -> Tensor:
    """Behind which prompts [B] the base model's completions stand second, by a coin that decides no token of a
    comparison: the last draw of draws [B, K, T]. A person cannot tell by the order which model wrote what."""
    return draws[:, -1, -1] < 0.5


def split_observations(plan: AlignmentPlan, observations: NDArray[Any]) -> tuple[Tensor, Tensor]:
    """Prompts [B, n] int64 and draws [B, K, T] of rows [B K, d]; a prompt is that of its first row."""
    width = plan.prompt_tokens + plan.tokens
    rows = torch.from_numpy(np.ascontiguousarray(observations, np.float32)).view(-1, plan.completions, width)
    return rows[:, 0, : plan.prompt_tokens].long(), rows[:, :, plan.prompt_tokens :]


def split_actions(plan: AlignmentPlan, prompts: Tensor, actions: NDArray[Any]) -> tuple[Completions, Tensor]:
    """Completions of prompts [B, n], and their public values [B, K, looks], of rows [B K, a]."""
    rows = torch.from_numpy(np.ascontiguousarray(actions, np.float32)).view(len(prompts), plan.completions, -1)
    written, values, residual = torch.split(
        rows, [plan.tokens, len(plan.reward_lengths), rows.shape[2] - plan.tokens - len(plan.reward_lengths)], dim=2
    )
    return Completions(prompts, written.long(), residual.reshape(*written.shape, -1)), values


class Feedback(Protocol):
    """How people value what was written for them."""

    def __call__(self, person: str, texts: Sequence[str]) -> Sequence[float]:
        """What each of these texts, prompts with completions, is worth to this person."""


@dataclass(eq=False)
class People:
    """People with their texts, each of whom is met once, in a round that the vault makes of the id; or sampled.

    Args:
        plan: sizes and bounds.
        writer: the model.
        texts: of each person by id, in their order; only the first `plan.prompts` that are long enough are read. Ids
            are whatever `tacit.data.unit_keys` takes; they are kept as its keys.
        seed: of the draws of completions, which are each person's own.
        simulated: whether nobody real is behind the texts.
        feedback: how people value completions; None where a public reward does.
        unit_key: what ids that differ by case or form alone are (`tacit.data.unit_keys`); by default they are refused.

    Raises:
        DataError: an id is none, somebody has two, or the plan's feedback is another one.
    """

    plan: AlignmentPlan
    writer: Writer
    texts: Mapping[str, Sequence[str]]
    seed: int = 0
    simulated: bool = False
    feedback: Feedback | None = None
    unit_key: UnitKey | None = None
    replicates: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        try:
            texts = {unit_keys.key(person, self.unit_key): own for person, own in self.texts.items()}
        except unit_keys.NoKey:
            raise _error("somebody has no id", "texts by the id of whom they belong to") from None
        if len(texts) < len(self.texts):
            raise _error("an id is spelled in two ways", "all texts of a person under one id")
        object.__setattr__(self, "texts", texts)  # the vault asks for people by their keys
        if (self.feedback is not None) != (self.plan.feedback == "person"):
            raise _error("the plan takes feedback from elsewhere", 'feedback= with feedback="person", and only then')
        self.spec: PublicSpec = self.plan.spec(self.writer)

    @property
    def pool(self) -> tuple[tuple[str, ...]]:
        """Everybody's id."""
        return (tuple(self.texts),)

    def serve(self, people: Sequence[Sequence[str]], actor: UserActor) -> dict[str, NDArray[Any]]:
        """Completions of everybody's prompts, and what they are worth (`UserVault.enroll`)."""
        plan, (ids,) = self.plan, people
        prompts = {person: self.prompts(person) for person in ids if person}
        mask = np.zeros((len(ids), plan.rows), bool)
        observations = np.zeros((len(ids), plan.rows, plan.prompt_tokens + plan.tokens), np.float32)
        for place, person in enumerate(ids):
            person_prompts = prompts.get(person, [])
            mask[place, : len(person_prompts) * plan.completions] = True
            for row in range(len(person_prompts) * plan.completions):
                observations[place, row, : plan.prompt_tokens] = person_prompts[row // plan.completions]
            if person_prompts:
                observations[place, :, plan.prompt_tokens :] = self._draws(person)
        actions = np.zeros((len(ids), plan.rows, self.spec.action.size), np.float32)
        if mask.any():
            none = cast(np.random.Generator, None)  # a stream of all would couple them: draws stand in the rows
            actions[mask] = actor(observations[mask], np.zeros(mask.sum(), np.int64), none)
        last = plan.tokens + len(plan.reward_lengths)
        rewards = actions[:, :, last - 1].copy()
        if self.feedback is not None:
            for place in np.flatnonzero(mask[:, 0]).tolist():
                rewards[place, mask[place]] = self._rate_completions(
                    ids[place], observations[place][mask[place]], actions[place][mask[place]]
                )
        terminations = mask.copy()
        return {
            "observations": observations,
            "actions": actions,
            "rewards": rewards,
            "next_observations": observations,
            "terminations": terminations,
            "truncations": np.zeros_like(mask),
            "mask": mask,
        }

    def prompts(self, person: str) -> list[list[int]]:
        """Of a person, the first tokens of the first texts that are long enough."""
        n, prompts = self.plan.prompt_tokens, list[list[int]]()
        for text in self.texts[person]:
            tokens = self.writer.tokenizer.encode(text)[:n]
            if len(tokens) == n and len(prompts) < self.plan.prompts:
                prompts.append(tokens)
        return prompts

    def _draws(self, person: str) -> NDArray[np.float32]:
        """[rows, T] in [0, 1), of a stream that belongs to the id."""
        key = hashlib.sha256(f"{self.seed}/{person}".encode("utf-8", "surrogatepass")).digest()
        generator = np.random.default_rng(int.from_bytes(key, "big"))
        return generator.random((self.plan.rows, self.plan.tokens), np.float32)

    def _rate_completions(self, person: str, observations: NDArray[Any], actions: NDArray[Any]) -> Sequence[float]:
        """Own feedback on rows [n, ...] of one person."""
        assert self.feedback is not None
        prompts, _ = split_observations(self.plan, observations)
        completions, _ = split_actions(self.plan, prompts, actions)
        rows = prompts.repeat_interleave(self.plan.completions, dim=0)
        return self.feedback(person, self.writer.texts(rows, completions.written.flatten(0, 1)))


def _error(what: str, expected: str) -> DataError:
    return DataError(what, where="alignment.People", expected=expected, remedy="build the people for this very plan")


TOGETHER = 16
"""Prompts whose gradients are taken in one pass."""


@dataclass(frozen=True, eq=False)
class ReleasedSteering:
    """What a round's contributions may use."""

    theta: NDArray[np.float32]  # the released parameters [P]


@dataclass(frozen=True, eq=False)
class PersonGradient:
    """One policy gradient a person."""

    plan: AlignmentPlan  # sizes, bounds and the critic's share
    writer: Writer  # the model

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: ReleasedSteering) -> NDArray[np.float64]:
        """[U, P]."""
        plan, people = self.plan, len(rows["mask"])
        theta = torch.from_numpy(np.array(state.theta, np.float32))
        flat = {name: rows[name].reshape(people * plan.rows, -1) for name in ("observations", "actions")}
        rewards = torch.from_numpy(np.asarray(rows["rewards"], np.float32)).view(-1, plan.completions)
        full_prompts = torch.from_numpy(np.asarray(rows["mask"])).view(-1, plan.completions).all(dim=1)
        prompts, _ = split_observations(plan, flat["observations"])
        vectors = torch.zeros(people * plan.prompts, len(theta))
        answered = torch.nonzero(full_prompts)[:, 0]
        written = flat["actions"].reshape(-1, plan.completions, flat["actions"].shape[1])
        for batch in torch.split(answered, TOGETHER) if len(answered) else ():
            actions = written[batch.numpy()].reshape(-1, written.shape[2])
            completions, values = split_actions(plan, prompts[batch], actions)
            vectors[batch] = self._gradients(completions, values, rewards[batch], theta)
        total = vectors.view(people, plan.prompts, -1).sum(dim=1)
        return np.asarray(total.numpy(), np.float64) / (plan.prompts * plan.completions * plan.tokens)

    def _gradients(self, completions: Completions, values: Tensor, rewards: Tensor, theta: Tensor) -> Tensor:
        """[B, P] of B prompts."""
        model, before, adapter = self.writer.model, self.writer.prefix_tokens, self.plan.adapter
        count, rows = len(rewards), batch_indices(len(rewards), self.plan.prompt_tokens, self.plan.completions)
        rewards, values = rewards[rows], values[rows]
        completions = Completions(completions.prompts[rows], completions.written[rows], completions.residual[rows])
        if self.plan.kl:
            start = adapter.initial_parameters(model.shape)
            with torch.no_grad():
                written = completions.written[..., None]
                policy_log_probs, reference_log_probs = (
                    log_softmax(model, before, completions, Steering(adapter, one[None])).gather(3, written)
                    for one in (theta, start)
                )
            rewards = rewards - self.plan.kl * (policy_log_probs - reference_log_probs).sum(dim=(2, 3))
        return scores(model, before, completions, adapter, theta, advantages(self.plan, rewards, values))[:count]


@dataclass(frozen=True, eq=False)
class CompletionComparison:
    """How much more one person gets of the steered model than of the base model, as a vector of norm at most 1.

    The difference is cut at the bound of rewards: half of the widest there can be, for half of the noise.
    """

    plan: AlignmentPlan  # sizes and bounds

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: object) -> NDArray[np.float64]:
        """[U, 3]."""
        plan, half = self.plan, self.plan.completions // 2
        shape = len(rows["mask"]), plan.prompts, plan.completions
        asked = np.asarray(rows["mask"], bool).reshape(shape).all(axis=2)
        rewards = np.asarray(rows["rewards"], np.float64).reshape(shape)
        _, draws = split_observations(plan, rows["observations"].reshape(-1, rows["observations"].shape[2]))
        swapped = comes_second(draws).numpy().reshape(shape[:2])
        gains = rewards[..., half : 2 * half].mean(axis=2) - rewards[..., :half].mean(axis=2)
        total = np.where(asked, np.where(swapped, -gains, gains), 0.0).sum(axis=1)
        prompts = asked.sum(axis=1)
        return person_vectors(total / np.maximum(prompts, 1) / plan.reward_bound, prompts > 0)


def advantages(plan: AlignmentPlan, rewards: Tensor, values: Tensor) -> Tensor:
    """A [B, K, T] of rewards [B, K] and of the public values [B, K, looks] of completions and of their beginnings."""
    beginnings = torch.cat([torch.zeros_like(rewards)[..., None], values[..., :-1]], dim=2)
    gains = rewards[..., None] - plan.critic * beginnings
    others = (gains.sum(dim=1, keepdim=True) - gains) / (plan.completions - 1)
    segment = plan.segment if len(plan.reward_lengths) > 1 else plan.tokens
    return (gains - others).repeat_interleave(segment, dim=2)[..., : plan.tokens]
