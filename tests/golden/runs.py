"""Golden runs: small seeded runs of every method, whose numbers and default parameters are stored in `numbers/*.json`.

To store the numbers of an area again, which is a deliberate change with a line in the change log:

    python -m tests.golden.test_run_synthesis              # all runs of the area
    python -m tests.golden.test_run_synthesis mst privsyn  # these alone, such as a new one

A run's numbers are compared at a relative and absolute tolerance of `EXACT`. Runs that train networks in float32 get
`TRAINED`: sums of float32 products are taken in another order with AVX2 than with AVX-512, and training spreads the
difference. With AVX2 instead of AVX-512 (PyTorch, MKL, OpenBLAS and NumPy) no number of these runs moved by more than
3e-7; the wider tolerance leaves room for other processors. Default parameters are compared exactly.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import itertools
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np

from tacit import Ledger, Trajectories, Unit, Vault
from tacit.privacy.ledger.ledger import SUM
from tacit.privacy.noise.secret import SecretNoise
from tacit.serialization import OPTIONAL

EXACT: Final = 1e-6
TRAINED: Final = 1e-5

STORED: Final = Path(__file__).parent / "numbers"
LONGEST: Final = 16
"""Longer sequences of numbers among default parameters are stored as their length, ends and sum."""

Numbers = Mapping[str, Any]
"""By name: a number, or a list of numbers as `summary` makes it."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One golden run.

    Args:
        make: from an empty folder to the numbers.
        defaults: the objects whose parameters are stored: a plan or configuration with its defaults, or a function.
        tolerance: relative and absolute, of every number.
    """

    make: Callable[[Path], Numbers]
    defaults: Callable[[], tuple[Any, ...]]
    tolerance: float = EXACT


def variant(run: Run) -> Run:
    """The run, without parameters: those of its plan are stored with another run."""
    return dataclasses.replace(run, defaults=lambda: ())


def vault(data: Trajectories, folder: Path, unit: Unit, *, seed: int = 1, name: str = "run", **others: Any) -> Vault:
    """A vault with a large budget whose noise is drawn from the seed."""
    ledger = Ledger(folder / f"{name}.ledger", unit, epsilon=1e3, delta=0.5 / unit.size, composition=SUM)
    return Vault(data, ledger, noise=SecretNoise.for_tests(seed), **others)


def summary(values: Any) -> list[float]:
    """Length, mean, root mean square, a weighted mean that notices an exchange, first and last of some numbers."""
    arrays = values if isinstance(values, list) else [values]
    flat = np.concatenate([np.zeros(0), *(np.asarray(one, np.float64).ravel() for one in arrays)])
    if not flat.size:
        return [0.0]
    weights = np.cos(np.arange(flat.size))
    found = [flat.size, flat.mean(), np.sqrt(np.square(flat).mean()), (weights * flat).mean(), flat[0], flat[-1]]
    return [float(value) for value in found]


def columns(rows: Mapping[str, Any]) -> dict[str, list[float]]:
    """The summary of every column."""
    return {name: summary(column) for name, column in rows.items()}


def weights(parameters: Mapping[str, Any]) -> list[float]:
    """The summary of all parameters of a network, in their own order."""
    return summary([np.asarray(value) for value in parameters.values()])


@contextlib.contextmanager
def named() -> Iterator[None]:
    """Random names of data sets count up: they decide which units are held out."""
    count = itertools.count(1)
    with mock.patch("secrets.token_hex", lambda size=32: f"{next(count):0{2 * size}x}"):
        yield


def numbers(run: Run, folder: Path) -> dict[str, Any]:
    """The numbers of one run, as JSON has them."""
    with named():
        found = run.make(folder)
    result: dict[str, Any] = json.loads(json.dumps(dict(found)))
    return result


def parameters(run: Run) -> dict[str, Any]:
    """The default parameters of one run by dotted name, as JSON has them."""
    found: dict[str, Any] = {}
    for thing in run.defaults():
        found |= _of_function(thing) if inspect.isroutine(thing) else dict(_fields(thing, ""))
    result: dict[str, Any] = json.loads(json.dumps(found))
    return result


def _of_function(function: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of a function's parameters."""
    found = inspect.signature(function).parameters.values()
    given = [one for one in found if one.default is not inspect.Parameter.empty]
    return dict(pair for one in given for pair in _pairs(f"{function.__name__}.{one.name}", one.default))


def _fields(thing: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        if not field.name.startswith("_") and not (field.metadata == OPTIONAL and value is None):  # as in plans' JSON
            yield from _pairs(prefix + field.name, value)


def _pairs(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """One parameter, or those of the dataclass that it is."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield name, type(value).__name__
        yield from _fields(value, f"{name}.")
    elif isinstance(value, tuple) and any(dataclasses.is_dataclass(one) for one in value):
        for place, one in enumerate(value):
            yield from _pairs(f"{name}.{place}", one)
    else:
        yield name, _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | tuple | list):
        flat = [_plain(one) for one in (value.tolist() if isinstance(value, np.ndarray) else value)]
        if len(flat) > LONGEST and all(isinstance(one, int | float) for one in flat):
            return [len(flat), flat[0], flat[-1], math.fsum(flat)]
        return flat
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return getattr(value, "__name__", type(value).__name__)


def stored(area: str) -> dict[str, Any]:
    """What is stored of an area, by name of the run."""
    found: dict[str, Any] = json.loads((STORED / f"{area}.json").read_text())
    return found


def differences(wanted: Mapping[str, Any], found: Mapping[str, Any], tolerance: float) -> list[str]:
    """One line for every name that is missing, new, or has another value; a tolerance of 0 compares exactly."""
    lines = [f"{name} is not stored" for name in found if name not in wanted]
    for name, value in wanted.items():
        if name not in found:
            lines.append(f"{name} is missing")
        elif not _alike(value, found[name], tolerance):
            lines.append(f"{name} is {found[name]}, stored {value}")
    return lines


def _alike(wanted: Any, found: Any, tolerance: float) -> bool:
    if isinstance(wanted, list):
        same = isinstance(found, list) and len(wanted) == len(found)
        return same and all(_alike(one, other, tolerance) for one, other in zip(wanted, found, strict=True))
    kinds = {type(wanted), type(found)}
    if kinds <= {int, float} and tolerance:
        return bool(np.isclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True))
    return len(kinds) == 1 and bool(wanted == found)


def check_numbers(area: str, name: str, run: Run, folder: Path) -> None:
    """Fail with one line a difference unless the run gives the stored numbers."""
    lines = differences(stored(area)[name]["numbers"], numbers(run, folder), run.tolerance)
    assert not lines, "\n".join(lines)


def check_parameters(area: str, name: str, run: Run) -> None:
    """Fail with one line a difference unless the default parameters are the stored ones."""
    lines = differences(stored(area)[name]["parameters"], parameters(run), 0.0)
    assert not lines, "\n".join(lines)


def write(area: str, runs: Mapping[str, Run], names: Sequence[str] = ()) -> None:
    """Store the numbers and parameters of the named runs, or of all, and say what changed."""
    path, found = STORED / f"{area}.json", {}
    before = stored(area) if path.exists() else {}
    if unknown := set(names) - set(runs):
        raise SystemExit(f"no run of {area} is called {', '.join(sorted(unknown))}; there are {', '.join(runs)}")
    for name, run in runs.items():
        if names and name not in names:
            found |= {name: before[name]} if name in before else {}
            continue
        with tempfile.TemporaryDirectory() as folder:
            found[name] = {"parameters": parameters(run), "numbers": numbers(run, Path(folder))}
        earlier = before.get(name, {"parameters": {}, "numbers": {}})
        for kind, tolerance in (("parameters", 0.0), ("numbers", run.tolerance)):
            for line in differences(earlier[kind], found[name][kind], tolerance):
                print(f"{name}: {line}")
    STORED.mkdir(exist_ok=True)
    path.write_text(_text(found))


def _text(found: Mapping[str, Any]) -> str:
    """JSON with one line a name."""
    runs = []
    for name, kinds in found.items():
        groups = []
        for kind, values in kinds.items():
            lines = [f"      {json.dumps(key)}: {json.dumps(value)}" for key, value in values.items()]
            groups.append(f"    {json.dumps(kind)}: {{\n" + ",\n".join(lines) + "\n    }")
        runs.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(groups) + "\n  }")
    return "{\n" + ",\n".join(runs) + "\n}\n"
