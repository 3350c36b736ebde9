def configuration(key):
    import inspect
    from experiments import ope_methods
    _, name, setting = _named(key)
    place = domain()
    simulator = {
        "process": inspect.signature(random_mdp.random_mdp).parameters["seed"].default,
        "states": random_mdp.STATES, "reach": random_mdp.REACH,
        "behaviour": "of the process", "judged": "all states, exactly",
    }
    if name in NOT_PRIVATE:
        method = {"values": {"zero": "zero", "best_constant": "best constant"}[name]}
    else:
        method = {"plan": ope_methods.residual(place), "records": "of one unit" if name == "residual_noise_only" else "all"}
    return _asked(place, simulator, setting, method, TRIALS)
