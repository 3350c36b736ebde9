def configuration(key):
    from experiments import ope_methods
    _, name, setting = _named(key)
    place = domain()
    simulator = {"states": chain.STATES, "behaviour": "uniform", "judged": "all states, exactly"}
    if name in NOT_PRIVATE:
        method = {"values": {"zero": "zero", "best_constant": "best constant"}[name]}
    else:
        make = ope_methods.residual_smooth if name == "residual_smooth" else ope_methods.residual
        method = {"plan": make(place), "records": "of one unit" if name == "residual_noise_only" else "all"}
    return _asked(place, simulator, setting, method, TRIALS)
