"""Who may judge a policy: literal ledgers, and what must come of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.errors import PlanError
from tacit.privacy.ledger.folds import Fold
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.state import POLICY
from tacit.privacy.mechanisms.base import certificate_parts
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault.origins import Origin, assess_standing, corrected_level
from tacit.units import Unit

BOTH: frozenset[Fold] = frozenset({0, 1})
PUBLIC = Origin.public()


class Books:
    """A ledger in which plans are entered in a line."""

    def __init__(self, path: Path) -> None:
        self.ledger = Ledger(
            path / "x.ledger",
            Unit("person", "add_or_remove", 1_000),
            epsilon=1e6,
            delta=1e-4,
            composition=SUM,
        )

    def add(self, name: str, *folds: Fold | None, evaluates: bool = False, run: bool = True) -> Books:
        """A plan with a sum on each of these folds, of which a step was run, and that then released the policy P."""
        parts = [
            PoissonSum(name=f"{name}{at}", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=1.0, fold=fold)
            for at, fold in enumerate(folds)
        ]
        described = {"method": name, "parts": certificate_parts(parts), "evaluates": evaluates}
        steps = {part.name: 1 for part in parts}
        self.ledger.reserve(name, described, parts=steps, epsilon=1.0, delta=1e-9)
        if run:
            self.ledger.claim(name, f"{name}0", 1)
            self.ledger.note(POLICY, f"{name} P")
        return self


@pytest.fixture
def books(tmp_path: Path) -> Books:
    return Books(tmp_path)


def test_before_the_first_release_nothing_has_to_be_declared(books: Books) -> None:
    books.add("reserved", None, run=False)
    found = assess_standing(books.ledger, [None], level=0.95)
    assert (found.free, found.level, found.words, found.declared) == (BOTH, 0.95, "", True)


@pytest.mark.parametrize("fold", [None, 0, 1])
def test_after_any_release_a_policy_of_unknown_origin_has_no_interval(books: Books, fold: Fold | None) -> None:
    found = assess_standing(books.add("earlier", fold).ledger, [None], level=0.95)
    assert (found.level, found.declared) == (None, False)
    assert "not declared" in found.words
    assert "plan earlier" in found.words
    assert assess_standing(books.ledger, [PUBLIC], level=0.95).level == 0.95
    assert assess_standing(books.ledger, [None], level=0.95, since=0).level == 0.95  # it was there before that release


def test_who_taught_a_release_does_not_judge_it(books: Books) -> None:
    books.add("all", None).add("learned", 0).add("improved", 0, 1)
    for plan, free in (("all", frozenset()), ("learned", {1}), ("improved", {1})):
        own = assess_standing(books.ledger, [Origin((plan,), "P")], level=0.95)
        assert own.free == free
        assert own.level == (0.95 if free else None)
    everybody = assess_standing(books.ledger, [Origin(("learned",), "P")], level=0.95, judges=BOTH)
    assert everybody.level is None
    assert "evaluate it on fold 1" in everybody.words
    assert "learn the policy on fold 0" in assess_standing(books.ledger, [Origin.made_from("all")], level=0.95).words


def test_what_is_made_from_a_release_is_taught_by_all_that_it_read(books: Books) -> None:
    books.add("learned", 0).add("improved", 0, 1).add("judged", 1, evaluates=True)
    for plan, free in (("learned", {1}), ("improved", frozenset()), ("judged", {0})):
        assert assess_standing(books.ledger, [Origin.made_from(plan)], level=0.95).free == free
    assert assess_standing(books.ledger, [Origin.made_from("learned", "judged")], level=0.95).level is None


def test_what_was_declared_before_still_counts(books: Books) -> None:
    books.add("all", None)
    assert assess_standing(books.ledger, [PUBLIC, Origin.made_from("all")], level=0.95).level is None
    assert assess_standing(books.ledger, [None, PUBLIC], level=0.95, since=1).level == 0.95


def test_what_else_the_statement_takes_for_fixed_must_not_be_taught_either(books: Books) -> None:
    assert assess_standing(books.ledger, [PUBLIC], level=0.95, besides=BOTH).level is None
    assert assess_standing(books.ledger, [PUBLIC], level=0.95, besides=frozenset({0})).free == {1}


def test_evaluations_on_the_judging_people_are_counted(books: Books) -> None:
    books.add("on all", None, evaluates=True).add("not run", None, evaluates=True, run=False)
    books.add("on 1", 1, evaluates=True).add("on 0", 0, evaluates=True).add("learned", 0).add("statement", 0, 1)
    books.add("synthesis", None)
    public = assess_standing(books.ledger, [PUBLIC], level=0.95)
    assert public.level == pytest.approx(1 - 0.05 / 5)
    assert "4 evaluations on the same people" in public.words
    assert "99 %" in public.words
    fold_1 = assess_standing(books.ledger, [Origin.made_from("learned")], level=0.95)
    assert fold_1.level == pytest.approx(1 - 0.05 / 4)  # those on fold 0 say nothing of fold 1
    learned = assess_standing(books.ledger, [Origin(("learned",), "P")], level=0.95)
    assert learned.level == pytest.approx(1 - 0.05 / 3)  # the statement came after it
    assert assess_standing(books.ledger, [PUBLIC], level=0.95, since=1).level == pytest.approx(0.975)


def test_after_too_many_evaluations_there_is_no_interval() -> None:
    assert corrected_level(0.95, 0) == 0.95
    assert corrected_level(0.95, 24) == pytest.approx(0.998)
    assert corrected_level(0.95, 25) is None
    assert corrected_level(0.998, 0) == 0.998
    assert corrected_level(0.99, 4) == pytest.approx(0.998)


def test_an_origin_is_a_plan_of_this_ledger(books: Books) -> None:
    with pytest.raises(PlanError, match="holds no plan 'elsewhere'"):
        assess_standing(books.ledger, [Origin.made_from("elsewhere")], level=0.95)


def test_a_plan_answers_for_the_policies_that_it_released_alone(books: Books) -> None:
    with pytest.raises(PlanError, match="released another policy"):
        assess_standing(books.add("learned", 0).ledger, [Origin(("learned",), "Q")], level=0.95)
