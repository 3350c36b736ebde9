"""The Open Bandit logs: read as they are published, one impression a unit."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from tacit.data import Box, Discrete, Trajectories
from tacit.data.sources import open_bandit
from tacit.errors import DataError, FileError

HEADER = ",timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0"
ROWS = (
    "0,2019-11-24 00:00:01.5+00:00,33,1,0,0.5,cef3390ed299c098,0.0",
    "1,2019-11-24 00:00:02+00:00,0,3,1,0.125,cef3390ed299c098,1.0",
    "2,2019-11-24 00:00:02+00:00,7,2,0,1e-06,03a5648a76832f83,0.0",
)


def write(folder: Path, *rows: str, policy: str = "random", campaign: str = "men", header: str = HEADER) -> Path:
    path = folder / policy / campaign / f"{campaign}.csv"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join((header, *rows)) + "\n")
    return folder


def test_a_log_becomes_episodes_of_one_step(tmp_path: Path) -> None:
    data = open_bandit.read("men", "bts", folder=write(tmp_path, *ROWS, policy="bts"), store=tmp_path / "set")
    columns = data.columns
    assert columns["observations"].tolist() == columns["next_observations"].tolist() == [0, 2, 1]
    assert columns["actions"].tolist() == [33, 0, 7]
    assert columns["rewards"].tolist() == [0.0, 1.0, 0.0]
    assert columns["terminations"].tolist() == [True, True, True]
    assert columns["propensities"].tolist() == [0.5, 0.125, np.float32(1e-6)]
    assert data.episodes.tolist() == [0, 1, 2, 3]
    assert (data.unit_kind, data.simulated) == ("transition", False)
    assert Trajectories.open(tmp_path / "set").spec == data.spec == open_bandit.spec("men")


@pytest.mark.parametrize(("campaign", "items"), [("all", 80), ("men", 34), ("women", 46)])
def test_bounds_are_those_of_the_paper(campaign: open_bandit.Campaign, items: int) -> None:
    spec = open_bandit.spec(campaign)
    assert (spec.observation, spec.action) == (Discrete(3), Discrete(items))
    assert (spec.reward, spec.source, spec.propensities) == (Box((0,), (1,)), "public_data", True)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("3,x,34,1,0,0.5,a,0", r"men\.csv.*row 4: actions has a value out of range"),
        ("3,x,3,4,0,0.5,a,0", "row 4: observations has a value out of range"),
        ("3,x,3,0,0,0.5,a,0", "row 4: observations has a value out of range"),
        ("3,x,3,1,0,0,a,0", "row 4: propensities has a value that is zero or negative"),
        ("3,x,3,1,0,,a,0", "row 4: propensities has a value that is NaN"),
        ("3,x,three,1,0,0.5,a,0", "row 4: the column 'item_id' has a cell that is not a number"),
    ],
)
def test_wrong_rows(row: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        open_bandit.read(folder=write(tmp_path, *ROWS, row))


def test_wrong_names_and_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="campaign is unknown; expected one of all, men, women"):
        open_bandit.read("kids")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="policy is unknown; expected one of random, bts"):
        open_bandit.read("men", "../men")  # type: ignore[arg-type]
    with pytest.raises(FileError, match="there is no such file"):
        open_bandit.read(folder=tmp_path)
    with pytest.raises(DataError, match="no column 'propensity_score'"):
        open_bandit.read(folder=write(tmp_path, *ROWS, header=HEADER.replace("propensity_score", "p")))


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    with pytest.raises(FileError, match=r"pip install --no-deps obp==0\.4\.1"):
        open_bandit.read()


@pytest.mark.skipif(importlib.util.find_spec("obp") is None, reason="needs obp (pip install --no-deps obp==0.4.1)")
def test_the_published_samples() -> None:
    random, bts = open_bandit.read("men", "random").columns, open_bandit.read("men", "bts").columns
    assert len(random["rewards"]) == len(bts["rewards"]) == 10_000
    assert (random["rewards"].sum(), bts["rewards"].sum()) == (46, 69)
    np.testing.assert_allclose(random["propensities"], 1 / 34, rtol=1e-6)
    # a propensity is one of an item in its position: over a log, the mean of 1 / p is then the number of items
    for position in range(3):
        inside = bts["observations"] == position
        assert np.mean(1 / bts["propensities"][inside].astype(float)) == pytest.approx(34, rel=0.15)
    assert not any(name.startswith("obp") for name in sys.modules)
