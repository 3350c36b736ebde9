def configuration(key):
    layout, table, _ = key.split("/")
    plan = None if table in ("real", "independent") else describe(plan_for("default"))
    epsilon = {"epsilon_10": 10.0, "epsilon_1": 1.0, "noise_only": 1.0}.get(table)
    unit = Unit("transition", "add_or_remove", POPULATION)
    return {"layout": layout, "table": table, "plan": plan, "epsilon": epsilon, "unit": None if epsilon is None else describe(unit), "delta": DELTA, "population": POPULATION, "public_rows": PUBLIC_ROWS, "synthetic_rows": SYNTHETIC_ROWS, "agent": describe(iql.IqlConfig())}
