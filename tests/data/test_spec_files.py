"""Files of public bounds: TOML and JSON, the template of a header, and the schema."""

from __future__ import annotations

import copy
import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from records import LOGGED, SPEC

from tacit.data import Box, Column, Discrete, PublicSpec, spec_files
from tacit.data.spec import space_of
from tacit.errors import DataError, FileError

NAMED = PublicSpec(
    space_of(
        Column("age", "integer", 18, 95, step=2),
        Column("pulse", low=30, high=200.5, missing="flag", step=10),
        Column("country", "category", labels=("NA", "DE"), missing="fill:DE"),
    ),
    space_of(Column("dose", low=0, high=2), Column("given", "category", labels=("no", "yes"))),
    space_of(Column("comfort", low=-1, high=0)),
    "public_data",
)
SPECS = {
    "numbers": SPEC,
    "propensities": LOGGED,
    "names": NAMED,
    "steps": PublicSpec(Box((0, 0), (1, 1)), Discrete(2), Box((0,), (1,)), "physics", False, (0.1, 0.2)),
    "one category": PublicSpec(
        space_of(Column("ward", "category", labels=("A", "B"))), Discrete(2), Box((0,), (1,)), "environment"
    ),
}
TOML = """
source = "declared"
terminals = false
[observation]
kind = "columns"
[[observation.columns]]
name = "pulse"
low = 30
high = 220.5
[action]
kind = "discrete"
n = 3
[reward]
kind = "box"
low = [-1]
high = [0.0]
"""


def schema() -> jsonschema.Draft202012Validator:
    content = json.loads(spec_files.SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


@pytest.mark.parametrize("name", SPECS)
def test_what_a_spec_writes_fits_the_schema_and_is_read_again(name: str, tmp_path: Path) -> None:
    value = SPECS[name].to_json()
    assert list(schema().iter_errors(value)) == []
    path = tmp_path / "bounds.json"
    path.write_text(json.dumps(value))
    assert spec_files.read(path) == SPECS[name]


def broken() -> list[tuple[str, Any]]:
    def changed(path: tuple[Any, ...], value: Any, base: PublicSpec = NAMED) -> Any:
        whole = copy.deepcopy(base.to_json())
        inner = whole
        for key in path[:-1]:
            inner = inner[key]
        if value is None:
            del inner[path[-1]]
        else:
            inner[path[-1]] = value
        return whole

    column = ("observation", "columns", 0)
    return [
        ("no reward", changed(("reward",), None)),
        ("an unknown field", changed(("extra",), 1)),
        ("fitted bounds", changed(("source",), "the records")),
        ("no flag", changed(("terminals",), "yes")),
        ("no name", changed((*column, "name"), None)),
        ("a bad name", changed((*column, "name"), "a,b")),
        ("no bound", changed((*column, "low"), None)),
        ("an unknown kind", changed((*column, "kind"), "text")),
        ("labels of a number", changed((*column, "labels"), ["a", "b"])),
        ("one label", changed(("observation", "columns", 2, "labels"), ["DE"])),
        ("bounds of a category", changed(("observation", "columns", 2, "low"), 0)),
        ("a bad filling", changed((*column, "missing"), "zero")),
        ("no columns", changed(("action", "columns"), [])),
        ("two rewards", changed(("reward", "columns"), NAMED.to_json()["action"]["columns"])),
        ("one value", changed(("action", "n"), 1, SPEC)),
        ("a negative step", changed(("difference",), [-1.0, 1.0], SPECS["steps"])),
    ]


@pytest.mark.parametrize(("name", "value"), broken(), ids=[name for name, _ in broken()])
def test_what_the_schema_refuses_the_reader_refuses_too(name: str, value: Any) -> None:
    assert list(schema().iter_errors(value))
    with pytest.raises(DataError):
        PublicSpec.from_json(value)


def test_toml_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bounds.toml"
    path.write_text(TOML)
    assert list(schema().iter_errors(tomllib.loads(TOML))) == []
    assert spec_files.read(path) == PublicSpec(
        space_of(Column("pulse", low=30, high=220.5)), Discrete(3), Box((-1,), (0,)), "declared", terminals=False
    )


@pytest.mark.parametrize(
    ("name", "content", "error", "what"),
    [
        ("a.toml", None, FileError, "a.toml: there is no such file"),
        ("a.toml", "source = declared", FileError, "a.toml: the file is no TOML"),
        ("a.json", TOML, FileError, "a.json: the file is no JSON"),
        ("a.toml", TOML.replace("high = 220.5", ""), DataError, "a.toml: observation: high is missing"),
        ("a.toml", TOML.replace("30", "'low'"), DataError, "a.toml: observation: low is missing, or is no finite"),
        ("a.toml", "", DataError, "a.toml: the field 'observation' is missing"),
    ],
)
def test_a_bad_file_is_refused(
    name: str, content: str | None, error: type[Exception], what: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(error, match=what):
        spec_files.read(path)


def test_a_template_lists_the_columns_and_is_refused_until_it_is_filled_in(tmp_path: Path) -> None:
    text = spec_files.template(["patient", "pulse", 'odd "name"\n', "action_1", "reward", "termination"])
    found = tomllib.loads(text)
    assert [column["name"] for column in found["observation"]["columns"]] == ["patient", "pulse", 'odd "name"\n']
    assert [column["name"] for column in found["action"]["columns"]] == ["action_1"]
    assert [column["name"] for column in found["reward"]["columns"]] == ["reward"]
    path = tmp_path / "bounds.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=r"bounds\.toml: observation: low is missing"):
        spec_files.read(path)
    filled = spec_files.template(["pulse", "action", "reward"])
    filled = filled.replace("# low =\n", "low = 0\n").replace("# high =\n", "high = 1\n")
    path.write_text(filled)
    bounds = [space_of(Column(name, low=0, high=1)) for name in ("pulse", "action", "reward")]
    assert spec_files.read(path) == PublicSpec(*bounds, "declared", terminals=False)


def test_a_template_puts_columns_where_they_are_said_to_belong() -> None:
    text = spec_files.template(["age", "banner", "click"], actions=("banner",), reward="click", propensities=True)
    found = tomllib.loads(text)
    assert found["propensities"] is True
    spaces = {space: [column["name"] for column in found[space]["columns"]] for space in ("observation", "action")}
    assert spaces == {"observation": ["age"], "action": ["banner"]}
    assert [column["name"] for column in found["reward"]["columns"]] == ["click"]
