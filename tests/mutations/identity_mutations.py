"""Mistakes about who is one unit, one at a time."""

from __future__ import annotations

import dataclasses
import unicodedata
from typing import Any

import pytest

from tacit.data import ingest, unit_keys
from tacit.data.sources import column_sql
from tacit.data.sources.expressions import Expression
from tacit.data.unit_keys import Digests, Names
from tacit.privacy.vault.records import Reader
from tacit.study import account
from tacit.study.account import Account


def halves_by_rows(patch: pytest.MonkeyPatch) -> None:
    """Units are dealt to the halves by their rows, ids or not: whoever edits a row may change its half."""
    real = Reader.folds

    def folds(self: Reader, key: str) -> Any:
        self._names = None
        return real(self, key)

    patch.setattr(Reader, "folds", folds)


def stripped_in_one_place(patch: pytest.MonkeyPatch) -> None:
    """SQL sorts by ids as they are written, and Python strips them afterwards."""
    patch.setattr(column_sql, "column_keys", lambda column, law: column)


def bytes_replaced(patch: pytest.MonkeyPatch) -> None:
    """Ids that are no UTF-8 are decoded with a sign in place of what does not fit."""
    real = unit_keys.key

    def key(value: Any, unit_key: Any = None) -> str:
        return real(value.decode("utf-8", "replace") if isinstance(value, bytes) else value, unit_key)

    patch.setattr(unit_keys, "key", key)


def twins_unseen(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks for ids that differ by case or form alone."""
    patch.setattr(Names, "twins", lambda self: ())


def twins_unseen_across_chunks(patch: pytest.MonkeyPatch) -> None:
    """Twins are looked for among the last ids alone."""
    real = Names.add

    def add(self: Names, keys: Any, *, whole: bool) -> Any:
        self._folds = bytearray()
        return real(self, keys, whole=whole)

    patch.setattr(Names, "add", add)


def twins_unseen_across_shards(patch: pytest.MonkeyPatch) -> None:
    """Shards compare ids as they are written."""
    real = Digests.__init__

    def init(self: Digests, key: bytes, unit_key: Any = None) -> None:
        real(self, key, unit_key)
        self._exact = True

    patch.setattr(Digests, "__init__", init)


def windows_by_the_column(patch: pytest.MonkeyPatch) -> None:
    """A window is partitioned by the column as expressions see it, a number maybe, and not by what becomes the unit."""
    real = Expression.sql
    patch.setattr(Expression, "sql", lambda self, used, engine, unit=None: real(self, used, engine))


def events_become_episodes(patch: pytest.MonkeyPatch) -> None:
    """Every change of unit ends an episode, also where the unit comes again."""
    patch.setattr(ingest.Ingest, "_require_contiguous", lambda self, codes, changes, done: None)


def invisible_after_form(patch: pytest.MonkeyPatch) -> None:
    """Invisible characters are taken out of a text whose form is settled already, of a letter and its sign."""

    def folded(text: str) -> str:
        for _ in range(2):
            text = unicodedata.normalize("NFKC", unicodedata.normalize("NFD", text).casefold())
        return " ".join("".join(c for c in text if not unit_keys._is_invisible(c)).split())

    patch.setattr(unit_keys, "fold_key", folded)


def folders_unseen(patch: pytest.MonkeyPatch) -> None:
    """A ledger is known with the very folder that was named, not with those in it and around it."""
    patch.setattr(account, "_notes_around", lambda source: iter(()))


def ledger_with_the_first_source(patch: pytest.MonkeyPatch) -> None:
    """The ledger is noted with the first of several files alone."""
    note = Account._note

    def first(self: Account, ledger: Any, noted: list[Any]) -> None:
        note(dataclasses.replace(self, sources=self.sources[:1]), ledger, noted)

    patch.setattr(Account, "_note", first)
