"""`tacit data`: simulate, inspect, compare, import."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from tacit.cli import main
from tacit.data.columns import Column
from tacit.data.spec import Box, Discrete, PublicSpec, space_of
from tacit.data.trajectories import Trajectories
from tacit_worlds.maze import LAYOUTS, spec

CANARY = "Ursula-4711"


def test_a_simulated_maze_is_declared_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data", "maze", "--layout", "open", "--steps", "300", "--unit", "episode", "--out", str(tmp_path / "maze")]
    assert main(words) == 0
    data = Trajectories.open(tmp_path / "maze")
    assert data.simulated
    assert data.spec == spec(LAYOUTS["open"])
    counts = data.counts()
    assert counts["transitions"] == 300
    assert counts["units"] == counts["episodes"]
    capsys.readouterr()
    assert main(["data", "inspect", str(tmp_path / "maze")]) == 0
    assert capsys.readouterr().out == (
        f"Simulated records: 300 transitions, {counts['episodes']} episodes, {counts['episodes']} units.\n"
        "Public bounds from: physics. Episodes can terminate: no.\n"
        "  observations      continuous float32 width 4  0.4 to 3.2, 0.4 to 5.2, -5.22626 to 5.22626, "
        "-5.22626 to 5.22626\n"
        "  actions           continuous float32 width 2  -1 to 1, -1 to 1\n"
        "  rewards           continuous float32 width 1  0 to 1\n"
        "  next_observations continuous float32 width 4  0.4 to 3.2, 0.4 to 5.2, -5.22626 to 5.22626, "
        "-5.22626 to 5.22626\n"
        "  terminations      flag       bool    width 1\n"
        "  truncations       flag       bool    width 1\n"
        "  typical step      0.0301738, 0.0301738, 0.137504, 0.137504\n"
    )


def test_an_unknown_layout_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "maze", "--layout", "maize", "--out", str(tmp_path / "maze")]) == 2
    assert "there is no layout 'maize'; expected one of open, umaze, medium" in capsys.readouterr().err


def test_a_folder_in_use_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "maze", "--steps", "10", "--out", str(tmp_path)]) == 6
    assert "the folder exists already" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def spec_file(tmp_path: Path) -> Path:
    path = tmp_path / "spec.json"
    value = {
        "observation": {"kind": "discrete", "n": 5},
        "action": {"kind": "box", "low": [0.0], "high": [9.0]},
        "reward": {"kind": "box", "low": [-1.0], "high": [1.0]},
        "source": "declared",
        "terminals": True,
        "difference": None,
    }
    path.write_text(json.dumps(value))
    return path


def write(path: Path, cell: str = "2") -> None:
    rows = [f"{CANARY}-{i // 2},{i % 5},{cell if i == 5 else 1},0.5,{(i + 1) % 5},{i % 2 == 1}" for i in range(8)]
    path.write_text("person,observation,action_0,reward,next_observation,termination\n" + "\n".join(rows) + "\n")


def test_files_are_imported_with_their_unit(
    tmp_path: Path, spec_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a.csv")
    words = ["data", "import", str(tmp_path / "a.csv"), "--unit", "person", "--spec", str(spec_file)]
    assert main([*words, "--out", str(tmp_path / "private")]) == 0
    out = tmp_path / "private"
    assert capsys.readouterr().out == (
        f"Wrote {out} (the private records: keep it where they may be).\n"
        f"Receipt  {out / 'private' / 'receipt.json'} is private, for the curator alone\n"
    )
    data = Trajectories.open(tmp_path / "private")
    assert not data.simulated
    assert main(["data", "inspect", str(tmp_path / "private")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Private records: how many there are is not shown.\nUnits are called 'person'.")
    assert "\nPublic bounds from: declared." in out
    assert "  observations      discrete   int64   width 1  0 to 4\n" in out
    assert main([*words, "--simulated", "--out", str(tmp_path / "toy")]) == 0
    assert Trajectories.open(tmp_path / "toy").counts() == {"transitions": 8, "episodes": 4, "units": 4}


def test_an_overlap_is_printed_for_the_curator_and_decides_nothing(
    tmp_path: Path, spec_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four of ten public rows are private ones, in a row; then none is. The exit code is 0 both times."""
    header = "person,observation,action_0,reward,next_observation,termination"
    rows = {
        name: [f"{i // 2},{i % 5},{i / 10 + shift:.2f},0.5,{(i + 1) % 5},{i % 2}" for i in range(10)]
        for name, shift in (("private", 0.0), ("others", 5.0))
    }
    rows["mixed"] = [*rows["others"][:6], *rows["private"][6:]]
    for name, lines in rows.items():
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
        words = ["data", "import", str(tmp_path / f"{name}.csv"), "--unit", "person", "--spec", str(spec_file)]
        assert main([*words, "--out", str(tmp_path / name)]) == 0
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    capsys.readouterr()
    printed = {}
    for name in ("mixed", "others"):
        assert main(["data", "overlap", str(tmp_path / "private"), "--public", str(tmp_path / name)]) == 0
        printed[name] = capsys.readouterr().out
    first = "Private: for the curator alone. Do not publish this, and let nothing that others can see depend on it.\n"
    last = "Choose public records by where they come from, and before anybody knows which ones you consider.\n"
    assert printed["mixed"] == (
        f"{first}Public rows: 10; equal to a private row: 4; nearly equal: 0.\n"
        "Equal rows that follow each other: 4. Private rows that are public too: 40.00%.\n"
        f"This is more than chance explains.\n{last}"
    )
    assert printed["others"] == (
        f"{first}Public rows: 10; equal to a private row: 0; nearly equal: 0.\n"
        "Equal rows that follow each other: 0. Private rows that are public too: 0.00%.\n"
        f"Chance explains this.\n{last}"
    )
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_of_other_names_are_imported(suffix: str, tmp_path: Path, spec_file: Path) -> None:
    write(tmp_path / "a.csv")
    renamed = pd.read_csv(tmp_path / "a.csv").rename(
        columns={"observation": "ward", "action_0": "dose", "reward": "effect"}
    )
    renamed.to_csv(tmp_path / "b.csv", index=False)
    renamed.to_parquet(tmp_path / "b.parquet", index=False)
    words = ("--unit", "person", "--spec", str(spec_file), "--simulated")
    assert main(["data", "import", str(tmp_path / "a.csv"), *words, "--out", str(tmp_path / "usual")]) == 0
    fields = ("--fields", "observations=ward", "actions=dose", "rewards=effect")
    assert main(["data", "import", str(tmp_path / f"b{suffix}"), *words, *fields, "--out", str(tmp_path / "own")]) == 0
    usual, own = Trajectories.open(tmp_path / "usual"), Trajectories.open(tmp_path / "own")
    assert all(np.array_equal(column, own.columns[name]) for name, column in usual.columns.items())


def test_help_says_what_an_import_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "import", "--help"]) == 0
    told = capsys.readouterr().out
    assert "[SOURCE ...]" in told
    assert "--from STR" in told
    assert "(default: )" not in told


@pytest.mark.parametrize(
    "words",
    [
        ("synthesize", "--relation", "add_or_remove"),
        ("evaluate", "--relation", "add_or_remove", "--gamma", "0.9", "--horizon", "2"),
        ("learn",),
    ],
)
def test_the_promise_is_to_the_units_whose_ids_were_imported(
    words: tuple[str, ...], tmp_path: Path, spec_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a.csv")
    imports = ["data", "import", str(tmp_path / "a.csv"), "--unit", "person", "--spec", str(spec_file)]
    assert main([*imports, "--out", str(tmp_path / "private")]) == 0
    promise = ["--population", "60", "--epsilon", "8", "--delta", "1e-3", "--out", str(tmp_path / "run")]
    before = sorted(tmp_path.rglob("*"))
    assert main([words[0], str(tmp_path / "private"), *words[1:], *promise, "--unit", "patient"]) == 2
    told = capsys.readouterr().err
    assert "the units of these records are called 'person', and --unit says 'patient'" in told
    assert "give --unit person" in told
    assert sorted(tmp_path.rglob("*")) == before


def test_npz_and_minari_are_imported_too(tmp_path: Path, spec_file: Path) -> None:
    np.savez(
        tmp_path / "a.npz",
        observations=np.array([0, 1, 2]),
        actions=np.array([[1.0], [2.0], [3.0]]),
        rewards=np.zeros(3),
        next_observations=np.array([1, 2, 3]),
        terminations=np.zeros(3, bool),
        who=np.array([7, 7, 8]),
    )
    words = ["data", "import", str(tmp_path / "a.npz"), "--unit", "who", "--spec", str(spec_file), "--simulated"]
    assert main([*words, "--out", str(tmp_path / "a")]) == 0
    data = Trajectories.open(tmp_path / "a")
    assert data.counts()["units"] == 2
    with np.load(tmp_path / "a.npz") as arrays:
        fields = {name: arrays[name] for name in ("observations", "actions", "rewards", "next_observations")}
        np.savez(tmp_path / "c.npz", terminals=arrays["terminations"], who=arrays["who"], **fields)
    words[2] = str(tmp_path / "c.npz")
    assert main([*words, "--out", str(tmp_path / "c"), "--fields", "terminations=terminals"]) == 0
    assert Trajectories.open(tmp_path / "c").counts() == data.counts()
    (tmp_path / "sets").mkdir()
    data.to_minari("toy-v0", root=tmp_path / "sets")
    words = ["data", "import", "toy-v0", "--minari-root", str(tmp_path / "sets"), "--unit", ":episode", "--simulated"]
    assert main([*words, "--out", str(tmp_path / "b")]) == 0
    assert np.array_equal(Trajectories.open(tmp_path / "b").columns["actions"], data.columns["actions"])


def recording(path: Path, *, timeouts: bool = True) -> None:
    """Twelve rows as D4RL has them: an episode ends by a timeout after row 5; two people hold six rows each."""
    with h5py.File(path, "w") as file:
        file["observations"] = np.arange(12, dtype=np.float32)[:, None] / 12
        file["actions"] = np.full((12, 1), 0.5, np.float32)
        file["rewards"] = np.linspace(0, 1, 12, dtype=np.float32)
        file["terminals"] = np.zeros(12, bool)
        if timeouts:
            file["timeouts"] = np.arange(12) == 5
        file["infos/person"] = np.arange(12) // 6


BOUNDS = {
    "observation": {"kind": "box", "low": [0.0], "high": [1.0]},
    "action": {"kind": "box", "low": [-1.0], "high": [1.0]},
    "reward": {"kind": "box", "low": [0.0], "high": [1.0]},
    "source": "physics",
    "terminals": False,
    "difference": [0.1],
}


@pytest.mark.parametrize(
    ("unit", "more", "counts"),
    [
        (":transition", (), {"transitions": 10, "episodes": 10, "units": 10}),
        ("infos/person", (), {"transitions": 10, "episodes": 2, "units": 2}),
        (":chunk", ("--chunk", "4"), {"transitions": 8, "episodes": 4, "units": 3}),
        (":episode", ("--horizon", "3"), {"transitions": 8, "episodes": 4, "units": 4}),
    ],
)
def test_a_d4rl_file_is_imported(
    tmp_path: Path, unit: str, more: tuple[str, ...], counts: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    recording(tmp_path / "umaze.hdf5", timeouts="--horizon" not in more)
    (tmp_path / "spec.json").write_text(json.dumps(BOUNDS))
    words = ["data", "import", str(tmp_path / "umaze.hdf5"), "--unit", unit, "--spec", str(tmp_path / "spec.json")]
    assert main([*words, *more, "--simulated", "--out", str(tmp_path / "a")]) == 0
    assert Trajectories.open(tmp_path / "a").counts() == counts


def test_a_d4rl_file_with_options_of_others_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording(tmp_path / "umaze.hdf5")
    (tmp_path / "spec.json").write_text(json.dumps(BOUNDS))
    words = ["data", "import", str(tmp_path / "umaze.hdf5"), "--spec", str(tmp_path / "spec.json"), "--unit", ":chunk"]
    assert main([*words, "--out", str(tmp_path / "a")]) == 2
    assert "chunk" in capsys.readouterr().err
    assert main([*words, "--chunk", "4", "--episode", "e", "--out", str(tmp_path / "a")]) == 2
    told = "--episode has no meaning here; expected no --episode for .hdf5: it is for tables and .npz"
    assert told in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_one_entry_of_a_dictionary_of_observations_is_imported(tmp_path: Path) -> None:
    """The option reaches the reader, which refuses an entry of observations that are no dictionary."""
    recording(tmp_path / "umaze.hdf5")
    (tmp_path / "spec.json").write_text(json.dumps(BOUNDS))
    words = [
        "data",
        "import",
        str(tmp_path / "umaze.hdf5"),
        "--unit",
        ":episode",
        "--spec",
        str(tmp_path / "spec.json"),
    ]
    assert main([*words, "--simulated", "--out", str(tmp_path / "a")]) == 0
    (tmp_path / "sets").mkdir()
    Trajectories.open(tmp_path / "a").to_minari("toy-v0", root=tmp_path / "sets")
    words = ["data", "import", "toy-v0", "--minari-root", str(tmp_path / "sets"), "--unit", ":episode", "--simulated"]
    assert main([*words, "--observation", "goal", "--out", str(tmp_path / "b")]) == 2
    assert main([*words, "--out", str(tmp_path / "b")]) == 0


def test_inspecting_a_minari_dataset_says_how_it_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "maze", "--out", str(tmp_path / "a"), "--steps", "20"]) == 0
    data = Trajectories.open(tmp_path / "a")
    data.to_minari("packed-v0", packed=True, root=tmp_path), data.to_minari("plain-v0", root=tmp_path)
    capsys.readouterr()
    assert main(["data", "inspect", str(tmp_path / "packed-v0")]) == 0
    assert "step t is infos['next_observation'][t + 1], not observations[t + 1]" in capsys.readouterr().out
    assert main(["data", "inspect", str(tmp_path / "plain-v0")]) == 0
    assert "in every episode, observations[1:] are the next observations" in capsys.readouterr().out
    metadata = tmp_path / "plain-v0" / "data" / "metadata.json"
    metadata.write_text(
        json.dumps({name: v for name, v in json.loads(metadata.read_text()).items() if name != "tacit"})
    )
    assert main(["data", "inspect", str(tmp_path / "plain-v0")]) == 0
    assert "A Minari dataset that tacit did not write" in capsys.readouterr().out


def test_rows_of_tacit_need_no_bounds_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "maze", "--out", str(tmp_path / "a"), "--steps", "20"]) == 0
    data, rows = Trajectories.open(tmp_path / "a"), tmp_path / "rows.parquet"
    data.to_parquet(rows)
    words = ["data", "import", str(rows), "--unit", ":transition", "--simulated", "--out", str(tmp_path / "b")]
    assert main(words) == 0
    again = Trajectories.open(tmp_path / "b")
    assert again.spec == data.spec
    assert (again.columns["next_observations"] == data.columns["next_observations"]).all()
    capsys.readouterr()
    assert main(["data", "inspect", str(rows)]) == 0
    assert capsys.readouterr().out.startswith("Simulated records: 20 rows.\nPublic bounds from: physics.")
    pd.DataFrame({"observation_0": [0.0]}).to_parquet(tmp_path / "other.parquet")
    assert main(["data", "inspect", str(tmp_path / "other.parquet")]) == 6
    assert "the file does not say what its rows are" in capsys.readouterr().err


def test_declared_columns_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = (Column("pulse", low=30, high=220, missing="flag"), Column("ward", "category", labels=("a", "b", "c")))
    named = PublicSpec(space_of(*state), Discrete(2), Box((0,), (1,)), "declared")
    rows = {"pulse": [80.0, None], "ward": ["b", "a"]}
    data = Trajectories.from_arrays(
        observations=rows,
        actions=[0, 1],
        rewards=[0.5, 0.5],
        next_observations=rows,
        terminations=[False, True],
        unit_ids=":transition",
        spec=named,
        simulated=True,
    )
    data.to_parquet(tmp_path / "rows.parquet"), data.save(tmp_path / "folder")
    for name in ("rows.parquet", "folder"):
        assert main(["data", "inspect", str(tmp_path / name)]) == 0
        assert "float32 width 3  pulse 30 to 220, ward (one of 3)\n" in capsys.readouterr().out


def test_propensities_are_imported_under_their_name(
    tmp_path: Path, spec_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {**json.loads(spec_file.read_text()), "action": {"kind": "discrete", "n": 2}, "propensities": True}
    spec_file.write_text(json.dumps(spec))
    rows = "".join(f"{i},1,0.5,{i},False,{p}\n" for i, p in enumerate((0.5, 0.25, 1.0)))
    (tmp_path / "a.csv").write_text("observation,action,reward,next_observation,termination,chance\n" + rows)
    words = ["data", "import", str(tmp_path / "a.csv"), "--unit", ":transition", "--spec", str(spec_file)]
    words += ["--propensity", "chance", "--simulated"]
    assert main([*words, "--out", str(tmp_path / "a")]) == 0
    data = Trajectories.open(tmp_path / "a")
    assert data.columns["propensities"].tolist() == [0.5, 0.25, 1.0]
    assert main(["data", "inspect", str(tmp_path / "a")]) == 0
    (tmp_path / "sets").mkdir()
    data.to_minari("toy-v0", root=tmp_path / "sets")
    words = ["data", "import", "toy-v0", "--minari-root", str(tmp_path / "sets"), "--unit", ":episode"]
    assert main([*words, "--propensity", "propensity", "--out", str(tmp_path / "b")]) == 0
    assert Trajectories.open(tmp_path / "b").columns["propensities"].tolist() == [0.5, 0.25, 1.0]
    left_out = "tacit: The infos have 'propensity', which was not imported: give --propensity propensity"
    assert left_out not in capsys.readouterr().err
    spec_file.write_text(json.dumps({**spec, "propensities": False}))
    assert main([*words, "--spec", str(spec_file), "--out", str(tmp_path / "c")]) == 0
    assert left_out in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "more", "code", "message"),
    [
        (("a.csv", "b.npz"), (), 6, "the files are of several kinds"),
        (("one-v0", "two-v0"), (), 6, "there are several datasets"),
        (("a.csv",), ("--reward-bounds", "0", "1"), 2, "--reward-bounds has no meaning here"),
        (("one-v0",), ("--episode", "visit"), 2, "--episode has no meaning here"),
        (("a.npz",), ("--propensity", "p", "--spec", "spec.json"), 2, "--propensity has no meaning here"),
        (("a.csv",), (), 2, "--spec is missing"),
        (("a.csv",), ("--spec", "missing.json"), 6, "missing.json: there is no such file"),
        (("a.csv",), ("--spec", "a.csv"), 6, "a.csv: the file is no JSON"),
        (("a.csv",), ("--spec", "half.json"), 2, "half.json: the field 'observation' is missing"),
        (("a.csv",), ("--spec", "spec.json", "--fields", "pulse=a"), 2, "'pulse=a' does not name the columns"),
        (("one-v0",), ("--fields", "rewards=a"), 2, "--fields has no meaning here"),
        (("a.xlsx",), (), 6, "files of the kind .xlsx are not read"),
        (("a.xlsx",), ("--time", "day"), 6, "files of the kind .xlsx are not read"),
        (("a.csv.bz2",), ("--time", "day"), 6, "files of the kind .bz2 are not read"),
    ],
)
def test_bad_words_are_refused(
    files: tuple[str, ...],
    more: tuple[str, ...],
    code: int,
    message: str,
    tmp_path: Path,
    spec_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.csv")
    (tmp_path / "half.json").write_text("{}")
    assert main(["data", "import", *files, "--unit", "person", "--out", "out", *more]) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_bad_cell_is_named_by_its_row_and_never_shown(
    tmp_path: Path, spec_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a.csv", cell=CANARY)
    words = ["data", "import", str(tmp_path / "a.csv"), "--unit", "person", "--spec", str(spec_file)]
    assert main([*words, "--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert "a.csv, row 6: the column 'action_0' has a cell that is not a number" in captured.err
    assert CANARY not in captured.out + captured.err
    assert not (tmp_path / "out").exists()
