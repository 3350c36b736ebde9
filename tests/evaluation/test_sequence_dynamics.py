"""Errors along trajectories and at stitch points, against a simulator whose errors are known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.lib.one_step import one_step_errors

from tacit.errors import DataError
from tacit.evaluation.sequences import Known, Sequences, Step, sequence_dynamics


def drive(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """The first column goes on by the action, the second never moves."""
    return states + np.column_stack([actions, np.zeros(len(actions))])


def driven(*lengths: int, error: float = 0.0, stitches: tuple[int, ...] = (), jump: float = 0.0) -> Sequences:
    """Trajectories with actions of 1 whose every step is `error` too long, and which jump by `jump` at stitches."""
    ends = np.append(0, np.cumsum(lengths))
    first = np.concatenate([np.arange(length) * (1.0 + error) for length in lengths])
    for stitch in stitches:
        owner = np.searchsorted(ends, stitch, side="right")
        first[stitch : ends[owner]] += jump
    states = np.column_stack([first, np.full(len(first), 7.0)])
    columns = {
        "observations": states,
        "actions": np.ones(len(states)),
        "next_observations": states + np.array([1.0 + error, 0.0]),
        "rewards": np.zeros(len(states)),
    }
    return Sequences(columns, ends, np.array(stitches, np.int64))


def test_exact_trajectories_have_no_error_and_no_seam() -> None:
    found = sequence_dynamics(driven(3, 5), drive)
    np.testing.assert_array_equal(found.step_errors, np.zeros(5))
    np.testing.assert_array_equal(found.drift, np.zeros(5))
    assert found.inner_error == 0.0
    assert np.isnan([found.stitch_error, found.stitch_gap]).all()


def test_equal_errors_of_steps_add_up_to_a_drift() -> None:
    found = sequence_dynamics(driven(2, 4, error=0.5), drive)
    np.testing.assert_allclose(found.step_errors, 0.5)
    np.testing.assert_allclose(found.drift, [0.5, 1.0, 1.5, 2.0])


def test_a_jump_is_an_error_at_the_seam_alone() -> None:
    found = sequence_dynamics(driven(4, 3, stitches=(2, 6), jump=3.0), drive)
    np.testing.assert_allclose(found.step_errors, [0.0, 3.0, 0.0, 0.0])
    np.testing.assert_allclose(found.drift, [0.0, 3.0, 3.0, 3.0])
    assert (found.stitch_error, found.inner_error, found.stitch_gap) == (3.0, 0.0, 3.0)


def test_seams_tell_the_gap_from_the_error_of_the_step() -> None:
    """Fragments whose last step is wrong, but which are joined without a gap."""
    found = sequence_dynamics(driven(4, error=0.25, stitches=(2,)), drive)
    assert (found.stitch_error, found.inner_error, found.stitch_gap) == pytest.approx((0.25, 0.25, 0.0))


def test_without_gaps_it_is_the_error_of_one_step() -> None:
    generator = np.random.default_rng(0)
    path = generator.normal(size=(31, 3)).cumsum(axis=0)
    columns = {"observations": path[:-1], "next_observations": path[1:], "actions": generator.normal(size=30)}

    def turn(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return states + np.column_stack([actions, 5.0 * np.sin(states[:, 0]), np.zeros(len(states))])

    found = sequence_dynamics(Sequences(columns, np.array([0, 30])), turn)
    expected = one_step_errors({**columns, "rewards": np.zeros(30)}, lambda s, a: (turn(s, a), np.zeros(30)))
    assert found.inner_error == pytest.approx(expected.next_state)


def test_rows_that_the_simulator_does_not_know_count_apart() -> None:
    """It knows nothing from 2.5 on, where its answer would be nonsense."""

    def half(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return np.where(states[:, :1] > 2.5, np.nan, drive(states, actions))

    found = sequence_dynamics(driven(5, 2), half, known=lambda states: states[:, 0] < 2.5)
    np.testing.assert_array_equal(found.step_errors, [0.0, 0.0, 0.0, np.nan, np.nan])
    np.testing.assert_array_equal(found.drift, [0.0, 0.0, 0.0, np.nan, np.nan])


@pytest.mark.parametrize(
    ("step", "known", "complaint"),
    [
        (lambda states, actions: states, None, "moves no row"),
        (lambda states, actions: states[:, :1], None, "another shape"),
        (lambda states, actions: states * np.nan, None, "not finite"),
        (drive, lambda states: np.zeros(len(states), bool), "knows no state"),
    ],
)
def test_simulators_without_an_answer_are_refused(step: Step, known: Known | None, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        sequence_dynamics(driven(3), step, known=known)


def test_discrete_states_are_refused() -> None:
    columns = {name: np.arange(3) for name in ("observations", "next_observations", "actions")}
    with pytest.raises(DataError, match="other shapes"):
        sequence_dynamics(Sequences(columns, np.array([0, 3])), drive)
