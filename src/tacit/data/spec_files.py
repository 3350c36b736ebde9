"""Public bounds in files, TOML or JSON, and a template of one that is made from the header of a table alone."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tacit import plain_files
from tacit.data.spec import PublicSpec
from tacit.data.spec import faults as columns_at_fault
from tacit.errors import FileError

SCHEMA = Path(__file__).with_name("spec.schema.json")
"""The JSON schema of what `PublicSpec.to_json` writes, and of the same in TOML."""
_FLAGS = ("termination", "truncation", "propensity")
_HEAD = """\
# Public bounds of the records, one block for each column.
#
# Take every bound and every label from the documentation of the records: a code book, a form, a device's manual.
# Never take them from the cells: bounds that were fitted to the records would release them.
#
# 1. Move the columns of the actions below [action], and write [[action.columns]] above each.
# 2. Delete the columns that nobody needs: times, and next observations that the import builds.
# 3. Name the reward: what a row gained. Where no column has it, choose a name here, and compute it in study.toml:
#    reward = "EXPRESSION", or "0" with bounds -1 and 0 where nothing is valued (not to evaluate or to improve).
# 4. Fill in what each column needs, then check the file: tacit check
#
# A column has a kind: "number", "integer", "duration" since the row before, or "category", with labels = ["no", "yes"]
# in place of low and high, the smallest and largest value that can occur. It may also have
#   missing = "flag"     a column of its own for missing cells; or "fill:VALUE"; without it they are refused
#   step = 1.5           typical size of a change from one row to the next, for a number; synthesis needs it
#   static = true        where it never changes in a unit (sex, year of birth), which the import then checks

source = "declared"     # where the bounds come from: environment, physics, declared or public_data
terminals = {terminals}       # true where a column "termination" says that a course ended by itself, as by death
propensities = {propensities}    # true where a column has the probability with which the action was chosen
"""
_COLUMN = """\
[[{space}.columns]]
name = {name}
kind = "number"
# low =
# high =
"""
_ACTION = """\
[[action.columns]]
name = {name}
kind = "category"
# labels = []
"""


def read(path: Path) -> PublicSpec:
    """The public bounds in a file, which is TOML where it is called .toml, and else JSON. Raises FileError where it is
    missing, or neither; DataError of a missing or invalid field."""
    return PublicSpec.from_json(_content(path), where=str(path))


def faults(path: Path) -> list[str]:
    """What is wrong with single columns of the public bounds in a file, all of them."""
    values = _content(path)
    return list(columns_at_fault(values)) if isinstance(values, dict) else []


def _content(path: Path) -> Any:
    kind = "TOML" if path.suffix.lower() == ".toml" else "JSON"
    value: Any = None
    missing = False
    try:
        text = plain_files.read_text(path)
        value = tomllib.loads(text) if kind == "TOML" else json.loads(text)
    except OSError:
        missing = True
    except (ValueError, RecursionError):
        pass
    if value is None:
        what = "there is no such file" if missing else f"the file is no {kind}"
        remedy = "check the path" if missing else "mend it, or begin with the template of `tacit new`"
        raise FileError(what, where=str(path), expected="a TOML or JSON file of public bounds", remedy=remedy)
    return value


def template(
    names: Sequence[str], *, actions: Sequence[str] = (), reward: str | None = None, propensities: bool = False
) -> str:
    """A TOML file to fill in: it knows the names of a table's columns, and nothing of their cells.

    Args:
        names: the columns that are read. `reward` and `action` go where they belong, names of flags are read without
            bounds, and all others stand as observations.
        actions, reward: names of these, where they are called otherwise.
        propensities: whether a column has them.
    """
    spaces: dict[str, list[str]] = {"observation": [], "action": [], "reward": []}
    for name in names:
        guess = name.partition("_")[0] if name.partition("_")[0] in ("action", "reward") else "observation"
        space = "action" if name in actions else "reward" if name == reward else guess
        if name not in _FLAGS:
            spaces[space].append(name)
    said = {"terminals": "termination" in names, "propensities": propensities}
    head = _HEAD.format(**{name: "true " if value else "false" for name, value in said.items()})
    return "\n".join((head, *_blocks(spaces, propensities)))


def _blocks(spaces: dict[str, list[str]], propensities: bool) -> Iterator[str]:
    for space, names in spaces.items():
        yield f'[{space}]\nkind = "columns"\n'
        if space == "action" and not names:
            yield f"# [[{space}.columns]]\n"
        if space == "reward" and not names:
            names = ["reward"]
        quoted = [json.dumps(name).replace("\x7f", "\\u007f") for name in names]  # TOML has the escapes of JSON
        block = _ACTION if space == "action" and propensities else _COLUMN
        yield from (block.format(space=space, name=name) for name in quoted)
