"""Stable-Baselines3's PPO against tacit's, which is not private either: 20,480 steps of cart and pole.

The same work: the same simulator (`tacit_worlds.cart_pole`, eight episodes side by side, which Stable-Baselines3 meets
as one of its `VecEnv`s), steps, rollouts of 128, four epochs of four minibatches, networks of 64 and 64 tanh for actor
and critic, normalised observations and rewards (`VecNormalize`), bound on the gradient's norm, entropy, and a learning
rate that falls along a line. One agent on the CPU, as Stable-Baselines3 advises for networks so small; tacit's time per
agent falls further where it trains several at once.
"""

from __future__ import annotations

from benchmarks.peers.works import Side, Work  # isort: skip  (first: it limits the threads)

from typing import Any

import numpy as np

from tacit.agents.heads import Categorical
from tacit_worlds.agents import ppo
from tacit_worlds.cart_pole import ACTIONS, HORIZON, CartPole

CONFIG = ppo.PpoConfig(20_480)


def vectorised(environments: int) -> Any:
    """tacit's simulator as a `VecEnv` that begins a new episode wherever one is over."""
    from gymnasium import spaces
    from stable_baselines3.common.vec_env import VecEnv

    simulator, generator = CartPole(), np.random.default_rng(0)

    class Poles(VecEnv):
        def __init__(self) -> None:
            seen = spaces.Box(-np.inf, np.inf, (4,), np.float32)
            super().__init__(environments, seen, spaces.Discrete(ACTIONS))
            self.age = np.zeros(environments, np.int64)

        def reset(self) -> np.ndarray:
            self.state, self.age[:] = simulator.starts(environments, generator), 0
            return simulator.observe(self.state)

        def step_async(self, actions: np.ndarray) -> None:
            self.actions = actions

        def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
            self.state, paid, ended = simulator.step(self.state, self.actions, generator)
            self.age += 1
            over = ended | (self.age >= HORIZON)
            infos: list[dict[str, Any]] = [{} for _ in range(environments)]
            if over.any():
                last = simulator.observe(self.state)
                for i in np.flatnonzero(over):
                    infos[i] = {"terminal_observation": last[i], "TimeLimit.truncated": not ended[i]}
                self.state[over], self.age[over] = simulator.starts(int(over.sum()), generator), 0
            return simulator.observe(self.state), paid.astype(np.float32), over, infos

        def close(self) -> None: ...

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [None] * environments

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None: ...

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            return [None] * environments

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * environments

    return Poles()


def sides() -> tuple[Side, Side]:
    """Training from the first step to the last on both sides."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecNormalize

    def peer() -> None:
        agent = PPO(
            "MlpPolicy",
            VecNormalize(vectorised(CONFIG.environments), gamma=CONFIG.gamma),
            learning_rate=lambda left: CONFIG.rate * left,
            n_steps=CONFIG.rollout,
            batch_size=CONFIG.environments * CONFIG.rollout // CONFIG.minibatches,
            n_epochs=CONFIG.epochs,
            gamma=CONFIG.gamma,
            gae_lambda=CONFIG.trace,
            clip_range=CONFIG.ratio_clip,
            ent_coef=CONFIG.entropy,
            max_grad_norm=CONFIG.gradient_norm,
            policy_kwargs={"net_arch": list(CONFIG.hidden)},
            device="cpu",
            seed=0,
        )
        agent.learn(CONFIG.steps)

    def tacit() -> None:
        ppo.learn(CartPole(), Categorical(ACTIONS), CONFIG, observation=4, horizon=HORIZON)

    return peer, tacit


WORKS = (
    Work(
        "stable_baselines_ppo",
        "Stable-Baselines3, PPO",
        "stable-baselines3",
        "pip install stable-baselines3",
        "20,480 steps of cart and pole",
        sides,
    ),
)
