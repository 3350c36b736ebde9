"""From tables and attacks to a report's sections about single records: the picture, distances, audits and costs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.evaluation.fidelity import fidelity
from tacit.evaluation.neighbours import nearest_records
from tacit.evaluation.one_run import OneRun, most_that_can_be_found
from tacit.evaluation.report.content import Points
from tacit.evaluation.report.evidence import Attack, Attacked, Audit, Caught, Cost, Nearest

if TYPE_CHECKING:
    from tacit.evaluation.membership import LossAttack

Table = Mapping[str, NDArray[Any]]
_LEVELS = np.linspace(0.0, 1.0, 101)
_FEWEST = 16
"""Rows of each table that make a picture."""


def picture(reference: Table, synthetic: Table, *, seed: int, rows: int = 500) -> tuple[Points, ...]:
    """Some rows of both tables in one t-SNE picture; none of a handful, or without scikit-learn (the extra "tsne").

    Args:
        reference: simulated or public rows.
        synthetic: released rows.
        seed: of the choice and of the picture.
        rows: how many of each.
    """
    if find_spec("sklearn") is None:
        return ()
    from tacit.evaluation.neighbours import tsne

    tables = {"Protected rows": reference, "Synthetic rows": synthetic}
    count = min(rows, *(len(table["rewards"]) for table in tables.values()))
    if count < _FEWEST:
        return ()
    (real, drawn) = tsne(tables, rows=count, seed=seed).values()
    return (
        Points("Protected rows", "reference", real.round(2)),
        Points("Synthetic rows", "synthetic", drawn.round(2)),
    )


def nearest(synthetic: Table, train: Table, holdout: Table, *, seed: int) -> Nearest:
    """How near synthetic rows come to rows that were learned from, and to others.

    Args:
        synthetic: released rows.
        train, holdout: simulated or public rows; behind `vault.nonprivate` private ones.
        seed: of the choice of rows.
    """
    found = nearest_records(synthetic, train, holdout, seed=seed)
    to_train, to_holdout = (np.quantile(part, _LEVELS).round(6) for part in (found.to_train, found.to_holdout))
    share = found.nearer.value, found.nearer.low, found.nearer.high
    return Nearest(to_train, to_holdout, share, found.copies, len(found.to_train), "in standard deviations")


def closeness(synthetic: Table, real: Table, holdout: Table | None, *, seed: int) -> dict[str, float]:
    """Figures for the curator: likeness of the columns, and the share of rows nearer to a record than to another.

    Args:
        synthetic: released rows.
        real: the records, as they are behind `vault.nonprivate`.
        holdout: records that nothing was learned from.
        seed: of the choice of rows.
    """
    close = fidelity(real, synthetic)
    found = {"marginal": close.marginal, "correlation": close.correlation}
    if holdout is not None:
        low, high = nearest(synthetic, real, holdout, seed=seed).nearer[1:]
        found |= {"nearer to a record that was learned from, from": low, "to": high}
    return found


def audited(found: OneRun, label: str, kind: Attacked, *, certified: float) -> Audit:
    """An audit by planted records beside what the attacked run promises."""
    reach = most_that_can_be_found(found.canaries, confidence=found.confidence)
    return Audit(label, kind, found.epsilon, found.confidence, certified, found.guesses, found.right, reach)


def attacked(found: LossAttack) -> Attack:
    """What the denoising-loss attack caught."""
    caught = tuple(Caught(hits.fpr, hits.tpr.value, hits.tpr.low, hits.tpr.high) for hits in found.hits)
    return Attack("Denoising loss", "guesses who was learned from by how well the network denoises a row", caught)


def cost(label: str, kind: Attacked, seconds: Mapping[str, float], memory: float | None) -> Cost:
    """What a synthesizer took."""
    return Cost(label, kind, tuple(seconds.items()), memory)
