def _named(key):
    domain, method, units, *promise = key.split("/")
    from experiments.ope_methods import Setting
    m = int(units[2:])
    return domain, method, (Setting(m, float(promise[0][8:]), promise[1]) if promise else Setting(m))


def _asked(place, simulator, setting, method, trials):
    from experiments import ope_baselines, ope_methods
    domain = {"name": place.name, "spec": place.spec, "problem": place.problem, "features": place.features,
              "policy": type(place.policy), "simulator": simulator}
    promise = None
    if setting.epsilon is not None:
        promise = describe({"epsilon": setting.epsilon, "delta": ope_methods.DELTA, "unit": ope_baselines.unit_of(setting)})
    return {"domain": describe(domain), "units": setting.units, "trials": trials, "method": describe(method), "guarantee": promise}
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
