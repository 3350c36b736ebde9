"""Whole runs of alignment on a model of two layers: what is released, saved, resumed and refused."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from small import TOKENIZER, UNIT, WORDS, WRITER, Letters, people_of, plan_of, vault_of

from tacit import alignment, hub
from tacit.agents.language.adapters import LoRA
from tacit.agents.language.llama import Llama
from tacit.agents.language.models import Writer
from tacit.errors import BudgetExceeded, DataError, PlanError, PlanExhausted
from tacit.methods.alignment.plan import AlignmentPlan
from tacit.privacy.vault import isolation
from tacit.privacy.vault.plan import public_fields

ROOT = Path(__file__).parents[3]
SLOTS = [f"p{i}" for i in range(16)]


@pytest.fixture(autouse=True)
def small_crowds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large crowds are tried in `test_person_gradient.py`."""
    monkeypatch.setattr(isolation, "CROWDS", (1, 2, 5))


def released(folder: Path, slots: list[str] = SLOTS, **options: object) -> alignment.Steered:
    plan = plan_of(**options).account(unit=UNIT, delta=1e-5)
    return alignment.fit(plan, vault_of(people_of(plan, slots), folder), WRITER, reward=Letters()).value


def test_without_noise_the_reward_rises(tmp_path: Path) -> None:
    slots = [f"p{i}" for i in range(64)]
    value = released(tmp_path, slots, rounds=2, people=32, noise_multiplier=0.0, step=8.0, completions=8)
    prompts = ["qrst", "hjkl", "bcdf", "vwxz"] * 16
    before, after = (
        np.mean(Letters()(value.complete(prompts, tokens=8, seed=1, reference=reference)))
        for reference in (True, False)
    )
    assert after > before + 0.5


@dataclass(frozen=True)
class Unread(Letters):
    """A reward that may be declared and is never asked."""

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        raise AssertionError("the public reward was asked")


def test_people_who_value_completions_alone_need_no_public_reward(tmp_path: Path) -> None:
    plan = plan_of(feedback="person", critic=0.0, noise_multiplier=0.0).account(unit=UNIT, delta=1e-5)
    people = people_of(plan, SLOTS, feedback=lambda person, texts: [1.0] * len(texts))
    assert alignment.fit(plan, vault_of(people, tmp_path), WRITER, reward=Unread()).value.iterates.shape == (2, 32)


def test_a_run_promises_what_its_certificate_recomputes(tmp_path: Path) -> None:
    plan = plan_of(rounds=2).calibrate(unit=UNIT, epsilon=8.0, delta=1e-5)
    release = alignment.fit(plan, vault_of(people_of(plan, SLOTS), tmp_path), WRITER, reward=Letters())
    assert release.certificate.verify().epsilon <= 8.0
    stated = json.dumps(release.certificate.to_json())
    for digest in (WRITER.model.digest, Letters().digest, WRITER.vocabulary_digest):
        assert digest in stated
    hub.save(release, tmp_path / "saved")
    loaded = hub.load(tmp_path / "saved")
    np.testing.assert_array_equal(loaded.value.iterates, release.value.iterates)
    back = loaded.value.with_model(Llama.random(WRITER.model.shape, seed=3), TOKENIZER)
    assert back.complete(["abcd"], seed=2) == release.value.complete(["abcd"], seed=2)
    with pytest.raises(PlanError):
        loaded.value.with_model(Llama.random(WRITER.model.shape, seed=4), TOKENIZER)
    with pytest.raises(PlanError):
        loaded.value.complete(["abcd"])
    alone = [sys.executable, str(ROOT / "verifier" / "tacit_verify.py"), str(tmp_path / "saved" / "certificate.json")]
    assert subprocess.run(alone, capture_output=True).returncode == 0


def test_an_interrupted_run_goes_on_with_its_checkpoint(tmp_path: Path) -> None:
    plan = plan_of(rounds=3, people=4).calibrate(unit=UNIT, epsilon=8.0, delta=1e-5)
    people = people_of(plan, SLOTS)
    vault = vault_of(people, tmp_path)

    def stop(done: int, rounds: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        alignment.fit(plan, vault, WRITER, reward=Letters(), folder=tmp_path, progress=stop)
    with pytest.raises(PlanExhausted):
        alignment.fit(plan, vault, WRITER, reward=Letters())
    release = alignment.fit(plan, vault, WRITER, reward=Letters(), folder=tmp_path, resume=True)
    assert release.value.iterates.shape == (4, 32)
    with pytest.raises(BudgetExceeded):
        alignment.fit(dataclasses.replace(plan, step=2.0), vault, WRITER, reward=Letters())


def test_where_nobody_comes_noise_alone_is_released(tmp_path: Path) -> None:
    value = released(tmp_path, [], noise_multiplier=2.0)
    moved = np.diff(value.iterates, axis=0)[0]
    assert 0.5 < moved.std() / (2.0 * 1.0 / 8) < 2.0  # sigma times clip over people


def test_poisson_samples_come_from_the_pool(tmp_path: Path) -> None:
    value = released(tmp_path, rounds=2, sampling_rate=0.5, noise_multiplier=2.0)
    assert np.abs(np.diff(value.iterates, axis=0)).max() > 0


def test_lora_is_learned_too(tmp_path: Path) -> None:
    value = released(tmp_path, people=16, noise_multiplier=0.0, adapter=LoRA(layers=(1,), rank=1))
    moved = value.iterates[1] - value.iterates[0]
    assert not moved[:32].any()
    assert moved[32:80].any()


def test_shrinking_reaches_a_divergence_on_public_prompts(tmp_path: Path) -> None:
    value = released(tmp_path, people=16, noise_multiplier=3.0, step=20.0)
    public = [f"{letter}{letter}xy plus" for letter in "abcdefghij"] * 4
    prompts = torch.tensor([TOKENIZER.encode(text)[:4] for text in public])
    draws = torch.from_numpy(np.random.default_rng(0).random((40, 1, 6), np.float32))
    whole = value.kl(prompts, draws)
    shrunk = value.limit_kl(public, kl=whole / 3)
    assert 0 < shrunk.share < 1
    assert whole / 6 < shrunk.kl(prompts, draws) <= whole / 3
    assert value.limit_kl(public, kl=2 * whole) is value
    for wrong in ({"public_prompts": ["ab"], "kl": 1.0}, {"public_prompts": public, "kl": 0.0}):
        with pytest.raises(PlanError):
            value.limit_kl(**wrong)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Moody(Letters):
    """A reward that gives what it was told to, whatever it reads."""

    worth: list[float] | None = None

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        return np.array([1.0 * each for each in self.worth])  # type: ignore[union-attr]


def test_what_does_not_fit_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    plan = plan_of().calibrate(unit=UNIT, epsilon=8.0, delta=1e-5)
    vault = vault_of(people_of(plan, SLOTS), tmp_path)
    other = Writer(Llama.random(WRITER.model.shape, seed=4).with_vocabulary(WORDS), TOKENIZER, WRITER.prefix)
    for model, reward in ((other, Letters()), (dataclasses.replace(WRITER, prefix=""), Letters()), (WRITER, None)):
        with pytest.raises(PlanError):
            alignment.fit(plan, vault, model, reward=reward)
    for worth, found in (
        (None, "Moody does not value texts \\(TypeError\\)"),
        ([np.nan, 1.0], "Moody does not"),
        ([1.0], "Moody does"),
    ):
        with pytest.raises(PlanError, match=f"alignment.fit: {found}"):
            alignment.fit(plan, vault, WRITER, reward=Moody(worth))
    assert not vault.ledger.plans()
    with pytest.raises(DataError):
        people_of(plan, ["p1"], feedback=lambda person, texts: [0.0] * len(texts))


@pytest.mark.parametrize(
    "wrong",
    [
        {"completions": 1},
        {"rounds": 0},
        {"feedback": "nobody"},
        {"critic": -1.0},
        {"sampling_rate": 0.0},
        {"clip_norm": np.inf},
        {"reward_bound": 0.0},
    ],
)
def test_values_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(PlanError):
        plan_of(**wrong)


def test_a_plan_comes_back_from_its_fields() -> None:
    plan = plan_of(adapter=LoRA(layers=(1,)), sampling_rate=0.25).calibrate(unit=UNIT, epsilon=2.0, delta=1e-5)
    assert AlignmentPlan.from_json(json.loads(json.dumps(public_fields(plan)))) == plan
    with pytest.raises(PlanError):
        plan_of(noise_multiplier=0.0).calibrate(unit=UNIT, epsilon=1.0, delta=1e-5)
