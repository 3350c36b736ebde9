"""`examples/flower_app`, copied and edited as a user does, in one process: both methods, end to end."""

from __future__ import annotations

import importlib
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from experiments.beyond.loop_grid import LoopGrid
from flwr.app import Context, RecordDict

from tacit import hub
from tacit.errors import PlanExhausted
from tacit.privacy.ledger.ledger import Ledger

TEMPLATE = Path(__file__).parents[2] / "examples" / "flower_app"
EDITS = {
    "PEOPLE = 1_000": "PEOPLE = 5",
    "ROUNDS = 30": "ROUNDS = 2",
    "DAYS = 20": "DAYS = 3",
    "2.0, 1e-5": "2.0, 1e-3",
}


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small copy of the template, which can be imported."""
    copied = shutil.copytree(TEMPLATE, tmp_path / "app")
    agreement = copied / "flower_app" / "agreement.py"
    text = agreement.read_text()
    for before, after in EDITS.items():
        assert text.count(before) == 1
        text = text.replace(before, after)
    agreement.write_text(text)
    monkeypatch.syspath_prepend(copied)
    yield copied
    for name in [name for name in sys.modules if name.partition(".")[0] == "flower_app"]:
        del sys.modules[name]


def started(app: Path, folder: Path, method: str) -> tuple[LoopGrid, Any, Context]:
    """Devices with invented days, and the server's app, as the table of Flower names them."""
    table = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    client, server = (
        getattr(importlib.import_module(module), name)
        for module, name in (table["components"][side].split(":") for side in ("clientapp", "serverapp"))
    )
    config = {**table["config"], "folder": str(folder), "method": method}
    importlib.import_module("flower_app.invent").main(folder)
    shutil.rmtree(folder / "device4" / "days")  # a person without records
    grid = LoopGrid(client, 5)
    for context in grid.contexts.values():
        context.run_config = config
    return grid, server, Context(7, 1, {}, RecordDict(), config)


@pytest.mark.parametrize(("method", "sums"), [("one-shot", 3), ("linear", 4)])
def test_a_run_gives_a_simulator_with_a_certificate_once(
    app: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str, sums: int
) -> None:
    grid, server, context = started(app, tmp_path / "fleet", method)
    server(grid, context)
    assert len(grid.received) == 5 * sums
    assert not any(reply.has_error() for reply in grid.received)
    release = hub.load(tmp_path / "fleet" / "simulator")
    assert release.certificate.verify().epsilon == pytest.approx(2.0, abs=1e-3)
    assert release.certificate.sentence in capsys.readouterr().out
    assert release.value.generate(7, seed=0).cells.shape == (7, 48)
    for person in range(5):
        (plan,) = Ledger.read(tmp_path / "fleet" / f"device{person}" / "ledger").plans()
        assert plan.claimed == plan.steps == sums
    with pytest.raises(PlanExhausted):  # the server's ledger remembers, and so does every device's
        server(grid, context)
    assert all(grid.ask(message).has_error() for message in grid.sent[:5])
