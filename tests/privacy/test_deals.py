"""Keyed deals: literal places, even ones, independent of everything but name, seed and purpose."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from vault_cases import told_apart_by_rewards, unit_of

from tacit.privacy import deals
from tacit.privacy.accounting import bounds
from tacit.privacy.mechanisms.sums import FixedSizeSum, PoissonSum, UserSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.records import SealedRecords

NAMES = np.stack([np.zeros(16, np.uint8), np.eye(16, dtype=np.uint8)[0], np.arange(16, dtype=np.uint8)])
MANY = np.arange(1 << 17, dtype="<u8").view(np.uint8).reshape(-1, 16)  # 65,536 names that differ in few bits


def test_places_are_those_of_blake2b():
    word = hashlib.blake2b(bytes(16), key=hashlib.blake2b(b"seed").digest(), digest_size=8, person=b"fold")
    assert deals.words(NAMES, "seed", "fold")[0] == int.from_bytes(word.digest(), "little")
    expected = [9404301603053331786, 8881699851809528746, 16592362745107165529]
    assert deals.words(NAMES, "seed", "fold").tolist() == expected
    assert deals.fold(NAMES, "seed").tolist() == [word >> 63 for word in expected]
    assert deals.choose(NAMES, "seed", 10, purpose="round").tolist() == [4, 9, 0]


def test_a_place_is_a_function_of_the_own_name_alone():
    whole = deals.choose(MANY, "seed", 7, purpose="slot")
    some = np.random.default_rng(0).permutation(len(MANY))[:1000]
    np.testing.assert_array_equal(deals.choose(MANY[some], "seed", 7, purpose="slot"), whole[some])
    assert deals.fold(MANY[:0], "seed").shape == (0,)


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_places_are_even(n):
    counts = np.bincount(deals.choose(MANY, "seed", n, purpose="round"), minlength=n)
    assert len(counts) == n
    assert stats.chisquare(counts).pvalue > 1e-6 if n > 1 else counts[0] == len(MANY)


@pytest.mark.parametrize(
    ("seed", "purpose"), [("seed", "round"), ("seed", "slot"), ("another", "fold"), ("seed ", "fold")]
)
def test_deals_of_other_seeds_and_purposes_are_independent(seed, purpose):
    first = deals.choose(MANY, "seed", 4, purpose="fold")
    other = deals.choose(MANY, seed, 4, purpose=purpose)
    table = np.bincount(4 * first + other, minlength=16).reshape(4, 4)
    assert stats.chi2_contingency(table).pvalue > 1e-6


def test_neighbours_in_name_are_independent():
    halves = deals.fold(MANY, "seed")
    table = np.bincount(2 * halves[:-1] + halves[1:], minlength=4).reshape(2, 2)
    assert stats.chi2_contingency(table).pvalue > 1e-6


@pytest.mark.parametrize("n", [0, -1, 1 << 31])
def test_places_out_of_range_are_refused(n):
    with pytest.raises(ValueError, match="n"):
        deals.choose(NAMES, "seed", n, purpose="slot")


def test_no_amplification_is_claimed_for_a_keyed_deal():
    """A half and a round cost what everybody costs, and nothing that prices knows of deals."""
    part = PoissonSum(name="sum", steps=3, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=2.0)
    met = UserSum(name="met", steps=3, users=10, clip_norm=1.0, noise_multiplier=2.0)
    whole = bounds.epsilon(part.event, delta=1e-5, relation="add_or_remove")
    for half in (0, 1):
        event = dataclasses.replace(part, fold=half).event
        assert bounds.epsilon(event, delta=1e-5, relation="add_or_remove") == whole
    for event in (part.event, met.event):
        assert "Sampled" not in repr(event)
    folder = Path(deals.__file__).parent
    for path in (*folder.glob("accounting/*.py"), *folder.glob("mechanisms/*.py"), *folder.glob("noise/*.py")):
        text = path.read_text(encoding="utf-8")
        assert "import deals" not in text, path.name
        assert "privacy.deals" not in text, path.name


@pytest.mark.parametrize("kind", ["poisson", "fixed size"])
def test_what_is_priced_as_a_sample_keeps_secret_coins(kind):
    """Two vaults of the same people under one key draw different samples: no deal decides."""
    samples = []
    for _ in range(2):
        data = told_apart_by_rewards([[1.0]] * 200, range(200))
        kept = SealedRecords(data, None, unit=unit_of(200, "replace_one"), keys=["key"], noise=SecretNoise())
        part = PoissonSum(name="sum", steps=1, sampling_rate=0.5, clip_norm=1.0, noise_multiplier=2.0)
        if kind == "fixed size":
            part = FixedSizeSum(
                name="sum", steps=1, batch_size=100, population=200, clip_norm=1.0, noise_multiplier=2.0
            )
        samples.append(kept._draw_units(part)[1].tolist())
    assert sorted(samples[0]) != sorted(samples[1])  # equal with probability 2^-100 at most
