"""The masks of secure aggregation, from all 256 bits of their seeds.

Flower's SecAgg+ folds a mask's seed into 32 bits and expands it with the Mersenne Twister: whoever sees a masked vector
can try all seeds, and from 19,937 numbers on the generator's linear recurrence shows parts of the vector without any
trial. Here the same seeds key AES-256 in counter mode. Both sides use it, for the length of a `with` block.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

MODULUS = 2**32

_USERS = (
    "flwr.client.mod.secure_aggregation.secaggplus_mod",
    "flwr.server.workflow.secure_aggregation.secaggplus_workflow",
)
_GENERATOR = "pseudo_rand_gen"
_lock = threading.RLock()


def mask(seed: bytes, num_range: int, dimensions_list: Sequence[tuple[int, ...]]) -> list[npt.NDArray[np.int64]]:
    """Arrays of the given shapes, uniform on 0 .. 2^32 - 1 to anyone who does not know the seed.

    Raises:
        ValueError: another modulus than 2^32, or a seed of fewer than 32 bytes.
    """
    if num_range != MODULUS or len(seed) < 32:
        raise ValueError("masks are made modulo 2**32, from seeds of 256 bits")
    key = hashlib.sha256(b"tacit secure aggregation mask" + seed).digest()
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    sizes = [int(np.prod(shape)) for shape in dimensions_list]
    words = [np.frombuffer(stream.update(bytes(4 * size)), "<u4").astype(np.int64) for size in sizes]
    return [word.reshape(shape) for word, shape in zip(words, dimensions_list, strict=True)]


@contextlib.contextmanager
def strong_masks() -> Iterator[None]:
    """Flower's SecAgg+ in this process draws its masks with `mask`.

    Raises:
        ImportError: this version of Flower keeps its generator elsewhere.
    """
    with _lock:
        modules = [importlib.import_module(name) for name in _USERS]
        if not all(hasattr(module, _GENERATOR) for module in modules):
            raise ImportError("this version of Flower draws its masks elsewhere: install 'tacit[federated]'")
        before = [getattr(module, _GENERATOR) for module in modules]
        try:
            for module in modules:
                setattr(module, _GENERATOR, mask)
            yield
        finally:
            for module, generator in zip(modules, before, strict=True):
                setattr(module, _GENERATOR, generator)
