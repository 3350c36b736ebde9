"""No warning while a step runs: whether one arises, and what it says, may depend on a record."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


class _WhileStepsRun:
    """What a filter of warnings asks instead of a pattern: every warning matches while any thread runs a step."""

    # `warnings.catch_warnings` puts back what it found when it was entered, and all threads share one list of filters:
    # of two threads, the first to leave would let the other one's warnings out. So this filter is never taken away. It
    # holds for warnings of all threads, as a step may have its rows worked on by others.

    pattern = r"(?!)"
    """What libraries that copy filters (scikit-learn) read of one: an expression that nothing matches."""

    def __init__(self) -> None:
        self._lock, self._running = threading.Lock(), 0

    def match(self, text: str) -> bool:
        """Whether a step runs; called by `warnings`, in whose C code a filter's pattern may be any object."""
        return self._running > 0

    def enter(self) -> None:
        """A step begins: the filter is before all others, as whoever sets one puts it first."""
        with self._lock:
            self._running += 1
            filters: list[Any] = warnings.filters  # type: ignore[assignment]
            if not filters or filters[0] is not _FILTER:
                filters.insert(0, _FILTER)

    def leave(self) -> None:
        """A step ends."""
        with self._lock:
            self._running -= 1


_STEPS = _WhileStepsRun()
_FILTER = ("ignore", _STEPS, Warning, None, 0)


@contextmanager
def silence_warnings() -> Iterator[None]:
    """No warning is shown, logged or turned into an error, in any thread."""
    # What another thread changes in the filters of warnings while a step runs is not undone.
    _STEPS.enter()
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _STEPS.leave()
