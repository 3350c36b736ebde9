"""How well a classifier tells synthetic rows from real ones that neither had a part in its training.

Source: D. Lopez-Paz & M. Oquab, "Revisiting Classifier Two-Sample Tests" (arXiv:1610.06545). Unlike measures of single
columns and pairs, it sees every dependence that the network can learn. Looks at real rows and is not differentially
private: outside `vault.nonprivate` only for simulated or public data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from tacit.errors import DataError
from tacit.evaluation.lower_bounds import Rate, rate
from tacit.evaluation.neighbours import Columns, numeric_columns
from tacit.evaluation.trajscore import ColumnFeatures, Flat, perceptron

Groups = NDArray[np.generic]
BATCH = 256
MIN_ROWS = 20
"""Rows and groups of either table: half of them train, the others count."""


@dataclass(frozen=True)
class TwoSampleResult:
    """Whether a classifier distinguishes two tables."""

    # share of held-out rows, half of them of each table, that the classifier assigns to their own table, with its exact
    # interval. 1/2 is chance, 1 is tables without an overlap.
    accuracy: Rate
    training_rows: int  # trained, held_out: rows of both tables together
    held_out_rows: int


def two_sample_test(
    real: Columns,
    synthetic: Columns,
    *,
    real_groups: Groups | None = None,
    synthetic_groups: Groups | None = None,
    rows: int = 20_000,
    width: int = 64,
    steps: int = 2_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> TwoSampleResult:
    """Held-out accuracy of a small network that is trained to tell synthetic rows from real ones."""
    # Half of each table trains and the other half counts, equally many rows of both tables at either place. The
    # interval holds for independent rows. Rows of one trajectory are not: pass their groups, so that whole trajectories
    # are held out (else the network may know a held-out row by its neighbours in time) and no more rows count than
    # trajectories are held out. Two halves of the real table, split by trajectories, give what a perfect copy would
    # have, about 1/2.
    # real_groups, synthetic_groups: [T] of each table, who rows belong to (`episode_ids`), None makes every row a group
    # of its own
    generator = np.random.default_rng(seed)
    tables = [numeric_columns(real), numeric_columns(synthetic)]
    if len({tuple((name, column.dtype) for name, column in table.items()) for table in tables}) != 1:
        raise _data_error("the two tables have different columns", "the same columns of the same kinds in both")
    real_split, synthetic_split = (
        _split(table, groups, generator) for table, groups in zip(tables, (real_groups, synthetic_groups), strict=True)
    )
    train_count = min(rows // 2, real_split.train_rows, synthetic_split.train_rows)
    test_count = min(rows // 2, real_split.test_groups, synthetic_split.test_groups)
    if min(train_count, test_count) < MIN_ROWS // 2:
        raise _data_error("too few rows or groups", f"at least {MIN_ROWS} of either table")
    sides = (real_split, synthetic_split)
    train = [{name: column[:train_count] for name, column in side.train.items()} for side in sides]
    test = [{name: column[:test_count] for name, column in side.test.items()} for side in (real_split, synthetic_split)]
    features = ColumnFeatures.fit({name: np.concatenate([columns[name] for columns in train]) for name in train[0]})
    training, held_out = (
        torch.from_numpy(np.concatenate([features.apply(columns) for columns in part])) for part in (train, test)
    )
    network = perceptron(features.size, width, width, 1, seed=seed)
    _fit(network, training, torch.arange(2 * train_count) >= train_count, steps, generator)
    with torch.no_grad():
        correct = (network(held_out)[:, 0] > 0) == (torch.arange(2 * test_count) >= test_count)
    accuracy = rate(int(correct.sum()), 2 * test_count, confidence=confidence)
    return TwoSampleResult(accuracy, 2 * train_count, 2 * test_count)


class _Split(NamedTuple):
    train: Flat
    test: Flat
    train_rows: int
    test_groups: int


def _split(table: Flat, groups: Groups | None, generator: np.random.Generator) -> _Split:
    """Rows of two disjoint random halves of the groups, in random order; how many train, and how many groups do not."""
    rows = len(next(iter(table.values())))
    owners = np.arange(rows) if groups is None else np.unique(groups, return_inverse=True)[1]
    if owners.shape != (rows,):
        raise _data_error("the groups do not fit the rows", "one group a row")
    order = generator.permutation(int(owners.max()) + 1)
    learns = np.isin(owners, order[: len(order) // 2])
    train, test = (generator.permutation(np.flatnonzero(half)) for half in (learns, ~learns))
    return _Split(
        train={name: column[train] for name, column in table.items()},
        test={name: column[test] for name, column in table.items()},
        train_rows=len(train),
        test_groups=len(order) - len(order) // 2,
    )


def _fit(
    network: nn.Module, rows: torch.Tensor, is_synthetic: torch.Tensor, steps: int, generator: np.random.Generator
) -> None:
    """Lower the cross entropy of whether rows [N, D] were drawn [N], by AdamW (arXiv:1711.05101), falling rate."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    labels = is_synthetic.to(torch.float32)
    for batch in torch.from_numpy(generator.integers(len(rows), size=(steps, BATCH))):
        loss = binary_cross_entropy_with_logits(network(rows[batch])[:, 0], labels[batch])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()


def _data_error(what: str, expected: str) -> DataError:
    return DataError(what, where="two_sample", expected=expected, remedy="pass two tables of one public specification")
