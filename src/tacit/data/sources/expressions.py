"""Expressions over a table that cannot let one unit's rows change those of another.

An expression is parsed by DuckDB and checked, node by node, against the lists below: scalar functions of the same row,
and windows that never leave a unit. What is not on a list is refused, so that a new kind of node is refused too. DuckDB
adds the floats of a window in an order of its own: of such a sum, the last bits of float64 are not claimed to be one
unit's alone, and records are kept as float32.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.columns import split_columns
from tacit.data.sources.column_sql import NAN, quote
from tacit.data.sources.engine import open_engine
from tacit.data.spec import Discrete, PublicSpec
from tacit.errors import DataError

NODES = {
    "COLUMN_REF": {"column_names"},
    "CONSTANT": {"literal"},
    "FUNCTION": {"function_name", "arguments", "is_operator", "order_bys", "qualified_name"},
    "COMPARISON": {"left", "right"},
    "CONJUNCTION": {"children"},
    "OPERATOR": {"children"},
    "CASE": {"case_checks", "else_expr"},
    "BETWEEN": {"input", "lower", "upper"},
    "CAST": {"child", "type_expr", "try_cast"},
    "TYPE": {"type_name", "children", "qualified_name"},
    "WINDOW": {"function_name", "partitions", "orders", "start", "end", "start_expr", "end_expr", "arguments"}
    | {"exclude_clause", "qualified_name", "ignore_nulls", "has_ignore_nulls", "offset_expr", "default_expr"},
}
"""Class of a node -> what it may hold beside what every node has."""
EVERY = {"class", "type", "query_location", "query_location_length"}
PARTS = {"expression", "type", "null_order", "when_expr", "then_expr", "kind", "text", "path"}
"""What parts of a node that are no nodes may hold."""
# fmt: off
TYPES = {
    "COLUMN_REF", "VALUE_CONSTANT", "FUNCTION", "CONJUNCTION_AND", "CONJUNCTION_OR", "CASE_EXPR", "COMPARE_BETWEEN",
    "COMPARE_EQUAL", "COMPARE_NOTEQUAL", "COMPARE_LESSTHAN", "COMPARE_GREATERTHAN", "COMPARE_LESSTHANOREQUALTO",
    "COMPARE_GREATERTHANOREQUALTO", "COMPARE_DISTINCT_FROM", "COMPARE_NOT_DISTINCT_FROM", "COMPARE_IN",
    "COMPARE_NOT_IN", "OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "OPERATOR_COALESCE", "OPERATOR_CAST",
    "TYPE", "WINDOW_AGGREGATE", "WINDOW_LEAD", "WINDOW_LAG", "WINDOW_FIRST_VALUE", "WINDOW_ROW_NUMBER", "WINDOW_RANK",
    "WINDOW_RANK_DENSE", "WINDOW_PERCENT_RANK", "WINDOW_CUME_DIST",
}
SCALARS = {
    "+", "-", "*", "/", "//", "%", "**", "^", "||", "~~", "!~~", "~~*", "!~~*", "abs", "acos", "asin", "atan", "atan2",
    "cbrt", "ceil", "ceiling", "concat", "contains", "cos", "date_diff", "date_part", "date_trunc", "datediff",
    "datepart", "datetrunc", "day", "dayofweek", "dayofyear", "degrees", "ends_with", "epoch", "epoch_ms", "epoch_us",
    "exp", "floor", "greatest", "hour", "if", "instr", "isfinite", "isinf", "isnan", "isodow", "least", "left",
    "length", "ln", "log", "log10", "log2", "lower", "lpad", "ltrim", "make_date", "make_timestamp", "minute", "mod",
    "month", "nullif", "pi", "pow", "power", "prefix", "quarter", "radians", "regexp_extract", "regexp_full_match",
    "regexp_matches", "regexp_replace", "replace", "reverse", "right", "round", "rpad", "rtrim", "second", "sign",
    "sin", "sqrt", "starts_with", "strftime", "strlen", "strpos", "strptime", "struct_extract", "substr", "substring",
    "suffix", "tan", "to_days", "to_hours", "to_minutes", "to_seconds", "trim", "trunc", "try_strptime", "upper",
    "week", "weekday", "year",
}
AGGREGATES = {
    "avg", "bool_and", "bool_or", "count", "max", "mean", "median", "min", "stddev", "stddev_pop",
    "stddev_samp", "sum", "var_pop", "var_samp", "variance",
}
WINDOWS = {"lead", "lag", "first_value", "first", "row_number", "rank", "dense_rank", "percent_rank", "cume_dist"}
CASTS = {
    "bigint", "bool", "boolean", "date", "decimal", "double", "float", "hugeint", "int", "integer", "interval",
    "numeric", "real", "smallint", "string", "text", "time", "timestamp", "tinyint", "ubigint", "uinteger", "usmallint",
    "utinyint", "varchar",
}
FLOATS = {"double", "float", "real"}
FRAMES = {"UNBOUNDED_PRECEDING", "UNBOUNDED_FOLLOWING", "CURRENT_ROW_RANGE"}
"""Ends of a frame that rows with equal keys share."""
FRAMES_OF_ROWS = {"CURRENT_ROW_ROWS", "EXPR_PRECEDING_ROWS", "EXPR_FOLLOWING_ROWS"}
# fmt: on
_BY_PLACE = {"WINDOW_LEAD", "WINDOW_LAG", "WINDOW_FIRST_VALUE", "WINDOW_ROW_NUMBER"}


@dataclass(frozen=True)
class Expression:
    """A checked expression."""

    columns: frozenset[str]  # that it reads
    tree: Any  # as DuckDB serialises a SELECT of it alone

    def sql(self, used: Sequence[str], engine: Any, unit: tuple[str, str] | None = None) -> str:
        """Its text, as DuckDB writes what it understood: no comment or parenthesis of the user's is left."""
        # Rows of a unit that a window cannot tell apart by its ORDER BY are ordered by all columns in use, so that the
        # order in which the table happens to lie decides nothing.
        tree = copy.deepcopy(self.tree)
        _settle(tree, used, unit, _parse(f"nullif(0, {NAN})", engine))
        return f"({Expression(self.columns, tree).text(engine)})"

    def text(self, engine: Any) -> str:
        """Its text, as DuckDB writes what it understood."""
        text = engine.execute("SELECT json_deserialize_sql(?)", [json.dumps(self.tree)]).fetchall()[0][0]
        return str(text.removeprefix("SELECT "))

    def renamed(self, names: Mapping[str, str]) -> Expression:
        """The same of columns with other names."""
        tree = json.loads(
            json.dumps(self.tree),
            object_hook=lambda node: (
                {**node, "column_names": [names[node["column_names"][0]], *node["column_names"][1:]]}
                if node.get("class") == "COLUMN_REF"
                else node
            ),
        )
        return Expression(frozenset(names[name] for name in self.columns), tree)


def parse_expression(text: str, option: str, header: Sequence[str], unit: str | None, engine: Any) -> Expression:
    """An expression of which each value depends on the rows of one unit alone."""
    # unit: the column of the unit, which every window has to be partitioned by, None allows no window
    tree = _parse(text, engine)
    if text in header and (text.isidentifier() or _single_expression(tree) is None):  # a word of SQL, say
        tree = _parse(quote(text), engine)
    node = _single_expression(tree)
    if node is None:
        words = [name for name in re.findall(r"\w+", text) if name in header]
        odd = [quote(name) for name in words if _single_expression(_parse(name, engine)) is None]
        expected = "an expression such as -abs(pulse - 75) / 145"
        remedy = f"write the column {odd[0]} in double quotes, as it is a word of SQL" if odd else "correct it"
        what = "this is no column, and no single SQL expression"
        raise DataError(what, where=option, expected=expected, remedy=remedy)
    columns: set[str] = set()
    for what in _faults(_prune(node), header, unit, columns.add):
        expected = "scalar functions of one row, and windows inside a unit"
        raise DataError(what, where=option, expected=expected, remedy=_REMEDY)
    return Expression(frozenset(columns), tree)


_REMEDY = "compute it before the import from public values, or with PARTITION BY the unit"


def _parse(text: str, engine: Any) -> Any:
    try:
        return json.loads(engine.execute("SELECT json_serialize_sql(?)", [f"SELECT ({text}\n)"]).fetchall()[0][0])
    except Exception:  # what the parser raises of odd texts
        return {}


def _single_expression(tree: Any) -> dict[str, Any] | None:
    """The one expression of a tree that is nothing but SELECT and it."""
    pruned = _prune(tree)
    if not isinstance(pruned, dict) or set(pruned) != {"statements"} or len(pruned["statements"]) != 1:
        return None
    statement = pruned["statements"][0]
    node = statement.get("node", {})
    shell = {"type": "SELECT_NODE", "aggregate_handling": "STANDARD_HANDLING"}
    empty = node.get("from_table", {}).get("type") == "EMPTY"
    if set(statement) != {"node"} or set(node) != {*shell, "select_list", "from_table"} or not empty:
        return None
    if any(node[name] != value for name, value in shell.items()) or len(node["select_list"]) != 1:
        return None
    expression: dict[str, Any] = tree["statements"][0]["node"]["select_list"][0]
    return expression


def _prune(value: Any) -> Any:
    """The tree without what is empty, which is what a text does not say."""
    if isinstance(value, dict):
        pairs = ((name, _prune(part)) for name, part in value.items())
        return {name: part for name, part in pairs if part not in (None, False, "", [], {})}
    return [_prune(part) for part in value] if isinstance(value, list) else value


def _faults(
    node: Any, header: Sequence[str], unit: str | None, add: Callable[[str], None], inside: bool = False
) -> Iterator[str]:
    """What is wrong with a pruned tree: its first fault says it all."""
    if isinstance(node, list):
        for part in node:
            yield from _faults(part, header, unit, add, inside)
        return
    if not isinstance(node, dict):
        return
    kind = node.get("class")
    if kind is None:
        if extra := set(node) - PARTS - ({"orders"} if inside else set()):
            yield f"{min(extra)!r} is not allowed here"
    else:
        yield from _faults_of(node, kind, header, unit, add, inside)
    for name, part in node.items():
        if name != "order_bys" or part != {"type": "ORDER_MODIFIER"}:
            yield from _faults(part, header, unit, add, inside or kind == "WINDOW")


def _faults_of(
    node: dict[str, Any], kind: str, header: Sequence[str], unit: str | None, add: Callable[[str], None], inside: bool
) -> Iterator[str]:
    name = str(node.get("function_name", node.get("type_name", ""))).lower()
    word = name or str(node.get("type", kind)).lower().replace("_", " ")
    if kind not in NODES or node.get("type") not in TYPES:
        yield f"{word!r} is not allowed"
    elif extra := set(node) - NODES[kind] - EVERY:
        yield f"{min(extra)!r} of {word!r} is not allowed"
    elif name and [part.lower() for part in node["qualified_name"]["path"]] != [name]:
        yield f"a schema before {word!r} is not allowed"
    elif kind == "FUNCTION" and name not in SCALARS:
        yield f"the function {word!r} is not allowed"
    elif kind == "TYPE" and name not in CASTS:
        yield f"a cast to {word!r} is not allowed"
    elif kind == "COLUMN_REF":
        names = node["column_names"]
        if names[0] not in header:  # what follows are fields of a column with parts
            yield f"there is no column {'.'.join(map(str, names))[:40]!r}"
        add(names[0])
    elif kind == "WINDOW":
        yield from _faults_of_window(node, name, unit, inside)


def _faults_of_window(node: dict[str, Any], name: str, unit: str | None, inside: bool) -> Iterator[str]:
    parts = [part.get("column_names") for part in node.get("partitions", ()) if part.get("class") == "COLUMN_REF"]
    frames = {node.get("start"), node.get("end")}
    if inside:
        yield "a window in a window is not allowed"
    elif name not in (AGGREGATES if node["type"] == "WINDOW_AGGREGATE" else WINDOWS):
        yield f"the window function {name!r} is not allowed"
    elif unit is None or [unit] not in parts:
        yield f"the window of {name!r} is not partitioned by the unit"
    elif not frames <= FRAMES | FRAMES_OF_ROWS or node.get("exclude_clause", "NO_OTHER") != "NO_OTHER":
        yield f"the frame of {name!r} is not allowed"


def _settle(node: Any, used: Sequence[str], unit: tuple[str, str] | None, cast: Any) -> None:
    """Partition windows by the keys of units; order rows by all columns in use, last, where a row's place counts."""
    # cast: tree of what stands around a cast to floats, which makes NaN, the largest number of all in SQL, of a text
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _settle(part, used, unit, cast)
    if isinstance(node, dict) and node.get("class") == "CAST" and node["type_expr"]["type_name"].lower() in FLOATS:
        around: Any = copy.deepcopy(_single_expression(cast))
        around["arguments"][0]["expression"] = dict(node)
        node.clear()
        node.update(around)
    if not isinstance(node, dict) or node.get("class") != "WINDOW":
        return
    for part in node["partitions"]:
        if unit is not None and part.get("column_names") == [unit[0]]:
            part["column_names"] = [unit[1]]
    if node["type"] in _BY_PLACE or {node["start"], node["end"]} & FRAMES_OF_ROWS:
        usual = {"type": "ORDER_DEFAULT", "null_order": "ORDER_DEFAULT"}
        column = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": ""}
        node["orders"] += [{**usual, "expression": {**column, "column_names": [name]}} for name in used]


# -- rewards of rows that no table has ---------------------------------------------------------------------------------

INVENTED = 4096
"""Rows within the public bounds on which an expression of the reward has to give a number."""
_KEPT = "reward_expression"


def keep_expression(
    spec: PublicSpec, expression: Expression, sources: Mapping[str, tuple[str, Any]], engine: Any
) -> PublicSpec:
    """The spec with the expression in its own names, where the records keep all that it reads; else as it is."""
    # sources: a column of the table -> the declared one of an observation or action that it becomes, and its Arrow type
    declared = {column.name: column for space in (spec.observation, spec.action) for column in space.columns or ()}
    if not expression.columns <= sources.keys():
        return spec
    names = {name: sources[name][0] for name in expression.columns}
    filled = [declared[name] for name in names.values()] + list(spec.reward.columns or ())
    if any(column.missing.startswith("fill:") for column in filled):  # a cell that misses is another one in the records
        return spec
    try:
        made = expression.renamed(names).text(engine)
        cells = _cells(spec, *invented_rows(spec), names.values())
        typed = {name: cells[known].cast(sources[name][1], safe=False) for name, known in names.items()}
        kept = {known: typed[name].cast(cells[known].type) for name, known in names.items()}
        empty = {name: cell.fill_null("") if declared[names[name]].labels else cell for name, cell in typed.items()}
        here = _evaluate(parse_expression(made, _KEPT, tuple(kept), None, engine), kept, INVENTED, engine)
        there = [_evaluate(expression, table, INVENTED, engine) for table in (typed, empty)]  # a label misses as either
    except Exception:  # what the engine and Arrow raise where types do not fit, and of windows
        return spec
    exact = np.isfinite(here).all() and np.allclose([here, here], there, rtol=1e-5, atol=1e-6)
    return replace(spec, reward_expression=made) if exact else spec


def compute_rewards(spec: PublicSpec, observations: NDArray[Any], actions: NDArray[Any]) -> NDArray[np.float32]:
    """The rewards [n] of rows of these observations and actions, within the public bounds, by the spec's expression.
    Raises DataError where the expression is none, or gives no number in some row."""
    assert spec.reward_expression is not None
    known = [column.name for space in (spec.observation, spec.action) for column in space.columns or ()]
    with open_engine(None) as engine:
        expression = parse_expression(spec.reward_expression, _KEPT, known, None, engine)
        cells = _cells(spec, observations, actions, expression.columns)
        try:
            rewards = _evaluate(expression, cells, len(actions), engine)
        except Exception:  # what the engine says of an error quotes cells
            rewards = np.full(1, np.nan)
    if not np.isfinite(rewards).all():
        what = "the expression of the reward gives no number in a row within the public bounds"
        expected, remedy = "a finite number in every row", "draw with another seed, or import the rewards as a column"
        raise DataError(what, where=_KEPT, expected=expected, remedy=remedy)
    whole = np.rint(rewards) if spec.reward.whole[0] else rewards
    return np.clip(whole, *spec.reward.float32_bounds()).astype(np.float32)


def invented_rows(spec: PublicSpec) -> tuple[NDArray[Any], NDArray[Any]]:
    """Observations and actions within the public bounds, many of them on a bound, in the middle or 0."""
    rng, found = np.random.default_rng(0), list[NDArray[Any]]()
    for space in (spec.observation, spec.action):
        if isinstance(space, Discrete):
            found.append(rng.integers(0, space.n, INVENTED))
            continue
        shape, low, high = (INVENTED, space.size), np.asarray(space.low), np.asarray(space.high)
        place = rng.choice([0.0, 0.5, 1.0, np.nan], shape)
        special = np.where(np.isnan(place), np.clip(0.0, low, high), low + (high - low) * place)
        values = np.where(rng.random(shape) < 0.5, special, rng.uniform(low, high, shape))
        found.append(np.where(space.whole, np.rint(values), values))
    return found[0], found[1]


def _cells(
    spec: PublicSpec, observations: NDArray[Any], actions: NDArray[Any], names: Collection[str]
) -> dict[str, Any]:
    # as expressions see them: numbers, labels, and NULL of what misses
    import pyarrow as pa

    cells = {}
    for space, numbers in ((spec.observation, observations), (spec.action, actions)):
        for column, values, missing in split_columns(space.columns or (), numbers.reshape(len(numbers), -1)):
            if column.name in names and column.labels:
                labels = np.asarray(column.labels, object)[np.rint(values).astype(int)]
                cells[column.name] = pa.array(labels, pa.string(), mask=missing)
            elif column.name in names:
                cells[column.name] = pa.array(np.asarray(values, np.float64), mask=missing)
    return cells


def _evaluate(expression: Expression, cells: Mapping[str, Any], count: int, engine: Any) -> NDArray[np.float64]:
    # the values [n], NaN where there is none
    import pyarrow as pa

    names = {name: f"c{i}" for i, name in enumerate(cells)}  # SQL takes names that differ in their case for one
    columns = {names[name]: column for name, column in cells.items()}
    engine.register("source", pa.table({"row": np.arange(count), **columns}))  # a constant has no other column
    text = expression.renamed(names).sql((), engine)
    found = engine.execute(f"SELECT CAST({text} AS DOUBLE) AS reward FROM source").fetchnumpy()["reward"]
    return np.ma.filled(np.ma.asarray(found, np.float64), np.nan)
