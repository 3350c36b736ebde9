"""Finished runs for all tests that only read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.cli import main
from tacit.methods.mobility.matching import Matching
from tacit.study import imitate


@pytest.fixture(autouse=True)
def few_weighted_rows(small_pools: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands draw few rows to weight by histograms, and match simulators of movement in few rounds."""
    match_in_few_rounds(monkeypatch)


def match_in_few_rounds(patch: pytest.MonkeyPatch) -> None:
    defaults = Matching.__init__.__kwdefaults__
    assert defaults is not None
    assert (defaults["rounds"], defaults["days"]) in ((14, 4_000), (4, 1_000))
    patch.setitem(defaults, "rounds", 4)
    patch.setitem(defaults, "days", 1_000)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a quick demo; copy it before changing anything."""
    folder = tmp_path_factory.mktemp("demo") / "run"
    assert main(["demo", "maze", "--out", str(folder), "--quick", "--epsilon", "8"]) == 0
    return folder


TINY = ("--users", "24", "--users-per-round", "6", "--delta", "1e-3", "--evaluate", "4", "--runs", "2")
POLE = ("train", "CartPole-v1", *TINY, "--policy", "4", "--horizon", "20")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny `tacit train` with one further epsilon and scalars; copy it before changing anything."""
    folder = tmp_path_factory.mktemp("train") / "run"
    assert main([*POLE, "--out", str(folder), "--compare", "8", "--ceiling", "--tensorboard"]) == 0
    return folder


TOWN = ("--city", "60", "--days", "4", "--delta", "1e-3")
"""Sixty people with four days each."""


@pytest.fixture(scope="session")
def imitated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small `tacit imitate` of a city; copy it before changing anything."""
    folder = tmp_path_factory.mktemp("imitate") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(imitate, "DAYS", 300)
        match_in_few_rounds(patch)
        assert main(["imitate", *TOWN, "--epsilon", "4", "--out", str(folder)]) == 0
    return folder
