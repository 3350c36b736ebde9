"""Rows of transitions to standardised vectors and back, with public constants only.

One row becomes `[observation, action, reward, next, terminal]`:

- Box fields are shifted and scaled by public constants (from the bounds, or from public rows);
- a Box next observation is written as its *difference* from the observation. In raw form the change of one step is
  lost in the noise of the whole range (it is 80 % wrong on Maze2D at epsilon 10; as a difference, 3 %);
- a reward may be bent by public rows (`Encoder.from_public`) so that it is spread like a normal variable: a reward such
  as exp(-distance) is a needle at zero between its bounds, which no few noisy steps resolve;
- Discrete fields, and the categories among the columns of a Box, are one-hot, written as -1 and +1; the next
  observation's categories are what they are, not differences;
- values on a bound (a clipped action) are an atom that no smooth density fits: they are spread outwards by a
  half-normal of 0.3 standard units, and clipped back when decoded;
- terminations stay 0/1 and are cut at 0.5; the field is absent when the data has none;
- a number that takes few values, such as a flag, a count or a reward by the tenth, is decoded to the nearest of them
  (`atoms`): else no histogram of it would agree with that of real rows. Columns that are declared to be whole
  numbers are rounded.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import ndtr
from torch import Tensor
from torch.nn.functional import one_hot

from tacit.data.spec import Box, Discrete, PublicSpec, Space
from tacit.errors import DataError

SPREAD = 0.3
"""Size of the half-normal that values on a bound are moved outwards by, in standard units."""

SCORES = tuple(float(z) for z in np.linspace(-2.5, 2.5, 21))
"""Normal scores at which a bent reward is pinned to quantiles of public rewards; straight lines in between."""

UNIFORM = 0.5
"""Share of uniform rewards that are mixed into the public ones, so that no part of the range is squeezed.

On public mazes at epsilon 10, .25 has larger errors of high rewards (.128 against .103) and a lower Marginal (.972
against .976, and .983 against .984).
"""

_LEAST_SCALE = 1e-6
"""Public columns that hardly vary are scaled by at least this share of their range."""


@dataclass(frozen=True)
class Encoder:
    """A deterministic, elementwise map between raw columns and vectors of `size` standardised numbers.

    Args:
        spec: the public bounds.
        center, scale: constants of the `size` encoded columns: `encoded = (raw - center) / scale`.
        reward_knots: the rewards whose encoded values are `SCORES`, rising; () encodes rewards as the other columns.
        atoms: of each coordinate of a Box observation, and of the reward, the values that it takes, rising; () of one
            that takes many. () altogether of columns of which nothing is known.

    Raises:
        DataError: the constants do not fit the spec, a scale is not positive and finite, or the knots or atoms do not
            rise.
    """

    spec: PublicSpec
    center: tuple[float, ...]
    scale: tuple[float, ...]
    reward_knots: tuple[float, ...] = ()
    atoms: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        fits = len(self.center) == len(self.scale) == self.size
        knots, numbers = self.reward_knots, tuple(value for atoms in self.atoms for value in atoms)
        fits &= not knots or (len(knots) == len(SCORES) and _is_rising(knots))
        fits &= not self.atoms or (len(self.atoms) == self._numbers and all(map(_is_rising, self.atoms)))
        if not fits or not all(map(math.isfinite, self.center + self.scale + knots + numbers)) or min(self.scale) <= 0:
            what = "the constants do not fit the public spec"
            expected = f"{self.size} finite centers and positive scales"
            remedy = "build it with Encoder.from_bounds or Encoder.from_public"
            raise DataError(what, where="Encoder", expected=expected, remedy=remedy)

    @classmethod
    def from_bounds(cls, spec: PublicSpec) -> Encoder:
        """Constants from the bounds: a uniform value within them gets mean 0 and standard deviation 1.

        Raises:
            DataError: the observation is a Box and `spec.difference` is not declared.
        """
        if isinstance(spec.observation, Box) and spec.difference is None:
            what = "the typical size of a step is not declared"
            expected = "step = in the public bounds of each number of the observation (in Python difference=)"
            remedy = "declare it and import again, or name --public records, whose steps count (Encoder.from_public)"
            raise DataError(what, where="the public bounds", expected=expected, remedy=remedy)
        return cls._from_blocks(spec, _uniform_constants(spec.observation), _difference_constants(spec))

    @classmethod
    def from_public(cls, spec: PublicSpec, columns: Mapping[str, npt.NDArray[Any]]) -> Encoder:
        """Constants of the bounds; of public rows for the reward, and where no typical step is declared.

        Args:
            spec: the public bounds of the *private* data.
            columns: public rows, never private ones: `observations`, `next_observations` of shape (T, d), `rewards`
                of shape (T,).
        """
        low, high = spec.reward.low[0], spec.reward.high[0]
        rewards = np.clip(np.asarray(columns["rewards"], np.float64), low, high)
        mixed = np.concatenate([rewards, np.linspace(low, high, round(len(rewards) * UNIFORM / (1 - UNIFORM)))])
        knots = (low, *np.quantile(mixed, ndtr(SCORES[1:-1])).tolist(), high)
        bent = knots if _is_rising(knots) else ()  # a few values hold all the rewards: there is nothing to spread
        return dataclasses.replace(cls._from_steps(spec, columns), reward_knots=bent)

    @classmethod
    def _from_steps(cls, spec: PublicSpec, columns: Mapping[str, npt.NDArray[Any]]) -> Encoder:
        if isinstance(spec.observation, Discrete) or spec.difference is not None:
            return cls.from_bounds(spec)
        change = np.asarray(columns["next_observations"], np.float64) - np.asarray(columns["observations"], np.float64)
        extent = np.subtract(spec.observation.high, spec.observation.low)
        spread = np.maximum(change.std(0), _LEAST_SCALE * extent)
        declared = dataclasses.replace(spec, difference=tuple(spread.tolist()))
        return cls._from_blocks(spec, _uniform_constants(spec.observation), _difference_constants(declared))

    @classmethod
    def _from_blocks(cls, spec: PublicSpec, observation: _Constants, following: _Constants) -> Encoder:
        blocks = [observation, _uniform_constants(spec.action), _uniform_constants(spec.reward), following]
        if spec.terminals:
            blocks.append(([0.0], [1.0]))
        center, scale = (tuple(float(x) for block in blocks for x in block[i]) for i in (0, 1))
        return cls(spec, center, scale)

    @property
    def size(self) -> int:
        """Width D of an encoded row."""
        spec = self.spec
        return 2 * spec.observation.width + spec.action.width + 1 + int(spec.terminals)

    @property
    def _numbers(self) -> int:
        """How many numbers have atoms: the coordinates of a Box observation, and the reward."""
        return (self.spec.observation.size if isinstance(self.spec.observation, Box) else 0) + 1

    @property
    def bounded_size(self) -> int:
        """How many raw numbers of a row have bounds to sit on: the last dimension of `spread` in `encode`."""
        return sum(space.size for _, space in self._fields if isinstance(space, Box))

    @property
    def _fields(self) -> tuple[tuple[str, Space], ...]:
        spec = self.spec
        return ("observations", spec.observation), ("actions", spec.action), ("rewards", spec.reward)

    @property
    def _sizes(self) -> list[int]:
        spec = self.spec
        sizes = [spec.observation.width, spec.action.width, 1, spec.observation.width]
        return [*sizes, 1] if spec.terminals else sizes

    def encode(self, rows: Mapping[str, Tensor], spread: Tensor) -> Tensor:
        """Raw rows to vectors.

        Args:
            rows: `observations` [..., d] or [...] (Discrete), `actions` likewise, `rewards` [...],
                `next_observations`, `terminations` [...] when the spec has terminals. Other keys are ignored.
            spread: standard normals [..., bounded_size], drawn beforehand so that encoding is deterministic; zeros
                leave values on their bounds.

        Returns:
            float32 [..., D].
        """
        spec = self.spec
        observations, following = rows["observations"], rows["next_observations"]
        parts: list[Tensor] = []
        offset = 0
        for index, (name, space) in enumerate(self._fields):
            values = rows[name][..., None] if name == "rewards" else rows[name]
            if isinstance(space, Box):
                numbers = values.to(torch.float32)
                outwards = self._spread_bounds(numbers, space, spread[..., offset : offset + space.size].abs(), index)
                values = (self._bend_rewards(numbers) if index == 2 else numbers) + outwards
                offset += space.size
            parts.append(_numbers(values, space))
        if isinstance(spec.observation, Box):
            following = following.to(torch.float32) - observations.to(torch.float32) * _additive_mask(
                spec.observation, parts[0]
            )
        parts.append(_numbers(following, spec.observation))
        if spec.terminals:
            parts.append(rows["terminations"].to(torch.float32)[..., None])
        flat = torch.cat(parts, dim=-1)
        return (flat - flat.new_tensor(self.center)) / flat.new_tensor(self.scale)

    def _bend_rewards(self, rewards: Tensor) -> Tensor:
        """Rewards [..., 1] moved so that their column's straight scale gives the scores of the knots."""
        if not self.reward_knots:
            return rewards
        index = sum(self._sizes[:2])
        scores = _interpolate(rewards, self.reward_knots, SCORES)
        return self.center[index] + self.scale[index] * scores

    def _straighten_rewards(self, rewards: Tensor) -> Tensor:
        if not self.reward_knots:
            return rewards
        index = sum(self._sizes[:2])
        return _interpolate((rewards - self.center[index]) / self.scale[index], SCORES, self.reward_knots)

    def _spread_bounds(self, values: Tensor, space: Box, size: Tensor, index: int) -> Tensor:
        start = sum(self._sizes[:index])
        first = [0, *np.cumsum([count or 1 for count in space.categories]).tolist()[:-1]]  # encoded column of each
        scale = values.new_tensor([self.scale[start + place] for place in first])
        low, high = (torch.from_numpy(bound).to(values.device) for bound in space.float32_bounds())
        side = (values >= high).to(values.dtype) - (values <= low).to(values.dtype)
        return side * _additive_mask(space, values) * size * (SPREAD * scale)

    def decode(self, encoded: Tensor) -> dict[str, Tensor]:
        """Vectors [..., D] to raw rows inside the public bounds, keys and shapes as in `encode`.

        Box fields are float32, Discrete ones int64 (the largest of their scores), terminations bool (constant False
        when the spec has none).
        """
        spec = self.spec
        raw = encoded * encoded.new_tensor(self.scale) + encoded.new_tensor(self.center)
        parts = torch.split(raw, self._sizes, dim=-1)
        observations = self._snap_to_atoms(_values(parts[0], spec.observation), self.atoms[:-1])
        following = codes(parts[3], spec.observation)
        if isinstance(spec.observation, Box):
            following = following + observations * _additive_mask(spec.observation, following)
        rewards = _values(self._straighten_rewards(parts[2]), spec.reward)
        following = self._snap_to_atoms(_clip_to_bounds(following, spec.observation), self.atoms[:-1])
        if isinstance(spec.observation, Box) and any(spec.observation.static):  # what the network says of them is noise
            static = torch.tensor(spec.observation.static, device=following.device)
            following = torch.where(static, observations, following)
        return {
            "observations": observations,
            "actions": _values(parts[1], spec.action),
            "rewards": self._snap_to_atoms(rewards, self.atoms[-1:])[..., 0],
            "next_observations": following,
            "terminations": parts[4][..., 0] > 0.5
            if spec.terminals
            else torch.zeros(encoded.shape[:-1], dtype=torch.bool, device=encoded.device),
        }

    def _snap_to_atoms(self, values: Tensor, atoms: tuple[tuple[float, ...], ...]) -> Tensor:
        """Numbers [..., d], each moved to the nearest of its coordinate's atoms if it has any."""
        if not any(atoms):
            return values
        settled = values.clone()
        for index, coordinate_atoms in enumerate(atoms):
            if coordinate_atoms:
                levels = values.new_tensor(coordinate_atoms)
                middles = (levels[1:] + levels[:-1]) / 2
                settled[..., index] = levels[torch.searchsorted(middles, values[..., index].contiguous())]
        return settled

    def to_json(self) -> dict[str, Any]:
        """A JSON object from which `from_json` builds an equal encoder."""
        constants = {"center": self.center, "scale": self.scale, "reward_knots": self.reward_knots, "atoms": self.atoms}
        return {"spec": self.spec.to_json(), **{name: list(values) for name, values in constants.items()}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Encoder:
        """The encoder that `to_json` wrote.

        Raises:
            DataError: the constants do not fit the spec.
        """
        knots, atoms = (tuple(value.get(name, ())) for name in ("reward_knots", "atoms"))  # absent in older files
        constants = tuple(value["center"]), tuple(value["scale"]), knots, tuple(map(tuple, atoms))
        return cls(PublicSpec.from_json(value["spec"]), *constants)


_Constants = tuple[list[float], list[float]]


def _uniform_constants(space: Space) -> _Constants:
    """Constants that give a uniform number mean 0 and deviation 1, and write one-hot as -1, +1."""
    if isinstance(space, Discrete):
        return [0.5] * space.n, [0.5] * space.n
    low, high = np.asarray(space.low, np.float64), np.asarray(space.high, np.float64)
    return _add_one_hot(space, ((low + high) / 2).tolist(), ((high - low) / math.sqrt(12)).tolist())


def _difference_constants(spec: PublicSpec) -> _Constants:
    if isinstance(spec.observation, Discrete):
        return _uniform_constants(spec.observation)
    assert spec.difference is not None
    return _add_one_hot(spec.observation, [0.0] * spec.observation.size, list(spec.difference))


def _add_one_hot(space: Box, center: list[float], scale: list[float]) -> _Constants:
    def widen(constants: list[float]) -> list[float]:
        return [x for own, count in zip(constants, space.categories, strict=True) for x in ([0.5] * count or [own])]

    return widen(center), widen(scale)


def _is_rising(values: tuple[float, ...]) -> bool:
    """Whether the values still rise when they are rounded to float32."""
    return all(a < b for a, b in pairwise(np.asarray(values, np.float32).tolist()))


def _interpolate(values: Tensor, xs: tuple[float, ...], ys: tuple[float, ...]) -> Tensor:
    """The broken line through the points (xs rising, ys), its outer pieces prolonged."""
    x, y = values.new_tensor(xs), values.new_tensor(ys)
    left = (torch.searchsorted(x, values.contiguous()) - 1).clamp(0, len(xs) - 2)
    return y[left] + (values - x[left]) * ((y[1:] - y[:-1]) / (x[1:] - x[:-1]))[left]


def groups(space: Space) -> tuple[tuple[int, int], ...]:
    """How a space is encoded: runs of columns, (width, labels). Neighbouring numbers share one, without labels."""
    if isinstance(space, Discrete):
        return ((space.n, space.n),)
    runs: list[tuple[int, int]] = []
    for labels, run in groupby(space.categories):
        members = len(list(run))
        runs += [(labels, labels)] * members if labels else [(members, 0)]
    return tuple(runs)


def _additive_mask(space: Box, like: Tensor) -> Tensor:
    """1 for each dimension that is a number, 0 for a category."""
    return like.new_tensor([float(not count) for count in space.categories])


def _numbers(values: Tensor, space: Space) -> Tensor:
    if isinstance(space, Discrete):
        return one_hot(values.to(torch.int64), space.n).to(torch.float32)
    numbers = values.to(torch.float32)
    if not any(space.categories):
        return numbers
    columns = zip(numbers.unbind(-1), space.categories, strict=True)
    return torch.cat(
        [one_hot(part.to(torch.int64), count).float() if count else part[..., None] for part, count in columns], dim=-1
    )


def codes(part: Tensor, space: Space) -> Tensor:
    """Columns to raw values, a category's the largest of its scores; the bounds are not looked at."""
    if isinstance(space, Discrete):
        return part.argmax(dim=-1)
    if not any(space.categories):
        return part
    columns = zip(torch.split(part, [count or 1 for count in space.categories], dim=-1), space.categories, strict=True)
    return torch.cat(
        [scores.argmax(dim=-1, keepdim=True).to(part.dtype) if count else scores for scores, count in columns], dim=-1
    )


def _clip_to_bounds(values: Tensor, space: Space) -> Tensor:
    if isinstance(space, Discrete):
        return values
    low, high = (torch.from_numpy(bound).to(values.device) for bound in space.float32_bounds())
    if any(space.whole):
        values = torch.where(torch.tensor(space.whole, device=values.device), values.round(), values)
    return values.clamp(low, high)


def _values(part: Tensor, space: Space) -> Tensor:
    return _clip_to_bounds(codes(part, space), space)
