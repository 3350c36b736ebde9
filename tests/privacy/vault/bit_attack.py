"""The attack on the last digits of what is released (I. Mironov, CCS 2012), for every kind of part.

The attacker knows all records but whether the target is among them, the plan, the lattice and this code. So they run
both worlds themselves: without noise for the exact sums, and with it to learn how often each trait of a number occurs.
A trait is in how many binary zeros the lattice's multiple ends; and, if a world is the true one, in how many the noise
ends, whether it ends where the target's own number does (Mironov's: sums far below it do), and the multiple's residue.
A likelihood ratio over all released numbers decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import stats

Numbers = npt.NDArray[np.float64]
Worlds = tuple[tuple[Numbers, float], tuple[Numbers, float]]
"""The exact sums and the noise's scale without the target, and with it."""
Release = Callable[[Path, bool], Numbers]

TRIALS = 36
RIGHT = int(stats.binom.isf(1e-9, TRIALS, 0.5))
"""Of 36 guesses, more right ones than this are no chance."""
REHEARSALS = 8
"""Releases of each world from which the attacker learns."""

DIGITS, SIZES, RESIDUES = 40, 14, 60
"""Binary digits of the noise after the point, its sizes in powers of two, and residues (by 2, 3, 4, 5 and more)."""


@dataclass(frozen=True)
class Case:
    """How one kind of part releases numbers of two worlds: with the target and without.

    Args:
        kind: as certificates name it.
        release: (an empty folder, whether the target is there) -> the numbers of one run through a fresh vault, times
            the public divisor.
        step: the public lattice's step.
        scale: of the noise, in the world without the target and in the other; 256 steps if it is not given.
        exact: the same without noise.
        whole: why there are no low bits, where whole numbers or choices are released.
        leaks: whether the attack tells everybody apart without the lattice.
        covers: what else of the kind the case is for: a mechanism, a correlation, who adds the noise.
    """

    kind: str
    release: Release
    step: float
    scale: tuple[float, float] | None = None
    exact: Release = field(default=lambda folder, there: np.zeros(()))
    whole: str = ""
    leaks: bool = True
    covers: object = None

    def __str__(self) -> str:
        name = getattr(self.covers, "__name__", self.covers)
        return self.kind if name is None else f"{self.kind}-{name}"


@dataclass(frozen=True)
class Attack:
    """What the attacker knows before the release: exact sums and scale of both worlds, and how often traits occur."""

    case: Case
    worlds: Worlds
    away: Numbers
    there: Numbers

    def present(self, numbers: Numbers) -> bool:
        """The guess: by the Poisson likelihoods of traits that are not equally frequent by chance (2 deviations)."""
        apart = np.abs(self.there - self.away) > 2 * np.sqrt(self.there + self.away)
        away, there = self.away[apart], self.there[apart]
        counts = _traits(numbers, self.worlds, self.case.step)[apart]
        return bool(counts @ np.log(there / away) > (there - away).sum() / REHEARSALS)


def lattice_step(scale: float) -> float:
    """The power of two in (scale / 256, scale / 128]."""
    return float(2.0 ** (np.floor(np.log2(scale)) - 7))


def rehearsed(case: Case, folder: Path) -> Attack:
    """The attack after some releases of both worlds."""
    fresh = _folders(folder / "rehearsals")
    scales = case.scale or (256 * case.step,) * 2
    exact = (case.exact(next(fresh), there) for there in (False, True))
    without, together = zip(exact, scales, strict=True)
    worlds = without, together
    away, there = (
        1 + sum(_traits(case.release(next(fresh), there), worlds, case.step) for _ in range(REHEARSALS))
        for there in (False, True)
    )
    return Attack(case, worlds, away, there)


def told_apart(case: Case, folder: Path, trials: int = TRIALS, right: int = RIGHT) -> bool:
    """Whether of so many fresh runs, half of them with the target, the attacker tells more than `right` right.

    It ends with the first run after which that is decided.
    """
    attack, fresh, wrong = rehearsed(case, folder), _folders(folder / "trials"), 0
    for trial in range(trials):
        there = trial % 2 == 0
        wrong += attack.present(case.release(next(fresh), there)) != there
        if wrong >= trials - right:
            return False
    return True


def _folders(parent: Path) -> Iterator[Path]:
    """Empty ones."""
    number = 0
    while True:
        folder = parent / f"{number}"
        folder.mkdir(parents=True)
        yield folder
        number += 1


def _traits(numbers: Numbers, worlds: Worlds, step: float) -> Numbers:
    """How many of the numbers have each trait."""
    own = np.frexp(worlds[1][0] - worlds[0][0])[1]
    multiples = np.rint(numbers / step)
    counts = [np.bincount(_zeros(multiples).ravel(), minlength=DIGITS + 1)]
    for exact, scale in worlds:
        noise = numbers - exact
        size = np.clip(-np.frexp(noise / scale)[1], 0, SIZES - 1)
        zeros = _zeros(np.rint(noise / scale * 2.0**DIGITS))
        counts.append(np.bincount((size * (DIGITS + 1) + zeros).ravel(), minlength=SIZES * (DIGITS + 1)))
        smaller = np.clip(own - 1 - np.frexp(noise)[1], 0, SIZES - 1)
        ends = np.mod(noise, np.ldexp(1.0, own - 25)) == 0
        counts.append(np.bincount((2 * smaller + ends).ravel(), minlength=2 * SIZES))
        residue = np.mod(multiples - np.rint(exact / step), RESIDUES).astype(np.int64)
        counts.append(np.bincount(residue.ravel(), minlength=RESIDUES))
    return np.concatenate(counts).astype(np.float64)


def _zeros(whole: Numbers) -> npt.NDArray[np.int64]:
    """Binary zeros at the end of whole numbers, at most `DIGITS`; of 0 as well."""
    digits = np.clip(np.abs(whole), 0, 2.0**60).astype(np.int64)
    last = np.frexp((digits & -digits).astype(np.float64))[1] - 1
    return np.where(digits == 0, DIGITS, np.minimum(last, DIGITS))
