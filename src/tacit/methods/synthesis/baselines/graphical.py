"""Graphical models that fit noisy marginals best: Private-PGM (arXiv:1901.09136), through the package `mbi`.

Mirror descent (algorithm 1 of the paper) needs thousands of steps from a uniform start. Here it starts where iterative
proportional fitting ends, which is close to its goal at once; between the rounds of AIM that start is all there is.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit.errors import PlanError
from tacit.methods.synthesis.baselines.counts import Measured, pooled, records
from tacit.methods.synthesis.baselines.tree import Array, Clique, Potentials, Tree, spread
from tacit.methods.synthesis.histograms import simplex


def require_mbi() -> Any:
    """The package `mbi`.

    Raises:
        PlanError: it is not installed.
    """
    try:
        import jax

        with jax.enable_x64(True), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "JAX persistent compilation cache")
            import mbi
    except ImportError as error:
        raise PlanError(
            "the package mbi is missing",
            where="graphical models (PGM, MST, AIM)",
            expected="mbi and jax",
            remedy="run `pip install 'tacit[marginals]'`, or use the baseline PrivSyn, which needs neither",
        ) from error
    return mbi


def proportional(
    shape: Sequence[int], measured: Sequence[Measured], *, sweeps: int, start: Potentials | None = None
) -> Potentials:
    """Log-potentials by iterative proportional fitting: in turn each measured marginal is made the model's own.

    Counts are first brought to the simplex, and one record is added to every cell on both sides, so that all
    potentials are finite.

    Args:
        shape: bins of each column.
        measured: the noisiest come first in a sweep, so that the others are fitted better.
        sweeps: turns over all measurements.
        start: potentials to begin with; None is the uniform distribution.
    """
    potentials = dict(start or {})
    ones = sorted(pooled(measured), key=lambda one: -one.deviation)
    total = records(measured)
    goals = [simplex(one.counts, total) + 1.0 for one in ones]
    for _ in range(sweeps):
        for one, goal in zip(ones, goals, strict=True):
            present = Tree.from_potentials(shape, potentials).marginal(one.axes) * total + 1.0
            potentials[one.axes] = potentials.get(one.axes, 0.0) + np.log(goal / present)
    return potentials


def estimate(
    shape: Sequence[int],
    measured: Sequence[Measured],
    *,
    iterations: int,
    sweeps: int = 10,
    start: Potentials | None = None,
) -> Tree:
    """The graphical model over the measured cliques that is nearest to the measurements, weighted by precision.

    Args:
        shape: bins of each column.
        measured: covers every column.
        iterations: of mirror descent; rounded up to a multiple of 50.
        sweeps: of `proportional`, before.
        start: potentials to begin with, of cliques inside the measured ones.
    """
    mbi = require_mbi()
    import jax

    begun = _folded(shape, proportional(shape, measured, sweeps=sweeps, start=start))
    with jax.enable_x64(True):
        domain = mbi.Domain(range(len(shape)), shape)
        noisy = [mbi.LinearMeasurement(m.counts.ravel(), m.axes, m.precision**-0.5) for m in pooled(measured)]
        tables = {axes: mbi.Factor(domain.project(axes), jax.numpy.asarray(v)) for axes, v in begun.items()}
        warm = mbi.CliqueVector(domain, tuple(tables), tables)
        fitter = mbi.estimation.MirrorDescent()
        model = fitter.estimate(domain, noisy, records(measured), iters=iterations, warm_start=warm)
        potentials = {axes: np.asarray(model.potentials[axes].values) for axes in model.potentials.cliques}
    return Tree.from_potentials(shape, potentials)


def _folded(shape: Sequence[int], potentials: Potentials) -> Mapping[Clique, Array]:
    """The same model with potentials of its maximal cliques alone."""
    folded: dict[Clique, Array] = {}
    for axes in sorted(potentials, key=len, reverse=True):
        home = next((clique for clique in folded if set(axes) <= set(clique)), None)
        if home is None:
            folded[axes] = np.array(potentials[axes])
        else:
            folded[home] += spread(potentials[axes], axes, home)
    return folded
