"""Detectors for who is met in which round, and with which coins, as those of `detectors.py`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from round_cases import EXPECTED, POOL, SLACK, Marked, close, marks, opened, rounds_of, still
from round_cases import plan_of as rounds_plan
from tests.agents.language.uneven_models import Uneven
from tests.methods.alignment.small import WRITER, Letters, plan_of, texts_of, vault_of
from user_cases import Scripted, priced, user_sum

from tacit.errors import LedgerError
from tacit.methods.alignment.people import CompletionActor, People
from tacit.privacy.mechanisms.sums import PoissonSum


def rounds_of_a_pool(folder: Path) -> None:
    """Without one person of a pool, one round's sum moves by one clip and all others stay."""
    whole = rounds_of(folder / "whole", POOL)
    for place in (0, 5, 11, 23):
        moved = whole - rounds_of(folder / str(place), POOL[:place] + POOL[place + 1 :])
        norms = np.linalg.norm(moved, axis=1)
        assert (norms > SLACK).sum() <= 1, f"one person moved {(norms > SLACK).sum()} rounds"
        assert norms.sum() <= 1 + SLACK, f"one person moved the sums by {norms.sum():.3g} clips"


def judges_did_not_teach(folder: Path) -> None:
    """Of two folds everybody is in one, and adds one clip to all of their sums together."""
    few = {"clip_norm": 1.0, "noise_multiplier": 1.0}
    teach = user_sum(name="teach", steps=3, users=EXPECTED, fold=0, **few)
    judge = user_sum(name="judge", steps=1, users=EXPECTED, fold=1, **few)
    for rounds in ((), [POOL[:8], POOL[8:16], [], POOL[4:]]):
        users = Scripted([[ids] for ids in rounds], marks(POOL), pool=() if rounds else [POOL])
        vault = opened(folder / str(len(rounds)), users)
        run, total = vault.reserve(priced(teach, judge)), 0.0
        for part in (teach, teach, teach, judge):
            vault.enroll(run, still)
            total = total + vault.noisy_sum(run, part.name, Marked())[0] * EXPECTED
        close(vault)
        assert np.max(total) <= 1 + SLACK, f"somebody who taught judged: {np.max(total):.3g} clips"


def full_rounds(folder: Path) -> None:
    """Of more people than are expected one leaves: the sum moves by one clip."""
    rounds = [POOL[:9], POOL[9:], [], []]
    whole = rounds_of(folder / "whole", POOL, arriving=rounds)
    gone = rounds_of(folder / "gone", POOL, arriving=[rounds[0][1:], *rounds[1:]])
    moved = np.linalg.norm(whole - gone, axis=1).sum()
    assert moved <= 1 + SLACK, f"one person moved the sums by {moved:.3g} clips"


def one_contribution_each(folder: Path) -> None:
    """Somebody who comes as 11 and as 11.0, or before and after twins became different people, contributes once."""
    sums = rounds_of(folder / "types", ["11", "11.0"], arriving=[[11], [11.0], ["11"], []])  # type: ignore[list-item]
    assert np.linalg.norm(sums, axis=1).sum() <= 1 + SLACK, "one person is several"
    for first in (None, "exact"):
        total = 0.0
        for law in (first, None if first else "exact"):
            users = Scripted([[["P1"]]], marks(["P1"]))
            users.unit_key = law  # type: ignore[attr-defined]
            vault = opened(folder / str(first), users)
            with contextlib.suppress(LedgerError):
                run = vault.reserve(rounds_plan())
                vault.enroll(run, still)
                total += np.linalg.norm(vault.noisy_sum(run, run.plan.parts()[0].name, Marked())) * EXPECTED
            close(vault)
        assert 1 - SLACK <= total <= 1 + SLACK, f"one person contributed {total:.3g} times"


def completions_of_others(folder: Path) -> None:
    """Without one person, and in another order, all others are served with the same bits.

    The model rounds otherwise in batches of other sizes, as products of matrices may.
    """
    plan, texts = plan_of(completions=16), texts_of(12)
    writer = dataclasses.replace(WRITER, model=Uneven(WRITER.model, False))  # type: ignore[arg-type]
    actor = CompletionActor(plan, writer, Letters(), torch.full((32,), 0.1))
    ids = list(texts)
    whole = People(plan, writer, texts, simulated=True).serve([ids], actor)
    for stay in (ids[1:], ids[:5] + ids[6:], ids[::-1]):
        some = People(plan, writer, {person: texts[person] for person in stay}, simulated=True).serve([stay], actor)
        for name, column in some.items():
            same = np.array_equal(column, whole[name][[ids.index(person) for person in stay]])
            assert same, f"the {name} of others depend on who else is served"


def numbers_are_ids(folder: Path) -> None:
    """People whose ids are whole numbers are served as those whose ids are texts."""
    plan, texts = plan_of(), texts_of(4)
    folder.mkdir(exist_ok=True)
    people = People(plan, WRITER, dict(enumerate(texts.values())), simulated=True)  # type: ignore[arg-type]
    vault = vault_of(people, folder)
    run = vault.reserve(plan.calibrate(unit=vault.unit, epsilon=8.0, delta=1e-6))
    try:
        for _ in range(plan.rounds):
            vault.enroll(run, CompletionActor(plan, WRITER, Letters(), torch.zeros(32)))
    except (KeyError, TypeError) as error:
        raise AssertionError("people whose ids are numbers are charged for and not served") from error
    finally:
        close(vault)


def one_pool_for_all_rounds(folder: Path) -> None:
    """Who joins a pool under a second spelling, once its plan was admitted, adds nothing to the rounds that come."""

    class Growing(Scripted):
        @property
        def pool(self) -> list[list[str]]:
            return [["p1", "P1", "p1\u200b"] if self.met else ["p1"]]

        @pool.setter
        def pool(self, _: object) -> None: ...

    users = Growing([], marks(["p1", "P1"]) | {"p1\u200b": [0.25]})
    vault = opened(folder, users)
    part = PoissonSum(
        name="sum", steps=2, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=1.0, rows_per_unit=4, rows="first"
    )
    run = vault.reserve(priced(part))
    for _ in range(part.steps):
        vault.enroll(run, still)
        total = np.linalg.norm(vault.noisy_sum(run, part.name, Marked())) * vault.unit.size
        assert total <= 1 + SLACK, f"one person contributed {total:.3g} clips to a round"
    close(vault)


ROUND_DETECTORS: tuple[Callable[[Path], None], ...] = (
    rounds_of_a_pool,
    judges_did_not_teach,
    full_rounds,
    one_contribution_each,
    completions_of_others,
    numbers_are_ids,
    one_pool_for_all_rounds,
)
