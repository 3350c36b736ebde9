from __future__ import annotations
def configuration(key: str, *, runs: int = RUNS) -> Json:
    """Everything that decides a row, but its seed."""
    (cell,) = (cell for cell in CELLS if cell.key == key)
    return {
        "cell": describe(cell),
        "plan": describe(cell.plan(ROUNDS)),
        "policy": describe(SMALL),
        "critic": describe(CRITIC) if _critic(cell) else None,
        "spec": describe(SPEC),
        "unit": describe(UNIT),
        "people": PEOPLE,
        "pulls": PULLS,
        "canary": CANARY,
        "runs": runs,
        "together": TOGETHER,
    }