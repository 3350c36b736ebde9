"""Settings shared by all tests: one thread, so that results do not depend on the machine's cores."""

from __future__ import annotations

import contextlib
import os
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
