"""From keystream words to Gaussians: Box-Muller with a refined tail, in numpy and, where a compiler was found, in C.

Box and Muller, "A note on the generation of random normal deviates", Ann. Math. Statist. 29 (1958) 610-611.

A pair of 32-bit words (a, b) gives one pair of coordinates: the radius is sqrt(-2 ln u) with u = a / 2^32, the angle is
2 pi b / 2^32. A word a < 2^16 is a coarse u (relative steps above 2^-16), so such a pair is computed again in float64
from u = (a + (x + 1/2) / 2^64) / 2^32 with 64 further bits x.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint32]
Words64 = npt.NDArray[np.uint64]
Float64 = npt.NDArray[np.float64]
BoxMuller = Callable[[Words, Words64, Float32, float], None]
"""`(words [2n], extra [k], out [2n], scale)`, see `box_muller_numpy`."""
NoisyMean = Callable[[Words, Words64, Float32 | Float64, Float32, float, float, float], None]
"""`(words [2n], extra [k], total [2n], out [2n], scale, step, divisor)`, see `noisy_mean_compiled`."""

RARE: Final = 1 << 16
_ARC: Final = 2 * np.pi / 2**32
_BLOCK: Final = 16384  # pairs worked on at a time: they stay in the second-level cache
_TO_BELOW_ONE: Final = np.float32((1 - 2**-24) * 2**-32)


class _Scratch(threading.local):
    """Reused arrays of one thread: fresh ones of this size would cost page faults at every block."""

    def __init__(self) -> None:
        self.rows = np.empty((3, _BLOCK), np.float32)


_scratch = _Scratch()


def rare_pairs(words: Words) -> int:
    """How many of the n radius words of `words` [2n] are below `RARE`."""
    radius = words[: words.size // 2]
    return int(np.count_nonzero(radius < RARE)) if radius.size and radius.min() < RARE else 0


def box_muller_numpy(words: Words, extra: Words64, out: Float32, scale: float) -> None:
    """Box-Muller in float32 numpy; the reference of the compiled kernel and its stand-in."""
    # words: [2n] keystream words, n radii then n angles, unchanged; extra: [k] further words, one for each of the k
    # `rare_pairs`; out: [2n] contiguous, receives n cosine coordinates, then n sine coordinates; scale: standard
    # deviation, from 2^-40 to 2^40
    if extra.size != rare_pairs(words):
        raise ValueError("extra must hold one word for each rare pair")
    n = words.size // 2
    with np.errstate(divide="ignore", invalid="ignore"):  # a word 0: its pair is rare, and refined
        for start in range(0, n, _BLOCK):
            stop = min(start + _BLOCK, n)
            radius = words[start:stop]
            _block(radius, words[n + start : n + stop], out[start:stop], out[n + start : n + stop], scale)
    if extra.size:
        _refine_tail(words, extra, out, scale)


def _block(radius: Words, angle: Words, first: Float32, second: Float32, scale: float) -> None:
    v, r, t = _scratch.rows[:, : radius.size]
    complement = v.view(np.uint32)
    # -ln u = (1 - u) * (ln v / (v - 1)) with v about u: accurate at both ends of (0, 1), because (ln v) / (v - 1) is
    # smooth at 1 and 1 - u comes exactly from the complement of the word (W. Kahan's log1p).
    np.copyto(v, radius, casting="unsafe")
    v *= _TO_BELOW_ONE
    np.log(v, out=r)
    v -= np.float32(1)
    r /= v
    np.negative(radius, out=complement)  # 2^32 - a
    np.copyto(t, complement, casting="unsafe")
    t *= np.float32(2**-31 * scale**2)
    r *= t
    np.sqrt(r, out=r)
    np.copyto(t, angle.view(np.int32), casting="unsafe")
    t *= np.float32(_ARC)
    np.cos(t, out=first)
    np.sin(t, out=second)
    first *= r
    second *= r


def _refine_tail(words: Words, extra: Words64, out: Float32, scale: float) -> None:
    """Recompute the pairs of `out` whose radius word is below `RARE`, with 64 more bits each, in float64."""
    n = words.size // 2
    rare = np.flatnonzero(words[:n] < RARE)
    u = (words[rare] + (extra + 0.5) * 2.0**-64) * 2.0**-32
    r = scale * np.sqrt(-2.0 * np.log(u))
    angle = words[n + rare] * _ARC
    out[rare] = r * np.cos(angle)
    out[n + rare] = r * np.sin(angle)


def _load_kernel(name: str) -> Any:
    try:
        return getattr(importlib.import_module("tacit.privacy.noise._gaussian"), name)
    except ImportError:
        return None


box_muller_compiled: Final[BoxMuller | None] = _load_kernel("gaussian")
"""The C kernel (same words, same law, rounding apart), or None where the package was installed without a compiler."""

noisy_mean_compiled: Final[NoisyMean | None] = _load_kernel("noisy_mean")
"""What `box_muller_compiled` makes of the same words, plus `total`, at the nearest multiple of `step`, over `divisor`.

The sum is of float64; `out` may be `total`. In one pass, in which the noise never leaves the first-level cache.
"""
