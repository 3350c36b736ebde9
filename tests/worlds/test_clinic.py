"""The clinic: its chances by hand, its exact values against simulation, and what doctors and learners are worth."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest
from gymnasium.utils.env_checker import check_env
from scipy.stats import chisquare, truncnorm

from tacit.data.spec import Box
from tacit.data.trajectories import Trajectories
from tacit.envs.gym_domain import DomainEnv
from tacit.envs.rollouts import uniform_policy
from tacit.errors import DataError
from tacit_worlds import clinic
from tacit_worlds import clinic_model as model
from tacit_worlds.agents.q_learning import epsilon_greedy, fit
from tacit_worlds.clinic import FLAG, KIND, READINGS, SIDE, VISIT, WEIGHT, Clinic

HERE = Clinic()
EVEN = np.full((*model.PATIENTS, 6), 1.0 / 6.0)


def patients(count: int, kind: int, flag: int, severity: int, burden: int) -> npt.NDArray[np.float64]:
    state = np.zeros((count, 9))
    state[:, [KIND, FLAG, WEIGHT, SIDE]] = kind, flag, severity, burden
    return state


def score(known: npt.NDArray[np.float64]) -> float:
    """The exact normalised value of a policy of the truth."""
    return float(clinic.normalized_returns(model.exact_value(known)[0]))


@pytest.mark.parametrize(
    ("patient", "action", "falls_stays_rises", "lighter_same_heavier"),
    [
        ((0, 0, 4, 0), 2, (0.5, 0.44, 0.06), (0.0, 0.65, 0.35)),  # the right drug; a burden of 0 gets no lighter
        ((0, 0, 4, 2), 2, (0.35, 0.47, 0.18), (0.05, 0.6, 0.35)),  # 0.5 (1 - 0.3) and 0.06 + 0.12
        ((1, 0, 4, 2), 2, (0.056, 0.644, 0.3), (0.05, 0.6, 0.35)),  # the wrong one
        ((2, 1, 3, 1), 1, (0.0255, 0.6945, 0.28), (0.0, 0.25, 0.75)),  # relief after an addiction
        ((2, 0, 3, 1), 1, (0.0255, 0.6945, 0.28), (0.2, 0.5, 0.3)),
        ((2, 0, 6, 4), 5, (0.24, 0.5, 0.26), (0.0, 1.0, 0.0)),  # a burden of 4 gets no heavier
        ((0, 0, 1, 4), 0, (0.02, 0.59, 0.39), (0.6, 0.4, 0.0)),
    ],
)
def test_visits_have_the_stated_chances(
    patient: tuple[int, int, int, int],
    action: int,
    falls_stays_rises: tuple[float, ...],
    lighter_same_heavier: tuple[float, ...],
) -> None:
    """The tables by hand, and 20,000 visits against them: all nine outcomes, so that both moves are independent."""
    kind, flag, severity, burden = patient
    assert model.SEVERITY[(*patient, action)] == pytest.approx(falls_stays_rises)
    state = patients(20_000, *patient)
    after, paid, ended = HERE.step(state, np.full(len(state), action), np.random.default_rng(7))
    assert (after[:, KIND] == kind).all()
    assert (after[:, FLAG] == flag).all()
    assert (after[:, VISIT] == 1.0).all()
    expected = np.outer(falls_stays_rises, lighter_same_heavier).ravel()
    move = 3 * (after[:, WEIGHT] - severity + 1) + after[:, SIDE] - burden + 1
    found = np.bincount(move.astype(int), minlength=9)
    possible = expected > 1e-12
    assert not found[~possible].any()
    assert chisquare(found[possible], 20_000 * expected[possible]).pvalue > 1e-4
    assert np.array_equal(ended, np.isin(after[:, WEIGHT], (0, 7)))
    wellbeing = -0.05 * after[:, WEIGHT] - 0.1 * after[:, SIDE] + {1: 0.25, 5: -0.1}.get(action, 0.0)
    ends = 5.0 * (after[:, WEIGHT] == 0) - 5.0 * (after[:, WEIGHT] == 7)
    assert paid == pytest.approx(wellbeing + ends)
    assert (state == patients(20_000, *patient)).all()


def test_the_declared_step_is_that_of_histories() -> None:
    """Root mean squares of changes, with no records asked; those of readings within a tenth."""
    declared = clinic.spec().difference
    assert declared is not None
    columns = clinic.collect(300, seed=4)
    found = np.sqrt(np.square(columns["next_observations"] - columns["observations"], dtype=np.float64).mean(axis=0))
    assert found[:4] == pytest.approx(declared[:4], rel=0.1)
    assert (found[4], found[5]) == (0.0, declared[5])


def test_people_arrive_with_the_stated_chances() -> None:
    state = HERE.starts(20_000, np.random.default_rng(3))
    for column, chances in ((KIND, (0.45, 0.35, 0.2)), (FLAG, (0.85, 0.15)), (SIDE, (0.7, 0.3))):
        assert chisquare(np.bincount(state[:, column].astype(int)), 20_000 * np.array(chances)).pvalue > 1e-4
    assert chisquare(np.bincount(state[:, WEIGHT].astype(int))[3:], [6_000, 8_000, 6_000]).pvalue > 1e-4
    assert model.STARTS[2, 1, 5, 1] == pytest.approx(0.2 * 0.15 * 0.3 * 0.3)
    assert model.STARTS.sum() == pytest.approx(1.0)


def test_readings_are_the_truth_and_noise_within_the_bounds() -> None:
    """Every quantile of the uniform numbers is that of a normal one cut off at three deviations."""
    points = np.random.default_rng(0).random((1_000, 4))
    kind, severity, burden = np.arange(1_000) % 3, np.arange(1_000) % 8, np.arange(1_000) % 5
    read = model.readings(kind, severity, burden, points)
    corner = np.array([(1.0, 0.0), (-0.5, 0.8660254), (-0.5, -0.8660254)])[kind]
    noise = read - np.column_stack([severity, corner, burden])
    assert noise == pytest.approx(truncnorm.ppf(points, -3.0, 3.0) * [0.8, 0.7, 0.7, 0.6])
    extremes = np.concatenate([np.zeros((120, 4)), np.full((120, 4), np.nextafter(1.0, 0.0))])
    every = np.indices((3, 8, 5)).reshape(3, -1)
    box = clinic.spec().observation
    assert isinstance(box, Box)
    read = model.readings(*np.tile(every, 2), extremes)
    assert (read >= np.array(box.low)[:4] - 1e-9).all()
    assert (read <= np.array(box.high)[:4] + 1e-9).all()


def test_patients_together_are_patients_one_by_one() -> None:
    """Bit for bit, with the same generator; what is seen, too."""
    state = HERE.starts(50, np.random.default_rng(1))
    alone = np.concatenate(
        [HERE.step(state[i : i + 1], np.array([i % 6]), g)[0] for g in [np.random.default_rng(2)] for i in range(50)]
    )
    together, _, _ = HERE.step(state, np.arange(50) % 6, np.random.default_rng(2))
    assert np.array_equal(together, alone)
    seen = HERE.observe(together)
    assert seen.dtype == np.float32
    assert np.array_equal(seen[:, :4], together[:, READINGS].astype(np.float32))
    assert np.array_equal(seen[:, 4], together[:, FLAG])
    assert (seen[:, 5] == 1.0).all()
    assert np.array_equal(seen[:1], HERE.observe(together[:1]))


def test_the_environment_is_sound() -> None:
    arguments: dict[str, Any] = {"domain": HERE, "spec": clinic.spec(), "horizon": clinic.HORIZON}
    env = DomainEnv(**arguments)
    env.spec = gymnasium.envs.registration.EnvSpec("tacit/Clinic-v0", entry_point=DomainEnv, kwargs=arguments)
    check_env(env)
    seen, _ = env.reset(seed=4)
    state, generator = HERE.starts(1, np.random.default_rng(4)), np.random.default_rng(4)
    HERE.starts(1, generator)
    for t in range(24):  # waiting and the drugs in turn: the environment is the batch of one
        assert np.array_equal(
            seen, np.clip(HERE.observe(state)[0], env.observation_space.low, env.observation_space.high)
        )
        action = 2 * (t % 2)
        seen, paid, over, cut, _ = env.step(action)
        state, worth, ended = HERE.step(state, np.array([action]), generator)
        assert (paid, over, cut) == (worth[0], ended[0], not ended[0] and t == 23)
        if over or cut:
            break


def test_two_visits_by_hand() -> None:
    """The last visit of a patient of kind 0, severity 1, no burden, under drug A: recovery pays 5, and so on."""
    worth = model.action_values(np.zeros(model.PATIENTS))
    kept, heavier = 0.65, 0.35
    last = 0.5 * (5.0 - 0.1 * heavier) + 0.44 * (-0.05 - 0.1 * heavier) + 0.06 * (-0.1 - 0.1 * heavier)
    assert worth[0, 0, 1, 0, 2] == pytest.approx(last)
    ahead = np.zeros(model.PATIENTS)
    ahead[0, 0, 2, 0], ahead[0, 0, 0, 0], ahead[0, 0, 1, 1] = 10.0, 99.0, 3.0  # the 99 are of a course that is over
    assert model.action_values(ahead)[0, 0, 1, 0, 2] == pytest.approx(last + 0.06 * kept * 10.0 + 0.44 * heavier * 3.0)


def test_the_references_are_exact() -> None:
    best, values = model.optimal_value()
    assert (model.exact_value(EVEN)[0], best) == pytest.approx(clinic.REFERENCE, abs=1e-9)
    greedy, come = model.exact_value(np.eye(6)[values.argmax(axis=-1)])
    assert greedy == pytest.approx(best, abs=1e-9)
    assert come[0] == pytest.approx(model.STARTS)
    staying = come.sum(axis=(1, 2, 3, 4))
    assert staying[:2] == pytest.approx([1.0, 1.0])  # nobody is two steps from an end at the first visit
    assert (np.diff(staying[1:]) < 0.0).all()
    assert clinic.normalized_returns([clinic.REFERENCE[0], best]) == pytest.approx([0.0, 100.0])


def test_nothing_simple_comes_near_the_optimum() -> None:
    """Constant treatments reach 22 of 100, the best treatment of the moment -2, the right drug all the time 48."""
    constant = [score(np.broadcast_to(row, (*model.PATIENTS, 6))) for row in np.eye(6)]
    assert constant == pytest.approx([18.7, 22.0, 12.8, 6.4, -3.1, 21.7], abs=0.1)
    moment = np.eye(6)[model.action_values(np.zeros(model.PATIENTS)).argmax(axis=-1)]
    assert score(moment) == pytest.approx(-2.0, abs=0.1)
    drug = np.zeros((*model.PATIENTS, 6))
    for kind in range(3):
        drug[kind, ..., 2 + kind] = 1.0
    assert score(drug) == pytest.approx(47.7, abs=0.1)
    drug[..., 2:, :] = np.eye(6)[0]  # and a pause where side effects weigh 2 or more
    assert score(drug) == pytest.approx(78.0, abs=0.5)


def test_exact_values_are_those_of_simulated_people() -> None:
    """Of a random treatment, and of a doctor."""
    doctor = clinic.unstack_policies(clinic.doctors())[1]
    for policy in (uniform_policy(6), doctor):
        mean, error = model.value(policy, draws=16, repeats=4)
        simulated = clinic.returns(policy, 4_000, seed=5)
        spread = simulated.std() / np.sqrt(4_000)
        assert error < 0.3 * spread
        assert abs(mean - simulated.mean()) < 4.5 * (spread + error)
    assert np.array_equal(
        clinic.evaluate([uniform_policy(6), doctor], episodes=200, seed=1)[1:],
        clinic.evaluate([doctor], episodes=200, seed=1),
    )


def test_doctors_differ_and_learning_from_their_records_beats_them() -> None:
    """5,000 histories: fitted Q iteration (70 to 74) beats the best of the eight doctors who made them (56)."""
    staff = clinic.doctors()
    worth = np.array(
        [clinic.normalized_returns(model.value(p, draws=8, repeats=2)[0]) for p in clinic.unstack_policies(staff)]
    )
    assert 40.0 < worth.mean() < 50.0
    assert worth.max() - worth.min() > 10.0
    assert np.array_equal(clinic.doctors(3).weights[0][0], staff.weights[0][0][:3])
    columns = clinic.collect(5_000, seed=0)
    q = fit(
        [columns], actions=6, low=clinic.LOW, high=clinic.HIGH, order=3, coupled=False,
        gamma=1.0, value=(-15.0, 6.0), iterations=30,
    )  # fmt: skip
    learned = clinic.normalized_returns(model.value(epsilon_greedy(q, 0.0), draws=8, repeats=2)[0])
    assert learned > worth.mean() + 15.0
    assert learned > worth.max() + 5.0


def test_rows_are_histories() -> None:
    columns = clinic.collect(3_000, seed=0)
    kinds = {name: (column.shape[1:], column.dtype.name) for name, column in columns.items()}
    assert kinds == {
        "observations": ((6,), "float32"),
        "actions": ((), "int64"),
        "rewards": ((), "float32"),
        "next_observations": ((6,), "float32"),
        "terminations": ((), "bool"),
        "truncations": ((), "bool"),
        "propensities": ((), "float32"),
        "unit_ids": ((), "int64"),
        "episode_ids": ((), "int64"),
    }
    data = Trajectories.from_arrays(**columns, spec=clinic.spec(), simulated=True)  # type: ignore[arg-type]
    assert np.array_equal(data.columns["observations"], columns["observations"])  # nothing was clipped
    assert np.array_equal(data.columns["rewards"], columns["rewards"])
    seen, episode, person = columns["observations"], columns["episode_ids"], columns["unit_ids"]
    over = columns["terminations"] | columns["truncations"]
    assert not (columns["terminations"] & columns["truncations"]).any()
    assert np.array_equal(over, np.append(np.diff(episode) != 0, True))
    assert np.array_equal(columns["next_observations"][:-1][~over[:-1]], seen[1:][~over[:-1]])
    first = np.flatnonzero(np.append(True, over[:-1]))
    assert np.array_equal(seen[:, 5], np.arange(len(seen)) - first[np.cumsum(np.append(False, over[:-1]))])
    assert (np.diff(person) >= 0).all()
    assert np.array_equal(np.unique(person), np.arange(3_000))
    courses = np.bincount(person[first])
    assert chisquare(np.bincount(courses)[1:], [1_800, 750, 300, 150]).pvalue > 1e-4
    flags = [np.ptp(seen[person == i, 4]) for i in range(100)]
    assert max(flags) == 0.0  # an addiction is for life
    lengths = np.diff(np.append(first, len(seen)))
    assert (lengths.min(), lengths.max()) == (1, 24)
    early = columns["truncations"] & (seen[:, 5] < 23)
    stays = ~columns["terminations"] & (seen[:, 5] < 23)
    assert early.sum() == pytest.approx(0.02 * stays.sum(), abs=4.5 * np.sqrt(0.02 * stays.sum()))


def test_propensities_are_the_doctors_and_units_can_be_doctors() -> None:
    staff = clinic.doctors(5, seed=2)
    people = clinic.collect(200, seed=3, staff=staff)
    columns = clinic.collect(200, seed=3, staff=staff, unit="doctor")
    assert all(np.array_equal(columns[name], people[name]) for name in people if name != "unit_ids")
    given = staff.probabilities(columns["observations"], columns["unit_ids"])
    assert columns["propensities"] == pytest.approx(given[np.arange(len(given)), columns["actions"]], abs=1e-6)
    assert given.min() >= 0.02
    pairs = np.unique(np.column_stack([people["unit_ids"], columns["unit_ids"]]), axis=0)
    assert len(pairs) == 200  # one doctor a person
    assert len(np.unique(columns["unit_ids"])) == 5
    staying = clinic.collect(50, seed=3, lost=0.0)
    assert (staying["observations"][staying["truncations"], 5] == 23).all()


@pytest.mark.parametrize("wrong", [{"patients": 0}, {"unit": "visit"}, {"lost": 1.0}])
def test_what_cannot_be_collected_is_refused(wrong: Any) -> None:
    with pytest.raises(DataError):
        clinic.collect(**({"patients": 3, "seed": 0} | wrong))
