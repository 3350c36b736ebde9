"""IQL and TD3+BC of d3rlpy 2.8.0 with the sizes, batches and numbers of steps of `tacit.agents`.

One agent after the other, as d3rlpy trains them: `fit` on its own dataset, without progress bar, log, evaluation or
saved model. It gets columns that are standardised already. What one step computes: `tests.agents.test_against_d3rlpy`.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit_worlds.agents.iql import IqlConfig
from tacit_worlds.agents.td3_bc import Td3BcConfig

INSTALL = (
    "d3rlpy is missing: pip install --no-deps d3rlpy==2.8.0 structlog colorama dataclasses-json marshmallow "
    "typing_inspect mypy_extensions tqdm gym gym_notices (without its dependencies, since it asks for an old Gymnasium)"
)

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import d3rlpy
        import structlog
except ImportError as missing:
    raise ImportError(INSTALL) from missing

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


def dataset(columns: Mapping[str, np.ndarray]) -> Any:
    """Columns of a table as d3rlpy keeps them: episodes, which end where a row terminates, or is the last."""
    last = columns["terminations"] | columns["truncations"]
    last[-1] = True
    scale = columns["observations"].std(0) + 1e-6
    return d3rlpy.dataset.MDPDataset(
        (columns["observations"] - columns["observations"].mean(0)) / scale,
        columns["actions"],
        columns["rewards"] / columns["rewards"].std(),
        columns["terminations"].astype(np.float32),
        (last & ~columns["terminations"]).astype(np.float32),
    )


def learner(config: IqlConfig | Td3BcConfig) -> Any:
    """d3rlpy's agent with our hyper-parameters."""
    encoder = d3rlpy.models.VectorEncoderFactory([config.width, config.width])
    common: dict[str, Any] = {
        "batch_size": config.batch,
        "gamma": config.discount,
        "tau": config.target_rate,
        "actor_learning_rate": config.learning_rate,
        "critic_learning_rate": config.learning_rate,
        "actor_encoder_factory": encoder,
        "critic_encoder_factory": encoder,
    }
    if isinstance(config, IqlConfig):
        made = d3rlpy.algos.IQLConfig(
            expectile=config.expectile,
            weight_temp=config.inverse_temperature,
            max_weight=config.weight_cap,
            value_encoder_factory=encoder,
            **common,
        )
    else:
        made = d3rlpy.algos.TD3PlusBCConfig(
            alpha=config.alpha,
            target_smoothing_sigma=config.policy_noise,
            target_smoothing_clip=config.noise_clip,
            update_actor_interval=config.policy_every,
            **common,
        )
    return made.create(device="cpu:0")


def train(rows: Any, config: IqlConfig | Td3BcConfig, seed: int) -> Any:
    """One agent on a `dataset`."""
    d3rlpy.seed(seed)
    agent = learner(config)
    agent.fit(
        rows,
        n_steps=config.steps,
        n_steps_per_epoch=config.steps,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        show_progress=False,
        save_interval=config.steps + 1,
    )
    return agent
