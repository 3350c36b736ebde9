from __future__ import annotations
def bare_plan(cell: Cell, here: Maze, scale: fits.Scale) -> synthesis.Plan:
    """Without raking, before calibration."""
    plan = fits.base(here, scale)
    return replace(plan, rate=0.128, steps=10_000) if cell.way == "memorised" else plan

def configuration(key: str, scale: fits.Scale = fits.FULL) -> Json:
    """Everything that decides a row, but its seed."""
    (cell,) = (cell for cell in CELLS if cell.key == key)
    here = domain(cell, scale)
    return {
        "domain": describe(here),
        "layout": describe(here.layout),
        "way": cell.way,
        "plan": describe(bare_plan(cell, here, scale)),
        "epsilon": cell.epsilon,
        "unit": describe(unit(here)),
        "delta": here.delta,
        "canaries": CANARIES,
        "draws": DRAWS,
        "public": PUBLIC,
        "members": TOLD,
        "levels": list(LEVELS),
        "false_positive_rates": list(FPRS),
    }