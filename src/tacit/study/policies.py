"""Policies that a study is asked about: files, folders of releases, functions of the user's, or policies themselves."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tacit import plain_files
from tacit.agents.policy_files import Activation
from tacit.data.columns import BadCell, Column, encode_cells
from tacit.data.memory import Memory
from tacit.data.sources.tables import csv_chunks, csv_header, to_numbers, unreadable_error
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import DataError, PlanError
from tacit.methods.improvement import Improvement
from tacit.methods.off_policy_evaluation import CustomFeatures, Features, Fourier, OneHot
from tacit.methods.off_policy_evaluation.decision_lists import DecisionList
from tacit.methods.off_policy_evaluation.features import try_features
from tacit.methods.off_policy_evaluation.policies import (
    Callable,
    DiscretePolicy,
    Network,
    Tabular,
    Uniform,
    import_function,
    try_function,
    try_policy,
    unfit_error,
)
from tacit.methods.off_policy_evaluation.targets import evaluated_policy
from tacit.privacy.certificate.certificate import Release
from tacit.study.folder import load_release
from tacit.study.words import option_error

MOST_STATES = 10_000
"""Of a policy that is a table."""


def memory_of(value: Any) -> Memory | None:
    """What a released policy acts on in place of observations, if that is a memory."""
    return value.memory if isinstance(value, Improvement) else None


def resolve_release(words: str | Any) -> Release[Any] | None:
    """The release that these words name, by its folder or as itself; None where they name something else.

    Raises:
        FileError, CertificateError: the folder holds no policy.
    """
    if isinstance(words, Release):
        return words
    return load_release(Path(words), "policy")[1] if isinstance(words, str | Path) and Path(words).is_dir() else None


def shared_memory(*words: str | Any) -> Memory | None:
    """The memory that the policies of these words act on, where one is a release that has one.

    Raises:
        PlanError: they act on different ones, and there is one set of records.
        FileError, CertificateError: a folder holds no policy.
    """
    releases = [release for each in words if (release := resolve_release(each)) is not None]
    memories = [memory_of(release.value) for release in releases]
    if len(set(memories)) > 1:
        what, expected = "one acts on another memory", "policies of one memory"
        raise option_error("--policy, --behaviour", what, expected, "name another")
    return memories[0] if memories else None


def resolve_policy(words: str | Any, spec: PublicSpec, option: str, activation: Activation | None) -> DiscretePolicy:
    """The policy of these words, tried on invented observations.

    Args:
        words: "uniform", a file of a network or of a table of probabilities, a folder or a release of a policy,
            "package.module:function", a rule (`DecisionList.parse`), or a policy of `tacit.off_policy_evaluation`.
        spec: the public bounds.
        option: that names it, for errors.
        activation: between the layers of a file that does not say it.

    Raises:
        PlanError: its words are of no known form, or it does not fit the observations or the actions.
        FileError, CertificateError: there is no such file or folder, or it holds no policy.
    """
    space, network = spec.action, _find_policy(words, spec, option, activation)
    if not isinstance(space, Discrete):
        what, expected = "the actions are continuous", "records of discrete actions, or --policy behaviour"
        remedy = "cut the actions into public bins before importing the records"
        raise PlanError(what, where=option, expected=expected, remedy=remedy)
    if isinstance(words, str | Path):
        policy: DiscretePolicy = network or (Uniform(space.n) if words == "uniform" else Callable(str(words), space.n))
    else:
        policy = network or words
    actions = getattr(policy, "actions", None)
    if not isinstance(actions, int) or not hasattr(policy, "probabilities"):
        expected = "words, a release, or a policy with actions and probabilities (tacit.off_policy_evaluation)"
        raise unknown_form_error(option, type(policy).__name__, expected)
    if actions != space.n:
        what, expected = f"the policy has {actions} actions", f"{space.n}, as the records have"
        raise PlanError(what, where=option, expected=expected, remedy="choose a policy for these actions")
    try_policy(policy, spec, option)
    return policy


def _find_policy(words: str | Any, spec: PublicSpec, option: str, activation: Activation | None) -> Any:
    """The policy of a release or of a file that these words name; None where they name none."""
    release = resolve_release(words)
    if release is not None:
        return evaluated_policy(release)
    if not isinstance(words, str | Path):
        return None
    text, path = str(words), Path(words)
    if "->" in text:
        return DecisionList.parse(text, spec, option) if isinstance(spec.action, Discrete) else None
    if ":" in text:
        import_user_function(text)
    elif path.suffix.lower() in (".csv", ".json"):
        return read_table(path, spec) if isinstance(spec.action, Discrete) else None
    elif path.suffix or os.sep in text:
        return Network.load(path, activation=activation or "relu")
    elif text not in ("behaviour", "uniform"):
        expected = (
            "behaviour, uniform, a rule (CONDITION -> ACTION; else ACTION), a .safetensors, .onnx, .csv or .json "
        )
        expected += "file, the folder of a policy or package.module:function"
        raise unknown_form_error(option, text, expected)
    return None


def read_table(path: Path, spec: PublicSpec) -> Tabular:
    """A policy as a table of probabilities: a row for each state, a column for each action.

    Args:
        path: a CSV file, or JSON with a list of rows, each an object. The columns of the state are called and written
            as in tables of records, those of the actions as their labels, or 0, 1, ...
        spec: the public bounds, of discrete actions.

    Raises:
        FileError: there is no such file, or it is damaged.
        DataError: a state is missing, unknown or there twice, or its probabilities are none.
        PlanError: the observations are not discrete, or have too many states.
    """
    space, action = spec.observation, spec.action
    assert isinstance(action, Discrete)
    declared = space.columns or ()
    sizes = [len(column.labels) for column in declared] or [0 if isinstance(space, Box) else space.n]
    if 0 in sizes or any(column.flag for column in declared):
        what = "a table has no rows for observations that are numbers, or that may miss"
        expected = "discrete observations, or declared categories that never miss"
        raise PlanError(what, where=path.name, expected=expected, remedy="write the policy as package.module:function")
    if math.prod(sizes) > MOST_STATES:
        what, expected = f"there are {math.prod(sizes):,} states", f"at most {MOST_STATES:,}, a row of the table each"
        raise PlanError(what, where=path.name, expected=expected, remedy="write the policy as package.module:function")
    states = declared or (Column("observation", "integer", 0, space.size - 1),)
    first = action.start or 0
    actions = action.columns[0].labels if action.columns else tuple(map(str, range(first, first + action.n)))
    names = [column.name for column in states]
    cells = _table_cells(path, names, actions)
    wrong = partial(DataError, expected=f"a row for each state ({', '.join(names)}), probabilities that add up to 1")
    try:
        codes = encode_cells(states, cells).astype(np.int64)
    except BadCell as bad:
        where, remedy = f"{path.name}, row {bad.row + 1}", "write states as the spec has them"
        raise DataError(bad.what, where=where, expected=bad.expected, remedy=remedy) from None
    table = np.stack([to_numbers(cells[name]) for name in actions], axis=1)
    codes -= getattr(space, "start", None) or 0
    known = ((codes >= 0) & (codes < sizes)).all(axis=1)
    rows = np.ravel_multi_index(tuple(codes.T), tuple(sizes), mode="clip")
    again = ~np.isin(np.arange(len(rows)), np.unique(rows, return_index=True)[1])
    for mistake, what, remedy in (
        (~known, "the state is unknown", "count states from 0, or write their labels"),
        (again, "the state stands in an earlier row, too", "leave one of them out"),
        (~(np.isfinite(table) & (table >= 0)).all(axis=1), "a probability is negative or no number", "correct it"),
        (np.abs(table.sum(axis=1) - 1) > 1e-4, "the probabilities do not add up to 1", "divide them by their sum"),
    ):
        if mistake.any():
            raise wrong(what, where=f"{path.name}, row {int(np.argmax(mistake)) + 1}", remedy=remedy)
    absent = math.prod(sizes) - len(rows)
    if absent:
        place = np.unravel_index(int(np.argmin(np.isin(np.arange(math.prod(sizes)), rows))), sizes)
        begin = getattr(space, "start", None) or 0
        said = [f"{c.name}={c.labels[i] if c.labels else i + begin}" for c, i in zip(states, place, strict=True)]
        what = f"{absent:,} of {math.prod(sizes):,} states have no row, the first of them {', '.join(said)}"
        raise wrong(what, where=path.name, remedy="write a row for every state")
    table = table[np.argsort(rows)]
    return Tabular((table / table.sum(axis=1, keepdims=True)).reshape(*sizes, len(actions)))


def _table_cells(path: Path, names: Sequence[str], actions: Sequence[str]) -> Mapping[str, Any]:
    rows: Any = None
    if path.suffix.lower() == ".csv":
        header = csv_header(path)
    else:
        with contextlib.suppress(OSError, ValueError, RecursionError):
            rows = json.loads(plain_files.read_text(path))
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise unreadable_error(path, "JSON with a list of rows, each an object of cells by column")
        header = [*rows[0]]
        odd = next((number for number, row in enumerate(rows, 1) if set(row) != set(header)), None)
        if odd is not None:
            what, expected = "the row has other cells than the first", "the same columns in every row"
            raise DataError(what, where=f"{path.name}, row {odd}", expected=expected, remedy="write all of them")
    wanted = [*names, *actions]
    strange = next((name for name in [*wanted, *header] if name not in header or name not in wanted), None)
    if strange is not None or len(set(wanted)) < len(wanted):
        what = f"the column {strange!r} is {'missing' if strange in wanted else 'none of a state or an action'}"
        what = what if strange is not None else "a column of the state is called as an action"
        expected = f"the columns {', '.join(wanted[:12])}{', ...' if len(wanted) > 12 else ''} and no others"
        raise DataError(what, where=path.name, expected=expected, remedy="rename or add the columns")
    if rows is None:
        chunks = list(csv_chunks(path, actions, names))
        return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in wanted} if chunks else {}
    return {name: [row[name] for row in rows] for name in wanted}


_MOST = 300  # waves of the default features: of more, each unit's Gram matrix takes much memory


def resolve_features(named: str | None, spec: PublicSpec, option: str) -> Features:
    """The feature map of these words, or the default one: one-hot, or Fourier of order 3, 2 or 1 (`_MOST`).

    Args:
        named: "one-hot", "one-hot:STATES", "fourier:ORDER", "package.module:function" or None.
        spec: the public bounds.
        option: that names it, for errors.

    Raises:
        PlanError: the words are of no known form, or the features do not fit the observation.
    """
    space = spec.observation
    numbers = 0 if isinstance(space, Discrete) else sum(1 for labels in space.categories if not labels)
    order = next((order for order in (3, 2) if (order + 1) ** numbers <= _MOST), 1)
    default = "one-hot" if isinstance(space, Discrete) else f"fourier:{order}"
    kind, _, rest = (default if named is None else named).partition(":")

    def parse_number(text: str) -> int:
        if not text.isdecimal():
            raise unknown_form_error(option, text, "a whole number after the colon, such as fourier:3 or one-hot:40")
        return int(text)

    phi: Features
    if kind == "one-hot":
        if not isinstance(space, Discrete):
            what, expected = "one-hot features need a discrete observation", "fourier:ORDER or package.module:function"
            raise option_error(option, what, expected, "choose one of these for numbers")
        phi = OneHot(parse_number(rest) if rest else space.n)
    elif kind == "fourier":
        box = Box((0.0,), (space.n - 1.0,)) if isinstance(space, Discrete) else space
        labels = box.categories if any(box.categories) else None
        phi = Fourier(parse_number(rest), box.low, box.high, labels=labels)
    elif rest:
        values = np.asarray(try_function(import_user_function(str(named)), str(named), spec, option)[0])
        if values.ndim != 2:
            raise unfit_error(str(named), option, "numbers [N, n] for N observations")
        phi = CustomFeatures(str(named), values.shape[1])
    else:
        raise unknown_form_error(option, kind, "one-hot, one-hot:STATES, fourier:ORDER or package.module:function")
    try_features(phi, spec, option)
    return phi


def import_user_function(words: str) -> Any:
    """The user's function of this name, whose module may lie in the working folder, after everything installed.

    Raises:
        PlanError: there is none.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return import_function(words)


def unknown_form_error(option: str, text: str, expected: str) -> PlanError:
    """Words that say nothing."""
    return PlanError(f"{text!r} is of no known form", where=option, expected=expected, remedy="choose one of these")
