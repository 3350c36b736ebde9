import inspect as _inspect
import re as _re
from dataclasses import replace as _replace
from experiments import faults_lives as _lives
from experiments import faults_runs as _runs


def _find(thing, pattern):
    (found,) = _re.findall(pattern, _inspect.getsource(thing))
    return found


def _uncalibrated(kind, function, door):
    """The plan that a function calibrates or prices, and to what."""
    seen, real = {}, getattr(kind, door)

    def caught(self, **terms):
        seen.update(terms)
        return self

    setattr(kind, door, caught)
    try:
        return function.__wrapped__(), seen
    finally:
        setattr(kind, door, real)


def _settings(life):
    L = _lives
    if life == "ledger":
        budget, plan = _re.findall(r"epsilon=([\d.]+), delta=([\d.e-]+)", _inspect.getsource(L._ledger))
        terms = [{"epsilon": float(a), "delta": float(b)} for a, b in (budget, plan)]
        return {"parts": L.PARTS, "claimed": int(_find(L._ledger, r"claim\(plan, part, (\d+)\)")), "budget": terms[0], "plan": terms[1], "unit": L.UNIT}
    if life == "register":
        among, count = _find(L._register, r"range\(number, number \+ (\d+)\), (\d+)\)")
        return {"visits": int(_find(L._register, r"for number in range\((\d+)\)")), "visitors": (int(count), int(among))}
    if life in ("training", "sampling"):
        plan, terms = _uncalibrated(L.synthesis.Plan, L.synthesis_plan, "calibrate")
        people = _inspect.signature(L.records).parameters["people"].default
        made = {"plan": plan, "people": people, **terms}
        if life == "training":
            return made
        return {**made, "plan": _replace(plan, steps=L.MODEL_STEPS), "files": L.FILES, "rows": L.DRAWN}
    if life == "people":
        plan, terms = _uncalibrated(L.policy_gradient.Plan, L._policy_plan, "price")
        horizon = int(_find(L._people, r"horizon=(\d+)"))
        assert horizon == plan.horizon
        return {"plan": plan, **terms, "returning": int(_find(L._Returning, r"sample\(range\((\d+)\)"))}
    if life == "devices":
        return {"plan": L.SumPlan(), "parts": L.SumPlan().parts(), "unit": L.UNIT, "delta": L.DELTA}
    plan, terms = _uncalibrated(L.pategail.Plan, L._pategail_plan, "calibrate")
    return {"plan": plan, **terms, "grid": L.GRID}


def configuration(key):
    name, _, life = key.partition("/")
    kept = {name: getattr(LIVES[life], name) for name in ("ledgers", "most", "checkpoint", "register", "claimed")}
    shared = {"trial": name, "life": describe({**kept, "settings": _settings(life)}), "patience": _runs.PATIENCE, "longest": _runs.LONGEST}
    if key == COURSE:
        return shared
    trial = TRIALS[name]
    options = getattr(trial.run, "keywords", {})
    return {**shared, "faults": trial.lives[life], "options": describe(options), "sector": layer.SECTOR}
