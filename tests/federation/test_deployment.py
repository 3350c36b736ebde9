"""A SuperLink and three SuperNodes, each a process of its own on the loopback interface; one is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import device_cases as cases
import numpy as np
import pytest

from tacit.privacy.ledger.ledger import Ledger

ROOT = Path(__file__).parents[2]
APP = Path(__file__).parent / "app"
DEVICES = 3


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


class Deployment:
    """Processes in sessions of their own, which end with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        link, *nodes = free_ports(1 + DEVICES)
        self.address = f"127.0.0.1:{link}"
        (folder / "home").mkdir()
        connection = f'[superlink]\ndefault = "local"\n[superlink.local]\naddress = "{self.address}"\ninsecure = true\n'
        (folder / "home" / "config.toml").write_text(connection, encoding="utf-8")
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), str(ROOT / "tests" / "privacy" / "vault")])
        binaries = str(Path(sys.executable).parent)
        self.env = {
            **os.environ,
            "PATH": os.pathsep.join([binaries, os.environ["PATH"]]),
            "PYTHONPATH": path,
            "FLWR_HOME": str(folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.start(
            "link", "flower-superlink", "--insecure", "--port", str(link), "--disable-runtime-dependency-installation"
        )
        self.until(lambda: _listens(link), 60)
        self.nodes = [
            self.start(
                f"node{person}",
                *("flower-supernode", "--insecure", "--superlink", self.address, "--port", str(port)),
                *("--node-config", f"partition-id={person}"),
            )
            for person, port in enumerate(nodes)
        ]
        self.until(lambda: all(_listens(port) for port in nodes), 60)

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                command, env=self.env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.processes.append(process)
        return process

    def run(self) -> None:
        command = ["flwr", "run", str(APP), "local", "--run-config", f"folder='{self.folder}'"]
        done = subprocess.run(command, env=self.env, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def step(self, number: int) -> dict[str, Any]:
        """Let the server take a step, and what came of it."""
        (self.folder / f"go{number}").touch()
        result = self.folder / f"result{number}.json"
        self.until(result.exists, 240)
        read: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        return read

    def kill(self, person: int) -> None:
        """A SuperNode and all that it started are gone at once."""
        _end(self.nodes[person])

    def leave(self, person: int) -> None:
        """A SuperNode says that it goes."""
        self.nodes[person].terminate()
        self.nodes[person].wait(30)

    def until(self, happened: Any, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not happened():
            if time.monotonic() > end:
                logs = "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in self.folder.glob("*.log"))
                raise AssertionError(f"nothing came within {seconds} s\n{logs}")
            time.sleep(0.05)


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    started = Deployment.__new__(Deployment)
    try:
        started.__init__(tmp_path)  # type: ignore[misc]
        yield started
    finally:
        for process in getattr(started, "processes", []):
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def claimed(folder: Path, name: str) -> int:
    view = Ledger.read(folder / name)
    return sum(entry.payload["count"] for entry in view.entries() if entry.kind == "claim")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_supernodes_that_go_leave_a_sum_with_enough_noise_or_none(deployment: Deployment) -> None:
    """Killed: of three devices two answer, the floor. Gone: of two one is left, and its answer stays on the device."""
    deployment.run()
    deployment.until((deployment.folder / "ready").exists, 120)
    deployment.kill(2)
    mean = np.array(deployment.step(0)["mean"])
    np.testing.assert_allclose(mean, cases.exact(0, 2) * cases.PEOPLE / DEVICES, atol=2e-5)
    deployment.leave(1)
    assert "0 devices answered" in deployment.step(1)["error"]
    assert claimed(deployment.folder, "server") == 2
    assert [claimed(deployment.folder, f"person{person}") for person in range(2)] == [1, 1]
    assert not (deployment.folder / "person2").exists()
