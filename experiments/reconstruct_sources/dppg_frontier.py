from __future__ import annotations
try:
    from experiments.dppg_runs import DELTA
except ImportError:
    DELTA = __import__('experiments.dppg_runs', fromlist=['x']).DELTA
PEOPLE = 1_600
def draft(cell: Cell, people: int) -> Recipe:
    """The cell's recipe before its noise is known; the paper's noise is that of ours, by the exact formula."""
    if cell.arm == "paper":
        plan = pg.Plan.paper("control", rounds=people // 8, noise_multiplier=0.0)
        return Recipe(plan, RECIPES[cell.task]().policy, horizon=plan.horizon)
    hidden = {"linear": (), "small": (8,)}.get(cell.arm, (64, 64))
    found = RECIPES[cell.task](hidden=hidden)
    plan = replace(found.plan, rounds=people // found.plan.users, correlation=cell.correlation)  # type: ignore[arg-type]
    if cell.arm in CRITICS:
        plan = recipes.with_critic(plan, cell.arm)
    if cell.arm == "noise":
        plan = replace(plan, return_scale=0.0, standardised=False, critic="none")
    if cell.epsilon is None:
        plan = replace(plan, noise_multiplier=0.0)
    return replace(found, plan=plan)

def configuration(key: str, *, replicates: int = REPLICATES, people: int = PEOPLE) -> Json:
    """Everything that decides a row, but its seed."""
    (cell,) = (cell for cell in grid() if cell.key == key)
    return {
        "task": describe(TASKS[cell.task]),
        "recipe": describe(draft(cell, people)),
        "noise_of": describe(RECIPES[cell.task]().plan) if cell.arm == "paper" else None,
        "restarts": cell.arm == "full_slot",
        "epsilon": cell.epsilon,
        "delta": DELTA,
        "replicates": replicates,
        "people": people,
        "episodes": EPISODES,
    }