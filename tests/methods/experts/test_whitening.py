"""What is asked about the size of inputs, and what is made of it."""

from __future__ import annotations

import numpy as np
import pytest
from pole_experts import FEATURES, HIGH, LOW

from tacit.agents.features import Quadratic
from tacit.agents.networks import Mlp
from tacit.methods.experts.imitation import InputMoments, WeightedRows, transform_first_layer, whitener

RNG = np.random.default_rng(0)


def seen(experts: int, sizes: tuple[float, ...] = (0.01, 0.5, 0.05, 1.0)) -> dict[str, np.ndarray]:
    """Observations of these sizes, along turned axes."""
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
    x = RNG.uniform(-0.5, 0.5, (experts, 400, 4)) * sizes @ turned
    return {"observations": (x * HIGH).astype(np.float32), "mask": np.arange(400) < RNG.integers(1, 401, (experts, 1))}


def test_everybody_adds_one_at_most_whatever_was_seen() -> None:
    for features in (FEATURES, Quadratic(LOW, HIGH)):
        rows = seen(20)
        rows["observations"][0] = 0.0
        rows["observations"][1] = HIGH
        lengths = np.linalg.norm(InputMoments(WeightedRows(400, None), features)(rows, None), axis=1)
        assert lengths.max() <= 1.0 + 1e-12
        assert lengths[0] == 0.0
        assert (lengths[2:] > np.sqrt(0.5)).all()


def test_the_same_bits_whoever_the_others_are() -> None:
    rows, moments = seen(9), InputMoments(WeightedRows(400, None), Quadratic(LOW, HIGH))
    whole = moments(rows, None)
    for some in ([4], [0, 3, 8]):
        few = moments({name: column[some] for name, column in rows.items()}, None)
        np.testing.assert_array_equal(few, whole[some])


def test_whitened_inputs_have_the_same_size_in_every_direction() -> None:
    rows = seen(1)
    rows["mask"][:] = True
    (matrix,) = whitener(InputMoments(WeightedRows(400, None), FEATURES)(rows, None), 0.0, 4)
    x = FEATURES(rows["observations"][0]).astype(np.float64) @ matrix
    # the smallest direction is 1e-4 of the largest in the square, just about what is believed
    np.testing.assert_allclose(np.linalg.eigvalsh(x.T @ x / len(x)), 1.0, atol=0.35)
    np.testing.assert_allclose(np.linalg.eigvalsh(x.T @ x / len(x))[1:], 1.0, atol=0.01)


def test_directions_that_drown_in_noise_are_not_blown_up() -> None:
    clear = InputMoments(WeightedRows(400, None), FEATURES)(seen(1), None)
    (matrix,) = whitener(clear, 0.01, 4)
    stretch = np.linalg.eigvalsh(matrix)
    assert stretch.max() / stretch.min() == pytest.approx(np.sqrt(1 / (4 * 0.01 * np.sqrt(2))), rel=0.1)
    (from_nothing,) = whitener(np.zeros((1, 11)), 0.01, 4)
    np.testing.assert_allclose(from_nothing, np.eye(4) / (3 * 0.01 * np.sqrt(2)), rtol=1e-9)


@pytest.mark.parametrize("network", [Mlp((4, 2)), Mlp((4, 6, 3))])
def test_whitened_and_plain_parameters_say_the_same(network: Mlp) -> None:
    matrices = RNG.normal(size=(2, 4, 4))
    matrices += matrices.swapaxes(1, 2)
    phi, x = RNG.normal(size=(2, network.parameters)), RNG.normal(size=(2, 7, 4))
    plain, _ = network.forward(transform_first_layer(matrices, network, phi).astype(np.float32), x)
    white, _ = network.forward(phi.astype(np.float32), x @ matrices)
    np.testing.assert_allclose(plain, white, rtol=1e-3, atol=1e-3)
