"""Expressions: what one row and one unit say is computed, and everything else is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tacit.data.sources.expressions import AGGREGATES, SCALARS, parse_expression
from tacit.errors import DataError

duckdb = pytest.importorskip("duckdb")

HEADER = ("unit", "time", "a", "b", "odd name", "select")


@pytest.fixture
def engine() -> Any:
    with duckdb.connect(":memory:") as connection:
        yield connection


ROWS = (("u", 1, 1, 4), ("u", 2, 2, 5), ("u", 3, 3, 6), ("v", 1, 10, 7), ("v", 2, 20, 8), ("v", 3, 30, None))


def values(text: str, engine: Any, rows: Sequence[tuple[Any, ...]] = ROWS) -> list[Any]:
    """Of the rows of two units, in the order of units and times."""
    expression = parse_expression(text, "--reward", HEADER, "unit", engine)
    cells = ", ".join(f"('{u}', {t}, {a}, {'NULL' if b is None else b}, 7, 8)" for u, t, a, b in rows)
    names = ", ".join(f'"{name}"' for name in HEADER)
    text = expression.sql(HEADER, engine)
    query = (
        f"SELECT x FROM (SELECT unit, time, {text} AS x FROM (VALUES {cells}) AS source({names})) ORDER BY unit, time"
    )
    return [value for (value,) in engine.execute(query).fetchall()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + 1 -- a comment", [2, 3, 4, 11, 21, 31]),
        (
            "CASE WHEN a BETWEEN 2 AND 10 THEN 'some' ELSE 'other' END",
            ["other", "some", "some", "some"] + ["other"] * 2,
        ),
        ("coalesce(b, -1)", [4, 5, 6, 7, 8, -1]),
        ("b IS NULL OR NOT a IN (1, 2)", [False, False, True, True, True, True]),
        ("CAST(a AS DOUBLE) / 4", [0.25, 0.5, 0.75, 2.5, 5.0, 7.5]),
        ('"odd name" + "select"', [15] * 6),
        ("if(a > 9, upper(unit), lower(unit))", ["u", "u", "u", "V", "V", "V"]),
        ("extract(day FROM DATE '2024-03-05' + to_days(a))", [6, 7, 8, 15, 25, 4]),
        ("sum(a) OVER (PARTITION BY unit)", [6, 6, 6, 60, 60, 60]),
        ("lead(a, 1, 0) OVER (PARTITION BY unit ORDER BY time)", [2, 3, 0, 20, 30, 0]),
        ("a - lag(a) OVER (PARTITION BY unit ORDER BY time)", [None, 1, 1, None, 10, 10]),
        ("row_number() OVER (PARTITION BY unit)", [1, 2, 3, 1, 2, 3]),
        ("rank() OVER (PARTITION BY unit, b IS NULL ORDER BY time)", [1, 2, 3, 1, 2, 1]),
        ("sum(a) OVER (PARTITION BY unit ORDER BY time ROWS 1 PRECEDING)", [1, 3, 5, 10, 30, 50]),
    ],
)
def test_one_row_and_one_unit_are_computed_with(text: str, expected: list[Any], engine: Any) -> None:
    assert values(text, engine) == expected
    other = [("u", 1, 99, 99), ("u", 0, 50, None), ("u", 7, 2, 2), ("u", 8, -5, 2)]
    for rows in ((*other, *ROWS[3:]), (*ROWS[3:], *other[:1]), ROWS[3:]):
        assert values(text, engine, rows)[-3:] == expected[-3:]  # whatever the other unit's rows are


@pytest.mark.parametrize(
    ("text", "what"),
    [
        # one unit's row would change everybody's
        ("avg(a)", "the function 'avg' is not allowed"),
        ("a - avg(a) OVER ()", "the window of 'avg' is not partitioned by the unit"),
        ("rank() OVER (ORDER BY a)", "the window of 'rank' is not partitioned by the unit"),
        ("sum(a) OVER (PARTITION BY time)", "the window of 'sum' is not partitioned by the unit"),
        ("row_number() OVER (PARTITION BY (unit, time))", "the window of 'row_number' is not partitioned"),
        ("row_number() OVER (PARTITION BY lower(unit))", "the window of 'row_number' is not partitioned"),
        ("row_number() OVER (PARTITION BY a, b) = 1", "the window of 'row_number' is not partitioned"),  # duplicates
        ("a > (SELECT avg(a) FROM source)", "'subquery' is not allowed"),
        ("(SELECT max(s.a) FROM source s WHERE s.unit = unit)", "'subquery' is not allowed"),
        ("EXISTS (SELECT 1 FROM source s WHERE s.a = a)", "'subquery' is not allowed"),
        ("a IN (SELECT a FROM source)", "'subquery' is not allowed"),
        ("count(*) FILTER (WHERE a > 1) OVER (PARTITION BY unit)", "'filter_expr' of 'count' is not allowed"),
        ("count(DISTINCT a) OVER (PARTITION BY unit)", "'distinct' of 'count' is not allowed"),
        ("sum(a ORDER BY b) OVER (PARTITION BY unit)", "'arg_orders' of 'sum' is not allowed"),
        ("array_agg(a) OVER (PARTITION BY unit)", "the window function 'array_agg' is not allowed"),
        ("ntile(2) OVER (PARTITION BY unit)", "'window ntile'|'ntile'"),
        ("sum(sum(a) OVER (PARTITION BY unit)) OVER (PARTITION BY unit)", "a window in a window is not allowed"),
        ("sum(a) OVER (PARTITION BY unit ORDER BY a RANGE 1 PRECEDING)", "the frame of 'sum' is not allowed"),
        ("sum(a) OVER (PARTITION BY unit ORDER BY a ROWS CURRENT ROW EXCLUDE TIES)", "'sum' is not allowed"),
        ("rowid", "there is no column 'rowid'"),
        ("source", "there is no column 'source'"),
        ("source.a", "there is no column 'source.a'"),
        ("grouping(a)", "is not allowed"),
        # files, the network, the machine, chance and time
        ("read_csv('/etc/passwd')", "the function 'read_csv' is not allowed"),
        ("read_text('https://example.org')", "the function 'read_text' is not allowed"),
        ("getenv('PGPASSWORD')", "the function 'getenv' is not allowed"),
        ("current_setting('temp_directory')", "the function 'current_setting' is not allowed"),
        ("random()", "the function 'random' is not allowed"),
        ("uuid()", "the function 'uuid' is not allowed"),
        ("now()", "the function 'now' is not allowed"),
        ("age(time)", "the function 'age' is not allowed"),
        ("current_date", "there is no column 'current_date'"),
        ("nextval('numbers')", "the function 'nextval' is not allowed"),
        ("query('SELECT 1')", "the function 'query' is not allowed"),
        ("error(unit)", "the function 'error' is not allowed"),
        # macros, lambdas, and what is on no list
        ("my_macro(a)", "the function 'my_macro' is not allowed"),
        ("main.abs(a)", "'schema' of 'abs' is not allowed"),
        ("list_transform([a], x -> x + 1)", "the function 'list_transform' is not allowed"),
        ("lambda x: x + 1", "'lambda' is not allowed"),
        ("a[1]", "'array extract' is not allowed"),
        ("try(a)", "'operator try' is not allowed"),
        ("CAST(a AS JSON)", "a cast to 'json' is not allowed"),
        ("a COLLATE nocase", "'collate' is not allowed"),
        ("*", "'star' is not allowed"),
        ("COLUMNS('a')", "'star' is not allowed"),
        ("unknown", "there is no column 'unknown'"),
        # no single expression
        ("", "is not allowed|no single SQL expression"),
        ("a, b", "is not allowed|no single SQL expression"),
        ("a) FROM source --", "no single SQL expression"),
        ("1; DROP TABLE source", "no single SQL expression"),
        ("a AS b", "no single SQL expression"),
        ("?", "no single SQL expression"),
        ("\x00", "there is no column"),
    ],
)
def test_whatever_could_mix_units_or_leave_the_table_is_refused(text: str, what: str, engine: Any) -> None:
    engine.execute("CREATE MACRO my_macro(x) AS x + 1")
    with pytest.raises(DataError, match=what) as caught:
        parse_expression(text, "--reward", HEADER, "unit", engine)
    assert str(caught.value).startswith("--reward: ")
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_without_a_unit_there_is_no_window(engine: Any) -> None:
    with pytest.raises(DataError, match="the window of 'sum' is not partitioned by the unit"):
        parse_expression("sum(a) OVER (PARTITION BY unit)", "--where", HEADER, None, engine)


def test_rows_that_an_order_does_not_tell_apart_are_ordered_by_the_columns_in_use(engine: Any) -> None:
    expression = parse_expression(
        "row_number() OVER (PARTITION BY unit ORDER BY b DESC)", "--where", HEADER, "unit", engine
    )
    assert expression.columns == {"unit", "b"}
    assert expression.sql(("unit", "a"), engine) == "(row_number() OVER (PARTITION BY unit ORDER BY b DESC, unit, a))"
    peers = parse_expression("rank() OVER (PARTITION BY unit ORDER BY b)", "--where", HEADER, "unit", engine)
    assert peers.sql(("unit", "a"), engine) == "(rank() OVER (PARTITION BY unit ORDER BY b))"


def test_the_lists_hold_functions_that_give_the_same_for_the_same_row(engine: Any) -> None:
    known: dict[str, set[tuple[str, str | None]]] = {}
    for name, kind, stability in engine.execute(
        "SELECT function_name, function_type, stability FROM duckdb_functions() WHERE internal"
    ).fetchall():
        known.setdefault(name, set()).add((kind, stability))
    steady = {("scalar", "CONSISTENT"), ("scalar", "CONSISTENT_WITHIN_QUERY"), ("macro", None)}
    assert {name for name in SCALARS if not known.get(name, {None}) <= steady} == set()
    zoned = {name for name in SCALARS if ("scalar", "CONSISTENT_WITHIN_QUERY") in known[name]}
    fixed = {name for name in SCALARS if known[name] == {("scalar", "CONSISTENT_WITHIN_QUERY")}}
    assert fixed == set()  # only of times with a zone does a setting decide, and that is UTC
    assert "random" not in zoned
    assert {name for name in AGGREGATES if ("aggregate", "CONSISTENT") not in known[name]} <= {"variance"}


def test_a_word_of_sql_alone_is_the_column_of_that_name(engine: Any) -> None:
    assert values("select", engine) == [8] * 6
    assert values('"select" + 1', engine) == [9] * 6
    assert values("odd name", engine) == [7] * 6
    assert parse_expression("desc", "--reward", ("unit", "desc"), "unit", engine).columns == {"desc"}
    assert parse_expression("0", "--reward", ("unit", "0"), "unit", engine).columns == frozenset()


def test_a_word_of_sql_in_an_expression_is_said_to_need_quotes(engine: Any) -> None:
    with pytest.raises(DataError, match='write the column "select" in double quotes, as it is a word of SQL'):
        parse_expression("a + select > 0", "--where", HEADER, "unit", engine)
