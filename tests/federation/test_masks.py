from __future__ import annotations

import importlib

import numpy as np
import pytest
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from scipy import stats

from tacit.federation import guard

SEED = bytes(range(32))


def test_a_mask_follows_from_its_seed() -> None:
    first, second = guard.draw_masks(SEED, 2**32, [(1,), (2, 3)]), guard.draw_masks(SEED, 2**32, [(1,), (2, 3)])
    assert [array.shape for array in first] == [(1,), (2, 3)]
    assert all((a == b).all() and a.dtype == np.int64 for a, b in zip(first, second, strict=True))


def test_every_bit_of_the_seed_matters() -> None:
    """Two seeds that Flower's own generator takes for the same, because it folds them into 32 bits."""
    swapped = SEED[4:8] + SEED[:4] + SEED[8:]
    assert (pseudo_rand_gen(SEED, 2**32, [(50,)])[0] == pseudo_rand_gen(swapped, 2**32, [(50,)])[0]).all()
    assert not (guard.draw_masks(SEED, 2**32, [(50,)])[0] == guard.draw_masks(swapped, 2**32, [(50,)])[0]).any()


def test_masks_are_uniform() -> None:
    (words,) = guard.draw_masks(SEED, 2**32, [(100_000,)])
    assert words.min() >= 0
    assert words.max() < 2**32
    for shift in (0, 24):
        counts = np.bincount((words >> shift) & 255, minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize(("seed", "modulus"), [(SEED, 2**31), (SEED[:16], 2**32)])
def test_other_moduli_and_short_seeds_are_refused(seed: bytes, modulus: int) -> None:
    with pytest.raises(ValueError, match="256 bits"):
        guard.draw_masks(seed, modulus, [(1,)])


def test_flower_uses_them_inside_the_block_only() -> None:
    modules = [importlib.import_module(name) for name in guard._USERS]
    assert all(module.pseudo_rand_gen is pseudo_rand_gen for module in modules)
    with guard.strong_masks():
        assert all(module.pseudo_rand_gen is guard.draw_masks for module in modules)
    assert all(module.pseudo_rand_gen is pseudo_rand_gen for module in modules)


def test_a_flower_that_keeps_its_generator_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_GENERATOR", "another_name")
    with pytest.raises(ImportError, match="federated"), guard.strong_masks():
        pass
