"""What is written for a text is the same, to the last bit, whoever else is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.agents.language.uneven_models import Uneven

from tacit.agents.language import sampling
from tacit.agents.language.adapters import Bias, ModelShape, Steering
from tacit.agents.language.llama import Llama
from tacit.agents.language.sampling import Completions, complete, complete_in_batches, is_place_invariant

SHAPE = ModelShape(layers=3, width=32, inner=48, heads=4, groups=2, tokens=61)
HONEST = Llama.random(SHAPE, seed=1).with_vocabulary(range(7, 50))
PREFIX, COUNT = torch.tensor([3, 1]), 9
PROMPTS = torch.from_numpy(np.random.default_rng(2).integers(0, 61, (COUNT, 4)))
DRAWS = torch.from_numpy(np.random.default_rng(0).random((COUNT, 32, 3), np.float32))  # four prompts to a batch
STEERING = Steering(
    Bias(layer=1, scale=2.0), torch.from_numpy(np.random.default_rng(1).normal(0, 0.2, (1, 32))).float()
)


def written(model: Any, places: list[int], write: Any = complete_in_batches) -> Completions:
    done = write(model, PREFIX, PROMPTS[places], DRAWS[places], STEERING)
    some = [done] if isinstance(done, Completions) else list(done)
    return Completions(
        *(torch.cat([getattr(one, name) for one in some]) for name in ("prompts", "written", "residual"))
    )


@pytest.mark.parametrize("model", [HONEST, Uneven(HONEST, False), Uneven(HONEST, True)], ids=["even", "size", "place"])
def test_who_leaves_or_stands_elsewhere_changes_nobody_elses_tokens(model: Any) -> None:
    whole = written(model, list(range(COUNT)))
    for places in ([0], [8], [1, 2, 3, 4, 5, 6, 7, 8], [0, 1, 2, 3, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1, 0]):
        found = written(model, places)
        assert torch.equal(found.prompts, PROMPTS[places])
        assert torch.equal(found.written, whole.written[places])
        assert torch.equal(found.residual, whole.residual[places])


@pytest.mark.parametrize("places", [False, True])
def test_batches_of_those_who_are_there_would_change_them(places: bool) -> None:
    model = Uneven(HONEST, places)
    whole, some = (written(model, chosen, complete) for chosen in (list(range(COUNT)), list(range(1, COUNT))))
    assert not torch.equal(some.written, whole.written[1:])


def test_places_that_round_otherwise_are_found_and_everybody_is_completed_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []

    def counted(model: Any, prefix: Any, prompts: torch.Tensor, draws: Any, steering: Any) -> Completions:
        sizes.append(len(prompts))
        return complete(model, prefix, prompts, draws, steering)

    monkeypatch.setattr(sampling, "complete", counted)
    for model, expected in ((HONEST, [4, 4, 4]), (Uneven(HONEST, True), [1] * COUNT)):
        sizes.clear()
        written(model, list(range(COUNT)))
        assert sizes == expected
    assert is_place_invariant(HONEST, PREFIX, 4, 4, 32, 3, STEERING)
    assert not is_place_invariant(Uneven(HONEST, True), PREFIX, 4, 4, 32, 3, STEERING)  # type: ignore[arg-type]
