"""Where clipped gradients are added up: in float32 inside a chunk of units, in float64 from chunk to chunk."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tacit.privacy.gradients.layers import LayerContribution
from tacit.privacy.noise.secret import SecretNoise

UNITS_PER_CHUNK = 512
"""Expected units of a chunk: what `proofs/floating_point.md` says about float32 sums is said of so many."""

Float64 = npt.NDArray[np.float64]

_ALIGNED = 16
"""Floats of a cache line: a matrix that begins inside one costs up to half as much again."""


class GradientSum:
    """The sum of a model's clipped gradients, before noise.

    Args:
        parameters: the trainable ones, by name, in the order of the result.
        begun: what the sum begins with, [P] float64, parameter after parameter; None is zero.

    Guarantee: inside a chunk every coordinate is a float32 sum; the sums of chunks are added in float64. A unit that
    leaves changes the float32 sum of its own chunk alone, as long as its absence leaves the others in their chunks.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], initial: Float64 | None = None) -> None:
        sizes = [p.numel() for p in parameters.values()]
        padded = [-(-size // _ALIGNED) * _ALIGNED for size in sizes]
        self._starts = [0, *itertools.accumulate(padded)]
        self._sizes = sizes
        self._chunk = torch.empty(self._starts[-1], device=next(iter(parameters.values())).device)
        self._empty = True
        self._total: Float64 | None = None
        if initial is not None:
            self._total = np.zeros(self._starts[-1])
            for (start, stop), own in self._places():
                self._total[start:stop] = initial[own]
        self._views: dict[str, Tensor] = {}
        for (name, p), slot in zip(parameters.items(), torch.split(self._chunk, padded), strict=True):
            if slot.numel() > p.numel():
                slot[p.numel() :] = 0
                slot = slot[: p.numel()]
            self._views[name] = slot.view(p.shape)

    def add(
        self, contributions: Sequence[tuple[Mapping[str, str], LayerContribution]], weights: Tensor, keep: Tensor | None
    ) -> None:
        """Add units' weighted gradients to the current chunk."""
        # contributions: of every parameter once, each with its own names of the parameters -> those of the model
        written: set[str] = set()
        for names, contribution in contributions:
            into = {key: self._views[name] for key, name in names.items()}
            contribution.add(into, weights, keep, beta=0.0 if self._empty else 1.0)
            written.update(names.values())
        if written != self._views.keys():
            raise ValueError("a parameter has no contribution")
        self._empty = False

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Nothing of what is added to the current chunk within stays where something raises."""
        before = None if self._empty else self._chunk.clone()
        try:
            yield
        except BaseException:
            self._empty = before is None
            if before is not None:
                self._chunk.copy_(before)
            raise

    def start_chunk(self) -> None:
        """What is added from now on is summed apart, and both sums are added in float64."""
        if self._empty:
            return
        chunk = self._chunk.cpu().numpy()
        if self._total is None:
            self._total = chunk.astype(np.float64)
        else:
            np.add(self._total, chunk, out=self._total)
        self._empty = True

    def views(self) -> dict[str, Tensor]:
        """The sum by parameter name, each of its parameter's shape."""
        sums = torch.from_numpy(self._sums().astype(np.float32, copy=False)).to(self._chunk.device)
        return {
            name: sums[start : start + view.numel()].view(view.shape)
            for (name, view), start in zip(self._views.items(), self._starts, strict=False)
        }

    def to_vector(self) -> Tensor:
        """The sum, [P] float32, parameter after parameter."""
        return torch.cat([view.flatten() for view in self.views().values()])

    def noisy_mean(self, scale: float, divisor: float, noise: SecretNoise) -> Tensor:
        """The sum with N(0, scale^2) a coordinate, on the lattice, over the public divisor (`SecretNoise.noisy_mean`).

        Returns:
            [P] float32, parameter after parameter, on their device.
        """
        sums, places = self._sums(), self._places()
        if len(places) == 1 and self._total is None:  # in place, which halves the memory traffic
            result = np.asarray(sums[: sum(self._sizes)], np.float32)
        else:
            result = np.empty(sum(self._sizes), np.float32)
        for (start, stop), own in places:
            noise.noisy_mean(sums[start:stop], scale, divisor, result[own])
        return torch.from_numpy(result).to(self._chunk.device)

    def total(self) -> Float64:
        """The sum, [P] float64, parameter after parameter."""
        sums = self._sums()
        return np.concatenate([sums[start:stop] for (start, stop), _ in self._places()]).astype(np.float64, copy=False)

    def _sums(self) -> npt.NDArray[np.float32] | Float64:
        """The padded sum, of float32 while there is one chunk."""
        if self._total is not None:
            self.start_chunk()
            return self._total
        if self._empty:
            self._chunk.zero_()
            self._empty = False
        return np.asarray(self._chunk.cpu().numpy())

    def _places(self) -> list[tuple[tuple[int, int], slice]]:
        """(from, to) in the padded sum, and the same numbers' place in [P]; neighbours without padding are joined."""
        runs: list[tuple[int, int]] = []
        for start, size in zip(self._starts, self._sizes, strict=False):
            begin = runs.pop()[0] if runs and runs[-1][1] == start else start
            runs.append((begin, start + size))
        ends = itertools.accumulate(stop - start for start, stop in runs)
        return [
            ((start, stop), slice(end - (stop - start), end)) for (start, stop), end in zip(runs, ends, strict=True)
        ]
