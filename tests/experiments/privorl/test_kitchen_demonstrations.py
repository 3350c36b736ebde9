"""The scripted controller of the kitchen, and demonstrations by people who differ."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from experiments.privorl.envs import kitchen, kitchen_controller
from experiments.privorl.envs.kitchen import COMPLETE, Task
from experiments.privorl.envs.kitchen_controller import OTHER, OWN, PATHS, Menu, Style, _Polyline

from tacit.data import overlap

SLIDE = Menu(("slide cabinet",), left_out=0.0)


def needs_the_kitchen() -> None:
    pytest.importorskip("gymnasium_robotics")


def corner() -> _Polyline:
    """One metre along x, then two along y; the fingers turn from y to x on the second."""
    points = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 2.0, 0.0]])
    return _Polyline(points, np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))


def test_places_along_a_path() -> None:
    path = corner()
    assert path.length == 3.0
    assert path.point(0.25)[0].tolist() == [0.25, 0.0, 0.0]
    place, fingers = path.point(2.0)
    assert place.tolist() == [1.0, 1.0, 0.0]
    assert fingers.tolist() == [0.5, 0.5, 0.0]
    beyond, fingers = path.point(3.5)
    assert beyond.tolist() == [1.0, 2.5, 0.0]
    assert fingers.tolist() == [1.0, 0.0, 0.0]


def test_a_tip_is_never_placed_behind_where_it_was_or_far_ahead() -> None:
    path = corner()
    assert path.nearest(np.array([0.05, 0.3, 0.0]), 0.0) == pytest.approx(0.05)
    assert path.nearest(np.array([0.0, 0.0, 0.0]), 0.5) == pytest.approx(0.5)
    assert path.nearest(np.array([1.0, 1.9, 0.0]), 0.5) == pytest.approx(0.62)


def test_people_differ_and_keep_the_order() -> None:
    people = [replace(OWN, left_out=0.5).person(np.random.default_rng(seed)) for seed in range(400)]
    whole = [tasks for tasks, _ in people if len(tasks) == 4]
    assert 160 <= len(whole) <= 240
    assert all(tasks == [task for task in COMPLETE if task in tasks] for tasks, _ in people)
    assert {len(tasks) for tasks, _ in people} == {3, 4}
    speeds = np.array([style.speed for _, style in people])
    assert OWN.slowest <= speeds.min() < speeds.max() <= OWN.fastest
    assert len(set(speeds)) == 400


def test_public_people_do_other_tasks_first_and_the_common_ones_in_another_order() -> None:
    common = [task for task in OTHER.order if task in OWN.order]
    assert common != [task for task in OWN.order if task in common]
    assert set(OTHER.order) != set(OWN.order)
    assert {*OWN.order, *OTHER.order} <= set(PATHS)


@pytest.mark.parametrize("task", sorted({*OWN.order, *OTHER.order}))
def test_each_task_is_done(task: Task) -> None:
    needs_the_kitchen()
    room = kitchen.new_room([task])
    room.reset(seed=5)
    arm, rng = kitchen_controller.Arm(room), np.random.default_rng(5)
    before = kitchen_controller.distance(arm, task)
    paid = 0.0
    for action in kitchen_controller.actions(arm, [task], Style(), rng):
        assert np.abs(action).max() <= 1.0
        paid += float(room.step(action)[1])
    room.close()
    assert before > 0.3
    assert paid == 1.0
    assert kitchen_controller.distance(arm, task) < 0.3


def test_an_episode_is_a_chain_that_ends_as_its_tasks_do() -> None:
    needs_the_kitchen()
    rows = kitchen_controller.episode(SLIDE, seed=3, number=0)
    assert rows["observations"].shape[1:] == (59,)
    assert rows["actions"].shape[1:] == (9,)
    np.testing.assert_array_equal(rows["next_observations"][:-1], rows["observations"][1:])
    assert rows["terminations"].tolist() == [False] * (len(rows["rewards"]) - 1) + [True]
    assert rows["rewards"].tolist() == [0.0] * (len(rows["rewards"]) - 1) + [1.0]


def test_rows_are_decided_by_the_seed_and_public_ones_are_not_private() -> None:
    needs_the_kitchen()
    rows = kitchen_controller.collect(90, menu=SLIDE, seed=3)
    again = kitchen_controller.collect(90, menu=SLIDE, seed=3)
    assert all(np.array_equal(rows[name], again[name]) for name in rows)
    assert len(rows["rewards"]) == 90
    other = kitchen_controller.collect(90, menu=SLIDE, seed=4)
    assert overlap.find_overlap(rows, again, kitchen.spec()).suspicious
    assert not overlap.find_overlap(other, rows, kitchen.spec()).suspicious


def test_the_public_bounds_hold_demonstrations() -> None:
    needs_the_kitchen()
    bounds: Any = kitchen.spec()
    rows = kitchen_controller.episode(OTHER, seed=7, number=0)["observations"]
    held = (rows >= np.array(bounds.observation.low)) & (rows <= np.array(bounds.observation.high))
    assert held.mean() > 0.99


def test_a_site_is_public_geometry() -> None:
    needs_the_kitchen()
    room = kitchen.new_room(COMPLETE)
    room.reset(seed=0)
    arm = kitchen_controller.Arm(room)
    tip, axes = arm.tip()
    assert math.isclose(float(np.linalg.norm(tip - arm.site("end_effector"))), kitchen_controller.TIP)
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-9)
    room.close()
