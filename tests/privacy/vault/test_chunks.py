"""Which units share a pass, in which places: each once, and nobody's place tells how many units other chunks have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from vault_cases import ALL, GivenParts, Regression, dealt_places, numbered, open_vault, unit_of

from tacit.privacy.gradients import accumulator
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault import records as vault_records


@pytest.mark.parametrize("places", [None, 4, 40, 90])
@pytest.mark.parametrize("replicates", [1, 2])
def test_every_unit_of_the_sample_counts_once(places: int | None, replicates: int) -> None:
    drawn: list[list[float]] = [[] for _ in range(replicates)]
    together = 0
    for one, counts, rows in numbered(300, replicates).sample_chunks(ALL, 5, places):
        shape = len(rows["mask"]) // len(counts)
        together = max(together, len(counts))
        for start, count in zip(range(0, len(rows["mask"]), shape), counts, strict=True):
            drawn[one] += rows["rewards"][start : start + count, 0].tolist()
    assert together == (1 if places is None else 5)
    for units in drawn:
        np.testing.assert_allclose(np.sort(units), np.arange(300) / 100, atol=1e-6)


def test_groups_have_a_public_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_records, "JOINED_UNITS", 100)
    shapes = [(len(counts), len(rows["mask"])) for _, counts, rows in numbered(300).sample_chunks(ALL, 7, 40)]
    assert shapes[:4] == [(2, 80), (2, 80), (2, 80), (1, 40)]  # then those for whom there was no place
    assert all(chunks == 1 for chunks, _ in shapes[4:])


@pytest.mark.parametrize("units", range(290, 300))
def test_a_unit_that_leaves_moves_nobody_of_another_chunk(units: int) -> None:
    places = dealt_places(numbered(units + 1))
    del places[units]
    assert dealt_places(numbered(units)) == places


def test_groups_without_anybody_are_left_out() -> None:
    counts = [counts for _, counts, _ in numbered(1).sample_chunks(ALL, 7, 2_000)]
    assert counts in (
        [[1, 0, 0, 0]],
        [[0, 1, 0, 0]],
        [[0, 0, 1, 0]],
        [[0, 0, 0, 1]],
        [[1, 0, 0]],
        [[0, 1, 0]],
        [[0, 0, 1]],
    )


def test_a_gradient_of_chunks_is_that_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model, gradients = torch.nn.Linear(1, 1), []
    part = PoissonSum(name="sum", steps=1, sampling_rate=1.0, clip_norm=0.5, noise_multiplier=0.0)
    for name, size in (("one", 512), ("many", 16)):
        monkeypatch.setattr(accumulator, "UNITS_PER_CHUNK", size)
        vault = open_vault(tmp_path, [[unit / 100] for unit in range(100)], unit=unit_of(100), name=name)
        run = vault.reserve(plans.account(GivenParts((part,)), unit=vault.unit, delta=1e-5))
        gradients.append(vault.noisy_gradient(run, "sum", [model], Regression(jitter=0.0))[0])
    torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-8)
