"""What a fingerprint sees change and what it does not, and the structures that two states share."""

from __future__ import annotations

import functools
import itertools
import threading
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import vault_cases
from torch import nn

from tacit.privacy.vault.memory import find_foreign, fingerprint, outline

LISTED: list[int] = []
QUEUE: deque[int] = deque()
COUNTER = itertools.count()
PLACE = threading.local()
LOCK = threading.Lock()
FIXED = np.zeros(3)
FIXED.flags.writeable = False
UNNAMED: list[int] = []


@functools.lru_cache(maxsize=4)
def cached(key: int) -> list[int]:
    return [key]


def helper(kept: list[int] = []) -> object:  # noqa: B006
    return Callback, kept, QUEUE


@dataclass(frozen=True, eq=False)
class Callback:
    """Names all that is above but one list."""

    inner: Any = None
    shared: ClassVar[dict[str, int]] = {}

    def __call__(self) -> object:
        def within() -> object:
            return LISTED, COUNTER, PLACE, LOCK, FIXED, nn.Module.never_set  # type: ignore[attr-defined]

        return within, cached, helper, vault_cases.SPEC

    @staticmethod
    def stationary(kept: list[int] = []) -> list[int]:  # noqa: B006
        return kept

    @property
    def shown(self) -> list[int]:
        return cached(0)

    @functools.cached_property
    def computed(self) -> list[int]:
        return [1]


def set_spec(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(vault_cases, "SPEC", None)


CHANGES: dict[str, Callable[[Callback, pytest.MonkeyPatch], object]] = {
    "a global list": lambda callback, patch: LISTED.append(1),
    "a queue that a helper names": lambda callback, patch: QUEUE.append(1),
    "a counter": lambda callback, patch: next(COUNTER),
    "a place of the thread": lambda callback, patch: setattr(PLACE, "kept", object),
    "a default": lambda callback, patch: helper.__defaults__[0].append(1),  # type: ignore[index]
    "a static method's default": lambda callback, patch: callback.stationary().append(1),
    "a function's attribute": lambda callback, patch: patch.setattr(helper, "kept", 1, raising=False),
    "a new entry of a cache": lambda callback, patch: cached(len(LISTED) + 100),
    "what a cache returned": lambda callback, patch: cached(0).append(1),
    "a class's attribute": lambda callback, patch: patch.setattr(Callback, "kept", 1, raising=False),
    "a class's dictionary": lambda callback, patch: callback.shared.update(kept=1),
    "a library's class": lambda callback, patch: patch.setattr(nn.Module, "never_set", 1, raising=False),
    "a module": lambda callback, patch: set_spec(patch),
    "a hidden attribute": lambda callback, patch: object.__setattr__(callback, "kept", 1),
    "an array": lambda callback, patch: callback.inner[0].fill(1),
    "a weight of a network at rest": lambda callback, patch: callback.inner[1].weight.data.fill_(1),
    "a property that was computed": lambda callback, patch: callback.computed.append(1),
}
NO_CHANGES: dict[str, Callable[[Callback, pytest.MonkeyPatch], object]] = {
    "nothing": lambda callback, patch: None,
    "a hit of a cache": lambda callback, patch: cached(0),
    "the first use of a property": lambda callback, patch: callback.computed,
    "a lock": lambda callback, patch: LOCK.locked(),
    "what the code does not name": lambda callback, patch: UNNAMED.append(1),
}


@pytest.mark.parametrize("name", [*CHANGES, *NO_CHANGES])
def test_a_fingerprint_changes_with_what_the_callback_could_write(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cached(0)
    cached(1)
    PLACE.kept = None
    callback = Callback((np.zeros(2), nn.Linear(1, 1)))
    before = fingerprint(callback)
    (CHANGES | NO_CHANGES)[name](callback, monkeypatch)
    assert (fingerprint(callback) != before) == (name in CHANGES)
    assert len(before) == 32


class Layer(nn.Module):
    """A layer of the user's."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.number = nn.Linear(1, 1), 1.0
        self.register_buffer("seen", torch.zeros(1))


def test_a_model_may_change_in_its_parameters_and_flags_alone() -> None:
    model = nn.Sequential(Layer(), nn.LayerNorm(1))
    before = fingerprint(model)
    with torch.no_grad():
        model[0].linear.weight += 1
    assert fingerprint(model.eval()) == before
    model[0].seen += 1
    after_the_buffer = fingerprint(model)
    model[0].number = 2.0
    assert len({before, after_the_buffer, fingerprint(model)}) == 3


@dataclass(frozen=True)
class State:
    """A state with a name."""

    numbers: Any
    name: str = "a"


def test_an_outline_is_structure_and_not_numbers() -> None:
    one = {"x": np.zeros(3), "y": (torch.zeros(2), 1, True), "z": State(np.zeros(1))}
    assert outline(one) == outline({"x": np.ones(3), "y": (torch.ones(2), 5, True), "z": State(np.ones(1))})
    others = (
        {**one, "x": np.zeros(4)},
        {**one, "x": np.zeros(3, np.float32)},
        {**one, "y": (torch.zeros(2), 1, False)},
        {**one, "y": (torch.zeros(2), 1.0, True)},
        {**one, "z": State(np.zeros(1), "b")},
        {"x": np.zeros(3)},
    )
    assert len({outline(one), *map(outline, others)}) == 7
    hash(outline(nn.Linear(1, 1)))
    assert outline(nn.Linear(2, 1)) != outline(nn.Linear(1, 1))
    assert outline(nn.Linear(1, 1).eval()) != outline(nn.Linear(1, 1))
    assert outline(nn.Linear(1, 1).requires_grad_(False)) != outline(nn.Linear(1, 1))


def test_what_a_library_made_of_the_users_code_is_the_users() -> None:
    own = np.frompyfunc(lambda x: x, 1, 1)
    assert find_foreign(own) == [np.ufunc]
    assert find_foreign(functools.partial(np.add, own)) == [np.ufunc]
    assert find_foreign(np.add) == find_foreign(functools.partial(np.add, 1)) == []


class Deprecated:
    """Warns of whoever looks at it."""

    def __getattr__(self, name: str) -> object:
        warnings.warn(f"{name} will go", FutureWarning, stacklevel=2)
        raise AttributeError(name)

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        warnings.warn("copies will go", FutureWarning, stacklevel=2)
        return (Deprecated, ())


def test_to_look_warns_of_nothing() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fingerprint(Callback(Deprecated()))
        find_foreign(Callback(Deprecated()))
        outline((1, Deprecated()))
    assert said == []
