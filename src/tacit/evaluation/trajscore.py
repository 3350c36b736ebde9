"""TrajScore: how well synthetic trajectories cover the real ones, and stay among them, in a space learned elsewhere.

An autoencoder that was trained on public trajectories gives each trajectory a code. Precision is the share of synthetic
codes that lie in the manifold of the real ones, recall the share of real codes in the manifold of the synthetic ones
(T. Kynkaanniemi et al., arXiv:1904.06991), F1 their harmonic mean. What two disjoint halves of the real trajectories
score is the ceiling; one half against its rows in any order is the floor. What the autoencoder leaves out, such as
noise of single steps, is not seen: a classifier of single rows and `sequence_dynamics` belong beside it.

PrivORL's TrajScore (appendix I-A) is kept beside it as `mean_cosine`: the cosine of synthetic and real codes, averaged
over pairs. Three things are wrong with it. Nothing pairs a synthetic trajectory with a real one (the authors' code
takes the i-th of each, and embeds single rows with random weights). The codes are not centred, so that a direction that
all trajectories share is most of the figure. And it rewards collapse: copies of the one trajectory that points most
along the real mean score at least what real trajectories do, and rows in any order may.

Looks at real trajectories and is not differentially private: outside `vault.nonprivate` only for simulated or public
data. The autoencoder must not be trained on the real trajectories, nor on others of the same people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from torch import Tensor, nn

from tacit.errors import DataError
from tacit.evaluation.fidelity import flatten
from tacit.evaluation.sequences import Floats, Sequences

# Networks that measure: columns as standardised numbers, by the moments of one table, and a plain perceptron.


Flat = Mapping[str, NDArray[np.generic]]
"""Scalar columns [T] by name, float32 or int64, as of `fidelity.flatten` and `neighbours.numeric_columns`."""


@dataclass(frozen=True, eq=False)
class ColumnFeatures:
    """How each scalar column becomes numbers."""

    numbers: Mapping[str, tuple[float, float]]  # (mean, standard deviation) of each column of numbers, by name
    # [V] values of each discrete column, by name: it becomes V columns, 1 at its value and 0 elsewhere. A value that is
    # not among them is 0 in all.
    values: Mapping[str, NDArray[np.int64]]

    @classmethod
    def fit(cls, columns: Flat) -> ColumnFeatures:
        """The moments and values of a table; a constant column enters unscaled."""
        numbers = {
            name: (float(column.mean(dtype=np.float64)), float(column.std(dtype=np.float64)) or 1.0)
            for name, column in columns.items()
            if column.dtype == np.float32
        }
        values = {name: np.unique(column).astype(np.int64) for name, column in columns.items() if name not in numbers}
        return cls(numbers, values)

    @property
    def size(self) -> int:
        """D, the number of columns after the map."""
        return len(self.numbers) + sum(map(len, self.values.values()))

    def apply(self, columns: Flat) -> NDArray[np.float32]:
        """[T, D]: the columns of numbers, less their mean and over their deviation, then the discrete ones. Raises
        DataError where the columns are not those of the table that was fitted."""
        number = {name for name, column in columns.items() if column.dtype == np.float32}
        if number != set(self.numbers) or set(columns) - number != set(self.values):
            what, expected = "the tables have different columns", "the same columns of the same kinds in all tables"
            remedy = "compare tables of one public specification"
            raise DataError(what, where="measure.Features", expected=expected, remedy=remedy)
        parts: list[NDArray[np.generic]] = [
            ((columns[name].astype(np.float64) - center) / scale)[:, None]
            for name, (center, scale) in self.numbers.items()
        ]
        parts += [columns[name][:, None] == values for name, values in self.values.items()]
        return np.concatenate(parts, axis=1).astype(np.float32)


def perceptron(*sizes: int, seed: int) -> nn.Sequential:
    """Linear layers of these sizes with rectifiers in between; the weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [layer for ends in pairwise(sizes) for layer in (nn.Linear(*ends), nn.ReLU())]
        return nn.Sequential(*layers[:-1])


BATCH = 256


@dataclass(frozen=True, eq=False)
class TrajectoryEncoder:
    """Trajectories to codes of L numbers."""

    features: ColumnFeatures  # of the public rows
    horizon: int  # H, how many steps of a trajectory are seen; later ones are cut off
    stride: int  # only every stride-th step is seen, from the first
    network: nn.Module  # [N, H' (D + 1)] to [N, L], with H' seen steps of D features, and 1 where there is a step
    center: Floats  # center, scale: [L] mean and standard deviation of the public trajectories' codes
    scale: Floats

    def codes(self, sequences: Sequences) -> Floats:
        """[E, L] as the network gives them."""
        padded = _pad_steps(_step_columns(sequences), sequences, self.features, self.horizon, self.stride)
        with torch.no_grad():
            batches = [self.network(padded[first : first + BATCH]) for first in range(0, len(padded), BATCH)]
        return np.asarray(torch.cat(batches), np.float64)

    def embed(self, sequences: Sequences) -> Floats:
        """[E, L] codes in units of the public codes' standard deviations, around their mean; errors as of `codes`."""
        return (self.codes(sequences) - self.center) / self.scale


def train_encoder(
    public: Sequences,
    *,
    horizon: int,
    stride: int = 1,
    size: int = 16,
    width: int = 256,
    steps: int = 1_000,
    seed: int = 0,
) -> TrajectoryEncoder:
    """An autoencoder of public trajectories: multilayer perceptrons over the padded steps, as in PrivORL."""
    # A step is its observation, action and reward, numbers standardised and discrete columns one-hot. Padding has no
    # part in the loss, but for the entry that says whether there is a step, so that codes know how long a trajectory
    # is.
    # stride: only every stride-th step is seen, larger is faster and blind to what happens in between; size: L, of a
    # code
    if min(horizon, stride, size, width, steps) < 1:
        raise _error("a setting of the autoencoder is below 1", "horizon, stride, size, width and steps of at least 1")
    columns = _step_columns(public)
    features = ColumnFeatures.fit(columns)
    padded = _pad_steps(columns, public, features, horizon, stride)
    network = perceptron(padded.shape[1], width, width, size, seed=seed)
    decoder = perceptron(size, width, width, padded.shape[1], seed=seed + 1)
    optimiser = torch.optim.Adam([*network.parameters(), *decoder.parameters()], lr=1e-3)
    generator = np.random.default_rng(seed)
    for batch in torch.from_numpy(generator.integers(len(padded), size=(steps, min(BATCH, len(padded))))):
        rows = padded[batch]
        loss = reconstruction_error(decoder(network(rows)), rows, features.size)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    plain = TrajectoryEncoder(features, horizon, stride, network, np.zeros(size), np.ones(size))
    codes = plain.codes(public)
    spread = codes.std(axis=0)
    return TrajectoryEncoder(features, horizon, stride, network, codes.mean(axis=0), np.where(spread > 0, spread, 1.0))


def reconstruction_error(reconstructed: Tensor, padded: Tensor, size: int) -> Tensor:
    """Mean squared error of reconstructed trajectories; of padding, only the entry that says that it is padding
    counts."""
    # found, padded: [N, H' (D + 1)], in `padded`, the last entry of a step is 1, or 0 where there is none; size: D
    inside = padded.view(len(padded), -1, size + 1)[:, :, -1:]
    weights = torch.cat([inside.expand(-1, -1, size), torch.ones_like(inside)], dim=2).flatten(1)
    return (weights * (reconstructed - padded).square()).sum() / weights.sum()


@dataclass(frozen=True)
class ManifoldCloseness:
    """How close one set of trajectories is to a reference set."""

    precision: float  # share of the set that lies in the manifold of the reference, in [0, 1]
    recall: float  # share of the reference that lies in the manifold of the set
    mean_cosine: float  # PrivORL's figure, in [-1, 1]; see the module for what it does not tell

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; the same for the two sets exchanged."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total > 0 else 0.0


@dataclass(frozen=True)
class TrajScore:
    """Closeness to one random half of the real trajectories."""

    synthetic: ManifoldCloseness  # of the synthetic trajectories
    ceiling: ManifoldCloseness  # of the other half of the real ones: what a perfect synthesizer would score
    floor: ManifoldCloseness  # of trajectories with the lengths and the rows of that other half, in any order
    count: int  # how many trajectories each set has


def traj_score(
    encoder: TrajectoryEncoder,
    real: Sequences,
    synthetic: Sequences,
    *,
    neighbours: int = 3,
    max_count: int = 2_000,
    seed: int = 0,
) -> TrajScore:
    """Precision and recall of synthetic trajectories, with their ceiling and floor, from sets of equal size."""
    count = min(len(real) // 2, len(synthetic), max_count)
    if count <= neighbours:
        raise _error(
            "there are too few trajectories", f"more than {neighbours} synthetic, and more than twice as many real ones"
        )
    reference, other = (half.sample(count, seed) for half in real.split_halves(seed))
    reference_codes = encoder.codes(reference)

    def closeness(sequences: Sequences) -> ManifoldCloseness:
        codes = encoder.codes(sequences)
        reference_points, points = ((each - encoder.center) / encoder.scale for each in (reference_codes, codes))
        return ManifoldCloseness(
            *precision_recall(reference_points, points, neighbours=neighbours), mean_cosine(reference_codes, codes)
        )

    measured, floor = closeness(synthetic.sample(count, seed)), closeness(other.shuffle_rows(seed))
    return TrajScore(synthetic=measured, ceiling=closeness(other), floor=floor, count=count)


def precision_recall(reference: Floats, generated: Floats, *, neighbours: int = 3) -> tuple[float, float]:
    """Shares of points in each other's manifolds (arXiv:1904.06991, equations 1 and 2)."""
    # The manifold of a set is the union of balls around its points, each up to its k-th nearest neighbour in the set.
    # reference: [N, L], with N > k; found: [M, L], with M > k; returns: precision, the share of `found` in the manifold
    # of `reference`; and recall, the other way round
    if not 1 <= neighbours < min(len(reference), len(generated)):
        expected = f"more than {neighbours} points in both sets, and k of at least 1"
        raise _error("a manifold has too few points", expected)
    return _coverage(generated, reference, neighbours), _coverage(reference, generated, neighbours)


def mean_cosine(reference: Floats, generated: Floats) -> float:
    """Mean cosine over all pairs of a reference code [N, L] and a found one [M, L]: PrivORL's figure, in [-1, 1]."""
    # The authors pair in the order of the files, of which this is the expectation; a code of zero has no direction and
    # counts as 0.
    direction, other_direction = (
        (codes / np.maximum(np.linalg.norm(codes, axis=1, keepdims=True), 1e-300)).mean(axis=0)
        for codes in (reference, generated)
    )
    return float(direction @ other_direction)


def _coverage(points: Floats, manifold: Floats, neighbours: int) -> float:
    radius = np.concatenate(
        [np.partition(cdist(part, manifold), neighbours)[:, neighbours] for part in _batches(manifold)]
    )
    inside = [(cdist(part, manifold) <= radius).any(axis=1) for part in _batches(points)]
    return float(np.concatenate(inside).mean())


def _batches(points: Floats) -> list[Floats]:
    return [points[first : first + BATCH] for first in range(0, len(points), BATCH)]


def _step_columns(sequences: Sequences) -> Flat:
    """The scalar columns of a step; its next observation is the next step's own."""
    return {name: column for name, column in flatten(sequences.columns).items() if not name.startswith("next_")}


def _pad_steps(columns: Flat, sequences: Sequences, features: ColumnFeatures, horizon: int, stride: int) -> Tensor:
    """[E, H' (D + 1)] features of the seen steps, each with a 1 after it; 0 where a trajectory has no such step."""
    times = sequences.times
    used = (times < horizon) & (times % stride == 0)
    rows = features.apply(columns)[used]
    padded = np.zeros((len(sequences), -(-horizon // stride), features.size + 1), np.float32)
    padded[sequences.owners[used], times[used] // stride] = np.column_stack([rows, np.ones(len(rows), np.float32)])
    return torch.from_numpy(padded.reshape(len(padded), -1))


def _error(what: str, expected: str) -> DataError:
    return DataError(what, where="trajscore", expected=expected, remedy="pass more or other trajectories")
