"""What the witnesses of private policy gradients share: vaults whose noise is drawn again from a seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from tacit.privacy.noise import SecretNoise
from tacit.privacy.user_vault import UserVault


@contextmanager
def noise(module: ModuleType) -> Iterator[None]:
    """Every `UserVault` that this module makes draws the same noise again (its ledgers are void)."""
    real = module.UserVault
    module.UserVault = partial(UserVault, noise=SecretNoise.for_tests(1))  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.UserVault = real  # type: ignore[attr-defined]


class Digest:
    """A hash of names and numbers, in the order in which they come."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, name: str, value: Any) -> None:
        """Arrays by their bytes, anything else as JSON."""
        self._hash.update(name.encode())
        raw = value.tobytes() if isinstance(value, np.ndarray) else json.dumps(value, sort_keys=True).encode()
        self._hash.update(raw)

    def __str__(self) -> str:
        return self._hash.hexdigest()[:16]
