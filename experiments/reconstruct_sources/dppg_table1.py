from __future__ import annotations
try:
    from experiments.dppg_runs import DELTA
except ImportError:
    DELTA = __import__('experiments.dppg_runs', fromlist=['x']).DELTA
def _cell(key: str) -> tuple[Line, str, float | None]:
    return next(
        (line, method, level) for line in lines() for method, level in line.cells if line.key(method, level) == key
    )

def configuration(key: str, *, quick: bool = False) -> Json:
    """Everything that decides a row, but its seed."""
    line, method, level = _cell(key)
    return {
        "line": describe(small(line) if quick else line),
        "method": method,
        "level": level,
        "paper": describe(pg.Plan.paper(line.setting, noise_multiplier=0.0)) if method == "paper" else None,
        "delta": DELTA,
    }