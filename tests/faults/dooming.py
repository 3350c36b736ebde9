"""A process that is killed when it passes a point."""

from __future__ import annotations

import itertools
import os
import signal
from typing import Any


def doom(owner: Any, name: str, when: str, calls: int) -> None:
    """Let this process be killed at the `calls`-th call of a function: "before" it does anything, or after it."""
    real, seen = getattr(owner, name), itertools.count(1)

    def doomed(*arguments: Any, **options: Any) -> Any:
        last = next(seen) == calls
        if last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*arguments, **options)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, doomed)
