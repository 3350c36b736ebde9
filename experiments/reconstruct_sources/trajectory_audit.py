def configuration(key):
    import dataclasses
    import inspect
    import re

    from tacit.envs import goal_episodes as walks
    from tacit.envs import maze

    def defaults(function):
        parameters = inspect.signature(function).parameters.items()
        given = {name: one.default for name, one in parameters if one.default is not inspect.Parameter.empty}
        return {name: describe(value) for name, value in given.items() if name not in ("seed", "progress")}

    if "small" not in globals():
        globals()["small"] = plan()
    bare = dataclasses.replace(small, noise_multiplier=None, unit=None, epsilon=None, delta=None)
    (included,) = re.findall(r"random\(CANARIES\) < ([\d.]+)", inspect.getsource(run))
    return {
        "way": key.split("/")[0],
        "plan": describe(bare),
        "guarantee": {"unit": describe(small.unit), "epsilon": small.epsilon, "delta": small.delta},
        "people": {
            "layout": describe(LAYOUTS[MAZE]),
            "ordinary": OTHERS,
            "shortest": walks.SHORTEST,
            "longest": walks.LONGEST,
            "collect": defaults(maze.collect),
        },
        "canaries": {"people": CANARIES, "rows": ROWS, "included": float(included)},
        "auditor": {"public": PUBLIC, **defaults(UnitScores)},
    }
