"""People who judge: what each of them adds, whether its interval covers, and that nobody who taught is among them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from small import UNIT, WRITER, Letters, people_of, plan_of, texts_of, vault_of
from test_preferences import BIAS, FEW, PAIRS, THETA, likelihood, rows_of

from tacit import Ledger, Vault, alignment, hub
from tacit.errors import PlanError
from tacit.methods.alignment import PreferencePlan, fit_preferences, pair_records
from tacit.methods.alignment.judging import JUDGES, WEIGHTS, person_vectors, read_judgement
from tacit.methods.alignment.people import (
    CompletionActor,
    CompletionComparison,
    People,
    ReleasedSteering,
    comes_second,
    split_actions,
    split_observations,
)
from tacit.methods.alignment.plan import AlignmentPlan
from tacit.methods.alignment.preferences import PairComparison
from tacit.privacy.ledger import checkpoint
from tacit.privacy.ledger.ledger import SUM
from tacit.privacy.vault import isolation
from tacit.privacy.vault.isolation import IsolationChecks
from tacit.privacy.vault.plan import public_fields

IDS = [f"p{i}" for i in range(30)]
PLAN = plan_of()


@pytest.fixture(autouse=True)
def small_crowds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "CROWDS", (1, 2, 5))


def test_a_person_adds_a_vector_of_norm_at_most_one() -> None:
    found = person_vectors(np.array([1.0, -0.5, 7.0, 0.3]), np.array([True, True, True, False]))
    a, b, c = np.sqrt([0.7, 0.1, 0.2]) * (1 - 2e-4)
    np.testing.assert_allclose(found, [[a, b, c], [-a / 2, b, c / 4], [a, b, c], [0, 0, 0]])
    assert np.linalg.norm(found, axis=1).max() < 1


def test_a_persons_number_is_the_mean_difference_of_what_both_models_are_worth() -> None:
    observations = np.zeros((3, 6, 10))
    observations[:, :, 9] = 0.9  # the base model's completions stand first
    observations[1, 2, 9] = 0.1  # but behind the second person's first prompt second
    rewards = np.tile([1.0, 4.0, 99.0, 2.0, -3.0, 99.0], (3, 1))  # of K = 3 completions two are compared
    mask = np.ones((3, 6), bool)
    mask[1, 3:], mask[2] = False, False
    rows = {"observations": observations, "rewards": rewards, "mask": mask}
    found = CompletionComparison(PLAN)(rows, None)
    expected = person_vectors(np.array([(3 - 5) / 2 / 10, -3 / 10, 0.0]), np.array([True, True, False]))
    np.testing.assert_allclose(found, expected)


def test_judges_get_both_models_at_the_same_draws_in_an_order_of_their_own() -> None:
    plan, base, theta = plan_of(completions=5), torch.zeros(32), torch.from_numpy(THETA)
    rows = people_of(plan, IDS[:8]).serve([IDS[:8]], CompletionActor(plan, WRITER, Letters(), theta, base))
    flat = rows["observations"].reshape(-1, rows["observations"].shape[2])
    prompts, draws = split_observations(plan, flat)
    both, _ = split_actions(plan, prompts, rows["actions"].reshape(len(flat), -1))
    swapped = comes_second(draws)
    assert 0 < swapped.sum() < len(swapped)
    for start, parameters in ((swapped, base), (~swapped, theta)):
        actor = CompletionActor(plan_of(completions=2), WRITER, Letters(), parameters)
        alone = np.concatenate([prompts.repeat_interleave(2, dim=0), draws[:, :2].reshape(-1, 6)], axis=1).astype(
            np.float32
        )
        written = actor(alone, np.zeros(len(alone), np.int64), np.random.default_rng())[:, :6].reshape(-1, 2, 6)
        first = torch.where(start[:, None, None], both.written[:, 2:4], both.written[:, :2])
        np.testing.assert_array_equal(first.numpy(), written)


def test_what_a_judge_adds_depends_on_nobody_else() -> None:
    part = PLAN.parts()[1]
    assert IsolationChecks(PLAN.spec(WRITER)).try_contribution(part, CompletionComparison(PLAN), None) == 3
    plan = PreferencePlan.of(WRITER, pairs=2, prompt_tokens=4, tokens=5, adapter=BIAS)
    state = ReleasedSteering(THETA)
    checks = IsolationChecks(plan.spec(WRITER))
    assert checks.try_contribution(plan.parts()[1], PairComparison(plan, WRITER), state) == 3
    together = PairComparison(plan, WRITER)(rows_of(PAIRS, [0, 1, 2], 3), state)
    for place, pair in enumerate(PAIRS):
        np.testing.assert_array_equal(PairComparison(plan, WRITER)(rows_of([pair], [0], 1), state)[0], together[place])


def test_of_pairs_a_persons_number_is_the_rise_of_the_chosen_ones_probability() -> None:
    plan = PreferencePlan.of(WRITER, pairs=2, prompt_tokens=4, tokens=5, adapter=BIAS)
    found = PairComparison(plan, WRITER)(rows_of(PAIRS, [0, 0, 2], 3), ReleasedSteering(THETA))
    rises = []
    for prompt, chosen, rejected in PAIRS:
        # likelihood is log sigma(m / 2) of the log-ratio m to the base model; with theta 0 in its place m is 0
        odds = likelihood((prompt, chosen, rejected), THETA)
        ratio = -2 * np.log(np.expm1(-odds))
        rises.append(ratio)
    base = PairComparison(plan, WRITER)(rows_of(PAIRS, [0, 0, 2], 3), ReleasedSteering(0 * THETA))
    np.testing.assert_allclose(base[[0, 2]], person_vectors(np.zeros(2), np.ones(2, bool)), atol=1e-12)
    u = found[:, 0] / WEIGHTS[0]
    assert np.sign(u[2]) == np.sign(rises[2])
    assert (
        abs(u[2]) <= np.tanh(abs(rises[2]) / 4) + 1e-6
    )  # the most that a shift of the log-odds can raise a probability
    np.testing.assert_array_equal(found[1], 0)


def answers(kind: str, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Numbers of so many people: thumbs, rare raptures, or small differences."""
    if kind == "thumbs":
        return generator.choice([-1.0, 0.0, 1.0], count, p=[0.2, 0.5, 0.3])
    if kind == "rare":
        return np.where(generator.random(count) < 0.03, 1.0, 0.0)
    return np.clip(generator.normal(0.0, 0.15, count), -1, 1)


@pytest.mark.parametrize(("kind", "mean"), [("thumbs", 0.1), ("rare", 0.03), ("small", 0.0)])
@pytest.mark.parametrize(("people", "noise"), [(60, 0.0), (200, 1.0), (200, 6.0), (1_000, 3.0)])
def test_the_interval_covers_as_often_as_it_says(kind: str, mean: float, people: int, noise: float) -> None:
    generator, covered, wrong, widths = np.random.default_rng(3), 0, 0, []
    for _ in range(400):
        vectors = person_vectors(answers(kind, people, generator), np.ones(people, bool))
        sums = tuple((vectors.sum(axis=0) + noise * generator.standard_normal(3)).tolist())
        said = read_judgement(sums, scale=2.0, noise=noise, population=5 * people, expected=1.5 * people)
        covered += said.interval.low <= 2 * mean <= said.interval.high
        wrong += said.verdict == ("worse" if mean else "better") or (not mean and said.verdict == "worse")
        widths.append(said.interval.high - said.interval.low)
    assert covered >= 0.94 * 400
    assert wrong <= 0.05 * 400
    assert np.mean(widths) < 4.0


def test_words_say_what_noise_alone_would_give() -> None:
    sums = tuple((200 * person_vectors(np.array([0.1]), np.ones(1, bool))[0]).tolist())
    said = read_judgement(sums, scale=20.0, noise=1.0, population=1_000, expected=200)
    assert said.estimate == pytest.approx(2.0)
    assert said.noise == pytest.approx(20 * 1.959964 / WEIGHTS[0] / 200, rel=1e-6)
    assert said.verdict == "better"
    assert str(said).startswith("People like it better: +2, +")
    assert str(said).endswith("at 95 % confidence; noise alone would give 0 ± 0.23.")
    by_reward = read_judgement(sums, scale=20.0, noise=1.0, population=1_000, expected=200, by="reward")
    assert str(by_reward).startswith("On prompts of people who taught nothing the reward is higher: +2, +")


class Asked(People):
    """People of whom a test sees who was served in which round."""

    def serve(self, people: Sequence[Sequence[str]], actor: Any) -> dict[str, NDArray[Any]]:
        self.rounds: list[set[str]] = [*getattr(self, "rounds", []), set(people[0])]
        return super().serve(people, actor)


def asked_of(plan: AlignmentPlan, ids: Sequence[str] = IDS) -> Asked:
    return Asked(plan, WRITER, {person: texts_of(200)[person] for person in ids}, simulated=True)


def test_without_noise_the_statement_is_the_mean_of_people_who_did_not_teach(tmp_path: Path) -> None:
    plan = plan_of(rounds=2, noise_multiplier=0.0, step=8.0).account(unit=UNIT, delta=1e-5)
    people = asked_of(plan)
    value = alignment.fit(plan, vault_of(people, tmp_path), WRITER, reward=Letters()).value
    *taught, judges = people.rounds
    assert len(taught) == 2
    assert 0 < len(judges) < 15
    assert set.union(*taught) | judges == set(IDS)
    assert not set.union(*taught) & judges
    actor = CompletionActor(plan, WRITER, Letters(), value.steering.theta[0], torch.zeros(32))
    vectors = CompletionComparison(plan)(people_of(plan, list(judges)).serve([list(judges)], actor), None)
    assert value.judgement is not None
    assert value.judgement.estimate == pytest.approx(10 * vectors[:, 0].mean() / WEIGHTS[0], abs=0.05)
    assert value.judgement.interval.low < value.judgement.estimate < value.judgement.interval.high


def test_whom_people_judge_is_in_the_ledger_before_anybody_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of().calibrate(unit=UNIT, epsilon=8.0, delta=1e-5)
    vault = vault_of(asked_of(plan), tmp_path)
    real, noted = vault.enroll, list[int]()

    def enroll(run: Any, actor: Any) -> None:
        noted.append(sum(len(one.policies) for one in vault.ledger.plans()))
        real(run, actor)

    monkeypatch.setattr(vault, "enroll", enroll)
    release = alignment.fit(plan, vault, WRITER, reward=Letters())
    assert noted == [0, 1]
    assert any("who judge what was released and taught nothing" in line for line in sentences_of(release))
    hub.save(release, tmp_path / "saved")
    assert hub.load(tmp_path / "saved").value.judgement == release.value.judgement
    assert str(release.value.judgement) in " ".join((tmp_path / "saved" / "README.md").read_text().split())


def sentences_of(release: Any) -> list[str]:
    from tacit.privacy import sentences

    return list(sentences.lines(release.certificate.to_json(), "covered"))


def fitted(vault: Any, plan: AlignmentPlan, folder: Path, **options: Any) -> Any:
    return alignment.fit(plan, vault, WRITER, reward=Letters(), folder=folder, **options).value


def test_people_are_asked_once_however_often_a_run_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(rounds=2).calibrate(unit=UNIT, epsilon=8.0, delta=1e-5)
    people = asked_of(plan)
    vault = vault_of(people, tmp_path)

    def stop(done: int, rounds: int) -> None:
        if done == rounds:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(vault, plan, tmp_path, progress=stop)
    assert len(people.rounds) == 2
    value = fitted(vault, plan, tmp_path, resume=True)
    assert len(people.rounds) == 3
    again = fitted(vault, plan, tmp_path, resume=True)
    assert len(people.rounds) == 3
    assert again.judgement == value.judgement is not None
    with pytest.raises(PlanError, match="the one that people judged"):
        fitted(vault, plan, tmp_path, resume=True, finish=lambda value: dataclasses.replace(value, share=0.5))


def test_an_answer_that_was_not_kept_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of().calibrate(unit=UNIT, epsilon=8.0, delta=1e-5)
    vault = vault_of(asked_of(plan), tmp_path)
    real = checkpoint.save

    def save(path: Path, tensors: Mapping[str, torch.Tensor], **options: Any) -> None:
        if JUDGES in tensors:
            raise KeyboardInterrupt
        real(path, dict(tensors), **options)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", save)
        with pytest.raises(KeyboardInterrupt):
            fitted(vault, plan, tmp_path)
    value = fitted(vault, plan, tmp_path, resume=True)
    assert value.judgement is None
    assert value.opinion.startswith("The answer of the people who judged was lost")


def test_a_second_statement_on_the_same_people_has_a_higher_level(tmp_path: Path) -> None:
    vault, levels = vault_of(asked_of(plan_of()), tmp_path), []
    for step in (1.0, 2.0):
        plan = plan_of(step=step).calibrate(unit=UNIT, epsilon=2.0, delta=1e-6)
        value = alignment.fit(plan, vault, WRITER, reward=Letters()).value
        levels.append(value.judgement.interval.level)
    assert levels == pytest.approx([0.95, 0.975])


def test_judges_are_a_share_that_the_plan_says() -> None:
    assert (PLAN.judges, [part.users for part in PLAN.parts()]) == (0.2, [8, 2])
    assert [part.users for part in plan_of(rounds=3, judges=0.4).parts()] == [8, 16]
    for none in (plan_of(judges=0), plan_of(sampling_rate=0.5), AlignmentPlan()):
        assert (none.judges, len(none.parts())) == (None, 1)
        assert "judges" not in public_fields(none)
    for wrong in ({"judges": 1.0}, {"judges": -0.1}, {"judges": 0.1, "sampling_rate": 0.5}):
        with pytest.raises(PlanError):
            plan_of(**wrong)
    with pytest.raises(PlanError):
        PreferencePlan.of(WRITER, judges=0.2)
    assert PreferencePlan.of(WRITER, sampling_rate=0.5).judges is None


@pytest.mark.parametrize("judges", [0, 0.5])
def test_preferences_are_judged_by_the_other_half(judges: float, tmp_path: Path) -> None:
    pairs = [(f"{letter}{letter}{letter}{letter}", "eaeae", "xzxzx") for letter in "abcdefghijklmnop"]
    data = pair_records(
        PreferencePlan.of(WRITER, pairs=1, prompt_tokens=4, tokens=5), WRITER, IDS[:16], pairs, simulated=True
    )
    sizes: dict[str, Any] = {"rounds": 3, "pairs": 1, "prompt_tokens": 4, "tokens": 5, "adapter": BIAS, "step": 40.0}
    plan = PreferencePlan.of(WRITER, judges=judges, noise_multiplier=0.0, **sizes).account(unit=FEW, delta=1e-5)
    with Ledger(tmp_path / "ledger", FEW, epsilon=1.0, delta=1e-5, composition=SUM) as ledger:
        vault = Vault(data, ledger)
        value = fit_preferences(plan, vault, WRITER, folder=tmp_path / "kept").value
        again = fit_preferences(plan, vault, WRITER, folder=tmp_path / "kept", resume=True).value
        (summary,) = ledger.plans()
    assert again.judgement == value.judgement
    if judges:
        assert value.judgement.estimate > 0.01
        assert summary.judges == (1,)
        assert list(summary.policies.values()) == [frozenset({0})]
    else:
        assert value.judgement is None
        assert value.opinion.startswith("Nobody judged")
