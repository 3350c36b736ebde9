"""What a comparison with a peer is: the same work as two calls without arguments, and how it is measured."""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.units import Unit

Side = Callable[[], object]


@dataclass(frozen=True)
class Work:
    """The same work of a peer and of tacit.

    Args:
        figure: the name of its ratio.
        peer: who else does it.
        package: the peer's distribution, whose version is printed.
        install: what to do where the peer is missing.
        description: the work, in a few words.
        sides: imports the peer and prepares both: (the peer's call, tacit's call).
        repeats: rounds that are measured.
        warmup: rounds before them; 0 where every run compiles for itself.
    """

    figure: str
    peer: str
    package: str
    install: str
    description: str
    sides: Callable[[], tuple[Side, Side]]
    repeats: int = 3
    warmup: int = 1


@dataclass(frozen=True)
class Outcome:
    """The peer's version, median process CPU seconds of both, and the median of their ratios round by round."""

    version: str
    peer: float
    tacit: float
    ratio: float


def compare(work: Work) -> Outcome | ImportError:
    """The outcome, or what is missing."""
    try:
        peer, tacit = work.sides()
        version = metadata.version(work.package)
    except ImportError as missing:
        return missing
    seconds = timing.cpu_seconds({"peer": peer, "tacit": tacit}, repeats=work.repeats, warmup=work.warmup)
    medians = {side: statistics.median(spent) for side, spent in seconds.items()}
    return Outcome(version, medians["peer"], medians["tacit"], timing.ratio(seconds, "peer", "tacit"))


def fresh_ledger(unit: Unit, *, epsilon: float, delta: float) -> Ledger:
    """A ledger in a folder of its own, which the operating system may clear."""
    return Ledger(Path(tempfile.mkdtemp(), "ledger"), unit, epsilon=epsilon, delta=delta, composition=SUM)
