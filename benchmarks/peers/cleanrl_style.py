"""Private policy gradient in the style of a single-file PPO: what one gets by changing such a file as little as needed.

One seed, `SyncVectorEnv` of 8 CartPoles as the 8 people of a round, tensors [steps, people], the policy and the value
network called for every step, generalised advantages in a loop over time. The update is the one thing that differs from
PPO: every person trains a copy of the agent (actor and critic) with `torch.optim.Adam` on own minibatches, without
PPO's clip of ratios; their differences, clipped as a whole, are summed, and the sum gets Gaussian noise. It is the
algorithm that `benchmarks.policy_gradient` runs through tacit's doors. There is no ledger, no register, no accounting,
and the noise is torch's. The environments are reset in every round; advantages are standardised person by person.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import gymnasium as gym
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor, nn
from torch.distributions.categorical import Categorical


@dataclass(frozen=True)
class Settings:
    """Everything that is set; `epsilon` and `learning_rate` are Adam's."""

    users: int = 8
    steps: int = 64
    epochs: int = 8
    minibatches: int = 2
    gamma: float = 0.99
    trace: float = 0.85
    clip: float = 0.05
    sigma: float = 4.0
    entropy: float = 0.01
    learning_rate: float = 2.5e-4
    epsilon: float = 1e-5


def linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """A layer with orthogonal weights."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Agent(nn.Module):
    """Actor 4-64-64-2 and critic 4-64-64-1."""

    def __init__(self) -> None:
        super().__init__()
        root = 2.0**0.5
        self.critic = nn.Sequential(linear(4, 64, root), nn.Tanh(), linear(64, 64, root), nn.Tanh(), linear(64, 1, 1.0))
        self.actor = nn.Sequential(linear(4, 64, root), nn.Tanh(), linear(64, 64, root), nn.Tanh(), linear(64, 2, 0.01))

    def value(self, x: Tensor) -> Tensor:
        """v(s) [...]."""
        return self.critic(x)[..., 0]

    def act(self, x: Tensor, action: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Actions (those given, or drawn), their log-probabilities, entropies and values."""
        law = Categorical(logits=self.actor(x))
        if action is None:
            action = law.sample()
        return action, law.log_prob(action), law.entropy(), self.value(x)


def flat(agent: Agent) -> Tensor:
    """All parameters in one vector."""
    return nn.utils.parameters_to_vector(agent.parameters()).detach()


def run(rounds: int, seed: int, settings: Settings = Settings()) -> Agent:
    """Learn for `rounds` rounds of `users` x `steps` steps of the environment."""
    torch.manual_seed(seed)
    envs = SyncVectorEnv(
        [lambda: gym.make("CartPole-v1") for _ in range(settings.users)], autoreset_mode=AutoresetMode.SAME_STEP
    )
    agent, shape = Agent(), (settings.steps, settings.users)
    seen, actions = torch.zeros((*shape, 4)), torch.zeros(shape, dtype=torch.int64)
    logs, rewards, ends, values = torch.zeros(shape), torch.zeros(shape), torch.zeros(shape), torch.zeros(shape)

    for k in range(rounds):
        now, _ = envs.reset(seed=seed * rounds * settings.users + k * settings.users)
        for t in range(settings.steps):
            seen[t] = torch.tensor(now)
            with torch.no_grad():
                actions[t], logs[t], _, values[t] = agent.act(seen[t])
            now, reward, ended, cut, _ = envs.step(actions[t].numpy())
            rewards[t], ends[t] = torch.tensor(reward), torch.tensor(ended | cut)
        with torch.no_grad():
            following = agent.value(torch.tensor(now))
            advantages, last = torch.zeros(shape), torch.zeros(settings.users)
            for t in reversed(range(settings.steps)):
                alive = 1.0 - ends[t]
                error = rewards[t] + settings.gamma * following * alive - values[t]
                advantages[t] = last = error + settings.gamma * settings.trace * alive * last
                following = values[t]
        returns = advantages + values

        theta, total = flat(agent), torch.zeros(0)
        for u in range(settings.users):
            own = copy.deepcopy(agent)
            optimiser = torch.optim.Adam(own.parameters(), lr=settings.learning_rate, eps=settings.epsilon)
            gain = (advantages[:, u] - advantages[:, u].mean()) / (advantages[:, u].std() + 1e-8)
            for _ in range(settings.epochs):
                for batch in torch.randperm(settings.steps).chunk(settings.minibatches):
                    _, after, entropy, value = own.act(seen[batch, u], actions[batch, u])
                    ratio = (after - logs[batch, u]).exp()
                    error = 0.5 * (value - returns[batch, u]).square().mean()
                    loss = error - (gain[batch] * ratio).mean() - settings.entropy * entropy.mean()
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
            difference = flat(own) - theta
            clipped = difference * min(1.0, settings.clip / float(difference.norm()))
            total = clipped if u == 0 else total + clipped
        noisy = total + settings.sigma * settings.clip * torch.randn(len(theta))
        nn.utils.vector_to_parameters(theta + noisy / settings.users, agent.parameters())
    envs.close()
    return agent
