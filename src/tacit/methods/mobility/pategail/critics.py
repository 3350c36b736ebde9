"""Critics of many people at once, every person's own small network stacked along axis 0, and the pairs that they judge.

A state-action pair is a whole number. A state is (slot, distinct places so far, length of the present stay, at home or
not); no place is in it. The embedding is a fixed public map, the same in every home, so that a gradient penalty in it
means the same for everybody.

The gradient penalty is differentiated by hand. A network of linear layers and leaky ReLUs is linear around almost every
input, so the gradient at an input is a product of the layers' matrices and slopes, and the slope of a function of it
needs one more pass forward through the same matrices (with the penalty's direction as the input). Nothing else is as
cheap, and no graph is built. Every product is batched over people, one matrix product of constant shape a person: a
person's numbers are the same bits whichever others are there.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.agents.networks import Mlp
from tacit.data.mobility.days import SLOTS
from tacit.methods.mobility.simulator import StateLayout
from tacit.validation import require_valid

Array = NDArray[Any]
Float32 = NDArray[np.float32]

ACTIONS = 5
DECISIONS = SLOTS - 1
"""Steps of a day: from slot t to t + 1, t = 0 .. 46."""


@dataclass(frozen=True)
class Embedding:
    """Codes of (slot, distinct, stay, home, action), and their places in R^d.

    Args:
        places: distinct places above this count as this many.
        longest: stays above this many slots count as this long.
        harmonics: sines and cosines of the time of day, of periods 24 h / k, k = 1 .. harmonics.
    """

    places: int = 16
    longest: int = 12
    harmonics: int = 3

    def __post_init__(self) -> None:
        for name, least in (("places", 4), ("longest", 4), ("harmonics", 0)):
            value = getattr(self, name)
            require_valid(
                f"embedding.{name}", value, type(value) is int and least <= value <= SLOTS, f"from {least} to {SLOTS}"
            )

    @property
    def layout(self) -> StateLayout:
        """The states as buckets of a table: a code is a bucket's number."""
        counts, stays = tuple(range(1, self.places + 1)), tuple(range(1, self.longest + 1))
        return StateLayout(times=SLOTS, counts=counts, stays=stays)

    @property
    def states(self) -> int:
        """How many codes of states there are."""
        return self.layout.size

    @property
    def codes(self) -> int:
        """How many codes of states with an action there are."""
        return self.states * ACTIONS

    @property
    def state_size(self) -> int:
        """Width of an embedded state."""
        return 2 * self.harmonics + 9

    @property
    def size(self) -> int:
        """d, the width of an embedded state with an action."""
        return self.state_size + ACTIONS

    def state(self, slot: Array, distinct: Array, stay: Array, home: Array) -> NDArray[np.int64]:
        """Codes of states; all arguments whole numbers of one shape, distinct and stay >= 1."""
        return self.layout.buckets(slot, distinct, stay, home)

    def parts(self, states: Array) -> tuple[Array, Array, Array, Array]:
        """Slot, distinct, stay and home of codes of states."""
        slot, places, stay, home = np.unravel_index(np.asarray(states, np.int64), self.layout.shape)
        return slot, places + 1, stay + 1, home

    def embed_states(self, states: Array) -> Float32:
        """[..., state_size] of codes [...]; every number is between -1 and 1."""
        slot, distinct, stay, home = self.parts(states)
        turn = 2 * math.pi / SLOTS * slot
        columns = [wave(k * turn) for k in range(1, self.harmonics + 1) for wave in (np.sin, np.cos)]
        columns += [np.log(distinct) / math.log(self.places), np.log(stay) / math.log(self.longest)]
        columns += [distinct == 1, distinct == 2, distinct <= 4, stay == 1, stay == 2, stay <= 4, home]
        return np.stack([np.asarray(column, np.float32) for column in columns], axis=-1)

    def embed(self, codes: Array) -> Float32:
        """[..., d] of codes [...] of states with an action: the state's place and the action's indicator."""
        states, action = np.divmod(np.asarray(codes, np.int64), ACTIONS)
        chosen = (action[..., None] == np.arange(ACTIONS)).astype(np.float32)
        return np.concatenate([self.embed_states(states), chosen], axis=-1)


def cell_indices(layout: StateLayout, embedding: Embedding, codes: Array) -> NDArray[np.int64]:
    """The cell, bucket of the state times 5 plus the action, of each code: 0 .. 5 layout.size - 1."""
    states, action = np.divmod(np.asarray(codes, np.int64), ACTIONS)
    slot, distinct, stay, home = embedding.parts(states)
    return np.asarray(layout.buckets(slot, distinct, stay, home) * ACTIONS + action)


Loss = Literal["wasserstein", "cross_entropy"]
"""The critic of a Wasserstein GAN with gradient penalty (PateGAIL++), or the discriminator of GAIL (PATEGAIL)."""

_LEAK = np.float32(0.2)
_TINY = np.float32(1e-12)


@dataclass(frozen=True, kw_only=True)
class Critic:
    """The shape of a person's critic, and how it is trained.

    Args:
        hidden: widths of the hidden layers.
        loss: see `Loss`.
        penalty: weight of the gradient penalty, 0 for none.
        one_sided: penalise only gradients longer than 1.
        spectral: divide every matrix by its largest singular value, found by one step of power iteration at a time.
        rate: learning rate of Adam.
        decays: of Adam's two moving averages.
        steps: of Adam, a round.
        batch: rows of the person's own, and as many generated ones, a step.
        seed: of the first parameters, which are public and the same for everybody.
    """

    hidden: tuple[int, ...] = (32, 32)
    loss: Loss = "wasserstein"
    penalty: float = 10.0
    one_sided: bool = False
    spectral: bool = False
    rate: float = 1e-3
    decays: tuple[float, float] = (0.5, 0.9)
    steps: int = 10
    batch: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("hidden", "decays"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        widths = len(self.hidden) >= 1 and all(type(width) is int and width >= 1 for width in self.hidden)
        require_valid("critic.hidden", self.hidden, widths, "one width at least, whole numbers >= 1")
        require_valid("critic.loss", self.loss, self.loss in get_args(Loss), " or ".join(get_args(Loss)))
        require_valid("critic.penalty", self.penalty, 0 <= self.penalty < math.inf, "a finite number >= 0")
        require_valid("critic.rate", self.rate, 0 < self.rate < math.inf, "a finite number > 0")
        bounded = len(self.decays) == 2 and all(0 <= decay < 1 for decay in self.decays)
        require_valid("critic.decays", self.decays, bounded, "two numbers in [0, 1)")
        for name in ("steps", "batch"):
            value = getattr(self, name)
            require_valid(f"critic.{name}", value, type(value) is int and value >= 1, "a whole number >= 1")

    def initial(self, inputs: int, people: int) -> Float32:
        """The public first parameters [U, P], of every person the same."""
        generator, pieces = np.random.default_rng(self.seed), []
        for n, m in itertools.pairwise((inputs, *self.hidden, 1)):
            layer = generator.normal(scale=math.sqrt(2.0 / n), size=(n + 1, m))
            layer[-1] = 0.0
            pieces.append(layer.ravel())
        return np.repeat(np.concatenate(pieces)[None].astype(np.float32), people, axis=0)

    def layers(self, theta: Float32) -> list[Float32]:
        """Views [U, in + 1, out] of parameters [U, P], the bias in the last row."""
        after_first = Mlp((*self.hidden, 1)).parameters
        inputs = (theta.shape[1] - after_first) // self.hidden[0] - 1
        return Mlp((inputs, *self.hidden, 1)).layers(theta)

    def values(self, theta: Float32, x: Float32) -> Float32:
        """What critics with parameters [U, P] say of the same embedded rows [T, d]: [U, T]."""
        layers = self.layers(self.normalise(theta))
        out = np.matmul(x, layers[0][:, :-1])
        out += layers[0][:, None, -1]
        for layer in layers[1:]:
            np.maximum(out, _LEAK * out, out=out)
            out = np.matmul(out, layer[:, :-1])
            out += layer[:, None, -1]
        return np.asarray(out[:, :, 0])

    def normalise(self, theta: Float32, vectors: Float32 | None = None) -> Float32:
        """The parameters that rows meet: those of a spectral critic have matrices of largest singular value 1.

        Args:
            theta: [U, P].
            vectors: of the power iteration, [U, sum of the layers' outputs], changed in place; None iterates again.
        """
        if not self.spectral:
            return theta
        parameters, start = theta.copy(), 0
        for layer in self.layers(parameters):
            width = layer.shape[2]
            right = np.ones((len(theta), width), np.float32) if vectors is None else vectors[:, start : start + width]
            for _ in range(20 if vectors is None else 1):
                left = _unit(np.matmul(layer[:, :-1], right[:, :, None])[:, :, 0])
                right[...] = _unit(np.matmul(left[:, None], layer[:, :-1])[:, 0])
            norm = np.matmul(np.matmul(left[:, None], layer[:, :-1]), right[:, :, None])
            layer[:, :-1] /= np.maximum(np.abs(norm), _TINY)
            start += width
        return parameters

    def backprop_norms(self, theta: Float32, normalised: Float32, vectors: Float32, slope: Float32) -> Float32:
        """The slope by the parameters from the one by the normalised parameters `met`, [U, P]; the latter is changed.

        For W / s with s = l' W r, l and r held fixed: (G - <G, W / s> l r') / s.
        """
        start = 0
        for layer, unit, g in zip(self.layers(theta), self.layers(normalised), self.layers(slope), strict=True):
            right = vectors[:, start : start + layer.shape[2]]
            left = _unit(np.matmul(layer[:, :-1], right[:, :, None])[:, :, 0])
            norm = np.matmul(np.matmul(left[:, None], layer[:, :-1]), right[:, :, None])
            along = (g[:, :-1] * unit[:, :-1]).sum(axis=(1, 2), keepdims=True)
            g[:, :-1] -= along * left[:, :, None] * right[:, None]
            g[:, :-1] /= np.maximum(np.abs(norm), _TINY)
            start += layer.shape[2]
        return slope

    def slopes(self, theta: Float32, rows: Float32, work: CriticArrays | None = None) -> Float32:
        """Slopes [U, P] of each person's loss by her parameters.

        The Wasserstein loss is  mean D(generated) - mean D(own) + penalty mean (|grad D(mix)| - 1)^2; that of the
        discriminator is the mean cross-entropy, own rows being 1, with the same penalty on its logit.

        Args:
            theta: [U, P] as rows meet them (`normalised`).
            rows: embedded, [U, 3 B, d + 1], the last column 1: B own, B generated, B mixed of both. Destroyed.
            work: arrays to use again, of an earlier call with the same shapes.
        """
        layers, count = self.layers(theta), rows.shape[1] // 3
        work = CriticArrays.of(self, rows) if work is None else work
        entering, slope = [rows, *work.entering], work.slope
        for into, layer, out, kink in zip(entering, layers, entering[1:], slope, strict=False):
            np.matmul(into, layer, out=kink)
            np.multiply(kink, _LEAK, out=out[..., :-1])
            np.maximum(out[..., :-1], kink, out=out[..., :-1])
            np.maximum(np.sign(kink, out=kink), _LEAK, out=kink)
        weight = self._weights(layers, entering, count)
        back: list[Float32] = [weight]
        for layer, kink in zip(layers[:0:-1], slope[::-1], strict=True):
            gradient = (
                back[0] * layer[:, None, :-1, 0] if layer.shape[2] == 1 else back[0] @ layer[:, :-1].swapaxes(1, 2)
            )
            gradient *= kink
            back.insert(0, gradient)
        direction = self._direction(back[0][:, 2 * count :] @ layers[0][:, :-1].swapaxes(1, 2), count)
        for into, layer, kink in zip(entering, layers, slope, strict=False):
            into[:, 2 * count :, :-1], into[:, 2 * count :, -1] = direction, 0.0
            direction = np.matmul(direction, layer[:, :-1])
            direction *= kink[:, 2 * count :]
        entering[-1][:, 2 * count :, :-1], entering[-1][:, 2 * count :, -1] = direction, 0.0
        result = np.empty_like(theta)
        for into, gradient, out in zip(entering, back, self.layers(result), strict=True):
            np.matmul(into.swapaxes(1, 2), gradient, out=out)
        return result

    def _weights(self, layers: list[Float32], entering: list[Float32], count: int) -> Float32:
        """Slope of the loss by the output of each row [U, 3 B, 1]; of mixed rows 1, to get their inputs' gradients."""
        weight = np.ones((len(entering[0]), 3 * count, 1), np.float32)
        weight[:, :count], weight[:, count : 2 * count] = -1.0 / count, 1.0 / count
        if self.loss == "cross_entropy":
            outputs = np.matmul(entering[-1][:, : 2 * count], layers[-1])
            outputs[:, :count] *= -1.0
            weight[:, : 2 * count] *= 1.0 / (1.0 + np.exp(np.minimum(-outputs, np.float32(50.0))))
        return weight

    def _direction(self, gradient: Float32, count: int) -> Float32:
        """Slope of the penalty by the gradients at the mixed inputs [U, B, d]."""
        norm = np.sqrt(np.einsum("ubd,ubd->ub", gradient, gradient) + _TINY)[..., None]
        excess = norm - np.float32(1.0)
        if self.one_sided:
            np.maximum(excess, np.float32(0.0), out=excess)
        gradient *= np.float32(2.0 * self.penalty / count) * excess / norm
        return gradient


@dataclass(frozen=True, eq=False)
class CriticArrays:
    """Arrays between the layers, used again from step to step."""

    entering: list[Float32]
    slope: list[Float32]

    @classmethod
    def of(cls, critic: Critic, rows: Float32) -> CriticArrays:
        """For rows of this shape."""
        lead = rows.shape[:2]
        entering = [np.ones((*lead, width + 1), np.float32) for width in critic.hidden]
        slope = [np.empty((*lead, width), np.float32) for width in critic.hidden]
        return cls(entering, slope)


def adam(
    theta: Float32,
    first: Float32,
    second: Float32,
    slope: Float32,
    step: NDArray[np.int64],
    rate: float,
    decays: tuple[float, float],
) -> None:
    """Step number `step` [U] of Adam (Kingma and Ba 2015) of parameters [U, P] down the slope, which is destroyed."""
    # All in place. Every entry is treated alone, so a stack of people is each person's own Adam.
    a, b = np.float32(decays[0]), np.float32(decays[1])
    first *= a
    first += (1 - a) * slope
    slope *= slope
    slope *= 1 - b
    second *= b
    second += slope
    np.multiply(second, (1.0 / (1.0 - decays[1] ** step)).astype(np.float32)[:, None], out=slope)
    np.sqrt(slope, out=slope)
    slope += np.float32(1e-8)
    np.divide(first, slope, out=slope)
    slope *= (rate / (1.0 - decays[0] ** step)).astype(np.float32)[:, None]
    theta -= slope


def _unit(vector: Float32) -> Float32:
    return np.asarray(vector / np.maximum(np.sqrt(np.square(vector).sum(axis=1, keepdims=True)), _TINY))
