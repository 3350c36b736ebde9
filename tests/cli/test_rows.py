"""From a table with names, labels and empty cells to synthetic rows that have them, by every kind of synthesizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet
from test_synthesize_trajectories import TINY

from tacit import hub
from tacit.cli import main
from tacit.data.columns import Column
from tacit.data.spec import PublicSpec, space_of

STATE = (
    Column("age", "integer", 18, 95, step=1),
    Column("pulse", low=30, high=200, missing="flag", step=10),
    Column("ward", "category", labels=("north", "east", "south")),
)
SPEC = PublicSpec(
    space_of(*STATE),
    space_of(Column("drug", "category", labels=("none", "a", "b"))),
    space_of(Column("relief", low=0, high=1)),
    "declared",
)
PROMISE = (
    *("--unit", "patient", "--relation", "add_or_remove", "--population", "200", "--epsilon", "4"),
    *("--budget-epsilon", "4", "--budget-sampled", "1"),
)
SMALL = ("--steps", "2", "--width", "8", "--depth", "1", "--expected-batch-size", "20", "--rows", "60")
METHODS: dict[str, tuple[str, ...]] = {
    "privorl": SMALL,
    "privorl-j": (*TINY, "--trajectories", "30"),
    "privsyn": ("--bins", "4", "--rows", "60"),
    "pate-gan": ("--teachers", "2", "--steps", "2", "--rows", "60"),
}


def table(path: Path) -> None:
    """Forty patients with three steps each."""
    rng = np.random.default_rng(0)
    patient, ward = np.repeat(np.arange(40), 3), rng.choice(["north", "east", "south"], 120)
    pulse = np.where(rng.random(120) < 0.2, np.nan, rng.uniform(50, 90, 120))
    now = {"age": rng.integers(20, 90, 120), "pulse": pulse, "ward": ward}
    later = {f"next_{name}": np.roll(column, -1) for name, column in now.items()}
    rest = {"drug": rng.choice(["none", "a", "b"], 120), "relief": rng.random(120)}
    ends = {"termination": np.arange(120) % 3 == 2}
    pd.DataFrame({"patient": patient, **now, **rest, **later, **ends}).to_csv(path, index=False)


@pytest.mark.parametrize("method", METHODS)
def test_names_labels_and_missing_cells_arrive_in_the_rows(method: str, tmp_path: Path) -> None:
    table(tmp_path / "stays.csv")
    (tmp_path / "spec.json").write_text(json.dumps(SPEC.to_json()))
    words = ["data", "import", str(tmp_path / "stays.csv"), "--unit", "patient", "--spec", str(tmp_path / "spec.json")]
    assert main([*words, "--out", str(tmp_path / "stays")]) == 0
    run = tmp_path / "run"
    words = ["synthesize", str(tmp_path / "stays"), *PROMISE, "--delta", "1e-4", "--method", method, *METHODS[method]]
    assert main([*words, "--out", str(run)]) == 0

    rows, drawn = pd.read_parquet(run / "rows.parquet"), hub.load(run / "model").value
    counted = ["episode", "step"] if method == "privorl-j" else []
    names = ["age", "pulse", "ward", "drug", "relief", "next_age", "next_pulse", "next_ward"]
    assert list(rows) == [*counted, *names, "termination", "truncation"]
    data = drawn.sample(30 if method == "privorl-j" else 60, seed=0)
    expected: dict[str, Any] = {name: np.asarray(column) for name, column in data.columns.items()}
    for prefix, field in (("", "observations"), ("next_", "next_observations")):
        age, pulse, missing, ward = expected[field].T
        assert rows[f"{prefix}age"].tolist() == age.astype(int).tolist()
        assert rows[f"{prefix}pulse"].isna().tolist() == (missing == 1).tolist()
        np.testing.assert_array_equal(rows[f"{prefix}pulse"].dropna(), pulse[missing == 0])
        assert rows[f"{prefix}ward"].tolist() == [STATE[2].labels[int(code)] for code in ward]
    assert rows["drug"].tolist() == [("none", "a", "b")[code] for code in expected["actions"]]
    described = json.loads(parquet.read_schema(run / "rows.parquet").metadata[b"tacit"])
    assert described["certificate"] == json.loads((run / "certificate.json").read_text())
    assert PublicSpec.from_json(described["spec"]) == SPEC


def test_another_format_is_written_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "maze", "--out", str(tmp_path / "a"), "--steps", "200"]) == 0
    promise = ("--unit", "transition", *PROMISE[2:], "--delta", "1e-4", "--no-match")
    words = ["synthesize", str(tmp_path / "a"), *promise, *SMALL, "--out", str(tmp_path / "run")]
    assert main([*words, "--format", "csv"]) == 0
    assert f"Dataset  {tmp_path / 'run' / 'rows.csv'}\n" in capsys.readouterr().out
    written = {path.name for path in (tmp_path / "run").iterdir() if path.name.startswith(("rows", "minari"))}
    assert written == {"rows.csv", "rows.csv.json"}
    assert len(pd.read_csv(tmp_path / "run" / "rows.csv")) == 60


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "run.csv"), "--out ends in .csv, and a run is a folder"),
        (("--out", "run", "--format", "minari", "--rows", "10001"), "Minari would need 10,001 episodes"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_spent(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "maze", "--out", str(tmp_path / "a"), "--steps", "20"]) == 0
    line = ["synthesize", str(tmp_path / "a"), "--unit", "transition", *PROMISE[2:], *words[2:], "--out"]
    assert main([*line, str(tmp_path / words[1])]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
