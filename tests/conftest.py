"""Settings shared by all tests: one thread, so that results do not depend on the machine's cores."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

with contextlib.suppress(ImportError):
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def real_data() -> Path:
    """The folder of real rows for comparison tests; skips where they are not on this machine."""
    folder = Path(os.environ.get("TACIT_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("the real rows are not on this machine (set TACIT_DATA to their folder)")
    return folder


@pytest.fixture
def ram_path() -> Iterator[Path]:
    """A folder on a RAM disk where there is one: for tests that flush a ledger thousands of times."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=base, prefix="tacit-test-") as folder:
        yield Path(folder)
