import inspect as _inspect
import dataclasses
CANARIES = ("POPULATION", "ROOM", "DRAWS", "HISTORY", "STATES", "DECISIONS", "LOUD", "PLACES")
CANARIES += ("SIGNS", "LOGGED", "SEEN", "DEVICES", "GRID", "DAYS")
def configuration(key):
    method, epsilon = key.split("/")
    case = library.METHODS[method]()
    assert "audit(cell.method, epsilon=cell.epsilon, effort=QUICK, jobs=jobs)" in _inspect.getsource(run)
    asked = {name: one.default for name, one in _inspect.signature(audit).parameters.items()}
    plan = case.plan(float(epsilon), asked["delta"], 1)
    return {
        "plan": describe(dataclasses.replace(plan, noise_multiplier=None, unit=None, epsilon=None, delta=None)),
        "guarantee": {"epsilon": float(epsilon), "delta": asked["delta"], "unit": describe(case.unit)},
        "case": {name: getattr(case, name) for name in ("together", "crowd", "more", "published")},
        "canaries": {name: describe(getattr(library, name)) for name in CANARIES},
        "effort": describe(QUICK),
        "confidence": asked["confidence"],
    }
