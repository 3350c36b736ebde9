"""People with texts of their own, who are known beforehand: a pool of a `UserVault`, which deals them into rounds.

A person's draws belong to their id: removing somebody moves nobody else's prompt, random numbers or tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from tacit.agents.language.texts import Writer
from tacit.data import unit_keys
from tacit.data.spec import PublicSpec
from tacit.errors import DataError
from tacit.methods.alignment.plan import AlignmentPlan
from tacit.methods.alignment.writing import split_actions, split_observations
from tacit.privacy.vault.user_vault import Actor
from tacit.units import UnitKey


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
            raise _wrong("somebody has no id", "texts by the id of whom they belong to") from None
        if len(texts) < len(self.texts):
            raise _wrong("an id is spelled in two ways", "all texts of a person under one id")
        object.__setattr__(self, "texts", texts)  # the vault asks for people by their keys
        if (self.feedback is not None) != (self.plan.feedback == "person"):
            raise _wrong("the plan takes feedback from elsewhere", 'feedback= with feedback="person", and only then')
        self.spec: PublicSpec = self.plan.spec(self.writer)

    @property
    def pool(self) -> tuple[tuple[str, ...]]:
        """Everybody's id."""
        return (tuple(self.texts),)

    def serve(self, people: Sequence[Sequence[str]], actor: Actor) -> dict[str, NDArray[Any]]:
        """Completions of everybody's prompts, and what they are worth (`UserVault.enroll`)."""
        plan, (ids,) = self.plan, people
        prompts = {person: self._prompts(person) for person in ids if person}
        mask = np.zeros((len(ids), plan.rows), bool)
        seen = np.zeros((len(ids), plan.rows, plan.prompt_tokens + plan.tokens), np.float32)
        for place, person in enumerate(ids):
            own = prompts.get(person, [])
            mask[place, : len(own) * plan.completions] = True
            for row in range(len(own) * plan.completions):
                seen[place, row, : plan.prompt_tokens] = own[row // plan.completions]
            if own:
                seen[place, :, plan.prompt_tokens :] = self._draws(person)
        done = np.zeros((len(ids), plan.rows, self.spec.action.size), np.float32)
        if mask.any():
            none = cast(np.random.Generator, None)  # a stream of all would couple them: draws stand in the rows
            done[mask] = actor(seen[mask], np.zeros(mask.sum(), np.int64), none)
        last = plan.tokens + len(plan.looks)
        rewards = done[:, :, last - 1].copy()
        if self.feedback is not None:
            for place in np.flatnonzero(mask[:, 0]).tolist():
                rewards[place, mask[place]] = self._valued(
                    ids[place], seen[place][mask[place]], done[place][mask[place]]
                )
        ended = mask.copy()
        return {
            "observations": seen,
            "actions": done,
            "rewards": rewards,
            "next_observations": seen,
            "terminations": ended,
            "truncations": np.zeros_like(mask),
            "mask": mask,
        }

    def _prompts(self, person: str) -> list[list[int]]:
        """Of a person, the first tokens of the first texts that are long enough."""
        n, found = self.plan.prompt_tokens, list[list[int]]()
        for text in self.texts[person]:
            tokens = self.writer.tokenizer.encode(text)[:n]
            if len(tokens) == n and len(found) < self.plan.prompts:
                found.append(tokens)
        return found

    def _draws(self, person: str) -> NDArray[np.float32]:
        """[rows, T] in [0, 1), of a stream that belongs to the id."""
        key = hashlib.sha256(f"{self.seed}/{person}".encode("utf-8", "surrogatepass")).digest()
        generator = np.random.default_rng(int.from_bytes(key, "big"))
        return generator.random((self.plan.rows, self.plan.tokens), np.float32)

    def _valued(self, person: str, seen: NDArray[Any], done: NDArray[Any]) -> Sequence[float]:
        """Own feedback on rows [n, ...] of one person."""
        assert self.feedback is not None
        prompts, _ = split_observations(self.plan, seen)
        completions, _ = split_actions(self.plan, prompts, done)
        rows = prompts.repeat_interleave(self.plan.completions, dim=0)
        return self.feedback(person, self.writer.texts(rows, completions.written.flatten(0, 1)))


def _wrong(what: str, expected: str) -> DataError:
    return DataError(what, where="alignment.People", expected=expected, remedy="build the people for this very plan")
