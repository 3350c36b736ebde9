"""Preferences between completions: DPO's gradient, people apart, and a run that learns what people prefer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from small import SHAPE, TOKENIZER, UNIT, WRITER

from tacit import Ledger, Unit, Vault, hub
from tacit.agents.language.adapters import Bias, Steering
from tacit.agents.language.llama import Llama
from tacit.agents.language.sampling import encode_completions, log_softmax
from tacit.data.trajectories import receipt_of
from tacit.errors import DataError, PlanError, PlanExhausted
from tacit.methods.alignment import PreferencePlan, fit_preferences, pair_records, rated_pairs
from tacit.methods.alignment.people import ReleasedSteering
from tacit.methods.alignment.preferences import PairGradient
from tacit.privacy.ledger.ledger import SUM
from tacit.privacy.vault.isolation import IsolationChecks

BIAS = Bias(layer=0, scale=1.0)
FEW = Unit("author", "add_or_remove", population=16)
PLAN = PreferencePlan.of(WRITER, rounds=3, pairs=2, prompt_tokens=4, tokens=5, adapter=BIAS, beta=0.5, step=4.0)
THETA = np.random.default_rng(0).normal(0, 0.3, SHAPE.width).astype(np.float32)
PAIRS = [("abcd", "eeeee", "xyzxy"), ("hello", "aeiou", "bcdfg"), ("words", "ooooo", "ttttt")]


def rows_of(pairs: list[tuple[str, str, str]], owners: list[int], units: int) -> dict[str, np.ndarray]:
    """Rows as a vault has them."""
    places = {token: place for place, token in enumerate(WRITER.model.vocabulary.tolist())}
    rows = {
        "observations": np.zeros((units, 2, 4), np.float32),
        "actions": np.zeros((units, 2, 10), np.float32),
        "mask": np.zeros((units, 2), bool),
    }
    for owner, (prompt, *texts) in zip(owners, pairs, strict=True):
        row = int(rows["mask"][owner].sum())
        rows["observations"][owner, row] = TOKENIZER.encode(prompt)[:4]
        rows["actions"][owner, row] = [places[token] for text in texts for token in TOKENIZER.encode(text)]
        rows["mask"][owner, row] = True
    return rows


def likelihood(pair: tuple[str, str, str], theta: np.ndarray) -> float:
    """log sigma(m) of one pair."""
    rows = rows_of([pair], [0], 1)
    prompts = torch.from_numpy(rows["observations"][0, :1]).long()
    written = torch.from_numpy(rows["actions"][0, :1]).long().view(1, 2, 5)
    done = encode_completions(WRITER.model, WRITER.prefix_tokens, prompts, written, BIAS.first_layer)
    chances = [
        log_softmax(WRITER.model, WRITER.prefix_tokens, done, Steering(BIAS, torch.from_numpy(one)[None]))
        .gather(3, written[..., None])
        .double()
        .sum(dim=(2, 3))[0]
        for one in (theta, 0 * theta)
    ]
    chosen, rejected = chances[0] - chances[1]
    return float(torch.nn.functional.logsigmoid(0.5 * (chosen - rejected)))


def test_a_person_adds_the_gradient_of_own_log_likelihood() -> None:
    direction, step = np.random.default_rng(1).normal(size=SHAPE.width).astype(np.float32), 2e-3
    found = PairGradient(PLAN, WRITER)(rows_of(PAIRS, [0, 0, 2], 3), ReleasedSteering(THETA))
    slopes = [
        (likelihood(p, THETA + step * direction) - likelihood(p, THETA - step * direction)) / (2 * step) for p in PAIRS
    ]
    expected = [(slopes[0] + slopes[1]) / 2, 0.0, slopes[2] / 2]
    np.testing.assert_allclose(found @ direction, expected, rtol=3e-2, atol=3e-3)


def test_people_are_apart_and_alone_as_in_a_batch() -> None:
    gradient = PairGradient(PLAN, WRITER)
    checks = IsolationChecks(PLAN.spec(WRITER))
    assert checks.try_contribution(PLAN.parts()[0], gradient, ReleasedSteering(THETA)) == SHAPE.width
    together = gradient(rows_of(PAIRS, [0, 1, 2], 3), ReleasedSteering(THETA))
    for place, pair in enumerate(PAIRS):
        np.testing.assert_array_equal(gradient(rows_of([pair], [0], 1), ReleasedSteering(THETA))[0], together[place])


def test_a_run_learns_what_people_prefer_and_is_saved(tmp_path: Path) -> None:
    pairs = [(f"{letter}{letter}{letter}{letter}", "eaeae", "xzxzx") for letter in "abcdefghijklmnop"]
    data = pair_records(PLAN, WRITER, [f"p{i}" for i in range(16)], pairs, simulated=True)
    plan = PreferencePlan.of(
        WRITER, rounds=3, pairs=1, prompt_tokens=4, tokens=5, adapter=BIAS, step=4.0, noise_multiplier=0.0
    ).account(unit=FEW, delta=1e-5)
    with Ledger(tmp_path / "ledger", FEW, epsilon=1.0, delta=1e-5, composition=SUM) as ledger:
        vault = Vault(data, ledger)
        release = fit_preferences(plan, vault, WRITER)
        with pytest.raises(PlanExhausted):
            fit_preferences(plan, vault, WRITER)
    before, after = (likelihood(pairs[0], theta) for theta in release.value.iterates[[0, -1]])
    assert before == pytest.approx(np.log(0.5))
    assert after > before + 0.02
    release.certificate.verify()
    hub.save(release, tmp_path / "saved")
    back = hub.load(tmp_path / "saved").value.with_model(Llama.random(SHAPE, seed=3), TOKENIZER)
    assert back.complete(["abcd"]) == release.value.complete(["abcd"])


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        pair_records(PLAN, WRITER, ["p0"], [("abcd", "e", "xyzxy")], simulated=True)
    with pytest.raises(DataError):
        pair_records(PLAN, WRITER, ["p0"], [("abcd", "EEEEE", "xyzxy")], simulated=True)
    data = pair_records(PLAN, WRITER, ["p0", "p1"], [("abcd", "eeeee", "xyzxy")] * 2, simulated=True)
    plan = PreferencePlan(pairs=1).calibrate(unit=UNIT, epsilon=1.0, delta=1e-5)
    with (
        Ledger(tmp_path / "ledger", UNIT, epsilon=1.0, delta=1e-5, composition=SUM) as ledger,
        pytest.raises(PlanError),
    ):
        fit_preferences(plan, Vault(data, ledger), WRITER)


def test_ratings_make_pairs_of_one_person_and_prompt() -> None:
    rows = [("a", "u", 1.0), ("a", "v", 3.0), ("a", "w", 2.0), ("a", "x", 1.0), ("b", "u", 0.0), ("a", "y", 0.0)]
    ids, pairs = rated_pairs(["p", "p", "p", "p", "p", "q"], rows)
    assert ids == ["p", "p"]
    assert pairs == [("a", "v", "x"), ("a", "w", "u")]
    assert rated_pairs(["x", "x"], [("p", "A", 1.0), ("p", "A", 0.0)]) == ([], [])


@pytest.mark.parametrize("missing", [float("nan"), float("inf")])
def test_a_missing_rating_is_refused(missing: float) -> None:
    with pytest.raises(DataError, match=r"alignment\.rated_pairs: row 1: a rating is no number") as refused:
        rated_pairs(["x", "x"], [("p", "A", missing), ("p", "B", 1.0)])
    assert str(missing) not in str(refused.value)


def test_pairs_that_are_equal_after_the_cut_are_left_out() -> None:
    same, other = ("abcd", "eeeeexx", "eeeeeyy"), ("abcd", "eeeee", "xyzxy")
    data = pair_records(PLAN, WRITER, ["p0", "p1"], [same, other], simulated=True)
    assert data.columns["observations"].shape == (1, 4)
    pairs = [same, other, ("abc", "eeeee", "xyzxy"), ("abcd", "EEEEE", "xyzxy"), ("abcd", "eeeeee", "xyzxy")]
    told = receipt_of(pair_records(PLAN, WRITER, [f"p{i}" for i in range(5)], pairs, simulated=False))
    assert told is not None
    assert told["pairs"] == {
        "all": 5,
        "with a completion that was cut": 1,
        "too short, left out": 1,
        "equal after the cut, left out": 1,
        "outside the vocabulary, left out": 1,
    }
    with pytest.raises(DataError, match="differ after the cut"):
        pair_records(PLAN, WRITER, ["p0"], [same], simulated=True)
