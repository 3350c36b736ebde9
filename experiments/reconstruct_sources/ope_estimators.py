_CALLS = []
_MADE = {}


def _collected(*arguments, **others):
    units = next(one for one in arguments if type(one) is int)
    _CALLS.append(units)
    return {"unit_ids": np.arange(units), "rewards": np.zeros(units)}


for _env in (chain, random_mdp, mountain_car, hiv):
    _env.collect = _collected
mountain_car.behaviour = hiv.behaviour = hiv.target = lambda: None


def _made(name):
    if name not in _MADE:
        domain = DOMAINS[name]()
        _MADE[name] = domain, len(domain.offsets) - 1
    return _MADE[name]


def configuration(key):
    import inspect
    import re
    name, method, promise = key.split("/")
    domain, size = _made(name)
    simulators = {
        "chain": lambda: {"states": chain.STATES, "behaviour": "uniform"},
        "random_mdp": lambda: {
            "process": inspect.signature(random_mdp.random_mdp).parameters["seed"].default,
            "states": random_mdp.STATES, "reach": random_mdp.REACH,
        },
        "mountain_car": lambda: {"goal": mountain_car.GOAL, "behaviour": {"exploration": mountain_car.EXPLORATION}},
        "hiv": lambda: {
            "dynamics": {"type": "Hiv", "days": hiv.DAYS},
            "drugs": hiv.DRUGS,
            "start": {"state": hiv.STEADY_STATE, "spread": hiv.SPREAD},
            "substep": hiv.SUBSTEP,
            "target": {"greedy": hiv.GREEDY_SHARE},
        },
    }
    place = {"name": name, "spec": domain.spec, "problem": domain.problem, "features": domain.features,
             "simulator": simulators[name]()}
    text = inspect.getsource(run)
    others = {word: float(number) for word, number in re.findall(r'"(ceiling|floor)": ([\d.]+)', text)}
    unit_name, relation = re.search(r'Unit\("(\w+)", "(\w+)", domain.units\)', text).groups()
    policy = ope.Behaviour() if truth_is_own(method) or domain.target is None else domain.target[0]
    return {
        "domain": describe(place),
        "units": domain.units,
        "pool": size,
        "data_sets": data_sets(domain, method, promise, False),
        "policy": type(policy).__name__,
        "plan": describe(methods(domain)[method]),
        "records": "of one unit" if promise == "floor" else "all",
        "guarantee": describe({
            "epsilon": (PROMISES | others)[promise], "delta": DELTA, "unit": Unit(unit_name, relation, domain.units),
        }),
    }
