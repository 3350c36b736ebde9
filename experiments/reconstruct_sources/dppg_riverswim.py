from __future__ import annotations
try:
    from experiments.dppg_runs import DELTA
except ImportError:
    DELTA = __import__('experiments.dppg_runs', fromlist=['x']).DELTA
def _cell(label: str) -> tuple[str, float, float | None]:
    return next(cell for cell in grid() if key(*cell) == label)

def drafted(name: str, epsilon: float | None) -> Recipe:
    """A recipe before calibration."""
    return changed(RECIPES[name](), noise_multiplier=0.0) if epsilon is None else RECIPES[name]()

def drafted_counters(name: str, epsilon: float | None) -> UcbVi:
    """UCB-VI's plan before calibration."""
    kind, people = name.rsplit("_", 1)
    return UcbVi(
        states=river_swim.STATES,
        actions=river_swim.ACTIONS,
        horizon=river_swim.HORIZON,
        rounds=int(people),
        noise_multiplier=0.0 if epsilon is None else None,
        **COUNTERS[kind],
    )

def configuration(label: str, *, replicates: int = REPLICATES) -> Json:
    """Everything that decides a row, but its seed."""
    name, last, epsilon = _cell(label)
    learner = drafted_counters(name, epsilon) if name.startswith("ucb") else drafted(name, epsilon)
    return {
        "method": describe(learner),
        "river": describe(RiverSwim(last)),
        "states": river_swim.STATES,
        "horizon": river_swim.HORIZON,
        "epsilon": epsilon,
        "delta": DELTA,
        "replicates": replicates,
    }