"""What the witnesses of experiments on synthesis share: a small run of some cells, with noise drawn again from a seed.

    python -m experiments.witnesses.table1_transitions umaze/iql/tacit/10/0

Two trees that print the same hash collect, pre-train, calibrate, fit, sample, train the agent and judge it to the last
bit alike, for the cells that share their code with the one that is named. See `experiments.witness`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from experiments import synthesis_cache, synthesis_fits, synthesis_returns
from experiments import synthesis_ways as ways
from experiments.synthesis_cache import Columns
from experiments.synthesis_domains import DOMAINS, Domain
from tacit.measure.fidelity import ceiling, fidelity
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.vault import Vault

POPULATION, PUBLIC = 40_000, 8_000


@contextlib.contextmanager
def seeded() -> Iterator[None]:
    """Every vault of the experiments draws the same noise again (its ledgers are void); kept until the process ends."""
    torch.set_num_threads(1)
    with (
        mock.patch.object(synthesis_cache, "KEPT", Path(_folder().name)),
        mock.patch.object(synthesis_fits, "Vault", partial(Vault, noise=SecretNoise.for_tests(13))),
    ):
        yield


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Of tables that several cells share."""
    return tempfile.TemporaryDirectory()


def small(name: str) -> Domain:
    """The domain with few rows."""
    found: Domain = replace(DOMAINS[name], population=POPULATION, public_rows=PUBLIC)  # type: ignore[type-var]
    return found


def of_agent(key: str) -> str:
    """A hash of the table, the policy and the returns of a cell (domain, agent, way, epsilon, seed)."""
    domain, agent, way, epsilon, *_ = key.split("/")
    here = small(domain)
    with seeded():
        table = _table(here, way, float(epsilon))
        (policy,) = synthesis_returns.train(domain, agent, [table], 7, synthesis_fits.QUICK)
        returns = {name: one.tolist() for name, one in here.returns(policy, 11).items()}
    return _hash({**table, **policy.arrays}, returns)


def of_table(key: str) -> str:
    """A hash of the table and the measures of a cell (domain, way, epsilon, seed)."""
    domain, way, epsilon, *_ = key.split("/")
    here = small(domain)
    with seeded():
        table = _table(here, way, float(epsilon))
        close = ceiling(table, seed=3) if way == "real" else fidelity(here.private(5), table)
        return _hash(table, [close.marginal, close.correlation, here.errors(table)])


def _table(here: Domain, way: str, epsilon: float) -> Columns:
    return ways.table(here, way, epsilon, 5, synthesis_fits.QUICK)[0]


def _hash(arrays: dict[str, Any], values: object) -> str:
    digest = hashlib.sha256(repr(values).encode())
    for name in sorted(arrays):
        digest.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()[:16]
