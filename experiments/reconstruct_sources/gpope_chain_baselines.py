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
class _Captured(Exception):
    pass


def _plan_of(place, cells, method, setting):
    """The plan as the tree's own method makes it, caught before its calibration."""
    import types
    from experiments import ope_baselines as b
    from tacit import off_policy_evaluation as ope

    def capture(self, **promise):
        raise _Captured(self)

    ope.Gpope.calibrate = ope.Gpope.price = capture
    b.ssp.SufficientStatistics.calibrate = capture
    b.Lsl.calibrate = capture
    if method.startswith("dp_lsw"):
        if "calibrate" not in vars(b.Lsw) or b.Lsw.calibrate is not capture:
            b.Lsw.calibrate = capture
    elif "calibrate" in vars(b.Lsw):
        del b.Lsw.calibrate
    b.first_visits = lambda pool: None
    pool = types.SimpleNamespace(domain=place, cells=cells, units=10**6)
    try:
        (b.PRIVATE | b.ON_POLICY | b.REPLACE_ONE)[method](pool, setting, 1)
    except _Captured as caught:
        return caught.args[0]
    raise AssertionError(method)


def _method(place, cells, name, setting):
    import dataclasses
    from experiments import ope_baselines as b
    from experiments import ope_methods
    if name in b.NOT_PRIVATE:
        return {"values": {"lstd": "LSTD", "zero": "zero", "best_constant": "best constant"}[name]}
    if name == "residual":
        return {"plan": ope_methods.residual(place), "records": "all"}
    plan = _plan_of(place, cells, name, setting)
    if name == "gpope_published":
        plan = dataclasses.replace(plan, noise_multiplier=round(plan.noise_multiplier, 9))
    if name.startswith("gpope"):
        return {"plan": plan, "step_factors": b.STEP_FACTORS}
    if name.startswith("dp_lstd"):
        return {"plan": plan, "clip_factors": b.CLIPS}
    if name.startswith("dp_lsw"):
        return {"plan": plan}
    return {"plan": dataclasses.replace(plan, ridge=None), "ridge_factors": b.RIDGES}
def configuration(key):
    from experiments import gpope_chain
    _, name, setting = _named(key)
    place = gpope_chain.domain()
    simulator = {"states": gpope_chain.chain.STATES, "behaviour": "uniform", "judged": "all states, exactly"}
    asked = _asked(place, simulator, setting, _method(place, None, name, setting), trials(name, setting.units))
    return {"pool": POOL, **asked}
