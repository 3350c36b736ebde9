"""What a caller can hand to a door to weaken it: forged runs, foreign noise, forks, autocast; and what it rounds."""

from __future__ import annotations

import copy
import dataclasses
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from vault_cases import Regression, Rewards, Silent, open_vault, priced, records, unit_of

from tacit.errors import LedgerError, MechanismError, PlanError
from tacit.privacy.gradients.clipped_sums import secret_generator
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.lattice import add_noise
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.vault import Vault


def test_a_run_with_another_plan_inside_is_refused(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    forged = dataclasses.replace(run, plan=dataclasses.replace(run.plan, noise_multiplier=1e-3))  # type: ignore[type-var]
    with pytest.raises(LedgerError, match="not as this vault admitted it"):
        vault.noisy_sum(forged, "sum", Rewards())
    assert not vault.has_started(run)


def test_replicates_have_a_ledger_each_and_are_at_the_same_step(tmp_path: Path) -> None:
    unit = unit_of()
    one, other = (Ledger(tmp_path / name, unit, epsilon=1e6, delta=1e-3, composition=SUM) for name in ("one", "other"))
    for ledgers in ([], [one, one]):
        with pytest.raises(LedgerError, match="missing, repeated or bound to different units"):
            Vault(records([[1.0]]), ledgers)
    vault = Vault(records([[1.0]]), [one, other])
    with pytest.raises(LedgerError, match="cannot be copied or pickled"):
        copy.copy(vault)
    run = vault.reserve(priced(vault, noise_multiplier=1.0, steps=3))
    other.claim(run.plan_id, "sum", 1)
    with pytest.raises(LedgerError, match="at different steps"):
        vault.noisy_sum(run, "sum", Rewards())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_cannot_run_the_parents_block(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0]])
    run = vault.reserve(priced(vault, noise_multiplier=30.0, steps=1000))
    vault.noisy_sum(run, "sum", Rewards())
    assert not vault.is_block_end(run, "sum")
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            vault.noisy_sum(run, "sum", Rewards())
            os.write(write, b"released")
        except LedgerError:
            os.write(write, b"refused")
        finally:
            os._exit(0)
    os.wait()
    assert os.read(read, 20) == b"refused"


def test_noise_of_the_callers_own_voids_the_ledger(tmp_path: Path) -> None:
    assert open_vault(tmp_path, [[1.0]], noise=Silent(), name="sub").ledger.void_reason is not None
    foreign = SecretNoise(lambda words, scale, out: out.fill(0))  # type: ignore[arg-type]
    assert foreign.seeded
    assert open_vault(tmp_path, [[1.0]], noise=foreign, name="kernel").ledger.void_reason is not None
    assert open_vault(tmp_path, [[1.0]], name="own").ledger.void_reason is None


def test_no_digit_of_the_sum_lies_below_the_noises() -> None:
    noisy = add_noise(np.full(1000, 12345.678901234), 20.0, SecretNoise())
    grid = 2.0 ** (math.frexp(20.0)[1] - 11)
    assert np.array_equal(noisy, np.rint(noisy / grid) * grid)
    assert stats.kstest((noisy - 12345.678901234) / 20.0, "norm").pvalue > 1e-8
    assert np.array_equal(add_noise(np.array([0.1]), 0.0, SecretNoise()), [0.1])


def test_the_objectives_generator_is_filled_from_the_secret_stream() -> None:
    one, two = (secret_generator(SecretNoise.for_tests(seed)) for seed in (1, 2))
    again = secret_generator(SecretNoise.for_tests(1))
    first = torch.rand(2000, generator=one, dtype=torch.float64)
    assert torch.equal(first, torch.rand(2000, generator=again, dtype=torch.float64))
    assert not torch.equal(first, torch.rand(2000, generator=two, dtype=torch.float64))
    assert stats.kstest(first.numpy(), "uniform").pvalue > 1e-8
    normal = torch.randn(2000, generator=one).numpy()
    assert stats.kstest(normal, "norm").pvalue > 1e-8


def test_autocast_around_the_door_is_refused(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(MechanismError, match="autocast"):
        vault.noisy_gradient(run, "sum", [torch.nn.Linear(1, 1)], Regression())
    assert not vault.has_started(run)


def test_a_scale_that_float32_noise_cannot_hold_is_refused() -> None:
    with pytest.raises(PlanError, match="scale"):
        PoissonSum(name="sum", steps=1, sampling_rate=0.1, clip_norm=1e-30, noise_multiplier=1.0)
