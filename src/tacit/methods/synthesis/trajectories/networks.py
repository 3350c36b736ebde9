"""The networks of fragments: tokens of rows, what mixes them, and how an episode ends.

Only Linear, LayerNorm and `Table` have parameters, so that per-unit gradients are fast (`privacy.gradients.layers`);
nothing is dropped out and nothing is averaged over a batch. Of every token the network knows the state in which its
rows begin, as
far as the noisy steps before it tell, as Fourier features: where walls are is a function of that.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad, scaled_dot_product_attention, silu

from tacit.methods.synthesis.diffusion import ResidualMLP
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import FREQUENCIES
from tacit.methods.synthesis.trajectories.fragments import Condition, FragmentEncoder
from tacit.methods.synthesis.trajectories.local_context import LocalContext
from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan
from tacit.privacy.gradients.layers import LearnedTable

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
