import inspect as _inspect
import re as _re
import types as _types
from dataclasses import replace as _replace
from experiments import mobility_runs as _runs
from tacit.envs.city import city as _then_city
from tacit.units import Unit as _Unit
from tacit.privacy.device_parts import LaplaceSum as _LaplaceSum


def _then_number(thing, pattern):
    (found,) = _re.findall(pattern, _inspect.getsource(thing))
    return int(found)


def _then_described(people):
    if people == _runs.GEOLIFE:
        (file,) = _re.findall(r'"([a-z_]*\.npz)"', _inspect.getsource(_runs._geolife))
        data = {"file": file, "grid": describe(_runs.GRID), "judged": "all days"}
    else:
        defaults = {name: one.default for name, one in _inspect.signature(_then_city).parameters.items()}
        days = _then_number(_runs._city, r"city\(people, days=(\d+), seed=CITY_SEED\)")
        data = {"city": describe({**defaults, "days": days, "seed": _runs.CITY_SEED, "people": people}), "judged": _runs.JUDGED}
    return {**data, "people": people, "measures": list(_runs.SETS)}


def _then_unit(people, relation=None):
    unit = _runs.World(people, None, None, None, "").unit
    return unit if relation is None else _replace(unit, relation=relation)


def _then_here(people):
    return _types.SimpleNamespace(people=people)


def _then_guaranteed(plan, unit, epsilon):
    sums = {
        part.name: {
            "steps": part.steps,
            "clip": part.bound if isinstance(part, _LaplaceSum) else part.clip,
            "relative_noise": round(part.noise_multiplier, 9),
        }
        for part in _replace(plan, noise_multiplier=1.0).parts()
    }
    return {
        "plan": describe(plan),
        "sums": describe(sums),
        "guarantee": {"epsilon": describe(epsilon), "delta": _runs.DELTA, "unit": describe(unit)},
    }


def configuration(key):
    people, row, *rest = key.split("/")
    people = int(people)
    data = {"data": _then_described(people)}
    if row == "floor":
        return {**data, "floors": _then_number(_runs.World.floor, r"floors=(\d+)")}
    epsilon = float(rest[0])
    plan = WAYS[row].plan(_then_here(people), epsilon)
    return {**data, **_then_guaranteed(plan, _then_unit(people), epsilon)}
