from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator

import pytest

if importlib.util.find_spec("flwr") is None:
    collect_ignore_glob = ["test_*.py"]  # the extra `federated` is not installed


@pytest.fixture(autouse=True)
def server_identity() -> Iterator[None]:
    """Messages can be made, and Flower logs errors alone."""
    from experiments.beyond.loop_grid import identity

    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    with identity():
        yield
