"""Peers of `improvement_peers` that make rows first, and learn from these: a world model, and synthesis.

primorl    an ensemble of world models by DP-SGD, one clipped gradient a patient for the whole ensemble, and planning in
           it with rewards less the members' disagreement (after PriMORL, arXiv:2402.05525)
synthesis  rows that match noisy tables of the patients'

Both learn by conservative or double Q-learning from the rows that were made, which costs no privacy. PriMORL begins its
episodes where the real ones begin; ours begin in uniform public states, for nothing else is public here.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from tacit.agents.discrete_offline import train
from tacit.agents.features import Scaled
from tacit.agents.heads import Categorical
from tacit.agents.learners import Learner
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy, PolicyActor
from tacit.data.spec import PublicSpec
from tacit.methods.synthesis.baselines import matching_alone
from tacit.methods.synthesis.table_matching import TableMatching
from tacit.privacy.gradients.clipped_sums import assign_gradient
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label
from tacit.privacy.vault.plan import PrivatePlan
from tacit.privacy.vault.vault import Vault
from tacit_worlds import clinic

LARGEST_REWARD = 6.0
SAMPLED = 40_000  # synthetic rows
Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class EnsemblePlan(PrivatePlan):
    """Noisy gradients of an ensemble of world models."""

    method: ClassVar[str] = "an ensemble of world models by DP-SGD"
    source: ClassVar[str] = "PriMORL (arXiv:2402.05525)"
    members: int = 3
    hidden: int = 32
    steps: int = 400
    sampling_rate: float = 0.05
    rows_per_unit: int = 16
    clip_norm: float = 1.0
    rate: float = 1e-2
    starts: int = 4_000  # public states in which episodes of the model begin
    length: int = 8  # steps of such an episode, under random treatments
    penalty: float = 1.0
    """of the largest distance between a member's prediction and the mean, in ranges of a column or a reward."""
    noise_multiplier: float | None = None

    def parts(self) -> tuple[PoissonSum, ...]:
        return (
            PoissonSum(
                name="gradients",
                steps=self.steps,
                sampling_rate=self.sampling_rate,
                clip_norm=self.clip_norm,
                noise_multiplier=self.noise_multiplier,
                rows_per_unit=self.rows_per_unit,
            ),
        )


class Ensemble(nn.Module):
    """Inputs [N, d] and actions [N] -> [M, N, d + 2]: changes of the inputs, reward over the largest, an end."""

    def __init__(self, plan: EnsemblePlan) -> None:
        super().__init__()
        size = len(clinic.LOW)
        self.members = nn.ModuleList(
            nn.Sequential(nn.Linear(size + clinic.ACTIONS, plan.hidden), nn.Tanh(), nn.Linear(plan.hidden, size + 2))
            for _ in range(plan.members)
        )

    def forward(self, inputs: Tensor, actions: Tensor) -> Tensor:
        known = torch.cat([inputs, functional.one_hot(actions.long(), clinic.ACTIONS).float()], dim=1)
        return torch.stack([member(known) for member in self.members])


@dataclass(frozen=True)
class Prediction:
    """Squared errors of changes and reward, and the cross-entropy of an end, summed over members, a mean a unit."""

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        return {}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """One number a unit, [units]."""
        mask = rows["mask"].float()
        seen, after = (_inputs(rows[name].flatten(0, 1)) for name in ("observations", "next_observations"))
        found = model(seen, rows["actions"].flatten())
        wanted = torch.cat([after - seen, rows["rewards"].flatten()[:, None] / LARGEST_REWARD], dim=1)
        ended = rows["terminations"].flatten().float().expand(len(found), -1)
        errors = (found[..., :-1] - wanted).square().sum(-1)
        errors = errors + functional.binary_cross_entropy_with_logits(found[..., -1], ended, reduction="none")
        total: Tensor = (errors.sum(0).view_as(mask) * mask).sum(1) / mask.sum(1).clamp(min=1)
        return total


def _inputs(seen: Tensor) -> Tensor:
    low, high = torch.tensor(clinic.LOW), torch.tensor(clinic.HIGH)
    return (2 * (seen.float() - low) / (high - low) - 1).clamp(-1, 1)


def modelled(plan: EnsemblePlan, vault: Vault, seed: int) -> Columns:
    """Rows of episodes in a private ensemble, whose rewards are less a penalty for disagreement.

    Args:
        plan: calibrated.
        vault: the records, with their memory in place of observations.
        seed: of first parameters and episodes; public.
    """
    torch.manual_seed(seed)
    model = Ensemble(plan)
    run, optimizer = vault.reserve(plan), torch.optim.Adam(model.parameters(), plan.rate)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, plan.steps)
    while vault.steps_left(run, "gradients"):
        assign_gradient(model, vault.noisy_gradient(run, "gradients", [model], Prediction())[0])
        optimizer.step()
        falling.step()
    label = Label(("all gradients of the models",), (), ())
    return imagined(plan, vault.release(run, model, label=label).value, np.random.default_rng(seed))


def imagined(plan: EnsemblePlan, model: nn.Module, generator: np.random.Generator) -> Columns:
    """Rows [T, ...] of `plan.starts` episodes in the mean of the models; one that is likely to have ended stops."""
    low, high = np.array(clinic.LOW), np.array(clinic.HIGH)
    seen, rows = generator.uniform(low, high, (plan.starts, len(low))), []
    for _ in range(plan.length):
        actions = generator.integers(clinic.ACTIONS, size=len(seen))
        with torch.no_grad():
            found = model(_inputs(torch.from_numpy(seen)), torch.from_numpy(actions)).double().numpy()
        mean = found.mean(0)
        apart = np.linalg.norm(found[..., :-1] - mean[:, :-1], axis=-1).max(0)
        after = np.clip(seen + mean[:, :-2] * (high - low) / 2, low, high)
        rewards = LARGEST_REWARD * np.clip(mean[:, -2] - plan.penalty * apart, -1, 1)
        ended = generator.random(len(seen)) < 1 / (1 + np.exp(-mean[:, -1]))
        rows.append((seen, actions, rewards, after, ended))
        seen = after[~ended]
    names = ("observations", "actions", "rewards", "next_observations", "terminations")
    return {name: np.concatenate(parts) for name, parts in zip(names, zip(*rows, strict=True), strict=True)}


def matching_plan(
    bins: int = 16, coarse: int = 6, spec: PublicSpec | None = None, rows: int = 32
) -> matching_alone.MatchingPlan:
    """Every column and pairs that matter, cut by the public bounds, over all rows that a unit may have."""
    named = spec or clinic.spec()
    # Of columns without names, as the stored rows have them: what a column is called changes no table.
    nameless = {part: dataclasses.replace(getattr(named, part), columns=None) for part in ("observation", "action")}
    spec = dataclasses.replace(named, **nameless)
    matching = TableMatching.of(spec, bins=bins, coarse=coarse, rows_per_unit=rows, pool=120_000)
    return matching_alone.MatchingPlan(matching=matching)


def made(plan: EnsemblePlan | matching_alone.MatchingPlan, vault: Vault, seed: int) -> Columns:
    if isinstance(plan, EnsemblePlan):
        return modelled(plan, vault, seed)
    return matching_alone.fit(plan, vault).value.sample_columns(SAMPLED, seed=seed)


def learned(learner: Learner, steps: int, columns: Columns, seed: int, spec: PublicSpec) -> PolicyActor:
    """A greedy policy of memories from public rows with these bounds."""
    features, actions = Scaled(spec.observation.low, spec.observation.high), spec.action.n
    network = Mlp((len(spec.observation.low), 64, actions))
    theta = train(learner, network, features, columns, steps=steps, seed=seed)
    return PolicyActor(Policy(features, network, Categorical(actions)), theta[None], greedy=True)
