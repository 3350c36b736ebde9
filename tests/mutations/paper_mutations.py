"""Mistakes with what leaves beside a release: warnings, the curator's files, planted as those of `mutations.py`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tacit import plain_files, plain_text
from tacit.errors import PlanError
from tacit.hub import manifest
from tacit.privacy.certificate import fields
from tacit.privacy.certificate import plan as planned
from tacit.privacy.sentences import SENTENCES
from tacit.privacy.vault import isolation

Plant = Callable[[pytest.MonkeyPatch], None]


def warnings_that_are_caught(patch: pytest.MonkeyPatch) -> None:
    """`warnings.catch_warnings` around each step, as if a thread had filters of its own."""

    @contextlib.contextmanager
    def caught() -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield

    patch.setattr(isolation, "silence_warnings", caught)


def files_that_all_may_read(patch: pytest.MonkeyPatch) -> None:
    """The curator's files are written as any others."""
    real = plain_files.write

    def made(path: Path) -> Path:
        path.mkdir(parents=True, exist_ok=True)
        return path

    patch.setattr(plain_files, "make_private_folder", made)
    patch.setattr(plain_files, "write", lambda path, content, mode=0o644: real(path, content))


def manifests_that_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """A certificate's signature is taken for one of the weights beside it."""
    patch.setattr(manifest.Manifest, "require", lambda self, *arguments, **fields: None)


def charges_of_ones_own(patch: pytest.MonkeyPatch) -> None:
    """A certificate's own charge is whatever it says."""
    real = fields.contradictions

    def broken(record: Any, event: Any) -> Iterator[tuple[str, str]]:
        return (one for one in real(record, event) if not one[0].startswith("releases"))

    patch.setattr(fields, "contradictions", broken)


def plans_with_any_field(patch: pytest.MonkeyPatch) -> None:
    """A plan that cannot be rebuilt counts as one with a piece of the user's own, and frees all lines."""
    real = planned.plan_from_json

    def broken(method: str, stated: Any) -> Any:
        try:
            return real(method, stated)
        except PlanError:
            return None

    patch.setattr(planned, "plan_from_json", broken)
    patch.setattr(planned, "USER_PIECES", tuple(SENTENCES))


def clauses_of_any_plan(patch: pytest.MonkeyPatch) -> None:
    """Clauses are taken as they come, whatever the plan says."""
    patch.setattr(planned, "_follows", lambda found, derived, declared: True)


def texts_as_they_come(patch: pytest.MonkeyPatch) -> None:
    """Control characters and half surrogates are texts like any others."""
    patch.setattr(plain_text, "is_printable", lambda text, *, lines=False: True)


def events_of_any_size(patch: pytest.MonkeyPatch) -> None:
    """Whoever verifies a certificate prices as many kinds of steps as it states."""
    patch.setattr(fields, "require_few_kinds", lambda leaves: None)


PAPERS: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("warnings of one thread are let out by another", warnings_that_are_caught, ("warnings_stay_inside",)),
    ("the curator's files are readable by all", files_that_all_may_read, ("files_are_the_curators",)),
    ("files beside a certificate are not compared", manifests_that_are_not_compared, ("weights_are_the_manifests",)),
    ("an own charge of any size", charges_of_ones_own, ("own_charges_are_certified",)),
    ("an unknown field frees the lines", plans_with_any_field, ("plans_have_no_other_field",)),
    ("clauses of any plan", clauses_of_any_plan, ("clauses_are_the_plans",)),
    ("hidden characters in certificates", texts_as_they_come, ("texts_are_plain",)),
    ("events of any size", events_of_any_size, ("events_are_small",)),
)
