"""Mistakes in who is met in which round, and with which coins, planted as those of `mutations.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tacit.agents.language import sampling
from tacit.data import unit_keys
from tacit.methods.alignment import people
from tacit.methods.alignment.people import People
from tacit.privacy import deals
from tacit.privacy.ledger.register import Register
from tacit.privacy.vault import arrivals
from tacit.privacy.vault.user_vault import UserVault

Plant = Callable[[pytest.MonkeyPatch], None]


def _round(vault: UserVault, run: Any) -> tuple[int, Any]:
    part = run.plan.parts()[0]
    return part.steps - vault.steps_left(run, part.name), part


def slots_by_rank(patch: pytest.MonkeyPatch) -> None:
    """People are sorted by a hash of their id and dealt without gaps: one person less moves everybody behind."""

    def dealt(self: UserVault, run: Any, pool: Sequence[str], participations: int) -> list[str]:
        now, part = _round(self, run)
        ranked = [pool[i] for i in np.argsort(deals.words(unit_keys.names(pool), run.plan_id, "round"))]
        return ranked[now * part.users : (now + 1) * part.users]

    patch.setattr(UserVault, "_deal_round", dealt)


def rounds_by_the_order_of_the_file(patch: pytest.MonkeyPatch) -> None:
    """Whoever stands in place i of the pool comes in round i modulo T."""

    def dealt(self: UserVault, run: Any, pool: Sequence[str], participations: int) -> list[str]:
        now, part = _round(self, run)
        return list(pool[now :: part.steps])

    patch.setattr(UserVault, "_deal_round", dealt)


def judges_who_taught(patch: pytest.MonkeyPatch) -> None:
    """Each fold is dealt as if it were alone, and the register counts what people add to each by itself."""
    real, reserve = UserVault._deal_round, Register.reserve

    def dealt(self: UserVault, run: Any, pool: Sequence[str], participations: int) -> list[str]:
        others = any(self.steps_left(run, part.name) for part in run.plan.parts() if part.fold == 0)
        return list(pool) if not others and run.plan.parts()[-1].fold == 1 else real(self, run, pool, participations)

    def counted(self: Register, plan_id: str, people: Sequence[str], cap: int) -> Any:
        return reserve(self, f"{plan_id}/{len(self._heads)}", people, cap)

    patch.setattr(UserVault, "_deal_round", dealt)
    patch.setattr(Register, "reserve", counted)


def arrivals_cut_off(patch: pytest.MonkeyPatch) -> None:
    """Only as many as are expected are let in: one who leaves lets another in."""
    real = UserVault._receive_arrivals

    def came(self: UserVault, expected: int) -> list[list[str]]:
        return [those[:expected] for those in real(self, expected)]

    patch.setattr(UserVault, "_receive_arrivals", came)


def coins_of_one_stream(patch: pytest.MonkeyPatch) -> None:
    """Everybody's draws come from one generator, in the order in which people are served."""
    streams: dict[int, np.random.Generator] = {}

    def draws(self: People, person: str) -> np.ndarray:
        stream = streams.setdefault(id(self), np.random.default_rng(self.seed))
        return stream.random((self.plan.rows, self.plan.tokens), np.float32)

    patch.setattr(People, "_draws", draws)


def batches_of_those_who_are_there(patch: pytest.MonkeyPatch) -> None:
    """Tokens are decided in batches as large as there are people, whatever their products round to."""

    def alone(*arguments: Any) -> Iterator[Any]:
        yield sampling.complete(*arguments)

    patch.setattr(people, "complete_in_batches", alone)


def law_of_twins_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Who contributed under one law of twins is not known under the other."""
    patch.setattr(arrivals, "require_law", lambda ledger, *, exact: None)


def ids_as_they_are_printed(patch: pytest.MonkeyPatch) -> None:
    """An id that is no text is what Python prints of it: 1 and 1.0 are two people."""
    patch.setattr(arrivals, "person_text", lambda person: "" if person is None else str(person))


def ids_as_they_were_given(patch: pytest.MonkeyPatch) -> None:
    """Texts are looked up by ids as somebody wrote them, and asked for by keys."""
    real = People.__post_init__

    def begin(self: People) -> None:
        texts = self.texts
        real(self)
        object.__setattr__(self, "texts", texts)

    patch.setattr(People, "__post_init__", begin)


def pool_read_again(patch: pytest.MonkeyPatch) -> None:
    """Each round takes the pool as it is now, whoever was checked when the plan was admitted."""
    real = UserVault.enroll

    def enroll(self: UserVault, run: Any, actor: Any) -> None:
        self._plan_pools[run.plan_id] = self._pools()
        real(self, run, actor)

    patch.setattr(UserVault, "enroll", enroll)


ROUNDS: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("slots by rank", slots_by_rank, ("rounds_of_a_pool",)),
    ("rounds by the order of the file", rounds_by_the_order_of_the_file, ("rounds_of_a_pool",)),
    ("judges who taught", judges_who_taught, ("judges_did_not_teach",)),
    ("arrivals cut off", arrivals_cut_off, ("full_rounds",)),
    ("law of twins forgotten", law_of_twins_forgotten, ("one_contribution_each",)),
    ("ids as they are printed", ids_as_they_are_printed, ("one_contribution_each",)),
    ("ids as they were given", ids_as_they_were_given, ("numbers_are_ids",)),
    ("pool read again", pool_read_again, ("one_pool_for_all_rounds",)),
    ("coins of one stream", coins_of_one_stream, ("completions_of_others",)),
    ("batches of those who are there", batches_of_those_who_are_there, ("completions_of_others",)),
)
