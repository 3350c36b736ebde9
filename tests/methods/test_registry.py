"""`tacit.methods.METHODS`: every entry names what is there, and reading the registry loads nothing."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from typing import Any, get_args

import pytest

from tacit import methods
from tacit.methods import METHODS, Method


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.task} {method.name}")
def test_every_entry_names_what_is_there(method: Method) -> None:
    plan: Any = methods.load(method.plan)
    assert plan.method == method.certified
    assert dataclasses.is_dataclass(plan)
    assert method.task in get_args(methods.Task)
    assert next(iter(inspect.signature(methods.load(method.fit)).parameters)) == "plan"
    assert (method.value is None) == (method.kind is None)
    if method.value is not None:
        assert dataclasses.is_dataclass(methods.load(method.value))
    for place in method.audits.values():
        assert callable(methods.load(place))


def test_every_certified_name_is_that_of_one_plan() -> None:
    places: dict[str, set[str]] = {}
    for method in METHODS:
        places.setdefault(method.certified, set()).add(method.plan)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_two_methods_of_a_command_share_a_name_and_no_two_audits() -> None:
    names = [(method.task, method.name) for method in METHODS]
    audits = [name for method in METHODS for name in method.audits]
    assert len(set(names)) == len(names)
    assert len(set(audits)) == len(audits)


def test_reading_the_registry_loads_nothing() -> None:
    code = "import sys, tacit.methods\n"
    code += "print([name for name in sys.modules if name.partition('.')[0] in ('torch', 'numpy', 'scipy')])\n"
    code += "print([name for name in sys.modules if name.startswith('tacit.') and name != 'tacit.methods'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n[]\n"
