from __future__ import annotations
CORRELATED = Plan(rounds=50, users=8, noise_multiplier=4.0)
def grid() -> list[tuple[str, int, float]]:
    """All cases with their numbers of users and their noise."""
    return [(case, users, sigma) for case, (_, many) in CASES.items() for users in many for sigma in SIGMAS]

def configuration(name: str) -> Json:
    """Everything that decides a row, but its seed."""
    common = {"draws": DRAWS, "confidences": CONFIDENCES, "radius": RADIUS, "rate": RATE}
    if name.startswith("correlated/"):
        return describe({"correlated": name, "plan": CORRELATED, **common})
    case, users, sigma = next(cell for cell in grid() if key(*cell) == name)
    return describe({"case": case, "users": users, "sigma": sigma, "gap": GAP, "gradient": GRADIENT, **common})