"""The networks of fragments: tokens of rows, what mixes them, and how an episode ends.

Only Linear, LayerNorm and `Table` have parameters, so that per-unit gradients are fast (`privacy.gradients.layers`);
nothing is dropped out and nothing is averaged over a batch. Of every token the network knows the state in which its
rows begin, as
far as the noisy steps before it tell, as Fourier features: where walls are is a function of that.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, gelu, pad, scaled_dot_product_attention, silu

from tacit.data.spec import Box
from tacit.methods.synthesis.diffusion import ResidualMLP
from tacit.methods.synthesis.encoding import Encoder, codes
from tacit.methods.synthesis.plan import FREQUENCIES
from tacit.methods.synthesis.table_matching import Floats, Table, TableMatching, project_to_simplex
from tacit.methods.synthesis.trajectories.fragments import Condition, FragmentEncoder
from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan
from tacit.privacy.gradients.layers import LearnedTable

MOST = 4.0
"""Densities count up to so many times an even spread."""


@dataclass(frozen=True)
class LocalContext:
    """Features of the places in which rows begin: what the released histograms say of the world around them.

    Public worlds differ from the private one, in where people can be and in what they do there. A network that was
    pre-trained on many public worlds, and shown for each of them its own histograms around every row, has learned to go
    by them. The private world's histograms, which `plan.matching` releases anyway, then tell it where it is, at no
    further cost in privacy: they are public once they are released.

    Of the tables of `plan.matching`, those of one or two coordinates of the observation give densities around the
    place, relative to an even spread over the bins. Those that have other columns behind them, such as the action or
    the reward, give how these are spread at the place.
    """

    matching: TableMatching  # whose tables are looked at
    encoder: Encoder  # of the places
    radius: int  # bins on either side of a place that are looked at, along each coordinate

    @property
    def table_indices(self) -> tuple[int, ...]:
        """Which of the tables: those that begin with a coordinate of the observation."""
        return tuple(i for i, table in enumerate(self.matching.tables) if _split(table)[0])

    @property
    def size(self) -> int:
        """How many features a place has."""
        return sum(self._size(self.matching.tables[i]) for i in self.table_indices)

    def _size(self, table: Table) -> int:
        places, attributes = _split(table)
        return math.prod(_bins(attributes)) if attributes else (2 * self.radius + 1) ** len(places)

    @property
    def cells(self) -> int:
        """Numbers of a world's tables, as of `world_tables`."""
        sizes = self.matching.sizes  # which counts the bins of all tables each time
        return sum(sizes[i] for i in self.table_indices)

    def world_tables(self, shares: Sequence[Floats]) -> Tensor:
        """A world's tables, one after another, [cells], from noisy shares of the rows in all tables of `matching`."""
        contexts = []
        for i in self.table_indices:
            table = self.matching.tables[i]
            places, attributes = _split(table)
            cells = project_to_simplex(shares[i], 1.0).reshape(math.prod(_bins(places)), math.prod(_bins(attributes)))
            if attributes:
                total = cells.sum(axis=1, keepdims=True)
                even = 1 / cells.shape[1]
                contexts.append(np.where(total > 0, cells / np.where(total > 0, total, 1.0), even) - even)
            else:
                contexts.append(np.minimum(cells * cells.size, MOST))
        return torch.from_numpy(np.concatenate([context.ravel() for context in contexts]).astype(np.float32))

    def even_tables(self) -> Tensor:
        """The tables [cells] of a world in which people, and what they do, are spread evenly."""
        return self.world_tables([np.full(size, 1 / size) for size in self.matching.sizes])

    @functools.cached_property
    def _patch_cells(self) -> Tensor:
        """[seen] which cell each number of `patches` is; the number of all cells stands for nobody."""
        numbers, begin = list[NDArray[np.int64]](), 0
        for i in self.table_indices:
            cells = _patches(*_split(self.matching.tables[i]), self.radius)
            numbers.append(np.where(cells < 0, self.cells, cells + begin).ravel())
            begin += self.matching.sizes[i]
        return torch.from_numpy(np.concatenate(numbers))

    def patches(self, world: Tensor) -> Tensor:
        """What is seen [seen] at the middle of every bin of every table, in the world of these tables [cells]."""
        return torch.cat([world, world.new_zeros(1)])[self._patch_cells.to(world.device)]

    def place_features(self, places: Tensor, patches: Tensor) -> Tensor:
        """Features [B, H, size] of encoded places [B, H, d], linear between the middles of bins, from `patches`."""
        # Beyond the outer bins there is nobody: what is seen of them is 0.
        encoder = self.encoder
        d = encoder.spec.observation.width
        raw = places * places.new_tensor(encoder.scale[:d]) + places.new_tensor(encoder.center[:d])
        if isinstance(encoder.spec.observation, Box):
            raw = codes(raw, encoder.spec.observation)
        raw, corners, features, begin = raw.flatten(0, -2), dict[Table, tuple[Tensor, Tensor]](), list[Tensor](), 0
        for i in self.table_indices:
            table = self.matching.tables[i]
            coordinates, _ = _split(table)
            if coordinates not in corners:
                corners[coordinates] = _corners(raw, coordinates)
            at, weight = corners[coordinates]
            shape = (math.prod(bins + 2 for bins in _bins(coordinates)), self._size(table))
            end = begin + math.prod(shape)
            patch_values = embedding_bag(at, patches[begin:end].view(shape), mode="sum", per_sample_weights=weight)
            features.append(patch_values)
            begin = end
        return torch.unflatten(torch.cat(features, dim=-1), 0, places.shape[:-1])


def _split(table: Table) -> tuple[Table, Table]:
    """The axes of a table that are a place, the first one or two if they are of the observation, and the others."""
    place = tuple(itertools.takewhile(lambda axis: axis.column == "observations", table[:2]))
    return place, table[len(place) :]


def _bins(axes: Table) -> tuple[int, ...]:
    return tuple(len(axis.edges) - 1 for axis in axes)


def _patches(coordinates: Table, attributes: Table, radius: int) -> NDArray[np.int64]:
    """[middles, features] which cell of a table each feature is at the middle of each bin; -1 where there is none."""
    # A bin of nobody is added on either side of each coordinate. Features are the densities up to `radius` bins away,
    # or, if there are other columns, how these are spread.
    shape = _bins(coordinates)
    middles = np.stack(np.meshgrid(*(np.arange(-1, bins + 1) for bins in shape), indexing="ij"), axis=-1)
    middles = middles.reshape(-1, 1, len(shape))
    if not attributes:
        reach = [range(-radius, radius + 1)] * len(shape)
        middles = middles + np.array(list(itertools.product(*reach)))
    inside = ((middles >= 0) & (middles < shape)).all(axis=-1)
    numbers = np.ravel_multi_index(tuple(np.moveaxis(middles, -1, 0)), shape, mode="clip")
    if attributes:
        numbers = numbers * math.prod(_bins(attributes)) + np.arange(math.prod(_bins(attributes)))
    return np.where(inside, numbers, -1)


def _corners(raw: Tensor, coordinates: Table) -> tuple[Tensor, Tensor]:
    """Of places [N, d], the 2^k middles of bins [N, 2^k] around each, as of `_patches`, and their weights."""
    at, weight = torch.zeros(len(raw), 1, dtype=torch.int64, device=raw.device), raw.new_ones(len(raw), 1)
    for axis, bins in zip(coordinates, _bins(coordinates), strict=True):
        position = _position(raw[:, axis.index], axis.edges) + 1
        below = position.long().clamp(0, bins)  # positions that are not finite too
        above = (position - below)[:, None]
        at = (at[..., None] * (bins + 2) + torch.stack([below, below + 1], dim=-1)[:, None]).flatten(1)
        weight = (weight[..., None] * torch.stack([1 - above, above], dim=-1)).flatten(1)
    return at, weight


def _position(values: Tensor, edges: Sequence[float]) -> Tensor:
    """Places between edges as numbers of bins from the first edge, less a half: i at the middle of bin i."""
    values, borders = values.double(), torch.tensor(edges, dtype=torch.float64, device=values.device)
    inside = torch.searchsorted(borders[1:-1].contiguous(), values.contiguous(), right=True)
    low, high = borders[inside], borders[inside + 1]  # a float32 apart where a bound has a bin of its own
    return (inside + ((values - low) / (high - low)).clamp(0.0, 1.0) - 0.5).float()


MODES = 3
"""Flags of a row: there, truncated, terminated (`FragmentEncoder.flags`)."""


class AttentionBlock(nn.Module):
    """Pre-norm attention and a perceptron of twice the width, both residual: [B, T, W] to [B, T, W]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm_after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, tokens: Tensor, attention_mask: Tensor) -> Tensor:
        """`seen` [B or 1, T, T]: which token (the last axis) each token attends to; each to one at least."""
        split = torch.unflatten(self.inputs(self.norm(tokens)), -1, (3, self.heads, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=attention_mask[:, None])
        tokens = tokens + self.output(mixed.transpose(1, 2).flatten(2))
        after: Tensor = tokens + self.narrow(gelu(self.widen(self.norm_after(tokens))))
        return after


class Transformer(nn.Module):
    """`depth` blocks; causal where rows are drawn one by one."""

    def __init__(self, width: int, depth: int, heads: int, *, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.blocks = nn.ModuleList(AttentionBlock(width, heads) for _ in range(depth))

    def forward(self, tokens: Tensor, present: Tensor) -> Tensor:
        """tokens [B, T, W], of which those `present` [B, T] are attended to; the first one always is."""
        attention_mask = present[:, None, :].expand(-1, tokens.shape[1], -1)
        if self.causal:
            attention_mask = attention_mask.tril()
        for block in self.blocks:
            tokens = block(tokens, attention_mask)
        return tokens


class Convolutions(nn.Module):
    """`depth` times norm, SiLU and a convolution over five neighbouring tokens, residual. A convolution is one Linear
    of unfolded tokens, whose per-unit gradient is known."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.mixes = nn.ModuleList(nn.Linear(5 * width, width) for _ in range(depth))

    def forward(self, tokens: Tensor, present: Tensor) -> Tensor:
        """[B, T, W] to [B, T, W]; tokens that are not `present` [B, T] count as zeros."""
        for norm, mix in zip(self.norms, self.mixes, strict=True):
            masked = silu(norm(tokens)) * present[..., None]
            tokens = tokens + mix(pad(masked, (0, 0, 2, 2)).unfold(1, 5, 1).flatten(2))
        return tokens


class UNet(nn.Module):
    """The temporal U-Net of PrivORL-j-U: two halvings with twice the width, and back, with skips."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = (width, 2 * width, 4 * width)
        self.down = nn.ModuleList(Convolutions(w, depth) for w in widths)
        self.up = nn.ModuleList(Convolutions(w, depth) for w in widths[:2])
        self.halvings = nn.ModuleList(nn.Linear(2 * w, 2 * w) for w in widths[:2])
        self.doublings = nn.ModuleList(nn.Linear(2 * w, 2 * w) for w in widths[:2])

    def forward(self, tokens: Tensor, present: Tensor) -> Tensor:
        """tokens [B, T, W] with T a multiple of 4, of which those `present` [B, T] count."""
        skips = []
        for level, blocks in enumerate(self.down):
            tokens = blocks(tokens, present)
            if level < len(self.halvings):
                skips.append((tokens, present))
                tokens = self.halvings[level](torch.unflatten(tokens, 1, (-1, 2)).flatten(2))
                present = torch.unflatten(present, 1, (-1, 2)).any(-1)
        for level in reversed(range(len(self.up))):
            skip, present = skips[level]
            tokens = skip + torch.unflatten(self.doublings[level](tokens), 2, (2, -1)).flatten(1, 2)
            tokens = self.up[level](tokens, present)
        return tokens


class ContextFeatures(nn.Module):
    """What is known of the world around places, [B, H, d] to [B, H, size]; nothing where a plan does not look. What is
    seen at the middles of bins is a buffer of public numbers; until it is set, people are spread evenly."""

    patches: Tensor

    def __init__(self, plan: TrajectoriesPlan, encoder: Encoder) -> None:
        super().__init__()
        self.world: LocalContext | None = None
        if plan.local_context is not None and plan.matching is not None:
            self.world = LocalContext(plan.matching, encoder, plan.local_context)
        self.size = 0 if self.world is None else self.world.size
        even = torch.zeros(0) if self.world is None else self.world.patches(self.world.even_tables())
        self.register_buffer("patches", even, persistent=False)

    def set_world(self, tables: Tensor) -> None:
        """Look at the world of these tables [cells] from now on."""
        assert self.world is not None
        self.patches.copy_(self.world.patches(tables))

    def forward(self, places: Tensor) -> Tensor:
        if self.world is None:
            return places[..., :0]
        return self.world.place_features(places, self.patches)


class RowTokens(nn.Module):
    """`rows_per_token` rows a token; the condition and the noise are added to each of them."""

    def __init__(self, plan: TrajectoriesPlan, codec: FragmentEncoder, outputs: int, around: ContextFeatures) -> None:
        super().__init__()
        count, self.harmonics, self.around = plan.rows_per_token, plan.harmonics, around
        state, step = codec.state_size, codec.step_size
        row = step + MODES + state * (1 + 2 * plan.harmonics) + around.size
        inputs = codec.condition_size + 2 * state * plan.harmonics + 1 + 2 * FREQUENCIES + around.size
        self.count = count
        self.rows = nn.Linear(count * row, plan.width)
        self.positions = LearnedTable(plan.horizon // count, plan.width)
        self.known, self.known_out = nn.Linear(inputs, plan.width), nn.Linear(plan.width, plan.width)
        self.norm, self.head = nn.LayerNorm(plan.width), nn.Linear(plan.width, count * outputs)

    def embed(
        self, condition: Condition, noise: Tensor, steps: Tensor, places: Tensor, flags: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Tokens [B, T, W] and which of them are present [B, T]."""
        # condition: of B fragments; noise: [B, 1 + 2 FREQUENCIES] features of the noise level; steps: [B, H, S], as the
        # network may see them; places: [B, H, d], flags: [B, H, MODES]
        local = self.around(places)
        rows = torch.cat([steps * flags[..., :1], waves(places, self.harmonics), flags, local], dim=-1)
        tokens = self.positions(self.rows(torch.unflatten(rows, 1, (-1, self.count)).flatten(2)))
        first = waves(condition.first, self.harmonics)[:, condition.first.shape[1] :]
        inputs = [condition.vector(), first, noise, local[:, 0]]  # the first row begins where the fragment does
        added: Tensor = self.known_out(silu(self.known(torch.cat(inputs, dim=-1))))
        return tokens + added[:, None], torch.unflatten(flags[..., 0], 1, (-1, self.count)).any(-1)

    def read(self, tokens: Tensor) -> Tensor:
        """[B, T, W] to [B, H, outputs]."""
        return torch.unflatten(self.head(self.norm(tokens)), 2, (self.count, -1)).flatten(1, 2)


class ComponentTokens(nn.Module):
    """The paper's tokens: one of the noise, five of the row before, and five a row, each with its own perceptrons. The
    five are state, action, reward, ending and next state. States and endings are known here and have no output."""

    def __init__(self, plan: TrajectoriesPlan, codec: FragmentEncoder) -> None:
        super().__init__()
        self.sizes, self.harmonics, width = list(codec.step_sizes), plan.harmonics, plan.width
        state = codec.state_size * (1 + 2 * plan.harmonics)
        action, reward, following = self.sizes
        clock = codec.condition_size - codec.state_size - codec.step_size
        self.noise = _perceptron(1 + 2 * FREQUENCIES + clock, width, width)
        self.before = nn.ModuleList(_perceptron(size, width, width) for size in (state, action, reward, 1, following))
        self.inputs = nn.ModuleList(
            _perceptron(size, width, width) for size in (state, action, reward, MODES, following)
        )
        self.positions = LearnedTable(6 + 5 * plan.horizon, width)
        self.norm = nn.LayerNorm(width)
        self.heads = nn.ModuleList(_perceptron(width, width, size) for size in self.sizes)

    def embed(
        self, condition: Condition, noise: Tensor, steps: Tensor, places: Tensor, flags: Tensor
    ) -> tuple[Tensor, Tensor]:
        """As `RowTokens.embed`, with T = 6 + 5 H."""
        present = flags[..., :1]
        action, reward, following = torch.split(steps * present, self.sizes, dim=-1)
        row = (waves(places, self.harmonics), action, reward, flags, following)
        rows = torch.stack([layer(part) for layer, part in zip(self.inputs, row, strict=True)], dim=2).flatten(1, 2)
        clock = condition.vector()[:, condition.first.shape[1] + condition.previous.shape[1] :]
        parts = (waves(condition.first, self.harmonics), *torch.split(condition.previous, self.sizes, dim=-1))
        before = (*parts[:3], condition.begins[:, None], parts[3])
        ahead = [self.noise(torch.cat([noise, clock], dim=-1))]
        ahead += [layer(part) for layer, part in zip(self.before, before, strict=True)]
        tokens: Tensor = self.positions(torch.cat([torch.stack(ahead, dim=1), rows], dim=1))
        there = present[..., 0].bool().repeat_interleave(5, dim=1)
        return tokens, torch.cat([there.new_ones(len(there), 6), there], dim=1)

    def read(self, tokens: Tensor) -> Tensor:
        """[B, T, W] to [B, H, S]."""
        rows = torch.unflatten(self.norm(tokens[:, 6:]), 1, (-1, 5))
        parts = [head(rows[:, :, place]) for head, place in zip(self.heads, (1, 2, 4), strict=True)]
        return torch.cat(parts, dim=-1)


class EndingScores(nn.Module):
    """Scores of how a fragment ends, from its condition alone: [B, endings]."""

    def __init__(self, plan: TrajectoriesPlan, codec: FragmentEncoder, around: ContextFeatures) -> None:
        super().__init__()
        self.harmonics, self.around = plan.harmonics, around
        inputs = codec.condition_size + 2 * codec.state_size * plan.harmonics + around.size
        self.known, self.hidden = nn.Linear(inputs, plan.width), nn.Linear(plan.width, plan.width)
        self.scores = nn.Linear(plan.width, codec.endings)
        with torch.no_grad():
            self.scores.weight.mul_(0.1)
            self.scores.bias.zero_()[0] = math.log(10.0 * codec.endings)  # episodes are longer than a few fragments

    def forward(self, condition: Condition) -> Tensor:
        first = waves(condition.first, self.harmonics)[:, condition.first.shape[1] :]
        features = [condition.vector(), first, self.around(condition.first[:, None])[:, 0]]
        hidden = silu(self.known(torch.cat(features, dim=-1)))
        scores: Tensor = self.scores(hidden + silu(self.hidden(hidden)))
        return scores


class FragmentNetwork(nn.Module):
    """Tokens, trunk and endings of a plan.

    Args:
        plan: its sizes.
        codec: of the fragments.
        outputs: numbers a row that are read from its token.
    """

    frequencies: Tensor

    def __init__(self, plan: TrajectoriesPlan, codec: FragmentEncoder, outputs: int) -> None:
        super().__init__()
        draws = torch.randn(FREQUENCIES, generator=torch.Generator().manual_seed(0))
        self.register_buffer("frequencies", 2 * math.pi * draws)
        self.around = ContextFeatures(plan, codec.encoder)
        self.tokens = (
            RowTokens(plan, codec, outputs, self.around) if plan.tokens == "rows" else ComponentTokens(plan, codec)
        )
        self.trunk: nn.Module
        if plan.network == "unet":
            self.trunk = UNet(plan.width, plan.depth)
        else:
            causal = plan.network == "autoregressive"
            self.trunk = Transformer(plan.width, plan.depth, plan.heads, causal=causal)
        self.endings = EndingScores(plan, codec, self.around)

    def forward(self, condition: Condition, noise: Tensor, steps: Tensor, places: Tensor, flags: Tensor) -> Tensor:
        """[B, H, outputs], for the noise condition `noise` [B]; the others as of `RowTokens.embed`."""
        angles = noise[:, None] * self.frequencies
        features = torch.cat([noise[:, None], angles.sin(), angles.cos()], dim=-1)
        tokens, present = self.tokens.embed(condition, features, steps, places, flags)
        return self.tokens.read(self.trunk(tokens, present))


class StartNetwork(ResidualMLP):
    """A residual MLP of first observations that is shown what is around them."""

    def __init__(self, plan: TrajectoriesPlan, encoder: Encoder) -> None:
        around, observed = ContextFeatures(plan, encoder), encoder.spec.observation.width
        sizes = {"width": plan.start_width, "depth": plan.start_depth, "embedding": plan.start_width}
        super().__init__(observed + around.size, harmonics=2, **sizes)
        self.observed, self.around = observed, around

    def forward(self, rows: Tensor, noise: Tensor) -> Tensor:
        """[B, d], for rescaled noisy observations [B, d] and their noise condition c_noise [B]."""
        variance = torch.exp(8 * noise)[:, None]  # c_noise is a quarter of the logarithm of the noise level
        around = self.around((rows / torch.sqrt(variance + 1))[:, None])[:, 0]
        return super().forward(torch.cat([rows, around], dim=-1), noise)[:, : self.observed]


def waves(values: Tensor, harmonics: int) -> Tensor:
    """[..., d] and its sines and cosines of `harmonics` octaves, [..., d (1 + 2 harmonics)]."""
    octaves = math.pi / 2 * 2.0 ** torch.arange(harmonics, device=values.device)
    phases = (values[..., None] * octaves).flatten(-2)
    return torch.cat([values, phases.sin(), phases.cos()], dim=-1)


def _perceptron(size: int, width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, width), nn.GELU(), nn.Linear(width, outputs))
