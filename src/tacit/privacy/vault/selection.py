"""Private selection: the best of a random number of runs, each a whole plan of its own (arXiv 2110.03620).

A candidate is drawn, run and judged, again and again; how often is drawn from a law that depends on nothing, and stays
secret. Only the best run leaves, so the price is that of less than two runs (`accounting/selection.py`).

Proof page: `proofs/selection.md`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tacit.errors import MechanismError
from tacit.privacy.accounting.events import Law
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.base import Plan
from tacit.privacy.mechanisms.kinds import PrivateSelection
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.isolation import require_pure_form

_KEYWORDS = frozenset({"pretrained", "device"})
"""What may be fixed of a function of tacit's that makes a run: nothing that could see a run that is not released."""


class Attempt(Protocol):
    """How a candidate is run: a method's `fit`, that with some arguments fixed, or a frozen dataclass of the user's."""

    def __call__(self, plan: Any, vault: Any) -> Any:
        """The value that the run would release, or its `Release`."""


class Judge(Protocol):
    """How good a run is: a frozen dataclass whose fields are public."""

    def __call__(self, value: Any, plan: Any, vault: Any) -> float:
        """A score, larger for better; what it reads of the records, it reads under `plan` (None: nothing, no vault)."""


@dataclass(frozen=True)
class BestRun:
    """The best run.

    Args:
        value: what it released.
        candidate: the place of its plan in the part's candidates.
        score: the judge's score of it.
        callbacks: names of the user's own callbacks in this run and its judgement; those of other runs stay inside.
    """

    value: Any
    candidate: int
    score: float
    callbacks: frozenset[str] = frozenset()


def draw_run_count(stop: int, law: Law, noise: SecretNoise) -> int:
    """A secret number of runs, exactly of its law."""
    # Tosses of a coin that stops with probability 1 / stop make the geometric law; the logarithmic one keeps such a k
    # with probability 1 / k and else draws again.
    while True:
        runs = _draw_geometric(stop, noise)
        if law == "geometric" or _draw_below(runs, noise) == 0:
            return runs


def select_best(
    spec: PrivateSelection,
    attempt: Attempt,
    judge: Judge,
    open_vault: Callable[[Plan], AbstractContextManager[Any]],
    noise: SecretNoise,
) -> BestRun:
    """Run candidates a secret number of times and keep the best; of equals, the first."""
    # A run that fails, or that is judged to be no number, is the worst there is: where a failure ended the selection,
    # it would say that there was one among all runs.
    winner: BestRun | None = None
    for _ in range(draw_run_count(spec.stop, spec.law, noise)):
        candidate = _draw_below(len(spec.candidates), noise)
        plan = spec.candidates[candidate]
        try:
            with open_vault(plan) as vault:
                outcome, callbacks = attempt(plan, vault), vault.callbacks
            value = outcome.value if isinstance(outcome, Release) else outcome
            score, judge_callbacks = _score(judge, value, spec.judge, open_vault)
        except Exception:
            continue
        if not math.isnan(score) and (winner is None or score > winner.score):
            winner = BestRun(value, candidate, score, callbacks | judge_callbacks)
    if winner is None:
        what = "no run of the selection came to an end"
        expected = "candidates and a judge that run on any records within the public bounds"
        remedy = "try each on invented records of your own, where its whole message can be seen"
        raise MechanismError(what, where=spec.name, expected=expected, remedy=remedy)
    return winner


def require_closed(callback: object, where: str) -> None:
    """Refuse what could tell of runs that are not released: the price covers the best one alone."""
    # Accepted: a function of tacit's methods, with nothing but `pretrained` and `device` fixed by `functools.partial`;
    # or an instance of a frozen dataclass at module level that holds no list, dict or set.
    fixed: frozenset[str] = frozenset()
    function = callback
    if type(callback) is functools.partial:
        function, fixed = callback.func, frozenset(callback.keywords)
        if callback.args or not fixed <= _KEYWORDS:
            what = "arguments are fixed that may see every run"
            expected = "functools.partial(fit, " + ", ".join(f"{name}=" for name in sorted(_KEYWORDS)) + ")"
            remedy = "leave out folders, progress bars and observers"
            raise MechanismError(what, where=where, expected=expected, remedy=remedy)
    module = getattr(function, "__module__", None) or ""
    if not (type(function) is type(require_closed) and module.startswith("tacit.methods.")):
        require_pure_form(callback, where)


def _score(
    judge: Judge, value: Any, plan: Plan | None, open_vault: Callable[[Plan], AbstractContextManager[Any]]
) -> tuple[float, frozenset[str]]:
    """The score, and names of the user's own callbacks that the judge used."""
    if plan is None:
        return float(judge(value, None, None)), frozenset()
    with open_vault(plan) as vault:
        return float(judge(value, plan, vault)), vault.callbacks


def _draw_geometric(stop: int, noise: SecretNoise) -> int:
    """How often a coin is tossed until it stops, which it does with probability 1 / stop."""
    before = 0
    while True:
        stopped = np.flatnonzero(noise.integers(np.full(2 * stop, stop)) == 0)
        if stopped.size:
            return before + 1 + int(stopped[0])
        before += 2 * stop


def _draw_below(high: int, noise: SecretNoise) -> int:
    return int(noise.integers(np.array([high]))[0])
