from __future__ import annotations
import functools
from pathlib import Path
def jobs() -> dict[str, tuple[Json, Callable[[], dict[str, float]]]]:
    """For each key its settings, and what computes it."""
    found: dict[str, tuple[Json, Callable[[], dict[str, float]]]] = {"joint": ("joint", joint)}
    for delta in DELTAS:
        for sigma in SIGMAS:
            job = functools.partial(allowed, sigma, delta)
            found[_steps(sigma, delta)] = {"training": describe(mixed(1.0, sigma)), "delta": delta}, job
    for interval in INTERVALS:
        settings = {"faked": list(FAKED), "training": describe(mixed(*FAKED[:2])), "interval": interval}
        found[f"interval/{interval:g}"] = settings, functools.partial(rounded, interval)
    for p, sigma in CLAIMS:
        found[_claim(p, sigma)] = {"training": describe(mixed(p, sigma))}, functools.partial(claim, p, sigma)
    for name, row in TASKS.items():
        found[f"task/{name}"] = {"task": list(row)}, functools.partial(task, *row)
    return found

def configuration(key: str) -> Json:
    """Everything that decides a row."""
    return {"settings": jobs()[key][0], "experts": EXPERTS, "batch": BATCH, "delta": DELTA}