"""A public memory of the course: its numbers, that it looks at one episode alone, and that it stays within bounds."""

import numpy as np
import pytest

from tacit.data.memory import MEAN, NOW, Memory
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError, PlanError, SealedError
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

SPEC = PublicSpec(Box((-10.0,) * 3, (10.0,) * 3), Discrete(2), Box((0.0,), (1.0,)), "declared")
SEEN = np.array([[1.0, 1.0, 1.0], [3.0, 3.0, 3.0], [8.0, 8.0, 8.0], [4.0, 4.0, 4.0]])
AFTER = np.array([[3.0, 3.0, 3.0], [8.0, 8.0, 8.0], [-1.0, -1.0, -1.0], [6.0, 6.0, 6.0]])
STARTS = np.array([True, False, False, True])
MEMORY = Memory((NOW, MEAN, 0.4))


def records() -> Trajectories:
    return Trajectories.from_arrays(
        observations=SEEN,
        next_observations=AFTER,
        actions=np.zeros(4, np.int64),
        rewards=np.zeros(4),
        terminations=np.array([False, False, True, True]),
        unit_ids=np.array([1, 1, 1, 2]),
        spec=SPEC,
        simulated=True,
    )


def test_memory_is_now_a_mean_or_an_exponential_mean() -> None:
    held, after = MEMORY.memories(SEEN, AFTER, STARTS)
    np.testing.assert_allclose(held, [[1, 1, 1], [3, 2, 2], [8, 4, 4.4], [4, 4, 4]])
    # the third gain of the rate .4 is max(.4, 1/3), the second 1/2: 2 + .4 (8 - 2), then 4.4 + .4 (-1 - 4.4)
    np.testing.assert_allclose(after, [[3, 2, 2], [8, 4, 4.4], [-1, 2.75, 2.24], [6, 5, 5]])


def test_memory_in_steps_is_that_of_whole_courses() -> None:
    held = MEMORY.update(np.full((1, 3), 99.0), SEEN[:1], np.array([1]))
    for k in (2, 3):
        held = MEMORY.update(held, SEEN[k - 1 : k], np.array([k]))
    np.testing.assert_allclose(held, MEMORY.memories(SEEN, AFTER, STARTS)[0][2:3])


def test_memory_of_one_episode_does_not_depend_on_another() -> None:
    other = SEEN.copy()
    other[:3] = 7.0
    np.testing.assert_array_equal(MEMORY.memories(other, AFTER, STARTS)[0][3], SEEN[3])


def test_memory_stays_between_the_least_and_the_largest_value() -> None:
    seen = np.random.default_rng(3).uniform(-10, 10, (200, 3))
    starts = np.zeros(200, bool)
    held, after = MEMORY.memories(seen, seen[::-1], starts)
    assert np.abs(held).max() <= 10.0
    assert np.abs(after).max() <= 10.0


def test_no_rows_are_no_memory() -> None:
    held, after = MEMORY.memories(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0, bool))
    assert held.shape == after.shape == (0, 3)


def test_records_remember_and_keep_their_units() -> None:
    remembered = records().remember(MEMORY)
    np.testing.assert_allclose(remembered.columns["observations"][2], [8, 4, 4.4], rtol=1e-6)
    np.testing.assert_allclose(remembered.columns["next_observations"][2], [-1, 2.75, 2.24], rtol=1e-6)
    assert remembered.spec == SPEC
    assert remembered.episodes.tolist() == [0, 3, 4]


@pytest.mark.parametrize("rates", [(), (1.5, 0.0, 0.0), (float("nan"), 0.0, 0.0)])
def test_rates_are_refused_outside_0_and_1(rates: tuple[float, ...]) -> None:
    with pytest.raises(PlanError, match=r"memory\.rates"):
        Memory(rates)


def test_memory_of_other_observations_is_refused() -> None:
    with pytest.raises(DataError, match="a memory of 2 columns for observations of 3 columns"):
        records().remember(Memory((1.0, 0.0)))


def test_sealed_records_do_not_remember(tmp_path) -> None:
    data, unit = records(), Unit("patient", relation="add_or_remove", population=10)
    sealed = Trajectories(data._records, data.spec, simulated=False)
    with Ledger(tmp_path / "ledger", unit, epsilon=1.0, delta=0.01, composition=SUM) as ledger:
        Vault(sealed, ledger)
        with pytest.raises(SealedError):
            sealed.remember(MEMORY)


def test_memory_survives_json() -> None:
    assert Memory.from_json(MEMORY.to_json()) == MEMORY
