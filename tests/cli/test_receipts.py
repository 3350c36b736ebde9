"""The curator's receipt: what an import clipped, filled and left out, in counts that nobody else is shown."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.cli import main
from tacit.data import Box, PublicSpec, Trajectories, mobility
from tacit.data.store import RECEIPT
from tacit.data.trajectories import receipt_of
from tacit.hub import sharing
from tacit.privacy.ledger.ledger import Ledger
from tacit.study.account import LOOK, VerbPhrases

pytest.importorskip("duckdb")

BOUNDS = """
source = "declared"
terminals = false
observation = {kind = "columns", columns = [
  {name = "pulse", low = 30, high = 220, step = 10, missing = "flag"},
  {name = "weight", low = 40, high = 100, step = 5, missing = "fill:70"},
]}
action = {kind = "columns", columns = [{name = "drug", kind = "category", labels = ["no", "yes"]}]}
reward = {kind = "columns", columns = [{name = "calm", low = -1, high = 0}]}
"""
ROWS = """id,hour,pulse,weight,drug
ann,0,60,50,no
ann,1,,50,yes
ann,2,250,,no
ann,3,10,120,no
bob,0,70,90,yes
cid,0,80,90,yes
cid,1,81,90,yes
"""
IMPORT = ["data", "import", "rows.csv", "--spec", "bounds.toml", "--unit", "id", "--time", "hour", "--reward", "0"]
BUDGET: dict[str, Any] = {"population": 100, "budget_epsilon": 8.0, "budget_sampled": 0.5}
LEARN: dict[str, Any] = {"epsilon": 2.0, "method": "privsyn", "bins": 4, "rows": 5}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text(ROWS)
    Path("bounds.toml").write_text(BOUNDS)
    return tmp_path


def receipt(folder: str | Path) -> dict[str, Any]:
    page = json.loads((Path(folder) / RECEIPT).read_text())
    assert page.pop("banner").startswith("PRIVATE: counted in the records without noise, for the curator alone")
    assert list(page) == ["result"]
    return dict(page["result"])


def looks(ledger: str) -> list[str]:
    entries = Ledger.read(Path(ledger)).entries()
    return [
        entry.payload["text"] for entry in entries if entry.kind == "note" and entry.payload["kind"] == "nonprivate"
    ]


def test_an_import_writes_what_it_did_and_says_none_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*IMPORT, "--out", "kept", "--next", "--where", "id <> 'cid' OR hour = 0"]) == 0
    assert receipt("kept") == {
        "rows": 6,
        "units": 3,
        "episodes": 3,
        "episodes of one row": 2,
        "cells clipped": {
            "observations": {"pulse": 2, "pulse_missing": 0, "weight": 1},
            "rewards": {"calm": 0},
            "next_observations": {"next_pulse": 3, "next_pulse_missing": 0, "next_weight": 2},
        },
        "cells missing": {
            "observations": {"pulse": 1, "weight": 1},
            "actions": {"drug": 0},
            "rewards": {"calm": 0},
            "next_observations": {"pulse": 1, "weight": 1},
        },
        "rows of the table": {"all": 7, "left out by --where and --qualify": 1, "left out by --next drop": 0},
    }
    shown = capsys.readouterr()
    assert "Receipt  kept/private/receipt.json is private, for the curator alone" in shown.out
    assert not any(digit in (shown.out + shown.err) for digit in "0123456789")
    assert stat.S_IMODE(Path("kept", RECEIPT).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path("kept", RECEIPT).parent.stat().st_mode) == 0o700
    assert not Path("kept.ledger").exists()


def test_rows_that_drop_leaves_out_are_counted() -> None:
    assert main([*IMPORT, "--out", "kept", "--next", "drop"]) == 0
    found = receipt("kept")
    assert found["rows of the table"] == {
        "all": 7,
        "left out by --where and --qualify": 0,
        "left out by --next drop": 3,
    }
    assert (found["rows"], found["units"], found["episodes of one row"]) == (4, 2, 1)


def test_simulated_records_have_none() -> None:
    assert main([*IMPORT, "--out", "kept", "--next", "--simulated"]) == 0
    assert not Path("kept", "private").exists()


def test_a_folder_with_one_is_opened_inspected_and_copied_without_it() -> None:
    assert main([*IMPORT, "--out", "kept", "--next"]) == 0
    assert main(["data", "inspect", "kept"]) == 0
    opened = Trajectories.open("kept")
    assert receipt_of(opened) is None
    opened.save("copy")
    assert not Path("copy", "private").exists()
    with pytest.raises(tacit.errors.TacitError):
        sharing.prepare("kept", name="a/b")


def test_the_ledger_that_is_begun_notes_it_once_and_is_removed_with_it() -> None:
    assert main([*IMPORT, "--out", "kept", "--next", "drop"]) == 0
    study = tacit.Study("kept", unit="id", **BUDGET)
    account = study.curator.account(VerbPhrases("people", "release", "learned from", "learn"), 2.0, 1e-3)
    kinds = list[str]()
    with account.open_ledger(None) as ledger:
        kinds += [entry.kind for entry in ledger.entries()]
    assert kinds == ["create", "note"]
    assert not Path("kept.ledger").exists()
    study.synthesize(**LEARN, out=Path("run"))
    study.synthesize(**LEARN | {"epsilon": 1.0}, out=Path("again"))
    assert looks("kept.ledger") == [LOOK]
    assert not Path("run", "private").exists()  # the receipt lies with the records


def test_a_verb_that_reads_a_table_writes_it_into_its_run() -> None:
    reading: dict[str, Any] = {"spec": "bounds.toml", "time": "hour", "next": "keep", "reward": "0"}
    study = tacit.Study("rows.csv", unit="id", **BUDGET, **reading)
    study.synthesize(**LEARN | {"rows": None})
    assert looks("rows.csv.ledger") == []  # nothing was written
    study.synthesize(**LEARN | {"epsilon": 1.0}, out=Path("run"))
    assert receipt("run")["rows of the table"]["left out by --next drop"] == 3
    assert looks("rows.csv.ledger") == [LOOK]
    run_files = {path.name for path in Path("run").rglob("*.json")} - {"receipt.json"}
    assert all("clipped" not in path.read_text() for path in Path("run").rglob("*.json") if path.name in run_files)
    prepared = sharing.prepare("run", name="a/b")
    assert not any("private" in name or "receipt" in name for name in prepared.files)


def test_days_points_and_people_that_were_left_out_are_counted() -> None:
    rows = [(user, f"2024-03-0{day} {hour:02}:00", 1.5, 2.5) for user in "ab" for day in (4, 5) for hour in range(24)]
    rows += [("a", "2024-03-06 10:00", 1.5, 2.5), ("c", "2024-03-04 10:00", 1.5, 2.5), ("c", "2024-03-04 11:00", 9, 9)]
    frame = pd.DataFrame(rows, columns=["user", "time", "lat", "lon"])
    grid = mobility.RegularGrid(0.5, 0.5, 3.5, 3.5, 1.0)
    rules = mobility.Rules(zone="UTC", outside="drop")
    found = mobility.from_points(frame, grid, rules, recorded="UTC")
    told = receipt_of(found.trajectories())
    assert told is not None
    assert told["points"] == {"all": 99, "outside the grid": 1, "of a repeated time, left out": 0}
    assert told["days with a point"] == {"all": 6, "left out": 2}
    assert told["people"] == {"all": 3, "without enough whole days, left out": 1}
    assert (told["rows"], told["units"]) == (4 * 47, 2)
    assert receipt_of(found.trajectories(simulated=True)) is None
    arrays = {"days": np.zeros((3, 48), np.int64), "user": np.array(["a", "a", "b"])}
    cut = receipt_of(mobility.from_cells(arrays, grid, places=None, fewest=2).trajectories())
    assert cut is not None
    assert cut["days"] == {"all": 3, "left out": 1}
    assert cut["people"] == {"all": 2, "without enough whole days, left out": 1}


def test_shards_are_noted_as_they_are_dealt() -> None:
    read = {"observation_0": 0.5, "action_0": 0.0, "reward": 0.0, "next_observation_0": 0.5, "termination": False}
    pd.DataFrame([{"id": i % 3, **read} for i in range(7)]).to_parquet("rows.parquet")
    spec = PublicSpec(Box((0,), (1,)), Box((0,), (1,)), Box((0,), (1,)), "declared")
    Path("plain.json").write_text(json.dumps(spec.to_json()))
    dealt = ["--spec", "plain.json", "--unit", "id", "--shards", "2", "--out", "dealt"]
    assert main(["data", "shard", "rows.parquet", *dealt]) == 0
    assert receipt("dealt") == {"rows": 7, "rows left out": 0}
