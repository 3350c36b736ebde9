"""Distributions of single columns from noisy histograms: where they are cut, and how values lie inside a bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CELLS = 192
"""Of a number's grid: half of them even, half geometric from the lower bound."""
DISTINCT = 1.5
"""Standard deviations of noise beyond which a cell's two halves are told apart."""
TOLD, LEFT = 4.0, 2.0
"""Standard deviations of noise above which somebody lies beyond a cell; above which some are left beyond others."""
REACH = 4
"""Stretches that are kept beyond the last cell of which the noise tells, in each of which counts may halve."""


def fine_grid(low: float, high: float, *, whole: bool) -> Floats:
    """Public edges of a number's histogram; of few whole numbers, one cell each."""
    if whole and high - low <= 256:
        return np.arange(low, high + 2) - 0.5
    even = np.linspace(low, high, CELLS // 2 + 1)
    uneven = low + np.append(0.0, np.geomspace((high - low) / 2000, high - low, CELLS // 2))
    edges = np.unique(np.round(np.concatenate([even, uneven]), 9))
    return np.unique(np.append(np.floor(edges), np.floor(high) + 1)) - 0.5 if whole else edges


@dataclass(frozen=True)
class Density:
    """A distribution on a grid: `cumulative` [n + 1] rises from 0 to 1 over `edges` [n + 1]."""

    edges: tuple[float, ...]
    cumulative: tuple[float, ...]

    @classmethod
    def of(cls, edges: Floats, noisy: Floats, deviation: float) -> Density:
        """From noisy counts [n]: a dyadic tree, in which halves that the noise does not tell apart are even."""
        n, widths = len(noisy), np.diff(edges)
        counts, lengths = np.append(0.0, np.cumsum(noisy)), np.append(0.0, np.cumsum(widths))
        shares, knots, open_cells = np.zeros(n), {0, n}, [(0, n, 1.0)]
        while open_cells:
            a, b, mass = open_cells.pop()
            if mass <= 0:
                continue
            knots |= {a, b}
            if b - a == 1:
                shares[a] = mass
                continue
            k = (a + b) // 2
            left, right = counts[k] - counts[a], counts[b] - counts[k]
            even = (lengths[k] - lengths[a]) / (lengths[b] - lengths[a])
            spread = deviation * np.sqrt((k - a) * (1 - even) ** 2 + (b - k) * even**2)
            hidden = DISTINCT * deviation * np.sqrt([k - a, b - k])  # what the noise alone explains is nothing
            left, right = (0.0 if part < least else part for part, least in zip((left, right), hidden, strict=True))
            if deviation == 0 or abs(left * (1 - even) - right * even) > DISTINCT * spread:
                split = float(np.clip(left / max(left + right, 1e-9) if left + right > 0 else even, 0, 1))
            elif left + right < DISTINCT * deviation * np.sqrt(b - a):
                shares[a:b] = mass * widths[a:b] / widths[a:b].sum()
                continue
            else:
                split = float(even)
            open_cells += [(a, k, mass * split), (k, b, mass * (1 - split))]
        total = shares.sum()
        cumulative = np.append(0.0, np.cumsum(shares / total if total > 0 else widths / widths.sum()))
        if deviation > 0:  # smooth between the cells that are told apart
            from scipy.interpolate import PchipInterpolator  # heavy, and not needed for plans

            at = np.array(sorted(knots))
            smooth = PchipInterpolator(edges[at], cumulative[at])(edges)
            cumulative = np.clip(np.maximum.accumulate(smooth), 0, 1)
        return cls(tuple(edges.tolist()), tuple(cumulative.tolist()))

    @classmethod
    def within_reach(cls, edges: Floats, noisy: Floats, deviation: float) -> Density:
        """As `of`, but for both ends of the grid, where the noise explains all counts: nobody is there."""
        n, kept = len(noisy), list[int]()  # cells from either end of the grid on
        for at, counts in ((edges, noisy), (-edges[::-1], noisy[::-1])):
            end, beyond, noise = n, np.cumsum(counts[::-1])[::-1], deviation * np.sqrt(np.arange(n, 0, -1))
            if len(told := np.flatnonzero(beyond > TOLD * noise)):
                last = told[-1]
                double = np.flatnonzero(beyond[:last] >= 2 * beyond[last])
                reach = REACH * (at[last] - at[double[-1]] if len(double) else at[last + 1] - at[last])
                while (end := int(np.searchsorted(at, at[last] + reach))) < n and beyond[end] > LEFT * noise[end]:
                    reach *= 2
            kept.append(min(end, n))
        a, b = n - kept[1], kept[0]
        if a >= b:
            return cls.of(edges, noisy, deviation)
        inner = cls.of(edges[a : b + 1], noisy[a:b], deviation).cumulative
        return cls(tuple(edges.tolist()), (0.0,) * a + inner + (1.0,) * (n - b))

    def quantiles(self, parts: int) -> Floats:
        """The inner cuts into equally likely parts."""
        rising = np.asarray(self.cumulative) + np.arange(len(self.cumulative)) * 1e-12
        return np.interp(np.linspace(0, 1, parts + 1)[1:-1], rising, self.edges)

    def draw_between(self, low: Floats, high: Floats, uniform: Floats) -> Floats:
        """Values between two ends each, by uniform numbers [V]."""
        edges, heights = np.asarray(self.edges), np.asarray(self.cumulative)
        a, b = np.interp(low, edges, heights), np.interp(high, edges, heights)
        inside = np.interp(a + uniform * (b - a), heights + np.arange(len(heights)) * 1e-12, edges)
        return np.where(b - a > 1e-6, np.clip(inside, low, high), low + uniform * (high - low))


@dataclass(frozen=True)
class Normal:
    """A normal of mean 0: how residuals lie inside a bin."""

    deviation: float

    def draw_between(self, low: Floats, high: Floats, uniform: Floats) -> Floats:
        """As of `Density`."""
        from scipy.special import ndtr, ndtri

        a, b = ndtr(low / self.deviation), ndtr(high / self.deviation)
        inside = self.deviation * ndtri(np.clip(a + uniform * (b - a), 1e-12, 1 - 1e-12))
        return np.where(b - a > 1e-9, np.clip(inside, low, high), low + uniform * (high - low))


@dataclass(frozen=True)
class Cut:
    """Bins of a number, and what lies inside them; `atom` is a value with a code of its own, after the bins."""

    edges: tuple[float, ...]
    inside: Density | Normal
    atom: float | None = None

    @property
    def size(self) -> int:
        """How many codes there are."""
        return len(self.edges) - 1 + (self.atom is not None)

    def encode(self, values: Floats) -> Integers:
        """The code of each value [V]; what lies outside falls into the outer bins."""
        place = np.searchsorted(self.edges, np.nan_to_num(values), side="right") - 1
        codes = np.clip(place, 0, len(self.edges) - 2).astype(np.int64)
        return codes if self.atom is None else np.where(values == self.atom, self.size - 1, codes)

    def draw(self, codes: Integers, rng: np.random.Generator) -> Floats:
        """A value of each code [V]."""
        edges, bins = np.asarray(self.edges), len(self.edges) - 1
        place = np.minimum(codes, bins - 1)
        values = self.inside.draw_between(edges[place], edges[place + 1], rng.random(len(codes)))
        return values if self.atom is None else np.where(codes == bins, self.atom, values)


def quantile_cut(density: Density, parts: int, *, even: int = 1, atom: float | None = None) -> Cut:
    """Bins that hold about equally many, where these are apart; each is within one of `even` parts of the range."""
    ends = (*np.linspace(density.edges[0], density.edges[-1], even + 1).tolist(), *density.quantiles(parts).tolist())
    return Cut(tuple(np.unique(ends).tolist()), density, atom)
