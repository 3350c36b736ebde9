"""What one person does reaches later meetings through released values only.

The same people are met twice, on the same noise; in one meeting one of them does something else altogether, and what
that meeting releases is held at what it was. Then everything later is the same, bit for bit. Four mistakes that
published code makes are planted one by one: each of them carries something over, and is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from door_cases import unit_of
from user_cases import open_user_vault

from tacit.agents.features import Scaled
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy, Value
from tacit.envs import cart_pole, users
from tacit.errors import DoorError
from tacit.methods.policy_gradient import local_training
from tacit.methods.policy_gradient.algorithm import learn
from tacit.methods.policy_gradient.plan import Local, Plan
from tacit.privacy import callbacks, user_vault
from tacit.privacy.noise import SecretNoise
from tacit.privacy.user_vault import UserVault

ROUNDS, PEOPLE, HORIZON, MET = 5, 5, 24, 1
SCALED = Scaled(cart_pole.LOW, cart_pole.HIGH)
SMALL = Policy.default(cart_pole.spec(), hidden=(4,))
CRITIC = Value(SCALED, Mlp((4, 3, 1), gain=1.0))
CRITIC_START = CRITIC.network.initial(np.random.default_rng(0), 1)[0]
LOCAL = Local(epochs=2, minibatches=2, learning_rate=0.01)

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


class Changed(users.SimulatedUsers):
    """People of whom one does something else in one meeting."""

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
        self.seen.served.append({**{name: rows[name].copy() for name in rows}, "theta": actor.theta.copy()})
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
    folder: Path, plan: Plan, patch: pytest.MonkeyPatch, *, change: str = "", held: np.ndarray | None = None
) -> Seen:
    seen, own = Seen(), folder / f"{change} {held is None}"
    own.mkdir(parents=True)
    vault = open_user_vault(own, Changed(change, seen), noise=SecretNoise.for_tests(1), unit=unit_of(100))
    watched(vault, seen, held, patch)
    public: dict[str, Any] = {"critic": CRITIC, "critic_start": CRITIC_START} if plan.critic == "public" else {}
    learned = learn(plan.price(unit=unit_of(100), delta=1e-3), vault, SMALL, **public).value
    seen.learned = {name: getattr(learned, name) for name in ("last", "average", "norms", "iterates")}
    vault.ledger.close()
    vault._register.close()
    return seen


def same(one: Seen, other: Seen) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one.later(), other.later(), strict=True))


def plan(**fields: Any) -> Plan:
    """With little noise, since the grid that releases are rounded to is as fine as the noise is small."""
    defaults: dict[str, Any] = {"rounds": ROUNDS, "users": PEOPLE, "horizon": HORIZON, "noise_multiplier": 0.05}
    return Plan(**defaults | fields)


PLANS = {
    "no critic": plan(critic="none"),
    "own critic": plan(critic="local"),
    "private critic": plan(critic="private", standardised=False),
    "public critic": plan(critic="public", correlation="independent"),
    "local updates": plan(critic="none", local=LOCAL, correlation="tree"),
    "local updates, private critic": plan(critic="private", local=LOCAL, participations=2),
}
CHANGES = ("falls", "earns otherwise", "is elsewhere", "sends no numbers", "does not answer")


@pytest.mark.parametrize("name", PLANS)
def test_nothing_but_releases_reaches_later_meetings(
    name: str, ram_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run(ram_path, PLANS[name], monkeypatch)
    for change in CHANGES:
        held = run(ram_path, PLANS[name], monkeypatch, change=change, held=before.released[MET])
        assert not all(
            np.array_equal(before.served[MET][c], held.served[MET][c], equal_nan=True) for c in held.served[MET]
        )
        assert same(before, held), change


def test_what_is_released_does_depend_on_the_person(ram_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = run(ram_path, PLANS["own critic"], monkeypatch)
    for change in CHANGES:
        free = run(ram_path, PLANS["own critic"], monkeypatch, change=change)
        assert np.array_equal(before.released[MET - 1], free.released[MET - 1])
        assert not np.array_equal(before.released[MET], free.released[MET]), change
        assert not same(before, free)


def shared_adam(patch: pytest.MonkeyPatch) -> None:
    """The moments of one optimiser go from person to person."""
    kept: dict[tuple[int, ...], np.ndarray] = {}
    begin, ascend = local_training._Adam.__init__, local_training._Adam.ascend

    def init(self: Any, training: Any, theta: np.ndarray, moments: Any) -> None:
        begin(self, training, theta, moments)
        self._first += kept.get(theta.shape[1:], np.float32(0))

    def step(self: Any, phi: np.ndarray, gradient: np.ndarray) -> None:
        ascend(self, phi, gradient)
        kept[phi.shape[1:]] = self._first.mean(0)

    patch.setattr(local_training._Adam, "__init__", init)
    patch.setattr(local_training._Adam, "ascend", step)


def running_normaliser(patch: pytest.MonkeyPatch) -> None:
    """Rewards are divided by the spread of all rewards seen so far."""
    real, past = user_vault.met_rows, [np.array([0.0, 1.0])]

    def met_rows(*arguments: Any) -> Rows:
        rows = real(*arguments)
        past.append(rows["rewards"][rows["mask"]])
        return {**rows, "rewards": rows["rewards"] / np.concatenate(past).std()}

    patch.setattr(user_vault, "met_rows", met_rows)


def shared_generator(patch: pytest.MonkeyPatch) -> None:
    """One stream of random numbers for all meetings, of which a longer episode takes more."""
    real, streams = users.serve, dict[int, np.random.Generator]()

    def serve(domain: Any, *arguments: Any, generator: np.random.Generator, **rest: Any) -> Any:
        generator = streams.setdefault(id(domain), np.random.default_rng(3))
        return real(domain, *arguments, generator=generator, **rest)

    patch.setattr(users, "serve", serve)


LEAKS: dict[str, tuple[Plan, Callable[[pytest.MonkeyPatch], None], str]] = {
    "shared critic": (plan(critic="shared"), lambda patch: None, "falls"),
    "shared critic, locally trained": (plan(critic="shared", local=LOCAL), lambda patch: None, "earns otherwise"),
    "shared Adam": (PLANS["local updates"], shared_adam, "falls"),
    "running normaliser": (plan(critic="none", standardised=False, clip=100.0), running_normaliser, "earns otherwise"),
    "shared generator": (PLANS["no critic"], shared_generator, "falls"),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_each_planted_leak_is_seen(leak: str, ram_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of, plant, change = LEAKS[leak]
    for trial in ("try_on_decoys", "try_on_fewer"):  # they would refuse some leaks before anybody is met
        monkeypatch.setattr(callbacks, trial, lambda *_, **__: None)

    def planted(name: str, **how: Any) -> Seen:
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)  # afresh, as in a new process
            return run(ram_path / name, of, patch, **how)

    before = planted("before")
    assert same(before, planted("again")), "the leak itself is not reproducible"
    assert not same(before, planted("changed", change=change, held=before.released[MET]))


def test_the_trial_on_decoys_refuses_an_optimiser_with_a_memory(
    ram_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared_adam(monkeypatch)
    with pytest.raises(DoorError):
        run(ram_path, PLANS["local updates"], monkeypatch)
