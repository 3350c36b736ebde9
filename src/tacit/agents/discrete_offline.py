"""Training of discrete offline learners (`tacit.agents.learners`) on rows that need no protection. The network is an
`nn.Module` twin of `tacit.agents.networks.Mlp`, so that what is learnt is played by the same NumPy policies as
everything else. The same arguments give the same parameters, on one machine and one thread."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from tacit.agents.features import Features
from tacit.agents.learners import Learner
from tacit.agents.networks import Adam, Float32, Mlp
from tacit.errors import DataError, PlanError

Columns = Mapping[str, npt.NDArray[Any]]


class Agent(nn.Module):
    """A network that learns, `online`, and an earlier copy of it, `target`, which no gradient reaches; on the CPU. Both
    begin with theta [P], as `mlp` lays it out. `vector` [P] are the live parameters of `online` in the order of
    `parameters()`; changing it changes the network. Raises PlanError where theta is not [P]."""

    def __init__(self, mlp: Mlp, theta: Float32) -> None:
        super().__init__()
        if np.shape(theta) != (mlp.parameters,):
            expected = f"[{mlp.parameters}], one vector of a network of sizes {mlp.sizes}"
            remedy = "pass one row of mlp.initial(generator, groups)"
            raise PlanError(f"parameters of shape {np.shape(theta)}", where="Agent", expected=expected, remedy=remedy)
        self.mlp = mlp
        layers = mlp.layers(np.asarray(theta, np.float32))
        self.vector = torch.from_numpy(np.concatenate([[*layer[:-1].T.ravel(), *layer[-1]] for layer in layers]))
        self._target_vector = self.vector.clone()
        self._online_layers = _layer_views(mlp, self.vector)
        self._target_layers = _layer_views(mlp, self._target_vector)
        self.layers = nn.ModuleList(nn.Linear(n, m, device="meta") for n, m in itertools.pairwise(mlp.sizes))
        for layer, (weight, bias) in zip(self.layers, self._online_layers, strict=True):
            layer.weight, layer.bias = nn.Parameter(weight), nn.Parameter(bias)

    def online(self, x: Tensor) -> Tensor:
        """Inputs [..., d] -> outputs [..., A] of the network that learns."""
        if not torch.is_grad_enabled():
            return _forward(self._online_layers, x)
        first, *later = self.layers
        out: Tensor = first(x)
        for layer in later:
            out = layer(_tanh(out))
        return out

    def target(self, x: Tensor) -> Tensor:
        """Inputs [..., d] -> outputs [..., A] of the earlier copy."""
        return _forward(self._target_layers, x)

    def update_target(self) -> None:
        """Let `target` be what `online` is now."""
        self._target_vector.copy_(self.vector)

    def theta(self) -> Float32:
        """The parameters of `online`, [P], as `Mlp` lays them out (a copy)."""
        blocks = [torch.cat([weight.T, bias[None]]).reshape(-1) for weight, bias in self._online_layers]
        return torch.cat(blocks).numpy()


class Descent:
    """Adam down the slopes that an agent is given, the target's refreshments, and the mean of the last iterates.

    Args:
        agent: what learns, changed in place.
        steps: how many steps there will be; the learning rate falls to 0 along a line over the last half of them.
        target_every: steps between two refreshments of the target.
        average: share of the steps, at the end, whose iterates are averaged; 0 takes the last one.
    """

    def __init__(self, agent: Agent, *, steps: int, target_every: int, average: float) -> None:
        self.agent = agent
        self._steps, self._target_every = steps, target_every
        self._average_from = min(steps - 1, steps - round(average * steps))
        self._theta = agent.vector.numpy()[None]
        self._moments: dict[str, Adam] = {}
        self._sum = np.zeros(self._theta.shape[1], np.float64)
        self._steps_done = 0

    def step(self, slope: Tensor, rate: float, kind: str = "") -> None:
        """One step down `slope` [P] (in the order of `agent.vector`) at the rate `rate`. Slopes of different kinds keep
        moments of their own: noise has another scale than rows."""
        if kind not in self._moments:
            self._moments[kind] = Adam(np.zeros_like(self._theta), np.zeros_like(self._theta))
        left = 1.0 - self._steps_done / self._steps
        self._moments[kind].ascend(self._theta, -slope.detach().numpy()[None], rate * min(1.0, 2.0 * left))
        self._count_step()

    def skip_step(self) -> None:
        """Let one step pass without a slope."""
        self._count_step()

    def theta(self) -> Float32:
        """The averaged parameters [P], as `Mlp` lays them out."""
        mean = torch.from_numpy((self._sum / max(1, self._steps_done - self._average_from)).astype(np.float32))
        averaged = Agent(self.agent.mlp, np.zeros(self.agent.mlp.parameters, np.float32))
        averaged.vector.copy_(mean)
        return averaged.theta()

    def _count_step(self) -> None:
        if self._steps_done >= self._average_from:
            self._sum += self._theta[0]
        self._steps_done += 1
        if self._steps_done % self._target_every == 0:
            self.agent.update_target()


def encode_rows(features: Features, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Logged rows as a learner reads them: observations become inputs, everything else stays."""
    columns = {name: tensor for name, tensor in rows.items() if name not in ("observations", "next_observations")}
    for name, observations in (("inputs", rows["observations"]), ("next_inputs", rows["next_observations"])):
        columns[name] = torch.from_numpy(features(observations.cpu().numpy())).to(observations.device)
    return columns


def gradient(agent: Agent, learner: Learner, rows: Mapping[str, Tensor], weights: Tensor | None = None) -> Tensor:
    """The gradient of the mean loss of encoded rows [N, ...], [P] in the order of `agent.vector`.

    Args:
        agent, learner: whose losses.
        rows: as `encoded` gives them.
        weights: [N] of the rows; None is 1 for each.
    """
    losses = learner.losses(agent, rows)
    mean = (losses if weights is None else losses * weights).mean()
    slopes = torch.autograd.grad(mean, list(agent.parameters()))
    return torch.cat([slope.reshape(-1) for slope in slopes])


def train(
    learner: Learner,
    mlp: Mlp,
    features: Features,
    columns: Columns,
    *,
    steps: int,
    batch: int = 256,
    learning_rate: float = 1e-3,
    target_every: int = 200,
    average: float = 0.25,
    weights: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Float32:
    """Minibatch Adam on rows that need no protection: public or released ones, or for a ceiling without privacy.

    Args:
        learner: the loss.
        mlp: the network, from features to one output an action.
        features: public map of observations.
        columns: observations and next_observations [T, d] or [T], actions [T], rewards [T] and terminations [T].
        steps, batch: steps, and rows of one.
        learning_rate: of Adam; it falls to 0 over the last half of the steps.
        target_every: steps between two refreshments of the target network.
        average: share of the steps, at the end, whose parameters are averaged.
        weights: [T] factors of the rows' losses; for imitation weighted by returns, for instance.
        seed: of the first parameters and the batches.

    Returns:
        Parameters [P].

    Raises:
        DataError: there are no rows, or the columns differ in length.
        PlanError: a number is out of range.
    """
    if min(steps, batch, target_every) < 1 or not learning_rate > 0 or not 0 <= average <= 1:
        expected, remedy = "steps, batch and target_every >= 1, learning_rate > 0 and average in [0, 1]", "correct it"
        raise PlanError("a number is out of range", where="discrete_offline.train", expected=expected, remedy=remedy)
    rows, factors = encode_rows(features, tensors(columns)), None
    count = len(rows["rewards"])
    if weights is not None:
        factors = torch.from_numpy(np.asarray(weights, np.float32).copy())
    lengths = {len(tensor) for tensor in rows.values()} | ({len(factors)} if factors is not None else set())
    if count == 0 or lengths != {count}:
        what = "there are no rows, or the columns differ in length"
        expected, remedy = "at least one row, and one value a row in every column", "pass the columns of one table"
        raise DataError(what, where="discrete_offline.train", expected=expected, remedy=remedy)
    generator = np.random.default_rng(seed)
    agent = Agent(mlp, mlp.initial_parameters(generator, 1)[0])
    descent = Descent(agent, steps=steps, target_every=target_every, average=average)
    for _ in range(steps):
        chosen = torch.from_numpy(generator.integers(count, size=batch))
        sample = {name: tensor[chosen] for name, tensor in rows.items()}
        descent.step(gradient(agent, learner, sample, None if factors is None else factors[chosen]), learning_rate)
    return descent.theta()


def tensors(columns: Columns) -> dict[str, Tensor]:
    """The columns that learners read, as tensors of their types (copies)."""
    kinds = {"actions": np.int64, "rewards": np.float32, "terminations": np.bool_}
    names = ("observations", "actions", "rewards", "next_observations", "terminations")
    return {name: torch.from_numpy(np.array(columns[name], dtype=kinds.get(name))) for name in names}


def _layer_views(mlp: Mlp, vector: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Weights [out, in] and biases [out] of the layers, as views of a vector [P]."""
    pieces, start = [], 0
    for n, m in itertools.pairwise(mlp.sizes):
        middle, end = start + n * m, start + (n + 1) * m
        pieces.append((vector[start:middle].view(m, n), vector[middle:end]))
        start = end
    return pieces


def _forward(pieces: list[tuple[Tensor, Tensor]], x: Tensor) -> Tensor:
    """Outputs without a gradient."""
    (weight, bias), *later = pieces
    out = functional.linear(x, weight, bias)
    for weight, bias in later:
        out = functional.linear(_tanh(out), weight, bias)
    return out


def _tanh(x: Tensor) -> Tensor:
    """By way of the logistic function, which PyTorch computes several times as fast on a CPU."""
    return torch.sigmoid(2.0 * x).mul(2.0).sub_(1.0)
