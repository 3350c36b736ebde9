def configuration(key):
    from experiments import gpope_chain
    _, name, setting = _named(key)
    place = gpope_chain.domain()
    simulator = {"states": gpope_chain.chain.STATES, "behaviour": "uniform", "judged": "all states, exactly"}
    asked = _asked(place, simulator, setting, _method(place, None, name, setting), trials(name, setting.units))
    return {"pool": POOL, **asked}
