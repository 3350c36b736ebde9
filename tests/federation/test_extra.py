from __future__ import annotations

import os
import subprocess
import sys

import pytest

import tacit.federation

WITHOUT = "import sys; sys.modules['flwr'] = None; import tacit.federation as f; f.{name}"


@pytest.mark.parametrize("name", tacit.federation.__all__)
def test_without_flower_the_extra_is_named(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(name=name)], capture_output=True, text=True, check=False
    )
    assert "ModuleNotFoundError: tacit.federation needs Flower: pip install 'tacit[federated]'" in done.stderr


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'server_app'"):
        tacit.federation.server_app  # noqa: B018


def test_nothing_is_reported_to_anybody() -> None:
    assert os.environ["FLWR_TELEMETRY_ENABLED"] == os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert os.environ["FLWR_DISABLE_UPDATE_CHECK"] == "1"
