"""`tacit sample --jobs`: parts of several processes are one set, each drawn with a seed of its own."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import hub
from tacit.cli.app import main
from tacit.cli.generate import draw_records, join_parts
from tacit.data import Box, PublicSpec, Trajectories
from tacit.methods.synthesis import TransitionsPlan, fit
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

SPEC = PublicSpec(Box((0.0,), (1.0,)), Box((-1.0,), (1.0,)), Box((0.0,), (1.0,)), "declared", difference=(0.1,))
UNIT = Unit("person", "add_or_remove", 1_000)
SEEDS = [int(np.random.SeedSequence([5, job]).generate_state(1)[0]) for job in range(2)]


def records(rewards: list[float], ids: Any, episodes: Any = None) -> Trajectories:
    count = len(rewards)
    seen = np.linspace(0.1, 0.9, count)[:, None]
    columns = {"observations": seen, "next_observations": seen, "actions": seen, "rewards": rewards}
    flags = {"terminations": np.zeros(count, bool)}
    return Trajectories.from_arrays(**columns, **flags, unit_ids=ids, episode_ids=episodes, spec=SPEC, simulated=True)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    plan = TransitionsPlan(steps=1, sampling_rate=1.0, warmup=0, width=8, depth=1, noise_multiplier=4.0, matching=None)
    with Ledger(tmp_path / "ledger", UNIT, epsilon=9.0, delta=1e-4, composition=SUM) as ledger:
        data = records(list(np.linspace(0.2, 0.8, 40)), ":transition")
        hub.save(fit(plan.account(unit=UNIT, delta=1e-5), Vault(data, ledger)), tmp_path / "model")
    return tmp_path / "model"


def expected(model: Path) -> np.ndarray:
    value = hub.load(model).value
    parts = [draw_records(value, count, seed, transitions=False) for count, seed in zip((3, 4), SEEDS, strict=True)]
    return np.concatenate([part.columns["observations"] for part in parts])


def test_two_processes_draw_what_their_seeds_give(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forked ones, which need not import everything again; `test_parallel.py` has fresh ones."""
    forking = multiprocessing.get_context("fork")
    monkeypatch.setattr("tacit.parallel.multiprocessing.get_context", lambda _: forking)
    words = ["sample", "--model", str(model), "--count", "7", "--seed", "5", "--jobs", "2"]
    assert main([*words, "--out", str(tmp_path / "rows")]) == 0
    rows = Trajectories.open(tmp_path / "rows")
    assert rows.unit_kind == "transition"
    np.testing.assert_allclose(rows.columns["observations"], expected(model), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of processes that Ray leaves
def test_a_ray_cluster_draws_the_same(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # of which Ray warns
    pytest.importorskip("ray")
    words = ["sample", "--model", str(model), "--count", "7", "--seed", "5", "--jobs", "2", "--ray", "local"]
    assert main([*words, "--out", str(tmp_path / "rows")]) == 0
    drawn = Trajectories.open(tmp_path / "rows").columns["observations"]
    np.testing.assert_allclose(drawn, expected(model), rtol=1e-5)


def test_trajectories_of_two_parts_stay_apart() -> None:
    parts = [records([0.1, 0.2, 0.3], [0, 0, 1], [0, 0, 1]), records([0.4, 0.5], [0, 0], [0, 0])]
    whole = join_parts(parts)
    assert whole.episodes.tolist() == [0, 2, 3, 5]
    assert whole.counts() == {"transitions": 5, "episodes": 3, "units": 3}
    np.testing.assert_allclose(whole.columns["rewards"], [0.1, 0.2, 0.3, 0.4, 0.5], rtol=1e-6)


@pytest.mark.parametrize("jobs", ["0", "8"])
def test_jobs_that_would_draw_nothing_are_refused(
    model: Path, tmp_path: Path, jobs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sample", "--model", str(model), "--count", "7", "--jobs", jobs, "--out", str(tmp_path / "rows")]
    assert main(words) == 2
    assert "--jobs from 1 to --count" in capsys.readouterr().err
