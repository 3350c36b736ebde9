"""The library's methods as cases: a small plan of each, and canaries made for it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.agents.features import Scaled
from tacit.agents.policies import Policy
from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import RegularGrid
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.evaluation.audits import cases
from tacit.evaluation.audits.cases import ROOM, Case, Columns, Floats, Present, vault_runner, visitor_runner
from tacit.evaluation.audits.scoring import ScoredDevices, ScoredUsers, ScoredVault
from tacit.evaluation.canaries import leap_histories
from tacit.methods import experts, mobility, off_policy_evaluation, policy_gradient, synthesis
from tacit.methods.synthesis import trajectories
from tacit.methods.synthesis.trajectories.plan import STARTS
from tacit.units import Unit

POPULATION = 1_000
"""Of every unit here: most of them are not in the runs. It sets what sums are divided by, and bounds delta."""
DRAWS = 4
"""Gradients of a canary that the auditor takes the mean of: the run's own has random draws that nobody knows."""
HISTORY = 24
"""Rows of a person's whole history, for the synthesis of trajectories."""
STATES, DECISIONS, LOUD = 256, 4, 1_000.0
"""Where people are met or watched: places, decisions each of them takes, and what a canary is paid for one."""
PLACES_SPEC = PublicSpec(Discrete(STATES), Discrete(2), Box((-LOUD,), (LOUD,)), source="declared")
SIGNS, LOGGED = 48, 200
"""Numbers an expert sees, and rows of its log."""
SIGNS_SPEC = PublicSpec(
    observation=Box((-1.0,) * SIGNS, (1.0,) * SIGNS), action=Discrete(2), reward=Box((0.0,), (1.0,)), source="declared"
)
DEVICES = 40
"""Each of these draws a share of the noise, also where nobody answers."""
GRID = RegularGrid(0.0, 0.0, 0.31, 0.31, 0.01)
DAYS = 3


def transitions(name: str) -> Case:
    """Synthesis of transitions: leaps that no world produces."""
    unit = Unit("transition", "add_or_remove", POPULATION)

    def plan(epsilon: float, delta: float, canaries: int) -> synthesis.TransitionsPlan:
        small = synthesis.TransitionsPlan(
            steps=2, sampling_rate=1.0, warmup=0, width=32, depth=1, noise_multiplicity=64
        )
        return small.calibrate(unit=unit, epsilon=epsilon, delta=delta)

    def records(present: Present) -> Trajectories:
        return _leap_records(present, rows=1)

    def run_method(plan: synthesis.TransitionsPlan, vault: ScoredVault) -> Floats:
        value = synthesis.fit(plan, vault).value
        return np.concatenate([np.asarray(w, np.float64).ravel() for w in value.weights.values()])[None]

    words = "synthesis of transitions: noisy gradients"
    return Case(name, words, unit, plan, vault_runner(unit, records, run_method, draws=DRAWS), crowd=64)


def histories(name: str) -> Case:
    """Synthesis of trajectories: people whose whole history is one leap."""
    unit = Unit("person", "add_or_remove", POPULATION)

    def plan(epsilon: float, delta: float, canaries: int) -> trajectories.TrajectoriesPlan:
        small = trajectories.TrajectoriesPlan(
            steps=3,
            start_steps=1,
            warmup=0,
            sampling_rate=1.0,
            horizon=8,
            fragments_per_unit=8,
            noise_multiplicity=8,
            P_std=0.2,  # draws that are nearly alike can be expected
            width=32,
            depth=1,
            start_width=16,
            start_depth=1,
        )
        return small.calibrate(unit=unit, epsilon=epsilon, delta=delta)

    def records(present: Present) -> Trajectories:
        return _leap_records(present, rows=HISTORY)

    def run_method(plan: trajectories.TrajectoriesPlan, vault: ScoredVault) -> Floats:
        trajectories.fit(plan, vault)
        return np.zeros((1, 0))

    words = "synthesis of trajectories: noisy gradients of fragments"
    run = vault_runner(unit, records, run_method, blind=frozenset({STARTS}))
    return Case(name, words, unit, plan, run, crowd=32, run_factor=2, published=False)


def online(name: str) -> Case:
    """Policy gradient: a person who is paid a thousand times what others are, in a place of her own."""
    unit = Unit("person", "add_or_remove", 4 * POPULATION)
    policy = Policy.default(PLACES_SPEC, hidden=())

    def plan(epsilon: float, delta: float, canaries: int) -> policy_gradient.PolicyGradientPlan:
        small = policy_gradient.PolicyGradientPlan(
            rounds=4, users=canaries, horizon=DECISIONS, critic="none", standardised=False
        )
        return small.calibrate(unit=unit, epsilon=epsilon, delta=delta)

    def run_method(plan: policy_gradient.PolicyGradientPlan, vault: ScoredUsers) -> Floats:
        return np.asarray(policy_gradient.fit(plan, vault, policy).value.last, np.float64)

    words = "policy gradient with people met once: correlated noisy sums"
    run = visitor_runner(unit, PLACES_SPEC, _decision_rows, run_method)
    return Case(name, words, unit, plan, run, runs_per_pass=100, crowd=STATES)


def ballots(name: str) -> Case:
    """Votes along public directions: a person all of whose votes go one way, along directions of her own place."""
    unit = Unit("person", "add_or_remove", 4 * POPULATION)
    policy = Policy.default(PLACES_SPEC, hidden=())

    def plan(epsilon: float, delta: float, canaries: int) -> policy_gradient.VotesPlan:
        small = policy_gradient.VotesPlan(rounds=4, users=canaries, directions=DECISIONS // 2, episode_length=1)
        return small.calibrate(unit=unit, epsilon=epsilon, delta=delta)

    def run_method(plan: policy_gradient.VotesPlan, vault: ScoredUsers) -> Floats:
        return np.asarray(policy_gradient.fit(plan, vault, policy).value.last, np.float64)

    words = "policy search by votes of people met once: correlated noisy sums"
    run = visitor_runner(unit, PLACES_SPEC, _paired_rows, run_method)
    return Case(name, words, unit, plan, run, runs_per_pass=100, crowd=STATES)


def gpope(name: str) -> Case:
    """Off-policy evaluation as its paper has it: a person with a place of her own and a reward far above the clip."""
    unit = Unit("person", "add_or_remove", POPULATION)
    problem = off_policy_evaluation.Problem(gamma=0.9, horizon=DECISIONS)
    features = off_policy_evaluation.OneHot(STATES)

    def plan(epsilon: float, delta: float, canaries: int) -> off_policy_evaluation.Gpope:
        small = off_policy_evaluation.Gpope(problem=problem, features=features, steps=4, clip_norm=1.0)
        return small.calibrate(unit=unit, epsilon=epsilon, delta=delta)

    def run_method(plan: off_policy_evaluation.Gpope, vault: ScoredVault) -> Floats:
        off_policy_evaluation.fit(plan, vault, off_policy_evaluation.Behaviour())
        return np.zeros((len(vault.ledgers), 0))

    words = "off-policy evaluation (GPOPE): noisy sums of GTD2 directions"
    run = vault_runner(unit, _decision_records, run_method)
    return Case(name, words, unit, plan, run, runs_per_pass=100, crowd=STATES - 1, published=False)


def evaluation(name: str) -> Case:
    """Off-policy evaluation by residual return regression, the default: others take the first action half as often."""
    unit = Unit("person", "add_or_remove", POPULATION)
    problem = off_policy_evaluation.Problem(gamma=0.9, horizon=DECISIONS, return_range=(0.0, 1.0))
    features = off_policy_evaluation.OneHot(STATES)
    target = off_policy_evaluation.Tabular(np.tile([1.0, 0.0], (STATES, 1)))
    behaviour = off_policy_evaluation.BehaviourPolicy(off_policy_evaluation.Uniform(2), source="declared")

    def plan(epsilon: float, delta: float, canaries: int) -> off_policy_evaluation.ResidualRegression:
        small = off_policy_evaluation.ResidualRegression(
            problem=problem, features=features, on_policy=False, rounds=3, multiplier=1e-3
        )
        return small.calibrate(unit=unit, epsilon=epsilon, delta=delta)

    def run_method(plan: off_policy_evaluation.ResidualRegression, vault: ScoredVault) -> Floats:
        value = off_policy_evaluation.fit(plan, vault, target, behaviour=behaviour).value
        assert value.theta is not None
        assert value.value is not None
        return np.append(value.theta, value.value)[None]

    words = "off-policy evaluation (residual returns): noisy sums"
    return Case(name, words, unit, plan, vault_runner(unit, _decision_records, run_method), crowd=STATES - 1)


def movement(name: str) -> Case:
    """Simulators of movement: a person who is never twice in a row in one place."""
    noise: mobility.plan.WhoAdds = "shared" if name == "movement-federated" else "server"
    unit = Unit("person", "add_or_remove", POPULATION if noise == "server" else DEVICES)

    def plan(epsilon: float, delta: float, canaries: int) -> mobility.OneShotPlan:
        small = mobility.OneShotPlan(
            layout=mobility.StateLayout(times=8), matching=mobility.Matching(rounds=1, days=100), days=DAYS, noise=noise
        )
        return small.calibrate(unit=unit, epsilon=epsilon, delta=delta)

    def run_method(plan: mobility.OneShotPlan, vault: ScoredVault | ScoredDevices) -> Floats:
        simulator = mobility.fit(plan, vault, grid=GRID).value
        assert isinstance(simulator.policy, mobility.TablePolicy)
        return simulator.policy.table.reshape(1, -1)

    if noise == "server":
        words = "simulators of movement (one shot): noisy sums"
        return Case(name, words, unit, plan, vault_runner(unit, _walker_records, run_method), crowd=64)
    words = "simulators of movement, federated: sums with noise shared among the devices"
    return Case(name, words, unit, plan, cases.device_runner(unit, _walker_records, run_method), crowd=64, run_factor=2)


def votes(name: str) -> Case:
    """Learning from experts: one who acts by signs that nobody else heeds."""
    unit = Unit("expert", "add_or_remove", POPULATION)
    low, high = (-1.0,) * SIGNS, (1.0,) * SIGNS

    def plan(epsilon: float, delta: float, canaries: int) -> experts.Votes:
        small = experts.Votes(
            anchors=experts.UniformAnchors(low=low, high=high, count=300),
            clone=experts.LinearClone(features=Scaled(low, high), actions=2),
            policy=Policy.default(SIGNS_SPEC, hidden=()),
            fit=experts.Fit(steps=5),
            rows=LOGGED,
        )
        return small.calibrate(unit=unit, epsilon=epsilon, delta=delta)

    def run_method(plan: experts.Votes, vault: ScoredVault) -> Floats:
        return np.asarray(experts.fit(plan, vault).value.theta, np.float64)

    words = "learning from experts (votes of clones): one noisy sum"
    return Case(name, words, unit, plan, vault_runner(unit, _expert_records, run_method), runs_per_pass=100, crowd=64)


def _select_present(columns: Columns, units: NDArray[np.int64], present: Present) -> tuple[Columns, NDArray[np.int64]]:
    """The rows of unit 0, who is always there, and of the canaries 1 .. m that are present."""
    mask = np.append(True, present)[units]
    return {name: column[mask] for name, column in columns.items()}, units[mask]


def _leap_records(present: Present, *, rows: int) -> Trajectories:
    columns: Columns = {n: np.asarray(c) for n, c in leap_histories(ROOM, 1 + len(present), rows=rows, seed=1).items()}
    units = columns.pop("unit_ids")
    table, ids = _select_present(columns, units, present)
    return Trajectories.from_arrays(**table, unit_ids=ids, spec=ROOM, simulated=True)


def _decision_rows(canaries: int) -> Columns:
    """Of each canary, decisions in its own place, all of them for the first action and paid for it."""
    shape = (canaries, DECISIONS)
    place = np.repeat(np.arange(canaries)[:, None] % STATES, DECISIONS, axis=1)
    last = np.zeros(shape, np.bool_)
    last[:, -1] = True
    return {
        "observations": place,
        "actions": np.zeros(shape, np.int64),
        "rewards": np.full(shape, LOUD, np.float32),
        "next_observations": place,
        "terminations": last,
        "truncations": np.zeros(shape, np.bool_),
        "mask": np.ones(shape, np.bool_),
    }


def _paired_rows(canaries: int) -> Columns:
    """Of each canary, episodes of one decision, of which the first of a pair is paid for."""
    columns = _decision_rows(canaries)
    columns["rewards"][:, 1::2] = 0.0
    columns["terminations"][:] = True
    return columns


def _decision_records(present: Present) -> Trajectories:
    """The same as records, behind somebody who is paid nothing."""
    canaries = len(present)
    columns = _decision_rows(canaries + 1)
    columns["rewards"][0] = 0.0
    place = np.repeat(np.arange(-1, canaries)[:, None] % STATES, DECISIONS, axis=1)
    columns |= {"observations": place, "next_observations": place}
    columns = {name: column.ravel() for name, column in columns.items() if name != "mask"}
    table, ids = _select_present(columns, np.repeat(np.arange(canaries + 1), DECISIONS), present)
    return Trajectories.from_arrays(**table, unit_ids=ids, episode_ids=ids, spec=PLACES_SPEC, simulated=True)


def _walker_records(present: Present) -> Trajectories:
    """Days of a person who stays at home, and of canaries who move in slots of their own."""
    canaries = len(present)
    people = np.repeat(np.arange(canaries + 1), DAYS)
    rng = np.random.default_rng(2)
    cells = np.full((len(people), SLOTS), GRID.size // 2)
    for person in range(1, canaries + 1):
        moves = rng.random(SLOTS) < rng.uniform(0.2, 1.0)
        path = np.where(moves, rng.integers(GRID.size, size=SLOTS), -1)
        path[0] = rng.integers(GRID.size)
        cells[people == person] = path[np.maximum.accumulate(np.where(path >= 0, np.arange(SLOTS), 0))]
    mask = np.append(True, present)[people]
    return Days(cells[mask], people[mask], GRID).trajectories(simulated=True)


def _expert_records(present: Present) -> Trajectories:
    """Logs of one who always acts alike, and of canaries who act by signs of their own."""
    canaries = len(present)
    rng = np.random.default_rng(3)
    observations = rng.uniform(-1, 1, (canaries + 1, LOGGED, SIGNS)).astype(np.float32)
    sign_weights = rng.standard_normal((canaries + 1, SIGNS)).astype(np.float32)
    sign_weights[0] = 0
    columns: Columns = {
        "observations": observations.reshape(-1, SIGNS),
        "actions": (np.einsum("uls,us->ul", observations, sign_weights) > 0).astype(np.int64).ravel(),
        "rewards": np.zeros((canaries + 1) * LOGGED, np.float32),
        "next_observations": observations.reshape(-1, SIGNS),
        "terminations": np.zeros((canaries + 1) * LOGGED, np.bool_),
    }
    table, ids = _select_present(columns, np.repeat(np.arange(canaries + 1), LOGGED), present)
    return Trajectories.from_arrays(**table, unit_ids=ids, episode_ids=ids, spec=SIGNS_SPEC, simulated=True)
