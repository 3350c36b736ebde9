"""The harness of removal over everything of tacit's own that runs on records, with the states that real runs give it.

The golden runs are small runs of every method. Here each contribution, work, clone, objective and mechanism that they
bring to a vault is tried at length. Nothing is listed: callbacks are found by walking `tacit.methods`.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.golden import runs
from tests.golden.test_runs import AREAS

from tacit import methods
from tacit.errors import TacitError
from tacit.privacy.vault import isolation
from tacit.privacy.vault.memory import find_foreign
from tacit.privacy.vault.removal import Harness


def classes() -> Iterator[type]:
    """All dataclasses of `tacit.methods`."""
    for found in pkgutil.walk_packages(methods.__path__, "tacit.methods."):
        for kind in vars(importlib.import_module(found.name)).values():
            if inspect.isclass(kind) and kind.__module__ == found.name and dataclasses.is_dataclass(kind):
                yield kind


def reads_rows(kind: type) -> bool:
    """Whether its instances are called with rows of units: by the names that `privacy.mechanisms.base` gives."""
    for name, first in (("__call__", ("rows", "own")), ("cells", ("rows",)), ("loss", ("model",))):
        function = vars(kind).get(name)
        if inspect.isfunction(function):
            given = list(inspect.signature(function).parameters)[1:]
            if given and given[0] in first and (name != "loss" or given[1:2] == ["rows"]):
                return True
    return False


def held(value: Any) -> Iterator[type]:
    """The classes of the dataclasses that are in a callback."""
    for one in isolation.walk_fields(value):
        if dataclasses.is_dataclass(one):
            yield type(one)


def area_of(kind: type) -> str:
    """The area of golden runs that a class of a method belongs to: its folder of `tacit.methods`."""
    folders = kind.__module__.split(".")[2:]
    return "trajectories" if folders[:2] == ["synthesis", "trajectories"] else folders[0]


def modes(callback: Any) -> tuple[object, ...]:
    """What a callback is, and which of its ways its texts and flags choose."""
    chosen = (getattr(callback, one.name, None) for one in dataclasses.fields(callback))
    return type(callback), *(value for value in chosen if isinstance(value, bool | str | None))


LONG = ("alignment", "mobility", "synthesis", "trajectories")
"""Areas whose runs take most of the time, and wait for the slow tests; `alignment` has quick tests of its own."""


@pytest.mark.parametrize(
    ("area", "crowds"),
    [
        *(pytest.param(area, (1, 5), id=area) for area in AREAS if area not in LONG),
        *(pytest.param(area, (1, 2, 5, 33), id=f"{area}, large crowds", marks=pytest.mark.slow) for area in AREAS),
    ],
)
def test_nothing_of_tacits_own_couples_units(
    area: str, crowds: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.privacy.vault.removal.CROWDS", crowds)
    met, tried, real = set[type](), set[object](), isolation.IsolationChecks._watch
    brief = Harness.try_briefly

    def watch(self: Any, callback: object, where: str, *inside: Any) -> Any:
        met.update(held(callback))
        own = type(callback).__module__.startswith("tacit.")
        assert not (own and find_foreign(callback, *inside)), f"{where} is not taken for tacit's own"
        first = modes(callback) not in tried
        tried.add(modes(callback))
        monkeypatch.setattr(Harness, "try_briefly", Harness.try_at_length if first else brief)
        return real(self, callback, where, *inside)

    monkeypatch.setattr(isolation.IsolationChecks, "_watch", watch)
    failures = []
    for name, run in importlib.import_module(f"tests.golden.test_run_{area}").RUNS.items():
        folder = tmp_path / name.replace("/", " ")
        folder.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                runs.numbers(run, folder)
            except TacitError as error:
                failures.append(f"{name}: {error}")
    assert not failures, "\n".join(failures)
    mine = [kind for kind in classes() if reads_rows(kind) and area_of(kind) == area]
    unmet = sorted(kind.__qualname__ for kind in mine if kind not in met)
    assert 4 * len(unmet) <= len(mine), unmet


def test_every_folder_of_methods_is_an_area() -> None:
    areas = {area_of(kind) for kind in classes() if reads_rows(kind)}
    assert len(areas) >= 7
    assert areas <= set(AREAS), "callbacks that no golden run brings to a vault"
