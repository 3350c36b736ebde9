"""How long work is said to take, beside what it took: process seconds of one core at the commit that stored them."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.methods.alignment.small import SHAPE, WRITER

import tacit
from tacit.agents.language.adapters import ModelShape
from tacit.cli import main
from tacit.methods.alignment import AlignmentPlan, PreferencePlan
from tacit.methods.mobility import OneShotPlan, pategail
from tacit.methods.synthesis.diffusion import build_network
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import TransitionsPlan
from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan
from tacit.study.durations import alignment_duration, imitation_duration, people_duration, synthesis_duration
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS


def test_work_on_people_is_said_in_words() -> None:
    unit = tacit.Unit("person", "add_or_remove", 100_000)
    told = str(people_duration(2.0, 4e-4, unit))
    assert told == "Takes    about 42 seconds of one core, if they have a hundred rows each."


def test_a_diffusion_model_says_how_long_it_will_take() -> None:
    """Seen before a step took two thirds of its time: 92.9, 90.4 and 137.8 CPU seconds."""
    spec = maze.spec(LAYOUTS["umaze"])
    network = build_network(TransitionsPlan(), Encoder.from_bounds(spec).size)
    weights = sum(layer.weight.numel() for layer in network.modules() if isinstance(layer, torch.nn.Linear))
    for units, rows, step in ((100_000, 1, 800), (400_000, 1, 3_200), (10_000, 20, 1_600)):
        plan = TransitionsPlan(rows_per_unit=rows, sampling_rate=0.008, steps=1_000, noise_multiplier=1.0)
        plan = plan.account(unit=tacit.Unit("transition", "add_or_remove", units), delta=1e-7)
        duration = synthesis_duration(plan, spec, 250_000)
        assert duration is not None
        learned, drawn = 1_000 * (0.02 + 1.2e-10 * step * weights), 250_000 * 32 * 4e-11 * weights
        assert duration.seconds == pytest.approx(20 + learned + drawn)
        assert str(duration).startswith("Takes    about ")
    assert str(synthesis_duration(TrajectoriesPlan(), spec, 1)).startswith("Takes    about 5 minutes of one core for")
    assert synthesis_duration(object(), spec, 1) is None


@pytest.mark.parametrize(
    ("critics", "people", "seen"),
    [
        ("linear", 200, 10.3),
        ("linear", 1_000, 12.5),
        ("linear", 4_000, 16.3),
        ("table", 200, 20.3),
        ("table", 1_000, 34.3),
        ("samples", 1_000, 36.6),
        ("gradient", 200, 20.3),
    ],
)
def test_critics_of_people_say_how_long_they_will_take(critics: Any, people: int, seen: float) -> None:
    duration = imitation_duration(pategail.recipe(critics, people, 2.0))
    assert duration is not None
    assert seen / 1.25 < duration.seconds < 1.25 * seen


def test_another_imitation_says_what_it_takes_for_each_person() -> None:
    unit = tacit.Unit("person", "add_or_remove", 1_000)
    one_shot = imitation_duration(OneShotPlan().calibrate(unit=unit, epsilon=1.0, delta=1e-5))
    assert one_shot is not None
    assert one_shot.seconds == pytest.approx(9.6)
    assert imitation_duration(object()) is None


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (("dosing-0", "--users", "400"), 4.3),
        (("dosing-0", "--users", "1600"), 9.2),
        (("dosing-0", "--users", "1600", "--method", "votes"), 6.0),
        (("clinic", "--users", "12800"), 29.9),
        (("clinic", "--users", "3200", "--users-per-round", "64"), 3.6),
        (("clinic", "--users", "400", "--ceiling", "--runs", "2"), 5.2),
    ],
)
def test_training_says_how_long_it_will_take(
    words: tuple[str, ...], seen: float, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *words, "--out", "run", "--dry-run"]) == 0
    told = re.search(r"^Takes    about (\d+) seconds of one core\.$", capsys.readouterr().out, re.MULTILINE)
    assert told is not None
    assert seen / 1.5 < int(told[1]) < 1.5 * seen


def test_training_with_another_simulator_counts_its_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Seen: 16.8 seconds. Of 800 people and 3 times 200 fresh ones, and of 50 at each of 21 points, 200 steps each."""
    (tmp_path / "bounds.json").write_text('{"reward": [-17, 0]}')
    bounds = ["--bounds", str(tmp_path / "bounds.json")]
    assert main(["train", "Pendulum-v1", *bounds, "--users", "800", "--out", str(tmp_path / "run"), "--dry-run"]) == 0
    words = "18 seconds of one core, if each of at most 490,000 steps of the simulator takes 20 microseconds."
    assert f"Takes    about {words}" in capsys.readouterr().out


def test_alignment_counts_the_tokens_that_it_reads() -> None:
    """A token passes both layers, of 2 x 32 x 48 + 3 x 32 x 48 weights, and the head of 32 words, as 2 flops each."""
    token = 2e-11 * (2 * 5 * 32 * 48 + 32 * 32)
    assert SHAPE.layers == 2
    assert len(WRITER.model.vocabulary) == 32
    reward = alignment_duration(AlignmentPlan(people=64, rounds=2), WRITER.model, 128)
    assert reward.seconds == pytest.approx(5 + token * (4 * 2 * 128 * 24 + 2 * 64 * (2 * 8 + 2.5 * 4 * 16)))
    assert str(reward).endswith("of one core, and the time that the reward takes.")
    plan = PreferencePlan(rounds=2, noise_multiplier=1.0)
    plan = plan.account(unit=tacit.Unit("author", "add_or_remove", 50), delta=1e-3)
    pairs = alignment_duration(plan, WRITER.model, 128)
    assert pairs.seconds == pytest.approx(5 + token * (4 * 2 * 128 * 24 + 2 * 50 * 4 * 2.4 * (8 + 2 * 16)))


def test_alignment_of_a_published_model_takes_about_as_long_as_it_took() -> None:
    """Seen with SmolLM2 of 135 million weights and 60 words: 61.1 and 95.8 CPU seconds."""
    shape = ModelShape(layers=30, width=576, inner=1_536, heads=9, groups=3, tokens=49_152)
    model: Any = SimpleNamespace(shape=shape, vocabulary=range(60))
    met = alignment_duration(AlignmentPlan(people=64), model, 128)
    assert 61.1 / 1.25 < met.seconds < 1.25 * 61.1
    plan = PreferencePlan(rounds=2, noise_multiplier=1.0)
    plan = plan.account(unit=tacit.Unit("author", "add_or_remove", 32), delta=1e-3)
    assert 95.8 / 1.25 < alignment_duration(plan, model, 128).seconds < 1.25 * 95.8
