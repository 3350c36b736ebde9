"""Settings shared by all tests: one thread, so that results do not depend on the cores, and temporary files in RAM."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("without a clock", deadline=None)
settings.load_profile("without a clock")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # small models take longer to compile than to fit
gc.disable()  # until all tests are collected: a third of that time would go into walks through imported modules
sys.dont_write_bytecode = False  # hundreds of processes would compile tacit, each for half a second
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

RAM, NEEDED = "/dev/shm", 8 << 30
if os.access(RAM, os.W_OK) and shutil.disk_usage(RAM).free > NEEDED:
    os.environ["TMPDIR"] = tempfile.tempdir = RAM  # ledgers are flushed thousands of times

with contextlib.suppress(ImportError):
    import torch

    torch.set_num_threads(1)


def pytest_collection_finish() -> None:
    """Imported modules stay: a collection of garbage that walks through them takes a quarter of a second."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # by default a hundred walks a second, and tests free little by them
    gc.enable()


@pytest.fixture
def real_data() -> Path:
    """The folder of real rows for comparison tests; skips where they are not on this machine."""
    folder = Path(os.environ.get("TACIT_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("the real rows are not on this machine (set TACIT_DATA to their folder)")
    return folder


@pytest.fixture(autouse=True)
def small_crowds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callbacks are tried on two crowds of 5 units, and on up to 33 or 300 of all kinds where trials are tested."""
    monkeypatch.setattr("tacit.privacy.vault.isolation._PASSED", {})
    if "isolation" not in request.path.name:
        tested = {"mutations", "removal"} & set(request.path.parts) or "refused_callbacks" in request.path.name
        monkeypatch.setattr("tacit.privacy.vault.removal.CROWDS", (1, 2, 5, 33) if tested else (5,))
        if not tested:
            monkeypatch.setattr("tacit.privacy.vault.removal.TIED", ("few",))


@pytest.fixture(autouse=True)
def small_tables(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, studies and pages move PrivSyn's records in 6 rounds and not in 60, and 5,000 of them, not 200,000."""
    if {"cli", "study", "docs"} & set(request.path.parts):
        from tacit.methods.synthesis.baselines.privsyn import PrivSynPlan

        defaults = PrivSynPlan.__init__.__kwdefaults__
        assert defaults is not None
        assert (defaults["records"], defaults["rounds"]) == (200_000, 60)
        monkeypatch.setitem(defaults, "records", 5_000)
        monkeypatch.setitem(defaults, "rounds", 6)


@pytest.fixture
def own_callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' callbacks count as tacit's own, tried once: for tests of thousands of steps, not of the trials."""
    monkeypatch.setattr("tacit.privacy.vault.isolation.find_foreign", lambda *_: [])


@pytest.fixture
def small_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are weighted by released histograms are drawn from 500 or twice those asked for, not from 250,000."""
    from tacit.methods.synthesis import TableMatching

    defaults = TableMatching.__init__.__kwdefaults__
    assert defaults is not None
    assert defaults["pool"] == 250_000
    monkeypatch.setitem(defaults, "pool", 500)


@pytest.fixture
def no_lattice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noisy sums and gradients keep all of their digits: with silent noise, to see what the noise is added to."""
    for module in ("lattice", "secret"):
        monkeypatch.setattr(f"tacit.privacy.noise.{module}.step", lambda scale: 0.0)
