mountain_car.behaviour = lambda: None
mountain_car.truth = lambda policy, states, **how: (np.zeros(len(states)), how)


def configuration(key):
    where, name, setting = _named(key)
    place = domain(where == "mountain_car_on")
    simulator = {
        "goal": mountain_car.GOAL,
        "behaviour": {"exploration": mountain_car.EXPLORATION},
        "judged": {"states": STATES, "rollouts": ROLLOUTS},
    }
    axes = cells(mountain_car.LOW, mountain_car.HIGH, _bins())
    asked = _asked(place, simulator, setting, _method(place, axes, name, setting), trials(name, setting.units))
    return {"pool": POOL, **asked}


def _bins():
    import inspect
    import re
    return int(re.search(r"cells\(mountain_car.LOW, mountain_car.HIGH, (\d+)\)", inspect.getsource(main))[1])
