"""JAX Privacy with a compiled training step against tacit's training of a diffusion model of transitions.

The work of `opacus_diffusion`: its rows, plan and 200 noisy steps. The same network is written in JAX, and one compiled
function holds a step: EDM's loss, the clipped sum by `jax_privacy.clipped_grad`, Gaussian noise of JAX's own generator,
Adam of optax, the moving average. Its rows are encoded before the clock starts. A Poisson sample is padded to 128 rows,
so that the step is compiled once, before the first round; padding weighs nothing. Microbatches of 32 rows are the
fastest of 8, 16, 32 and all at once, which takes 2.4 times as long. JAX Privacy accounts for nothing.
"""

from __future__ import annotations

from benchmarks.peers.works import Side, Work  # isort: skip  (first: it limits the threads)

import math
import os
from typing import Any

import numpy as np
import torch

from benchmarks.peers.opacus_diffusion import PLAN, ROWS, SPEC, columns, tacit_side
from tacit.methods.synthesis.diffusion import build_network
from tacit.methods.synthesis.encoding import Encoder

PADDED = 128  # rows of a sample of 80 expected ones: five deviations more
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def encoded(encoder: Encoder) -> np.ndarray:
    """The maze's rows as vectors, [ROWS, D]."""
    rows = {name: torch.from_numpy(column) for name, column in columns().items()}
    spread = torch.zeros(ROWS, encoder.bounded_size)
    return np.concatenate([encoder.encode(rows, spread).numpy(), np.zeros((1, encoder.size), np.float32)])


def jax_side(table: np.ndarray, encoder: Encoder) -> Side:
    """The hand-written loop around one compiled step."""
    import jax
    import jax.numpy as jnp
    import optax
    from jax_privacy import clipped_grad

    module = build_network(PLAN, encoder.size)
    first = {name: jnp.asarray(p.detach().numpy()) for name, p in module.named_parameters()}
    frequencies, octaves = (jnp.asarray(b.numpy()) for b in (module.frequencies, module.octaves))
    draws = PLAN.noise_multiplicity
    adam = optax.inject_hyperparams(optax.adam)(PLAN.learning_rate, *PLAN.betas)

    def network(p: dict[str, Any], rows: Any, noise: Any) -> Any:
        def linear(name: str, x: Any) -> Any:
            return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]

        angles = noise[:, None] * frequencies
        features = jnp.concatenate([noise[:, None], jnp.sin(angles), jnp.cos(angles)], axis=-1)
        phases = (rows[:, :, None] * octaves).reshape(len(rows), -1)
        waves = jnp.concatenate([rows, jnp.sin(phases), jnp.cos(phases)], axis=-1)
        hidden = linear("row_in", waves) + linear("noise_out", jax.nn.silu(linear("noise_in", features)))
        for block in range(PLAN.depth):
            hidden = hidden + linear(f"blocks.{block}", jax.nn.relu(hidden))
        return linear("row_out", jax.nn.relu(hidden))

    def loss(p: dict[str, Any], clean: Any, sigma: Any, noise: Any, weight: Any) -> Any:
        clean, sigma, noise = clean[0], sigma[0], noise[0]
        total = sigma**2 + 1
        noisy = clean + sigma[:, None] * noise
        target = (clean - noisy / total[:, None]) / (sigma / jnp.sqrt(total))[:, None]
        predicted = network(p, noisy / jnp.sqrt(total)[:, None], jnp.log(sigma) / 4)
        return weight[0] * jnp.square(predicted - target).mean()

    clipped = clipped_grad(loss, l2_clip_norm=PLAN.clip_norm, batch_argnums=(1, 2, 3, 4), microbatch_size=32)

    @jax.jit
    def step(p: Any, state: Any, average: Any, clean: Any, weight: Any, key: Any, rate: Any) -> Any:
        keys = jax.random.split(key, 2 + len(p))
        uniform = (jnp.arange(draws) + jax.random.uniform(keys[0], (PADDED, draws))) / draws
        sigma = jnp.exp(PLAN.P_mean + PLAN.P_std * jax.scipy.special.ndtri(jnp.clip(uniform, 1e-7, 1 - 1e-7)))
        noise = jax.random.normal(keys[1], (PADDED, draws, clean.shape[1]))
        sums = clipped(p, clean, sigma, noise, weight)
        scale = PLAN.noise_multiplier * PLAN.clip_norm
        noisy = {
            name: (sums[name] + scale * jax.random.normal(key, sums[name].shape))
            for name, key in zip(p, keys[2:], strict=True)
        }
        state.hyperparams["learning_rate"] = rate
        changes, state = adam.update(jax.tree.map(lambda one: one / (PLAN.sampling_rate * ROWS), noisy), state)
        p = optax.apply_updates(p, changes)
        return p, state, jax.tree.map(lambda old, new: PLAN.ema * old + (1 - PLAN.ema) * new, average, p)

    def train() -> object:
        generator = np.random.default_rng(0)
        p, state, average = first, adam.init(first), first
        for k in range(PLAN.steps):
            joined = np.flatnonzero(generator.random(ROWS) < PLAN.sampling_rate)[:PADDED]
            chosen = np.concatenate([joined, np.full(PADDED - len(joined), ROWS)])
            weight = (chosen < ROWS).astype(np.float32)
            p, state, average = step(
                p, state, average, table[chosen], weight, jax.random.key(k), PLAN.learning_rate_at(k)
            )
        return jax.block_until_ready(average)

    return train


def sides() -> tuple[Side, Side]:
    """Training on the same rows."""
    os.environ.setdefault("XLA_FLAGS", ONE_THREAD)
    import jax_privacy  # noqa: F401  (missing: said before anything is made)

    assert PLAN.sampling_rate * ROWS + 5 * math.sqrt(PLAN.sampling_rate * ROWS) < PADDED
    encoder = Encoder.from_bounds(SPEC)
    return jax_side(encoded(encoder), encoder), tacit_side(columns())


WORKS = (
    Work(
        "jax_privacy",
        "JAX Privacy, compiled",
        "jax-privacy",
        "pip install jax-privacy",
        "diffusion model of rows, 200 noisy steps",
        sides,
        3,
    ),
)
