"""People who are met twice on the same noise, where one does something else in one meeting.

What that meeting releases is held at what it was: then nothing that comes later may depend on the person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from user_cases import open_user_vault
from vault_cases import unit_of

from tacit.agents.features import Scaled
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy, ValueFunction
from tacit.envs import serving
from tacit.methods.policy_gradient.algorithm import fit
from tacit.methods.policy_gradient.plan import Local, PolicyGradientPlan
from tacit.methods.policy_gradient.votes import VotesPlan
from tacit.privacy.noise import lattice
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.user_vault import UserVault
from tacit_worlds import cart_pole

ROUNDS, PEOPLE, HORIZON, MET = 5, 5, 24, 1
SCALED = Scaled(cart_pole.LOW, cart_pole.HIGH)
SMALL = Policy.default(cart_pole.spec(), hidden=(4,))
CRITIC = ValueFunction(SCALED, Mlp((4, 3, 1), gain=1.0))
CRITIC_START = CRITIC.network.initial_parameters(np.random.default_rng(0), 1)[0]
LOCAL = Local(epochs=2, minibatches=2, learning_rate=0.01, seeded=True)

Rows = dict[str, np.ndarray]


class Stumbling(cart_pole.CartPole):
    """The first person of one meeting starts with a falling pole, and is gone after a few steps."""

    def __init__(self, change: str) -> None:
        self.meeting, self.change = -1, change

    def starts(self, units: int, generator: np.random.Generator) -> np.ndarray:
        self.meeting += 1
        state = super().starts(units, generator)
        if self.meeting == MET and self.change == "falls":
            state[0] = (0.0, 0.0, 0.2, 1.5)
        return state


@dataclass
class Seen:
    """What the world sees after the meeting in question."""

    released: list[np.ndarray] = field(default_factory=list)
    served: list[Any] = field(default_factory=list)
    learned: dict[str, np.ndarray] = field(default_factory=dict)

    def later(self) -> list[np.ndarray]:
        after = [rows[name] for rows in self.served[MET + 1 :] for name in sorted(rows)]
        return [*self.released[MET + 1 :], *after, *(self.learned[name] for name in sorted(self.learned))]


class Changed(serving.SimulatedUsers):
    """People, where one does something else in one meeting."""

    def __init__(self, change: str, seen: Seen) -> None:
        super().__init__(Stumbling(change), cart_pole.spec(), horizon=HORIZON, seed=7)
        self.change, self.seen = change, seen

    def serve(self, people: Sequence[Sequence[str]], actor: Any) -> Mapping[str, np.ndarray]:
        rows: Rows = dict(super().serve(people, actor))
        if len(self.seen.served) == MET:
            if self.change == "earns otherwise":
                rows["rewards"][0] = np.arange(HORIZON) % 2
            elif self.change == "is elsewhere":
                rows["observations"][0] *= -3
                rows["actions"][0] = 1 - rows["actions"][0]
            elif self.change == "sends no numbers":
                rows["rewards"][0] = np.nan
            elif self.change == "does not answer":
                rows["mask"][0] = False
        self.seen.served.append(
            {**{name: rows[name].copy() for name in rows}, "theta": getattr(actor, "acting", actor).theta.copy()}
        )
        return rows


def watched(vault: UserVault, seen: Seen, held: np.ndarray | None, patch: pytest.MonkeyPatch) -> None:
    """Note what is released; hold one meeting's release at what it was. A sum without noise is not released."""
    real = vault.noisy_sum

    def noisy_sum(run: Any, part: str, *rest: Any) -> np.ndarray:
        result = real(run, part, *rest)
        if run.sum_part(part).noise_multiplier == 0:
            return result
        if held is not None and len(seen.released) == MET:
            result = held
        seen.released.append(result)
        return result

    patch.setattr(vault, "noisy_sum", noisy_sum)


def run(
    folder: Path,
    plan: PolicyGradientPlan | VotesPlan,
    patch: pytest.MonkeyPatch,
    *,
    change: str = "",
    held: np.ndarray | None = None,
) -> Seen:
    patch.setattr(lattice, "step", lambda scale: 0.0)  # to see what is less than a step, too
    seen, own = Seen(), folder / f"{change} {held is None}"
    own.mkdir(parents=True)
    vault = open_user_vault(own, Changed(change, seen), noise=SecretNoise.for_tests(1), unit=unit_of(100))
    watched(vault, seen, held, patch)
    public: dict[str, Any] = {"critic": CRITIC, "critic_start": CRITIC_START} if plan.critic == "public" else {}
    learned = fit(plan.account(unit=unit_of(100), delta=1e-3), vault, SMALL, **public).value
    seen.learned = {name: getattr(learned, name) for name in ("last", "average", "norms", "iterates")}
    vault.ledger.close()
    vault._register.close()
    return seen


def same(one: Seen, other: Seen) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one.later(), other.later(), strict=True))


def plan(**fields: Any) -> PolicyGradientPlan:
    """With little noise, since the grid that releases are rounded to is as fine as the noise is small."""
    defaults: dict[str, Any] = {"rounds": ROUNDS, "users": PEOPLE, "horizon": HORIZON, "noise_multiplier": 0.05}
    return PolicyGradientPlan(**defaults | fields)


PLANS = {
    "no critic": plan(critic="none"),
    "own critic": plan(critic="local"),
    "private critic": plan(critic="private", standardised=False),
    "public critic": plan(critic="public", correlation="independent"),
    "local updates": plan(critic="none", local=LOCAL, correlation="tree"),
    "local updates, private critic": plan(critic="private", local=LOCAL, participations=2),
}
VOTED = VotesPlan(
    rounds=ROUNDS, users=PEOPLE, directions=2, episode_length=HORIZON // 4, radius=0.5, noise_multiplier=0.05
)
CHANGES = ("falls", "earns otherwise", "is elsewhere", "sends no numbers", "does not answer")
