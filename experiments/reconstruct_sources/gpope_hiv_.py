_VISITED = []
hiv.target = lambda: None
hiv.truth = lambda policy, states, **how: (np.zeros(len(states)), how)


def collect(units, seed):
    _VISITED.append(units)
    return {"observations": np.zeros((units * hiv.HORIZON, 6))}


def configuration(key):
    import inspect
    import re
    place = domain()
    simulator = {
        "dynamics": {"type": "Hiv", "days": hiv.DAYS},
        "drugs": hiv.DRUGS,
        "start": {"state": hiv.STEADY_STATE, "spread": hiv.SPREAD},
        "substep": hiv.SUBSTEP,
        "target": {"greedy": hiv.GREEDY_SHARE},
        "judged": {"patients": _VISITED[-1], "states": STATES, "rollouts": ROLLOUTS},
    }
    if key == "hiv/average_reward":
        patients = int(re.search(r"hiv.collect\(hiv.target\(\), (\d+), seed=3\)", inspect.getsource(main))[1])
        return {"simulator": describe(simulator), "patients": patients, "horizon": hiv.HORIZON}
    _, name, setting = _named(key)
    asked = _asked(place, simulator, setting, _method(place, None, name, setting), trials(name, setting.units))
    return {"pool": POOL, **asked}
