"""`mbi`'s own MST and AIM against tacit's, on the same table of cells, epsilon and delta.

The same work: 10,000 transitions of the maze "ring" in cells of 8 bins a continuous column (11 columns), unit a
transition; the budget turned into noise, marginals chosen and measured, a graphical model fitted, 10,000 rows drawn
from it. `mbi` gets the cells ready made; tacit cuts raw rows inside the vault, and writes ledger and certificate. The
mechanisms are those of the folder `mechanisms` of `mbi`'s repository, which its distribution does not hold.

- `mbi_mst`: `mbi`'s MST fits by 2,500 and 10,000 steps of mirror descent, its fixed numbers; tacit's begins where
  proportional fitting ends and takes its default, 1,000 (`MstPlan.iterations`).
- `mbi_aim`: all pairs are the workload, with two rounds a column and a model of 2 MiB (2^18 cells) at most on both
  sides. Its default, 16 rounds a column, takes `mbi` hours. `mbi` refits by mirror descent in every round, 500 steps
  (half its default); tacit refits by proportional fitting in between, and takes 500 steps of mirror descent at the
  end. One run each, since every run compiles for the marginals that it chose.
"""

from __future__ import annotations

from benchmarks.peers.works import Side, Work, fresh_ledger  # isort: skip  (first: it limits the threads)

import contextlib
import io
import itertools
import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from tacit.data.trajectories import Trajectories
from tacit.methods.synthesis.baselines import aim, mst
from tacit.methods.synthesis.baselines.plan import TablePlan
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.privacy.mechanisms.marginals import DIFFERENCES
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS

ROWS, BINS, EPSILON, DELTA = 10_000, 8, 1.0, 1e-6
ROUNDS, STEPS, CELLS = 2, 500, 2**18
UNIT = Unit("transition", "add_or_remove", ROWS)
DISCRETISATION = Discretisation(maze.spec(LAYOUTS["ring"]), BINS)


def transitions() -> dict[str, np.ndarray]:
    """Rows of a maze."""
    columns = maze.collect(LAYOUTS["ring"], ROWS, seed=900)
    return {name: column for name, column in columns.items() if name not in ("unit_ids", "episode_ids")}


def cells(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The bin of every row on every axis, as tacit's vault cuts them."""
    table = columns | {DIFFERENCES: columns["next_observations"] - columns["observations"]}
    found = {}
    for i, axis in enumerate(DISCRETISATION.axes):
        values = table[axis.column]
        values = values[:, axis.index] if values.ndim == 2 else values
        bins = len(axis.edges) - 1
        found[str(i)] = np.clip(np.searchsorted(axis.edges, values, side="right") - 1, 0, bins - 1)
    return found


def tacit_side(plan: TablePlan, fit: Callable[..., Any]) -> Side:
    """Calibration, mechanism and sampling in one vault; every call asks for a little less, since no plan runs twice."""
    data = Trajectories.from_arrays(**transitions(), unit_ids=":transition", spec=DISCRETISATION.spec, simulated=True)
    vault, calls = Vault(data, fresh_ledger(UNIT, epsilon=50.0, delta=9e-5)), itertools.count(1)

    def synthesize() -> object:
        calibrated = plan.calibrate(unit=UNIT, epsilon=EPSILON * (1 - 1e-6 * next(calls)), delta=DELTA)
        return fit(calibrated, vault).value.sample_columns(ROWS, seed=0)

    return synthesize


def dataset() -> Any:
    """The cells as `mbi` takes them."""
    with warnings.catch_warnings(action="ignore"):
        import mbi
    mbi.Domain.attrs = property(lambda domain: domain.attributes)  # its name before `mbi` 2.0, which the mechanisms use
    columns = cells(transitions())
    return mbi.Dataset(columns, mbi.Domain(list(columns), DISCRETISATION.shape))


def mst_sides() -> tuple[Side, Side]:
    """MST on both sides."""
    data = dataset()
    from mechanisms.mst import MST

    np.random.seed(0)  # noqa: NPY002  (what the peer draws from)
    plan = mst.MstPlan(discretisation=DISCRETISATION)
    return quietly(partial(MST, data, EPSILON, DELTA)), tacit_side(plan, mst.fit)


def aim_sides() -> tuple[Side, Side]:
    """AIM on both sides."""
    data = dataset()
    import mbi
    from mechanisms import aim as peer

    class Warm(mbi.estimation.MirrorDescent):
        """The mechanism names the start of a fit as `mbi` did before 2.0."""

        def estimate(self, *arguments: Any, potentials: Any = None, **named: Any) -> Any:
            return super().estimate(*arguments, warm_start=potentials, **named)

    peer.estimation = SimpleNamespace(MirrorDescent=Warm)
    columns = len(DISCRETISATION.shape)
    workload = [(pair, 1.0) for pair in itertools.combinations(data.domain.attributes, 2)]
    np.random.seed(0)  # noqa: NPY002  (what the peer draws from)

    def run() -> object:
        mechanism = peer.AIM(EPSILON, DELTA, rounds=ROUNDS * columns, max_model_size=CELLS * 8 / 2**20, max_iters=STEPS)
        return mechanism.run(data, workload, num_synth_rows=ROWS)

    plan = aim.AimPlan(discretisation=DISCRETISATION, rounds=ROUNDS, cells=CELLS, iterations=STEPS)
    return quietly(run), tacit_side(plan, aim.fit)


def quietly(run: Side) -> Side:
    """The call without what it prints."""

    def silent() -> object:
        with contextlib.redirect_stdout(io.StringIO()):
            return run()

    return silent


INSTALL = "pip install 'tacit[marginals]' pandas, and put a checkout of mbi's repository on PYTHONPATH for `mechanisms`"
WORKS = (
    Work("mbi_mst", "mbi, MST", "mbi", INSTALL, "MST, 10,000 rows, 11 columns", mst_sides),
    Work("mbi_aim", "mbi, AIM", "mbi", INSTALL, "AIM, 2 rounds a column", aim_sides, 1, 0),
)
