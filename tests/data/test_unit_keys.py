"""Who is one unit: keys of ids, their twins and their names, in literals."""

from __future__ import annotations

import datetime
import decimal
import unicodedata

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tacit.data import unit_keys
from tacit.data.sources import column_sql
from tacit.errors import DataError

SAME = [
    ("A", ["A", " A", "A\t", "\u2028A\x85", "\x0bA\x0c", "\u3000A\xa0"]),
    ("7", ["7", 7, np.int64(7), np.uint64(7), 7.0, np.float32(7), decimal.Decimal("7"), decimal.Decimal("7.000")]),
    ("18446744073709551615", [2**64 - 1, np.uint64(2**64 - 1), decimal.Decimal(2**64 - 1)]),
    ("0", [0, -0.0, decimal.Decimal("-0")]),
    ("00ff0a", [b"\x00\xff\n", bytearray(b"\x00\xff\n"), memoryview(b"\x00\xff\n")]),
    ("01", ["01"]),
    ("1.0", ["1.0"]),
    ("", []),
]


@pytest.mark.parametrize(("text", "ids"), SAME)
def test_one_key(text, ids):
    assert {unit_keys.key(value) for value in ids} == ({text} if ids else set())


MISSING = [None, float("nan"), np.nan, pd.NA, pd.NaT, decimal.Decimal("nan"), "", " \t", "NA", "nan", "NaN", "N/A"]
MISSING += [" null\n", "None", "NULL", "NAN", "Null", "none", "n/A", "<NA>", b"", "\u200b", "\u2800\ufeff", "\x00"]


@pytest.mark.parametrize("value", MISSING, ids=str)
def test_nothing_and_its_words_are_no_ids(value):
    with pytest.raises(unit_keys.NoKey, match="is missing"):
        unit_keys.key(value)


@pytest.mark.parametrize(
    "value",
    [1.5, True, np.True_, decimal.Decimal("1.5"), float("inf"), 2.0**53, datetime.date(2020, 1, 1), (1,), 1j],
    ids=str,
)
def test_what_is_neither_text_nor_whole_is_no_id(value):
    with pytest.raises(unit_keys.NoKey, match="neither"):
        unit_keys.key(value)


TWINS = [
    ("anna", "Anna"),
    ("stra\u00dfe", "STRASSE"),
    ("caf\u00e9", "cafe\u0301"),
    ("12", "\uff11\uff12"),
    ("1\u200b2", "12"),
    ("a\u00adb", "ab"),
    ("\ufeffx", "x"),
    ("a  b", "a b"),
    ("a\tb", "a b"),
    ("\ufb01x", "fix"),
    ("\u1e9e", "ss"),
    ("a\ufe0f", "a"),
    ("a\x00", "a"),
    ("\u03b1\u0345", "\u03b1\u03b9"),
    ("e\u200d\u0301", "\u00e9"),
    ("e\u034f\u0301", "\u00e9"),
    ("\uac00\u200b\u11a8", "\uac01"),
    ("\u0131", "I"),
    ("a\u2800", "a"),
]


@pytest.mark.parametrize(("one", "other"), TWINS)
def test_twins_are_refused_or_declared(one, other):
    assert unit_keys.key(one) != unit_keys.key(other)
    assert unit_keys.key(one, "folded") == unit_keys.key(other, "folded")
    with pytest.raises(DataError, match="--unit-key exact") as error:
        unit_keys.require_no_twins([one, "z", other], "a.csv")
    assert "a.csv" in str(error.value)
    unit_keys.require_no_twins([one, "z", other], "a.csv", "exact")


@pytest.mark.parametrize(("one", "other"), [("1", "01"), ("1", "1.0"), ("ab", "a b"), ("\u0430", "a"), ("-1", "1")])
def test_other_differences_are_no_twins(one, other):
    unit_keys.require_no_twins([one, other, one], "a.csv")


def test_white_space_is_what_python_strips():
    assert "".join(chr(code) for code in range(0x110000) if chr(code).isspace()) == unit_keys.WHITE


def test_what_nobody_sees_changes_nothing_wherever_it_stands():
    for form in ("NFC", "NFD"):
        text = unicodedata.normalize(form, "\u00e9\uac01\u1e69n")
        for place in range(len(text) + 1):
            for hidden in "\u200b\u200d\u00ad\u034f\ufeff\ufe0f\u115f\u180e\x01":
                parted = text[:place] + hidden + text[place:]
                assert unit_keys.fold_key(parted) == "\u00e9\uac01\u1e69n", (form, place, hex(ord(hidden)))


def test_folding_again_changes_nothing():
    for code in range(0x110000):
        if unicodedata.category(chr(code)) in ("Cn", "Co"):
            continue  # unassigned or private: folded to itself, as Unicode promises
        text, folded = f"x{chr(code)}y", unit_keys.fold_key(f"x{chr(code)}y")
        assert folded == text or unit_keys.fold_key(folded) == folded, hex(code)


def test_names_are_blake2b():
    names = unit_keys.names(["A", "\ud800"])
    assert names.shape == (2, 16)
    assert names[0].tobytes().hex() == "f96658555f24a7608e17d9d14603e79c"
    assert unit_keys.names([]).shape == (0, 16)


def test_equal_digests_are_found():
    names = unit_keys.names(map(str, range(1000)))
    assert not len(unit_keys.duplicates(names))
    assert len(unit_keys.duplicates(names[[*range(1000), 77]]))
    half = names.copy()
    half[:, :8] = 0
    assert not len(unit_keys.duplicates(half))
    assert not len(unit_keys.duplicates(names[:0]))


def test_an_unknown_word_is_refused():
    assert [unit_keys.require_unit_key(word, "x") for word in (None, "exact", "folded")] == [None, "exact", "folded"]
    with pytest.raises(DataError, match="unit_key says nothing"):
        unit_keys.require_unit_key("keep", "x")


@pytest.mark.parametrize(
    ("cells", "keys"),
    [
        (["A-1", "a-1", "7"], ["A-1", "a-1", "7"]),
        (["A-1", "NA", "nan"], ["A-1", None, None]),
        (["A-1", " b ", None, ""], ["A-1", "b", None, None]),
        (["\u00e9", "A"], ["\u00e9", "A"]),
        (["a\x1f", "\u200b"], ["a", None]),
    ],
)
def test_a_column_of_texts_has_the_keys_of_its_cells(cells: list[str | None], keys: list[str | None]) -> None:
    column = pa.array(cells, pa.string())
    assert column_sql.column_keys(column, None).to_pylist() == keys
    folded = [None if key is None else unit_keys.fold_key(key) for key in keys]
    assert column_sql.column_keys(column, "folded").to_pylist() == folded


def test_an_id_that_comes_again_at_once_has_the_key_of_the_one_before() -> None:
    ids = np.array(["b ", "b ", "a", "a", "b "], dtype=object)
    ids[1], ids[3] = ids[0], ids[2]  # the same objects
    made, kind = unit_keys.keys(ids)
    assert (made.tolist(), kind) == (["b", "b", "a", "a", "b"], "text")
    mixed = np.array(["a", "a", 1], dtype=object)
    with pytest.raises(unit_keys.NoKey) as caught:
        unit_keys.keys(mixed)
    assert caught.value.row == 2
