"""What every run that releases something ends with: its certificate, its report and run.json."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from tacit.cli.folders import RunFolder
from tacit.evaluation.report import render, storage
from tacit.evaluation.report.blocks import PublicReport
from tacit.privacy.certificate.certificate import Certificate

CERTIFICATE, REPORT = "certificate.json", "report.html"
VERIFY = (f"tacit certificate verify {CERTIFICATE}",)


def require_packages(*names: str) -> None:
    """Miss a package before anything is spent, not when the results are written.

    Raises:
        ModuleNotFoundError: as an import of the first missing one would.
    """
    for name in names:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def certify(run: RunFolder, certificate: Certificate) -> None:
    """Write the certificate, for programs and for people."""
    certificate.save(run.inside(CERTIFICATE))
    run.write("certificate.md", certificate.to_markdown())


def finish(run: RunFolder, report: PublicReport) -> None:
    """Write report.html, and run.json with all that it shows."""
    run.write(REPORT, render(report))
    run.write("run.json", {**run.read(), "finished": True, "report": storage.to_json(report)})


class Stopwatch:
    """Time and memory of this process, for runs on simulated data (on private data they could depend on records)."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self.phases: dict[str, float] = {}
        """Processor seconds of each phase."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase."""
        begun = time.process_time()
        yield
        self.phases[name] = time.process_time() - begun

    @staticmethod
    def memory() -> int:
        """The most memory that this process ever had, in bytes."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    def costs(self) -> tuple[tuple[str, str], ...]:
        """(name, value) pairs for a report; times of less than a second are left out."""
        times = {"Wall time": time.perf_counter() - self._wall, "Processor time": time.process_time() - self._cpu}
        return (
            *((name, f"{seconds:.0f} s") for name, seconds in times.items() if seconds >= 1),
            ("Peak memory", f"{self.memory() / 1e9:.1f} GB"),
        )
