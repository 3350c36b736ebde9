"""Whatever is public is tried on invented rows before a ledger is charged: no method fails of it after its charge."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit import off_policy_evaluation as ope
from tacit.agents.features import OneHot, Scaled, default_features
from tacit.agents.heads import Categorical
from tacit.agents.learners import BC
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy, ValueFunction
from tacit.agents.stacked import StackedPolicies
from tacit.data.columns import Column
from tacit.data.mobility.days import Days
from tacit.data.mobility.grids import RegularGrid
from tacit.data.spec import Box, Discrete, PublicSpec, space_of
from tacit.envs.serving import SimulatedUsers
from tacit.envs.spaces import JumpLaw
from tacit.errors import MechanismError, PlanError, TacitError
from tacit.methods import improvement, selection, synthesis
from tacit.methods.experts.algorithm import fit as learn
from tacit.methods.experts.anchors import GivenAnchors, require_policies
from tacit.methods.experts.clones import LinearClone
from tacit.methods.experts.consensus import Consensus
from tacit.methods.experts.imitation import ReturnWeighted
from tacit.methods.experts.learned import ReturnWeight
from tacit.methods.experts.votes import Votes
from tacit.methods.mobility.pategail import Critic, PateGailPlan, Ppo
from tacit.methods.mobility.pategail import fit as imitate
from tacit.methods.mobility.places import StartDistribution
from tacit.methods.policy_gradient.algorithm import fit as train
from tacit.methods.policy_gradient.plan import PolicyGradientPlan
from tacit.methods.synthesis import trajectories
from tacit.methods.synthesis.baselines import matching_alone, privsyn
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.methods.synthesis.table_matching import TableMatching
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.user_vault import UserVault
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds.river_swim import RiverSwim
from tacit_worlds.river_swim import spec as river

ROWS = 24
UNIT = Unit("person", "add_or_remove", ROWS)
DECLARED = space_of(
    Column("age", "integer", 0, 5),
    Column("sex", "category", labels=("f", "m")),
    Column("pressure", "number", 0.0, 1.0, missing="flag"),
)
SEEN: dict[str, Any] = {"states": Discrete(3), "numbers": Box((0.0, -1.0), (3.0, 3.0)), "declared": DECLARED}
TAKEN: dict[str, Any] = {"discrete": Discrete(2), "box": Box((-1.0,), (1.0,))}
UNITS = {"person": np.repeat(np.arange(ROWS // 2), 2), "one": np.zeros(ROWS, int), "episode": ":episode"}


def spec_of(seen: Any, taken: Any, *, terminals: bool = True, propensities: bool = False) -> PublicSpec:
    step = tuple((np.asarray(seen.high) - np.asarray(seen.low)) / 4) if isinstance(seen, Box) else None
    how: dict[str, Any] = {"terminals": terminals, "propensities": propensities, "difference": step}
    return PublicSpec(seen, taken, Box((0.0,), (1.0,)), source="declared", **how)


def records(spec: PublicSpec, units: Any) -> tacit.Trajectories:
    """Twelve episodes of two rows."""
    generator = np.random.default_rng(0)

    def draw(space: Any) -> np.ndarray:
        if isinstance(space, Discrete):
            return generator.integers(0, space.n, ROWS)
        values = generator.uniform(space.low, space.high, (ROWS, space.size))
        return np.where(space.whole, np.floor(values), values).astype(np.float32)

    ends = np.tile([False, True], ROWS // 2)
    return tacit.Trajectories.from_arrays(
        observations=draw(spec.observation),
        next_observations=draw(spec.observation),
        actions=draw(spec.action),
        rewards=generator.uniform(0, 1, ROWS),
        terminations=ends & spec.terminals,
        truncations=ends & (not spec.terminals),
        unit_ids=units,
        propensities=np.full(ROWS, 0.5) if spec.propensities else None,
        spec=spec,
        simulated=True,
    )


def attempt(
    folder: Path, plan: Any, open_vault: Callable[[Ledger], Any], fit: Callable[..., Any]
) -> tuple[Exception | None, bool]:
    """The error of a run under a fresh ledger, and whether the ledger was charged."""
    plan = plan.calibrate(unit=UNIT, epsilon=20.0, delta=1e-3)
    with Ledger(folder, UNIT, epsilon=100.0, delta=1e-2, composition=SUM) as ledger:
        error = None
        try:
            fit(plan, open_vault(ledger))
        except Exception as found:
            error = found
        return error, any(entry.kind in ("reserve", "claim") for entry in ledger.entries())


def require_refused(found: tuple[Exception | None, bool], words: str) -> None:
    error, charged = found
    assert isinstance(error, TacitError), error
    assert words in str(error)
    assert not charged


def record_cases() -> Iterator[tuple[str, PublicSpec, str, Any, Callable[..., Any], bool]]:
    """(name, spec, units, plan, fit, whether it fits): methods that take records and no more, drawn."""
    drawn = random.Random(2)
    other = spec_of(Box((0.0,) * 4, (1.0,) * 4), Discrete(2))
    for seen, taken in ((seen, taken) for seen in SEEN.values() for taken in TAKEN.values()):
        for terminals in (True, False):
            spec = spec_of(seen, taken, terminals=terminals)
            small: dict[str, Any] = {"steps": 2, "sampling_rate": 0.5, "width": 8, "depth": 1, "warmup": 0}
            short = {"horizon": 4, "rows_per_token": 1, "heads": 2, "start_steps": 1, "start_width": 8, "longest": 9}
            cut, foreign = (TableMatching.of(each, bins=4, coarse=4) for each in (spec, other))
            lost = synthesis.Pretraining(provenance="public", steps=2, batch=4, warmup=0)
            listed: list[tuple[str, Any, Callable[..., Any], bool]] = [
                ("rows", synthesis.TransitionsPlan(**small, matching=cut), synthesis.fit, True),
                ("rows of others", synthesis.TransitionsPlan(**small, matching=foreign), synthesis.fit, False),
                ("rows from nowhere", synthesis.TransitionsPlan(**small, pretraining=lost), synthesis.fit, False),
                ("days", trajectories.TrajectoriesPlan(**{**small, **short}), trajectories.fit, True),
            ]
            for each, fits in ((spec, True), (other, False)):
                settings: dict[str, Any] = {"discretisation": Discretisation(each, 4), "records": 50, "rounds": 2}
                alone = matching_alone.MatchingPlan(matching=TableMatching.of(each))
                listed.append(("matching", alone, matching_alone.fit, fits))
                listed.append(("privsyn", privsyn.PrivSynPlan(**settings), privsyn.fit, fits))
            for name, plan, fit, fits in drawn.sample(listed, 3):
                yield name, spec, drawn.choice(list(UNITS)), plan, fit, fits
    problem = improvement.Problem(gamma=0.9, horizon=1, return_range=(0.0, 1.0))
    for propensities, seen in ((propensities, seen) for propensities in (True, False) for seen in list(SEEN)[1:]):
        spec = spec_of(SEEN[seen], Discrete(2), propensities=propensities)
        better = improvement.ImprovementPlan.of(spec, problem)
        yield "improve", spec, "person", better, improvement.fit, propensities


def test_no_method_of_records_fails_after_its_charge(tmp_path: Path) -> None:
    ran = set()
    for i, (name, spec, units, plan, fit, fits) in enumerate(record_cases()):
        error, charged = attempt(tmp_path / f"{i}", plan, lambda led, s=spec, u=units: _open(led, s, u), fit)
        assert charged == (error is None) == fits, (name, spec, units, error)
        assert error is None or isinstance(error, TacitError), (name, spec, units, error)
        ran |= {name} if charged else set()
    assert ran == {"rows", "days", "matching", "privsyn", "improve"}


def _open(ledger: Ledger, spec: PublicSpec, units: str) -> Vault:
    return Vault(records(spec, UNITS[units]), ledger)


@dataclass(frozen=True)
class Own:
    """A learner of somebody's own."""

    def losses(self, agent: Any, rows: Any) -> Any:
        return agent.online(rows["inputs"]).square().sum(-1)


def policy_of(spec: PublicSpec, features: Any = None) -> Policy:
    features = default_features(spec.observation) if features is None else features
    return Policy(features, Mlp((features.size, 2), gain=0.0), Categorical(2))


def learning(spec: PublicSpec, policy: Policy, learner: Any) -> dict[str, Any]:
    """A small plan of each kind."""
    noisy: dict[str, Any] = {"steps": 2, "expected_batch_size": 4, "rows_per_expert": 2}
    anchors = GivenAnchors.of(points(spec))
    clone = LinearClone(features=default_features(spec.observation), actions=2)
    return {
        "consensus": Consensus(policy=policy, learner=learner, trajectories=0, **noisy),
        "votes": Votes(anchors=anchors, policy=policy, rows=2, clone=clone),
        "imitation": ReturnWeighted(policy=policy, weight=ReturnWeight(low=0.0, high=2.0), steps=2, rows=2),
    }


def points(spec: PublicSpec) -> np.ndarray:
    seen = spec.observation
    return np.arange(3) if isinstance(seen, Discrete) else np.array([seen.low, seen.high], np.float32)


@pytest.mark.parametrize("seen", list(SEEN))
@pytest.mark.parametrize("method", ["consensus", "votes", "imitation"])
def test_experts_are_asked_about_nothing_that_does_not_fit(seen: str, method: str, tmp_path: Path) -> None:
    spec = spec_of(SEEN[seen], Discrete(2))
    for k, features in enumerate((None, OneHot(5), Scaled((0.0,), (3.0,)))):
        plan = learning(spec, policy_of(spec, features), BC())[method]
        given = {"anchors": points(spec)} if method == "votes" else {}
        found = attempt(
            tmp_path / f"{k}", plan, lambda led: _open(led, spec, "person"), lambda p, v, g=given: learn(p, v, **g)
        )
        if features is None:
            assert found == (None, True)
        else:
            require_refused(found, "the policy is not one for these people's observations")


def test_consensus_takes_no_learner_of_somebodys_own(tmp_path: Path) -> None:
    spec = spec_of(SEEN["numbers"], Discrete(2))
    plan = learning(spec, policy_of(spec), Own())["consensus"]
    found = attempt(tmp_path / "a", plan, lambda led: _open(led, spec, "person"), learn)
    require_refused(found, "Own is a learner of your own; expected CQL, DQN or BC;")


def test_experts_of_other_states_are_refused() -> None:
    spec = spec_of(SEEN["states"], Discrete(2))
    for states in (2, 5):
        weights = np.zeros((4, 2 * states + 2), np.float32)
        experts = StackedPolicies.from_mlp(OneHot(states), Mlp((states, 2)), weights)
        with pytest.raises(TacitError, match="the policies are for other observations"):
            require_policies(experts, spec)
    fitting = StackedPolicies.from_mlp(OneHot(3), Mlp((3, 2)), np.zeros((4, 8), np.float32))
    require_policies(fitting, spec)


def test_votes_take_no_network_of_somebodys_own() -> None:
    from torch import nn

    from tacit.agents.torch_network import TorchNetwork

    spec = spec_of(SEEN["numbers"], Discrete(2))
    own = Policy(default_features(spec.observation), TorchNetwork(nn.Linear(2, 2), inputs=2), Categorical(2))
    with pytest.raises(PlanError, match="expected an Mlp"):
        learning(spec, own, BC())["votes"]


@dataclass(frozen=True)
class Forward(Mlp):
    """A network of somebody's own, which has no way back."""

    def backward(self, *given: Any, **options: Any) -> Any:
        raise RuntimeError("x")


@pytest.mark.parametrize(
    ("critic", "network", "words"),
    [
        (6, Mlp((6, 2)), ""),
        (5, Mlp((6, 2)), "the critic is for other observations"),
        (6, Forward((6, 2)), "policy: EpisodeGradient fails (RuntimeError); expected policies, critics"),
    ],
)
def test_what_people_are_met_with_is_tried(critic: int, network: Mlp, words: str, tmp_path: Path) -> None:
    plan = PolicyGradientPlan(rounds=2, users=4, horizon=6, critic="private")
    value = ValueFunction(OneHot(critic), Mlp((critic, 1), gain=0.0))
    policy = Policy(OneHot(6), network, Categorical(2))

    def people(ledger: Ledger) -> UserVault:
        (tmp_path / "keys").mkdir()
        (tmp_path / "register").mkdir()
        users = SimulatedUsers(RiverSwim(), river(), horizon=6, seed=1)
        return UserVault(users, ledger, Register(tmp_path / "register" / "r", key=tmp_path / "keys" / "k"))

    (tmp_path / "ledger").mkdir()
    found = attempt(tmp_path / "ledger" / "a", plan, people, lambda p, v: train(p, v, policy, critic=value))
    if words:
        require_refused(found, words)
    else:
        assert found == (None, True)


GRID = RegularGrid(30.0, 100.0, 30.45, 100.45, 0.05)
EVEN = {"starts": StartDistribution.uniform(GRID), "space": JumpLaw(GRID, (1.0, 5.0), (1.0,))}


class Nowhere:
    """Starts that are none."""

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        raise RuntimeError("x")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"allocate": lambda pilot, share: share}, ""),
        ({"allocate": lambda pilot, share: 1 / 0}, "allocate= fails (ZeroDivisionError)"),
        ({"allocate": lambda pilot, share: share[:1]}, "the allocation is not positive numbers"),
        (EVEN, ""),
        ({**EVEN, "starts": Nowhere()}, "starts= or space= fails (RuntimeError)"),
    ],
)
def test_what_a_simulator_is_given_is_tried_before_the_charge(
    given: dict[str, Any], words: str, tmp_path: Path
) -> None:
    own: dict[str, Any] = {"allocation": "own"} if "allocate" in given else {"starts": "given"}
    tiny = {"critic": Critic(hidden=(4,), steps=1, batch=8), "ppo": Ppo(hidden=(4,), epochs=1, value_steps=1)}
    plan = PateGailPlan(people=ROWS, kind="samples", rounds=1, queries=8, days=4, updates=1, **tiny, **own)

    def devices(ledger: Ledger) -> FederatedVault:
        cells = np.repeat(np.random.default_rng(0).integers(0, GRID.size, (ROWS, 6)), 8, axis=1)
        return FederatedVault(StackedDevices(Days(cells, np.arange(ROWS), GRID).trajectories(simulated=True)), ledger)

    found = attempt(tmp_path / "a", plan, devices, lambda p, v: imitate(p, v, grid=GRID, **given))
    if words:
        require_refused(found, words)
    else:
        assert found == (None, True)


@dataclass(frozen=True)
class Verdict:
    """A judge of somebody's own, who fails or says nothing."""

    fails: bool

    def __call__(self, value: Any, plan: Any, vault: Any) -> float:
        return 1 / 0 if self.fails else float("nan")


@pytest.mark.parametrize(("fails", "words"), [(True, "(ZeroDivisionError)"), (False, "invented records; expected")])
def test_a_selection_is_rehearsed_on_invented_records(fails: bool, words: str, tmp_path: Path) -> None:
    spec = spec_of(SEEN["numbers"], Discrete(2))
    candidate = matching_alone.MatchingPlan(matching=TableMatching.of(spec, bins=4, coarse=4))
    plan = selection.SelectionPlan(candidates=(candidate,), stop=10)
    found = attempt(
        tmp_path / "a",
        plan,
        lambda led: _open(led, spec, "person"),
        lambda p, v: selection.fit(p, v, attempt=matching_alone.fit, judge=Verdict(fails)),
    )
    require_refused(found, words)
    assert not isinstance(found[0], MechanismError)


def test_features_that_fill_the_memory_are_refused_before_the_charge(tmp_path: Path) -> None:
    ends = (0.0,) * 6, (1.0,) * 6
    spec = spec_of(Box(*ends), Discrete(2), propensities=True)
    problem = ope.Problem(gamma=0.9, horizon=2, return_range=(0.0, 2.0))
    unit = Unit("person", "add_or_remove", 1_000_000)
    plan = ope.ResidualRegression(problem=problem, features=ope.Fourier(3, *ends), on_policy=False)
    plan = plan.calibrate(unit=unit, epsilon=1.0, delta=1e-7)
    with Ledger(tmp_path / "a", unit, epsilon=2.0, delta=5e-7, composition=SUM) as ledger:
        with pytest.raises(PlanError, match="4,096 features of 1,000,000 units take 100,688 GB of memory"):
            ope.fit(plan, Vault(records(spec, UNITS["person"]), ledger), ope.Uniform(2))
        assert list(ledger.plans()) == []
