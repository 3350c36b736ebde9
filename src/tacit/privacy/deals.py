"""Keyed deals: which half, round or slot a unit gets, as a function of its name and a public seed alone.

A *name* is what a unit is to a deal: the digest of its id (`tacit.data.unit_keys.names`), or of its own rows where it
has none. Nothing else enters: not who else is there, not in which order, not how many. So a unit that leaves, comes or
changes its rows moves no other one, and with an id not even itself.

These deals are public: who knows a name and the seed knows the place. They never are the coins of a sample that is
priced, nor of a secret deal (`tacit.privacy.noise.secret` has those), and nobody may claim amplification for them. With
a secret seed that is drawn afresh, `words` are coins that belong to units (keyed BLAKE2b, a pseudo-random function).
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Names = NDArray[np.uint8]
Purpose = Literal["fold", "round", "slot", "device", "shard"]
"""What is dealt. Deals of one seed for different purposes are independent."""


def fold(names: Names, seed: str) -> NDArray[np.int64]:
    """Each unit's half, 0 or 1, [U]."""
    # names: of the units, [U, n] bytes; seed: public, a ledger's own is its dataset id
    # Guarantee: a unit's half depends on its name and the seed alone. Two equal names share it.
    return choose(names, seed, 2, purpose="fold")


def choose(names: Names, seed: str, n: int, *, purpose: Purpose) -> NDArray[np.int64]:
    """One of n places for each unit, [U], each as likely up to n / 2^32.

    Args:
        names: of the units, [U, bytes].
        seed: public.
        n: how many places, at least 1 and below 2^31.
        purpose: what is dealt.

    Guarantee: a unit's place depends on its name, the seed, n and the purpose alone.
    """
    if not 1 <= n < 1 << 31:
        raise ValueError("n")
    high = words(names, seed, purpose) >> np.uint64(32)
    return ((high * np.uint64(n)) >> np.uint64(32)).astype(np.int64)


def words(names: Names, seed: str, purpose: Purpose) -> NDArray[np.uint64]:
    """64 bits for each unit, [U]: BLAKE2b of its name, keyed by the seed, personal to the purpose."""
    if names.ndim != 2 or names.dtype != np.uint8:
        raise ValueError("names")
    key = hashlib.blake2b(seed.encode(), digest_size=64).digest()
    start = hashlib.blake2b(key=key, digest_size=8, person=purpose.encode())
    hashed = bytearray()
    for name in pack_rows(names).tolist():
        one = start.copy()
        one.update(name)
        hashed += one.digest()
    return np.frombuffer(bytes(hashed), "<u8").astype(np.uint64)


def pack_rows(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows of bytes [U, n], each as one item [U]."""
    return np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").ravel()
