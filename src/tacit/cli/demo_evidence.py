"""What `tacit demo` adds on demand: other synthesizers on the same simulated rows, and attacks on its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tacit.cli.console import progress
from tacit.cli.outcome import Stopwatch
from tacit.cli.synthesis_commands import Baseline
from tacit.cli.synthesis_plans import baseline_plan, learner
from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.evaluation.canaries import GradientScores, leaps
from tacit.evaluation.membership import attack, losses
from tacit.evaluation.one_run import audit, plant
from tacit.evaluation.report import Attack, Audit, Cost
from tacit.evaluation.report import tables as measured
from tacit.evaluation.report.tables import Table
from tacit.methods import synthesis
from tacit.methods.synthesis import Plan, Synthesizer
from tacit.methods.synthesis.cut import Cut
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.vault.vault import Vault

PUBLIC = 300
"""Rows of the same world that the attacker has."""


def compared(
    methods: Sequence[Baseline], like: Plan, data: Trajectories, rows: int, *, bins: int | None, seed: int
) -> tuple[list[tuple[str, Table]], list[Cost]]:
    """Synthetic tables of other methods at the promise of `like`, and what they took.

    Args:
        methods: the others.
        like: whose unit, epsilon and delta they get.
        data: simulated records; the ledgers are thrown away.
        rows: of each table.
        bins: of a column, where the method cuts columns; None for its own.
        seed: of the methods and of sampling.
    """
    tables: list[tuple[str, Table]] = []
    costs = []
    for method in methods:
        watch = Stopwatch()
        cut = Cut(data.spec) if bins is None else Cut(data.spec, bins=bins)
        plan = baseline_plan(method, cut).calibrate(unit=like.unit, epsilon=like.epsilon, delta=like.delta)
        told, phase = progress(f"Training {method} with privacy"), watch.phase("Training with privacy")
        with _vault(data.columns, data.spec, plan) as vault, told as advance, phase:
            release = learner(method).fit(plan, vault, seed=seed, progress=advance)
        with watch.phase("Sampling"):
            tables.append((method, release.value.sample_columns(rows, seed=seed)))
        costs.append(Cost(method, "control", tuple(watch.phases.items())))
    return tables, costs


def attacks(value: Synthesizer, members: Table, others: Table, *, rows: int, seed: int) -> tuple[Attack, ...]:
    """What an attack with the released network in hand finds out about who was learned from.

    Args:
        value: the release.
        members: simulated rows that it was learned from.
        others: simulated rows that it was not learned from.
        rows: how many of each are told apart.
        seed: of the choice of rows.
    """
    with progress("Attacking the release"):
        chosen = [_some(table, rows, seed) for table in (members, others)]
        found = attack(*(-losses(value, table, seed=seed) for table in chosen), seed=seed)
    return (measured.attacked(found),)


def audits(plan: Plan, data: Trajectories, others: Table, *, canaries: int, seed: int) -> tuple[Audit, ...]:
    """A lower bound on epsilon from one more training, with planted records, under the same plan.

    Args:
        plan: of the release.
        data: the simulated records; a few make room for the planted ones.
        others: rows like most of them, for the attacker.
        canaries: how many are crafted; each is planted or not, as a coin falls.
        seed: of the canaries, the coins and the attacker's draws.
    """
    assert plan.epsilon is not None
    assert plan.delta is not None
    planted = leaps(data.spec, canaries, seed=seed)
    columns, present = plant({name: column[canaries:] for name, column in data.columns.items()}, planted, seed=seed)
    scores = GradientScores(plan, planted, _some(others, PUBLIC, seed), seed=seed)
    told = "Training once more, with planted records"
    with _vault(columns, data.spec, plan) as vault, progress(told) as advance:
        synthesis.fit(plan, vault, observe=scores, progress=advance)
    found = audit(scores.sums(), present, delta=plan.delta)
    return (measured.audited(found, "The same training, with planted records", "synthetic", certified=plan.epsilon),)


@contextmanager
def _vault(columns: Table, spec: PublicSpec, plan: Any) -> Iterator[Vault]:
    """A vault of simulated rows whose ledger is thrown away: nobody is behind them."""
    fields: dict[str, Any] = dict(columns)
    data = Trajectories.from_arrays(**fields, unit_ids=":transition", spec=spec, simulated=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ledger")
        with Ledger(path, plan.unit, epsilon=plan.epsilon, delta=plan.delta) as ledger:
            yield Vault(data, ledger)


def _some(table: Table, count: int, seed: int) -> Table:
    rows = len(table["rewards"])
    chosen = np.sort(np.random.default_rng(seed).choice(rows, size=min(count, rows), replace=False))
    return {name: np.asarray(column)[chosen] for name, column in table.items()}
