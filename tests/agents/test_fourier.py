"""The Fourier basis by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.agents.features import fourier, frequencies


def test_frequencies() -> None:
    assert frequencies(2, 5).shape == (36, 2)
    assert frequencies(6, 1).shape == (64, 6)
    assert frequencies(6, 5, coupled=False).shape == (31, 6)
    assert frequencies(2, 1).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert frequencies(2, 2, coupled=False).tolist() == [[0, 0], [1, 0], [2, 0], [0, 1], [0, 2]]


def test_features_by_hand() -> None:
    """x = (1/4, 1/2) in [-1, 3] x [0, 2]: cos of 0, pi/4 and pi/4 + 2 pi/2; outside the bounds, the nearest corner."""
    got = fourier([[0.0, 1.0], [-9.0, 99.0]], (-1.0, 0.0), (3.0, 2.0), [[0, 0], [1, 0], [1, 2]])
    assert got[0] == pytest.approx([1.0, 0.5**0.5, -(0.5**0.5)])
    assert got[1] == pytest.approx([1.0, 1.0, 1.0])
    assert np.abs(fourier(np.random.default_rng(0).normal(size=(50, 2)), (0, 0), (1, 1), frequencies(2, 3))).max() <= 1
