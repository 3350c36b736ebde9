"""Rows in any order: sorted, with next observations, checked like all others, and quiet about their cells."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from visits import CANARY, REWARD, SORTED, SPEC, assert_quiet, rows, table

from tacit.data import Box, Column, Discrete, Fields, PublicSpec, Trajectories
from tacit.data.sources import engine, lake, sorting
from tacit.data.spec import space_of
from tacit.errors import DataError, TacitError

pytest.importorskip("duckdb")

WANTED = sorting.TableOptions(unit="patient", episode="visit", time="minute", next="keep", reward=REWARD)


def typed(frame: pd.DataFrame) -> lake.SourceTable:
    whole = pa.Table.from_pandas(frame, preserve_index=False)
    return _table(whole, True)


def untyped(frame: pd.DataFrame) -> lake.SourceTable:
    texts = {name: [None if pd.isna(cell) else str(cell) for cell in frame[name]] for name in frame}
    return _table(pa.table({name: pa.array(cells, pa.string()) for name, cells in texts.items()}), False)


def _table(whole: pa.Table, has_types: bool) -> lake.SourceTable:
    kinds = {field.name: lake.naive_type(lake.plain_type(field.type)) for field in whole.schema}

    def batches(names: Sequence[str]) -> Iterator[Any]:
        for batch in whole.select(names).to_batches(max_chunksize=2):
            arrays = [batch.column(name).cast(kinds[name]) for name in names]
            yield pa.record_batch(arrays, names=list(names))

    return lake.SourceTable("the table", kinds, batches, typed=has_types)


def read(found: lake.SourceTable, spec: PublicSpec = SPEC, **changes: Any) -> Trajectories:
    wanted = {name: getattr(WANTED, name) for name in WANTED.__dataclass_fields__} | changes
    return Trajectories(sorting.read(found, sorting.TableOptions(**wanted), spec, simulated=True), spec, simulated=True)


@pytest.mark.parametrize("source", [typed, untyped])
@pytest.mark.parametrize("time", ["minute", "moment"])
def test_rows_are_sorted_and_next_observations_built(source: Any, time: str) -> None:
    data = read(source(table()), time=time)
    assert rows(data) == SORTED
    np.testing.assert_allclose(data.columns["rewards"], -np.abs([p - 75 for p, *_ in SORTED]) / 145, rtol=1e-6)
    assert data.episodes.tolist() == [0, 3, 4, 6]
    assert data._unit_rows[1].tolist() == [0, 4, 6]


@pytest.mark.parametrize("source", [typed, untyped])
def test_rows_that_are_alike_may_have_one_time(source: Any) -> None:
    twice = pd.concat([table(), table().iloc[:2]])
    data = read(source(twice))
    assert sorted(row[0] for row in rows(data)) == sorted([row[0] for row in SORTED] + table()["pulse"].tolist()[:2])
    for column in ("pulse", "drug"):
        other = twice.copy()
        other.iloc[-1, other.columns.get_loc(column)] = twice[column].iloc[3]
        if other.iloc[-1].tolist() != twice.iloc[-1].tolist():
            with pytest.raises(DataError, match="two rows of an episode have the same time"):
                read(source(other))


def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (1, 2, 5):
        monkeypatch.setattr(engine, "CHUNK", size)
        assert rows(read(typed(table()))) == SORTED
        assert [row[0] for row in rows(read(typed(table()), next="drop"))] == [60, 75, 80]


def test_decisions_of_their_own_that_are_cut_leave_nothing_to_learn_from() -> None:
    alone = table(visit=[f"visit {i}" for i in range(6)])
    assert len(rows(read(typed(alone), next="keep"))) == 6
    with pytest.raises(DataError, match=r"every row is the last of an episode that is cut, .*`termination` of 1"):
        read(typed(alone), next="drop")


@pytest.mark.parametrize("source", [typed, untyped])
def test_a_second_time_orders_what_the_first_leaves_equal(source: Any) -> None:
    days = {"day": ["2024-03-01"] * 3 + ["2024-03-02"] + ["2024-03-01"] * 2, "turn": [0, 5, 9, -1, 3, 4]}
    assert rows(read(source(table(**days)), time=("day", "turn"))) == SORTED
    assert rows(read(source(table(**days)), time=("try_strptime(day, '%Y-%m-%d')", "turn"))) == SORTED
    with pytest.raises(DataError, match="two rows of an episode have the same time"):
        read(source(table(**days)), time="day")
    # of two episodes that begin on one day the one with the lower turn then is first, whatever its later turns
    turned = table(
        day=["2024-03-01", "2024-03-01", "2024-03-02", "2024-03-01", "2024-03-01", "2024-03-02"],
        turn=[2, 3, 0, 1, 1, 0],
    )
    assert [row[0] for row in rows(read(source(turned), time=("day", "turn")))] == [100, 60, 75, 90, 80, 82]


ORDERS = [
    "31.12.2024",
    "12/31/2024 14:05",
    "2024-12-31 02:05 PM",
    "2024-12-31 14:05 CET",
    "05-12-24",
    "infinity",
]


@pytest.mark.parametrize("cell", ORDERS)
def test_dates_that_are_not_written_as_everybody_reads_them_are_refused(cell: str) -> None:
    for source in (typed, untyped):
        with pytest.raises(DataError, match="neither a number nor a time") as caught:
            read(source(table(minute=[cell, *["2024-01-01 10:00"] * 5])))
        assert cell not in str(caught.value)


def by_hand(frame: pd.DataFrame, drop: bool) -> list[tuple[Any, ...]]:
    """(pulse, next pulse, termination, truncation) row by row: what the documentation says, in plain loops."""
    found: list[tuple[Any, ...]] = []
    for patient in sorted(set(frame["patient"]), key=lambda name: (len(name), name)):
        own = frame[frame["patient"] == patient]
        visits = sorted(set(own["visit"]), key=lambda visit: own[own["visit"] == visit]["minute"].min())
        for visit in visits:
            steps = own[own["visit"] == visit].sort_values("minute")
            pulse, ends = steps["pulse"].tolist(), steps["termination"].tolist()
            if drop and not ends[-1]:
                pulse, ends, after = pulse[:-1], ends[:-1], pulse[1:]
            else:
                after = [*pulse[1:], pulse[-1]]
            after = [own if end else next for own, next, end in zip(pulse, after, ends, strict=True)]
            cut = [i == len(pulse) - 1 and not ends[i] for i in range(len(pulse))]
            found += zip(pulse, after, ends, cut, strict=True)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_any_rows_are_as_plain_loops_have_them(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(engine, "CHUNK", int(rng.integers(1, 12)))
    count = int(rng.integers(1, 60))
    frame = pd.DataFrame(
        {
            "patient": rng.choice(["p", "q2", "r10", "A"], count),
            "visit": rng.integers(0, 3, count),
            "minute": rng.permutation(1000)[:count] - 500,
            "pulse": rng.integers(30, 220, count).astype(float),
            "ward": "A",
            "drug": "low",
            "termination": rng.random(count) < 0.2,
        }
    )
    last = frame.sort_values("minute").groupby(["patient", "visit"]).tail(1).index
    frame.loc[frame.index.difference(last), "termination"] = False
    spec = PublicSpec(SPEC.observation, SPEC.action, SPEC.reward, "declared")
    for source in (typed, untyped):
        for drop in (False, True):
            expected = by_hand(frame, drop)
            if not expected:
                continue
            data = read(source(frame), spec, reward="-0.5", next="drop" if drop else "keep")
            columns = {name: np.asarray(column) for name, column in data.columns.items()}
            ends = zip(columns["terminations"].tolist(), columns["truncations"].tolist(), strict=True)
            pulses = zip(*(columns[f"{a}observations"][:, 0].tolist() for a in ("", "next_")), strict=True)
            assert [(*pulse, *end) for pulse, end in zip(pulses, ends, strict=True)] == expected


def test_without_an_episode_the_visits_of_a_patient_are_one() -> None:
    assert [row[1] for row in rows(read(typed(table()), episode=None))] == [75, 90, 100, 100, 82, 82]


def test_a_dropped_row_truncates_the_one_before() -> None:
    kept = rows(read(typed(table()), next="drop"))
    assert kept == [(60.0, 75.0, 0.0, 0, False), (75.0, 90.0, 0.0, 1, True), (80.0, 82.0, 0.0, 1, True)]


def test_a_termination_ends_an_episode_and_is_never_dropped() -> None:
    spec = PublicSpec(SPEC.observation, SPEC.action, SPEC.reward, "declared")
    ends = [False, True, False, True, False, False]  # within ann's first visit, and at the end of her second one
    for changes, expected in (
        ({}, [(60, 75), (75, 75), (90, 100), (100, 100), (80, 82), (82, 82)]),
        ({"next": "drop"}, [(60, 75), (75, 75), (90, 100), (100, 100), (80, 82)]),
    ):
        data = read(typed(table(termination=ends)), spec, episode=None, **changes)
        assert [row[:2] for row in rows(data)] == expected
        assert data.columns["terminations"].sum() == 2
        assert not (data.columns["terminations"] & data.columns["truncations"]).any()


def test_episodes_follow_each_other_as_they_begin() -> None:
    renamed = table().assign(visit=["z" if visit == 1 else "a" for visit in table()["visit"]])
    assert [row[0] for row in rows(read(typed(renamed)))] == [60, 75, 90, 100, 80, 82]


def test_numbers_in_text_are_sorted_as_numbers_and_ids_stay_text() -> None:
    frame = table(patient=["007", "007", "007", "007", "7", "7"], minute=["8", "9", "10", "11", "1e0", "2.5"])
    data = read(untyped(frame))
    assert sorted(row[0] for row in rows(data)[:2]) == [80, 82]
    assert [row[0] for row in rows(data)[2:]] == [60, 75, 90, 100]
    assert data._unit_rows[1].tolist() == [0, 2, 6]


def test_rows_and_actions_are_chosen_by_expressions() -> None:
    spec = PublicSpec(SPEC.observation, Discrete(2), Box((0,), (1,)), "declared", terminals=False)
    data = read(
        typed(table()),
        spec,
        where="pulse < 100 AND count(*) OVER (PARTITION BY patient) > 2",
        actions={"": "CASE drug WHEN 'none' THEN 0 ELSE 1 END"},
        reward="pulse / max(pulse) OVER (PARTITION BY patient)",
    )
    assert data.columns["actions"].tolist() == [0, 1, 1]
    np.testing.assert_allclose(data.columns["rewards"], [60 / 90, 75 / 90, 1.0])  # after the rows were chosen
    two = PublicSpec(
        SPEC.observation,
        space_of(Column("dose", low=0, high=2), Column("given", "category", labels=("no", "yes"))),
        SPEC.reward,
        "declared",
        terminals=False,
    )
    made = {"dose": "if(drug = 'high', 2, 0.5)", "given": "if(drug = 'none', 'no', 'yes')"}
    assert np.asarray(read(typed(table()), two, actions=made).columns["actions"])[:3].tolist() == [
        [0.5, 0.0],
        [0.5, 1.0],
        [2.0, 1.0],
    ]
    with pytest.raises(
        DataError, match="the action has several columns; expected NAME=EXPRESSION with a name of dose, given"
    ):
        read(typed(table()), two, actions={"": "1"})
    with pytest.raises(DataError, match="there is no action 'size'"):
        read(typed(table()), two, actions=made | {"size": "1"})


def test_tables_that_have_next_observations_are_read_as_they_lie() -> None:
    frame = table(next_pulse=61.0, next_ward="B", comfort=-0.5).sort_values(["patient", "minute"])
    as_it_is: dict[str, Any] = {"time": None, "next": None, "reward": None, "episode": None}
    data = read(typed(frame), **as_it_is)
    assert rows(data)[0] == (60.0, 61.0, 0.0, 0, False)
    fields = Fields.from_pairs(SPEC, ("observations=heart,ward", "next_observations=next_pulse,next_ward"))
    renamed = typed(frame.rename(columns={"pulse": "heart"}))
    assert rows(read(renamed, **as_it_is, fields=fields)) == rows(data)


def test_every_transition_may_be_a_unit_and_every_episode() -> None:
    frame = table(next_pulse=61.0, next_ward="B", comfort=-0.5, stay=[1, 1, 1, 2, 3, 3])
    data = read(typed(frame), unit=":transition", episode=None, time=None, next=None, reward=None)
    assert (data.unit_kind, data.counts()["units"]) == ("transition", 6)
    whole = read(typed(frame), unit=":episode", episode="stay", reward="-pulse / max(pulse) OVER (PARTITION BY stay)")
    assert (whole.unit_kind, whole.counts()["units"]) == ("episode", 3)
    assert rows(whole) == [*SORTED[:3], *SORTED[4:], SORTED[3]]  # as the stays begin
    with pytest.raises(DataError, match="the window of 'max' is not partitioned by the unit"):
        read(typed(frame), unit=":episode", episode="stay", reward="max(pulse) OVER (PARTITION BY patient)")


def test_columns_may_have_the_names_that_the_query_gives_its_own() -> None:
    words = {"unit": "minute", "time": "patient", "episode": "c0", "c1": "zone", "source": "row", "began_time": "x"}
    assert rows(read(typed(table(**words)))) == SORTED
    assert rows(read(untyped(table(**words)), where="unit = 'minute' AND time = 'patient' AND c1 = 'zone'")) == SORTED


@pytest.mark.parametrize(
    ("source", "cells"),
    [(typed, [60.0, None, 90.0, 100.0, 80.0, None]), (untyped, ["60", "NA", " 90 ", "1e2", "80.0", ""])],
)
def test_missing_cells_are_what_the_spec_says(source: Any, cells: list[Any]) -> None:
    flagged = space_of(Column("pulse", low=30, high=220, missing="flag"))
    spec = PublicSpec(flagged, SPEC.action, SPEC.reward, "declared", terminals=False)
    data = read(source(table(pulse=cells)), spec, reward="coalesce(-pulse / 1000, -1)")
    assert data.columns["observations"].tolist() == [[60, 0], [30, 1], [90, 0], [100, 0], [80, 0], [30, 1]]
    assert data.columns["next_observations"].tolist() == [[30, 1], [90, 0], [90, 0], [100, 0], [30, 1], [30, 1]]
    assert data.columns["rewards"].tolist() == pytest.approx([-0.06, -1, -0.09, -0.1, -0.08, -1])


@pytest.mark.parametrize("word", ["nan", "NAN", "-nAn ", "NA"])
def test_a_word_for_no_number_passes_no_condition(word: str) -> None:
    source = untyped(table(pulse=["60", word, "90", "100", "80", word]))
    assert [pulse for pulse, *_ in rows(read(source, where="pulse > 70"))] == [90, 100, 80]


def test_numbered_columns_without_bounds_are_not_left_out() -> None:
    frame = table().rename(columns={"pulse": "observation_0", "visit": "observation_1"})
    spec = PublicSpec(Box((30,), (220,)), SPEC.action, Box((-1,), (0,)), "declared", terminals=False)
    with pytest.raises(DataError, match="the column 'observation_1' has no public bounds, and would be left out"):
        read(typed(frame), spec, episode=None, reward="-0.5")


BAD: list[tuple[str, Any, dict[str, Any], str]] = [
    ("ties", {"minute": [0, 5, 5, 1, 3, 4]}, {}, "two rows of an episode have the same time"),
    ("no time", {"minute": [0, None, 9, 1, 3, 4]}, {}, "the time column has a (missing value|cell that is missing)"),
    ("a word", {"minute": [str(i) for i in range(5)] + [CANARY]}, {}, "neither a number nor a time"),
    ("kinds", {"minute": ["1", "2", "2024-01-01", "4", "5", "6"]}, {}, "numbers in some rows and times in others"),
    (
        "zones",
        {"minute": [f"2024-01-01T10:0{i}:00+0{i % 2 + 1}:00" for i in range(6)]},
        {},
        "the time column mixes time zones",
    ),
    (
        "some zones",
        {"minute": [f"2024-01-01 10:0{i}{'Z' * (i % 2)}" for i in range(6)]},
        {},
        "the time column mixes time zones",
    ),
    ("a new label", {"drug": ["none", "low", "high", CANARY, "low", "low"]}, {}, "'drug' has a label"),
    ("no cell", {"ward": ["A", None, "A", "A", "A", "A"]}, {}, "the column 'ward' has a missing value"),
    ("no number", {"pulse": ["60", "61", "62", CANARY, "64", "65"]}, {"reward": "-0.5"}, "a cell that is not a number"),
    ("a cast", {"note": CANARY}, {"reward": "cast(note AS DOUBLE)"}, "a cell cannot be computed with"),
    ("a text", {"note": CANARY}, {"reward": "note * 2"}, "a cell cannot be computed|does not fit the types"),
    ("an overflow", {"note": CANARY}, {"where": "CAST(pulse AS TINYINT) > 120 / 0"}, "no records|cannot be computed"),
    ("no unit", {}, {"unit": "person"}, "there is no unit id: no column 'person'"),
    ("no id", {"patient": ["ann", None, "ann", "ann", "bob", "bob"]}, {}, "the unit id is missing"),
    ("no column", {}, {"time": "hour"}, "no column 'hour' for time"),
    ("no order", {}, {"time": None}, "the order of an episode's rows is not defined"),
    ("rows of their own", {}, {"unit": ":transition"}, "the order of an episode's rows is not defined"),
    ("nobody", {}, {"where": "pulse > 500"}, "there are no records"),
    ("two names", {"Pulse": CANARY}, {}, "two columns have names that differ in their case alone"),
    ("a flag", {"truncation": [0, 1, 2, 0, 0, 0]}, {}, "truncations is not boolean"),
    ("no flag", {"truncation": ["no", "True", "0", "0", "1", CANARY]}, {}, "truncations is not boolean"),
    ("lists", {"pulse": [[60.0]] * 6}, {"reward": "-0.5"}, "neither numbers nor texts|a cell that is not a number"),
    ("an interval", {}, {"reward": "to_days(1)"}, "rewards has a column or an expression that gives neither numbers"),
    ("a date", {}, {"time": "drug"}, "neither a number nor a time"),
    ("mixing", {"note": CANARY}, {"reward": "avg(pulse) OVER ()"}, "is not partitioned by the unit"),
]


@pytest.mark.parametrize("source", [typed, untyped])
@pytest.mark.parametrize(("frame", "changes", "what"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_bad_rows_are_refused_in_a_sentence_and_nothing_is_kept(
    frame: dict[str, Any],
    changes: dict[str, Any],
    what: str,
    source: Any,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    wanted = {name: getattr(WANTED, name) for name in WANTED.__dataclass_fields__} | changes
    with pytest.raises(TacitError, match=what) as caught:
        sorting.read(source(table(**frame)), sorting.TableOptions(**wanted), SPEC, store=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    assert_quiet(caught.value)
    assert CANARY not in "".join(capfd.readouterr())
    assert not re.search(r"row \d", str(caught.value))


@pytest.mark.parametrize(
    "error", [DataError("it went away", where="there", expected="rows", remedy="try again"), KeyboardInterrupt("stop")]
)
def test_a_source_that_ends_half_way_leaves_nothing(error: BaseException, tmp_path: Path) -> None:
    whole = typed(table())
    seen: list[int] = []

    def batches(names: Sequence[str]) -> Iterator[Any]:
        yield next(iter(whole.batches(names)))
        (spill,) = tmp_path.glob(".out.spill-*")
        seen.append(stat.S_IMODE(spill.stat().st_mode))
        raise error

    broken = lake.SourceTable("there", whole.kinds, batches)
    with pytest.raises(type(error), match=str(error)) as caught:
        sorting.read(broken, WANTED, SPEC, store=tmp_path / "out")
    assert seen == [0o700]
    assert list(tmp_path.iterdir()) == []
    assert_quiet(caught.value)


def test_what_the_engine_reads_is_closed_before_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left to Python, it is closed when its engine and source may be gone: the process then crashes."""
    closed = []

    def watched(
        found: lake.SourceTable, used: Sequence[str], query: str, connection: Any, counts: dict[str, int]
    ) -> Iterator[Any]:
        try:
            yield from engine.query_batches(found, used, query, connection, counts)
        finally:
            closed.append(connection.execute("SELECT 1").fetchall())  # raises where the engine is closed

    monkeypatch.setattr(sorting, "query_batches", watched)
    monkeypatch.setattr(engine, "CHUNK", 1)  # more is to come when the first rows are refused
    bad = pd.concat([table().assign(patient=f"{i:04}") for i in range(300)], ignore_index=True)
    bad["pulse"] = np.inf
    with pytest.raises(DataError) as caught:
        read(typed(bad))
    assert closed == [[(1,)]], caught


def test_more_rows_than_the_memory_holds_are_sorted_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MEMORY", "40MB")
    count, size = 600_000, 50_000
    place = np.random.default_rng(0).permutation(count)
    kinds = {"patient": pa.int64(), "minute": pa.int64(), "pulse": pa.float64(), "note": pa.string()}
    spilled: list[int] = []

    def batches(names: Sequence[str]) -> Iterator[Any]:
        for start in range(0, count, size):
            part = place[start : start + size]
            cells = {"patient": part // 50, "minute": part % 50, "pulse": 30.0 + part % 100, "note": ["x" * 90] * size}
            spilled.append(len(list(next(tmp_path.glob(".out.spill-*")).iterdir())))
            yield pa.record_batch([pa.array(cells[name], kinds[name]) for name in names], names=list(names))

    spec = PublicSpec(
        space_of(Column("pulse", low=30, high=220)), Box((0,), (2,)), Box((0,), (100,)), "declared", terminals=False
    )
    wanted = sorting.TableOptions(
        unit="patient",
        time="minute",
        next="keep",
        reward="strlen(note)",
        actions={"": "strlen(note) / 90 + 0 * lag(strlen(note), 1, 90) OVER (PARTITION BY patient ORDER BY minute)"},
    )
    records = sorting.read(
        lake.SourceTable("many", kinds, batches), wanted, spec, simulated=True, store=tmp_path / "out"
    )
    np.testing.assert_array_equal(records.columns["observations"][:, 0], 30 + np.arange(count) % 100)
    assert max(spilled) > 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


EVENTS = pd.DataFrame(
    {
        "patient": ["a", "a", "a", "a", "b", "b"],
        "hour": [0, 1, 2, 3, 0, 1],
        "code": ["pulse", "drug", "pulse", "pulse", "pulse", "drug"],
        "value": [70.0, np.nan, 80.0, 90.0, 60.0, np.nan],
    }
)
EVENT_SPEC = PublicSpec(
    observation=space_of(Column("pulse", low=30, high=220), Column("change", low=-50, high=50)),
    action=space_of(Column("given", "category", labels=("no", "yes"))),
    reward=space_of(Column("calm", low=-1, high=0)),
    source="declared",
    terminals=False,
)
OWN = "OVER (PARTITION BY patient ORDER BY hour)"
EVENT_WANTED = {
    "episode": None,
    "time": "hour",
    "columns": {"pulse": "value", "change": f"coalesce(value - lag(value) {OWN}, 0)"},
    "actions": {"": f"if(lead(code) {OWN} = 'drug', 'yes', 'no')"},
    "reward": "-abs(value - 75) / 175",
}


def test_windows_see_what_qualify_leaves_out_and_not_what_where_does() -> None:
    kept = read(typed(EVENTS), EVENT_SPEC, **EVENT_WANTED, qualify="code = 'pulse'")
    assert kept.columns["observations"].tolist() == [[70, 0], [80, 0], [90, 10], [60, 0]]
    assert kept.columns["actions"].tolist() == [1, 0, 0, 1]
    assert kept.columns["next_observations"][:, 0].tolist() == [80, 90, 90, 60]
    seen = read(typed(EVENTS), EVENT_SPEC, **EVENT_WANTED, where="code = 'pulse'")
    assert seen.columns["observations"].tolist() == [[70, 0], [80, 10], [90, 10], [60, 0]]
    assert seen.columns["actions"].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("changes", [{"columns": {"pulse": "avg(value) OVER ()"}}, {"qualify": "rank() OVER () < 9"}])
def test_columns_and_qualify_cannot_mix_units(changes: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="unit"):
        read(typed(EVENTS), EVENT_SPEC, **EVENT_WANTED | changes)


def test_a_column_that_the_spec_does_not_have_is_refused() -> None:
    with pytest.raises(DataError, match="no observation 'rate'"):
        read(typed(EVENTS), EVENT_SPEC, **EVENT_WANTED | {"columns": {"rate": "value"}})


@pytest.mark.parametrize(
    ("cells", "wanted", "kind"),
    [(["1", "-7"], [1, -7], "i"), (["1", "0.5"], [1, Decimal("0.5")], "O"), ([None, None], [None, None], "O")],
)
def test_times_that_are_whole_numbers_need_no_object_each(cells: list[Any], wanted: list[Any], kind: str) -> None:
    column = pa.array([cell and Decimal(cell) for cell in cells], pa.decimal128(38, 9))
    found = sorting._numpy(column)
    assert (found.tolist(), found.dtype.kind) == (wanted, kind)
    assert (
        np.append(sorting._numpy(column[:1]), found)[1:].tolist() == wanted
    )  # blocks of both kinds follow one another


def test_no_engine_prints_a_bar_among_a_commands_output() -> None:
    with engine.open_engine(None) as opened:
        assert opened.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (False,)
