"""How long work is said to take, beside what it took: process seconds of one core at the commit that stored them."""

from __future__ import annotations

import pytest
import torch

import tacit
from tacit.methods.synthesis.diffusion import build_network
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import TransitionsPlan
from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan
from tacit.study.durations import people_duration, synthesis_duration
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
    state = torch.random.get_rng_state()
    for units, rows, step in ((100_000, 1, 800), (400_000, 1, 3_200), (10_000, 20, 1_600)):
        plan = TransitionsPlan(rows_per_unit=rows, sampling_rate=0.008, steps=1_000, noise_multiplier=1.0)
        plan = plan.account(unit=tacit.Unit("transition", "add_or_remove", units), delta=1e-7)
        duration = synthesis_duration(plan, spec, 250_000)
        assert duration is not None
        learned, drawn = 1_000 * (0.02 + 1.2e-10 * step * weights), 250_000 * 32 * 4e-11 * weights
        assert duration.seconds == pytest.approx(20 + learned + drawn)
        assert str(duration).startswith("Takes    about ")
    assert torch.equal(torch.random.get_rng_state(), state)  # the network that is counted moves no draws
    assert str(synthesis_duration(TrajectoriesPlan(), spec, 1)).startswith("Takes    about 5 minutes of one core for")
    assert synthesis_duration(object(), spec, 1) is None
