"""Many people's Adam: its steps, its minibatches, and that nobody's numbers hang on anybody else."""

import numpy as np
import pytest

from tacit.errors import PlanError
from tacit.methods.policy_gradient.local_updates import LocalTraining


def _towards(phi, batch):
    """Ascends the mean over the minibatch of -|phi - row|^2 / 2."""
    return ((batch["rows"] - phi[:, None]) * batch["share"][..., None]).sum(axis=1)


def _sums(phi, batch):
    """The sum of a minibatch's row numbers, and how many there are."""
    there = batch["share"] > 0
    return np.stack([(batch["rows"] * there).sum(axis=1), there.sum(axis=1)], axis=1).astype(np.float32)


class _Kept:
    """Keeps what it is given."""

    def __init__(self):
        self.seen = []

    def __call__(self, phi, batch):
        self.seen.append(_sums(phi, batch))
        return np.zeros_like(phi)


def test_a_first_step_has_the_length_of_the_learning_rate():
    training = LocalTraining(learning_rate=0.01, epochs=1, minibatches=1, epsilon=1e-12)
    rows = np.array([[[1.0, -3.0], [2.0, -1.0]]], np.float32)
    moved = training(np.zeros((1, 2), np.float32), {"rows": rows}, np.array([2]), _towards, seed=0)
    np.testing.assert_allclose(moved, [[0.01, -0.01]], rtol=1e-5)


def test_two_steps_are_those_of_the_formula():
    """g = 2 and then 2 - 0.1: m = 0.2 and 0.37, v = 0.004 and 0.0076059..., corrected by 1 - beta^t."""
    training = LocalTraining(learning_rate=0.1, epochs=2, minibatches=1, epsilon=1e-12)
    moved = training(np.zeros((1, 1), np.float32), {"rows": np.full((1, 1, 1), 2.0)}, np.array([1]), _towards, seed=0)
    g = 2.0 - 0.1
    m, v = (0.9 * 0.2 + 0.1 * g) / (1 - 0.9**2), (0.999 * 0.004 + 0.001 * g**2) / (1 - 0.999**2)
    np.testing.assert_allclose(moved, [[0.1 + 0.1 * m / np.sqrt(v)]], rtol=1e-5)


def test_an_epoch_passes_every_own_row_once_and_no_other():
    kept, counts = _Kept(), np.array([7, 7])
    rows = np.tile(np.arange(10.0), (2, 1))
    rows[:, 7:] = 1e6  # nobody's
    LocalTraining(epochs=3, minibatches=3)(np.zeros((2, 2), np.float32), {"rows": rows}, counts, kept, seed=4)
    batches = np.stack(kept.seen).reshape(3, 3, 2, 2)
    np.testing.assert_array_equal(batches[..., 0].sum(axis=1), 21)
    np.testing.assert_array_equal(batches[..., 1], np.array([2, 2, 3])[None, :, None] * np.ones((3, 3, 2)))
    assert len({tuple(epoch[:, 0, 0]) for epoch in batches}) > 1


def test_fewer_rows_than_minibatches_are_as_many_steps():
    kept = _Kept()
    rows = np.tile(np.arange(10.0), (1, 1))
    LocalTraining(epochs=1, minibatches=4)(np.zeros((1, 2), np.float32), {"rows": rows}, np.array([3]), kept, seed=0)
    assert sorted(float(batch[0, 0]) for batch in kept.seen) == [0, 1, 2]
    assert all(batch[0, 1] == 1 for batch in kept.seen)


def test_the_seed_decides_on_the_minibatches():
    training = LocalTraining(learning_rate=0.1, epochs=2, minibatches=3)
    rows = np.random.default_rng(0).normal(size=(1, 9, 2)).astype(np.float32)

    def moved(seed):
        return training(np.zeros((1, 2), np.float32), {"rows": rows}, np.array([9]), _towards, seed)

    np.testing.assert_array_equal(moved(3), moved(3))
    assert np.abs(moved(3) - moved(4)).max() > 1e-4


def test_a_person_has_the_same_bits_whoever_else_is_there():
    """Also when the others have more or fewer rows, or are more people than are trained side by side."""
    generator = np.random.default_rng(0)
    theta, rows = generator.normal(size=(60, 3)).astype(np.float32), generator.normal(size=(60, 40, 3)).astype("f")
    counts, training = generator.integers(1, 41, size=60), LocalTraining(learning_rate=0.01, epochs=2, minibatches=2)
    counts[::2] = 40
    moved = training(theta, {"rows": rows}, counts, _towards, 1)
    for people in ([3], [2], [2, 3, 11], list(range(59, -1, -1))):
        own = training(theta[people], {"rows": rows[people]}, counts[people], _towards, 1)
        np.testing.assert_array_equal(own, moved[people])


@pytest.mark.parametrize(
    "field",
    [
        {"learning_rate": 0.0},
        {"epochs": 0},
        {"minibatches": 1.5},
        {"beta1": 1.0},
        {"beta2": -0.1},
        {"epsilon": float("nan")},
    ],
)
def test_a_parameter_out_of_range_is_refused(field):
    with pytest.raises(PlanError, match=next(iter(field))):
        LocalTraining(**field)
