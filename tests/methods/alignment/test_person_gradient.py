"""What one person adds: closed forms, bit for bit alone or in a batch, and mistakes that the vault refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from small import SHAPE, WRITER, Letters, people_of, plan_of, texts_of, vault_of

from tacit.agents.language.adapters import Steering
from tacit.agents.language.sampling import log_softmax
from tacit.errors import DataError, MechanismError
from tacit.methods.alignment.people import (
    CompletionActor,
    People,
    PersonGradient,
    ReleasedSteering,
    advantages,
    split_actions,
    split_observations,
)
from tacit.methods.alignment.plan import AlignmentPlan
from tacit.privacy.vault.isolation import IsolationChecks

Rows = dict[str, NDArray[Any]]
THETA = np.random.default_rng(0).normal(0, 0.3, SHAPE.width).astype(np.float32)
PLAN = plan_of()
SLOTS = [f"p{i}" for i in range(9)]


def served(ids: list[str], plan: AlignmentPlan = PLAN, **options: Any) -> Rows:
    people = people_of(plan, ids, **options)
    return people.serve([ids], CompletionActor(plan, WRITER, Letters(), torch.from_numpy(THETA)))


def added(rows: Rows, plan: AlignmentPlan = PLAN) -> NDArray[np.float64]:
    return PersonGradient(plan, WRITER)(rows, ReleasedSteering(THETA))


def test_advantages_are_rewards_less_the_critics_share_less_those_of_the_other_completions() -> None:
    rewards = torch.tensor([[1.0, 2.0, 6.0]])
    values = torch.tensor([[[10.0, 1.0], [0.0, 2.0], [20.0, 6.0]]])  # after 4 tokens, and of the whole
    found = advantages(PLAN, rewards, values)
    first = [1 - (2 + 6) / 2, 2 - (1 + 6) / 2, 6 - (1 + 2) / 2]
    later = [1 - 7, 2 - 0, 6 - 14]  # less 0.7 of the beginnings' values
    second = [later[0] - (2 - 8) / 2, later[1] - (-6 - 8) / 2, later[2] - (-6 + 2) / 2]
    expected = torch.tensor([[[a] * 4 + [b] * 2 for a, b in zip(first, second, strict=True)]])
    torch.testing.assert_close(found, expected)


def test_the_gradient_is_the_sum_of_advantages_times_scores_over_public_constants() -> None:
    rows, step, direction = served(["p1"]), 1e-3, np.random.default_rng(1).normal(size=SHAPE.width)
    prompts, _ = split_observations(PLAN, rows["observations"][0])
    completions, values = split_actions(PLAN, prompts, rows["actions"][0])
    rewards = torch.from_numpy(rows["rewards"]).view(2, 3)
    weights = advantages(PLAN, rewards, values).double()

    def value(moved: float) -> float:
        theta = torch.from_numpy((THETA + moved * direction).astype(np.float32))[None]
        chances = log_softmax(WRITER.model, WRITER.prefix_tokens, completions, Steering(PLAN.adapter, theta))
        return float((chances.gather(3, completions.written[..., None])[..., 0].double() * weights).sum()) / (2 * 3 * 6)

    slope = (value(step) - value(-step)) / (2 * step)
    assert added(rows)[0] @ direction == pytest.approx(slope, rel=2e-2, abs=2e-3)


def test_the_penalty_takes_the_log_ratio_off_the_rewards() -> None:
    plan = plan_of(kl=0.5)
    rows = served(["p1", "p2"])
    shifted = {name: column.copy() for name, column in rows.items()}
    for person in range(2):
        prompts, _ = split_observations(PLAN, rows["observations"][person])
        completions, _ = split_actions(PLAN, prompts, rows["actions"][person])
        places = completions.written[..., None]
        ours, theirs = (
            log_softmax(
                WRITER.model, WRITER.prefix_tokens, completions, Steering(PLAN.adapter, torch.from_numpy(t)[None])
            )
            for t in (THETA, 0 * THETA)
        )
        ratio = (ours - theirs).gather(3, places).sum(dim=(2, 3))
        shifted["rewards"][person] -= 0.5 * ratio.flatten().numpy()
    np.testing.assert_allclose(added(rows, plan), added(shifted), rtol=1e-4, atol=1e-6)


def test_a_person_alone_or_in_a_batch_adds_the_same_bit_for_bit() -> None:
    together = served(SLOTS)
    vectors = added(together)
    assert np.abs(vectors).max() > 0
    for place, person in enumerate(SLOTS):
        alone = served([person])
        for name, column in alone.items():
            np.testing.assert_array_equal(column[0], together[name][place])
        np.testing.assert_array_equal(added(alone)[0], vectors[place])


def test_who_leaves_moves_nobody_elses_completions_or_gradient() -> None:
    whole = served(SLOTS)
    for place in (0, 3, 8):
        stay = [other for other in range(9) if other != place]
        gone = served([SLOTS[other] for other in stay])
        for name in whole:
            np.testing.assert_array_equal(gone[name], whole[name][stay])
        np.testing.assert_array_equal(added(gone), added(whole)[stay])


def test_nobody_elses_tokens_depend_on_how_many_are_served() -> None:
    """More than a batch of completions, of which one place after another becomes the last."""
    plan = plan_of(completions=16, people=40)
    ids = [f"p{i}" for i in range(20)]
    whole = served(ids, plan)
    for stay in (ids[1:], ids[:-1], ids[::-1], ids[3:8]):
        rows = served(stay, plan)
        for name in whole:
            np.testing.assert_array_equal(rows[name], whole[name][[ids.index(person) for person in stay]])


def test_the_pool_are_all_who_have_texts_and_an_id_is_spelled_in_one_way() -> None:
    assert people_of(PLAN, ["p2", "p1"]).pool == (("p1", "p2"),)
    with pytest.raises(DataError, match="two ways"):
        People(PLAN, WRITER, {"ann": ["abcdef"], "ann ": ["ghijkl"]})
    with pytest.raises(DataError, match="no id"):
        People(PLAN, WRITER, {" ": ["abcdef"]})
    with pytest.raises(DataError, match="two ways"):
        People(PLAN, WRITER, {"Ann": ["abcdef"], "ann": ["ghijkl"]}, unit_key="folded")


def test_people_are_known_by_the_keys_of_their_ids_whatever_these_are(tmp_path: Path) -> None:
    """Whole numbers, bytes and spelled texts: who is refused is refused at once, and everybody else is served."""
    own = texts_of(4)["p1"]
    ids: Any = {7: own, b"\x01": own, " ann ": own, np.int64(8): own, 9.0: own}
    people = People(PLAN, WRITER, ids, simulated=True)
    assert people.pool == (("7", "01", "ann", "8", "9"),)
    vault = vault_of(people, tmp_path)
    run = vault.reserve(PLAN.calibrate(unit=vault.unit, epsilon=8.0, delta=1e-6))
    for _ in range(PLAN.rounds):
        vault.enroll(run, CompletionActor(PLAN, WRITER, Letters(), torch.from_numpy(THETA)))
    for odd in (True, 1.5, None, ("a",)):
        with pytest.raises(DataError, match="no id"):
            People(PLAN, WRITER, {odd: own})  # type: ignore[dict-item]


def test_an_actor_has_no_stream_of_coins_that_all_would_share() -> None:
    def drawing(seen: NDArray[Any], replicate: NDArray[Any], generator: np.random.Generator) -> NDArray[Any]:
        return generator.random((len(seen), PLAN.spec(WRITER).action.size))  # type: ignore[union-attr]

    with pytest.raises(AttributeError):
        people_of(PLAN, ["p1"]).serve([["p1"]], drawing)


def test_who_has_too_few_tokens_adds_nothing_and_the_divisor_stays() -> None:
    texts = {"p0": ["ab", "abcdef"], "p1": ["a"]}
    writing = CompletionActor(PLAN, WRITER, Letters(), torch.from_numpy(THETA))
    rows = People(PLAN, WRITER, texts, simulated=True).serve([["p0", "p1"]], writing)
    assert rows["mask"].sum(axis=1).tolist() == [3, 0]
    alone = People(PLAN, WRITER, {"p0": ["abcdef"]}, simulated=True).serve([["p0"]], writing)
    np.testing.assert_array_equal(added(rows)[0], added(alone)[0])
    assert not added(rows)[1].any()


def test_feedback_is_each_persons_own_and_clipped_by_the_vault() -> None:
    plan = plan_of(feedback="person", critic=0.0, reward_bound=1.0)
    seen: dict[str, list[str]] = {}

    def thumbs(person: str, texts: list[str]) -> list[float]:
        seen[person] = texts
        return [float(len(text)) for text in texts]

    rows = served(["p1", "p2"], plan, feedback=thumbs)
    assert rows["rewards"].tolist() == [[10.0] * 6] * 2  # 4 letters of the prompt and 6 of the completion
    assert set(seen) == {"p1", "p2"}
    assert plan.spec(WRITER).reward.high == (1.0,)


# Mistakes that couple people, as published trainers of language models make them.


@dataclass(frozen=True, eq=False)
class _Planted:
    """The honest gradient, with one mistake."""

    honest: PersonGradient

    def changed(self, rows: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        return rows

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: ReleasedSteering) -> NDArray[np.float64]:
        return self.honest(self.changed(rows), state)


@dataclass(frozen=True, eq=False)
class BatchScaled(_Planted):
    """Rewards in standard deviations of the batch, as GRPO's `scale_rewards="batch"` has them."""

    def changed(self, rows: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        return {**rows, "rewards": rows["rewards"] / (rows["rewards"].std() + 1e-4)}


@dataclass(frozen=True, eq=False)
class TokenCount(_Planted):
    """Divided by the tokens of everybody, as `loss_type="bnpo"` is."""

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: ReleasedSteering) -> NDArray[np.float64]:
        return self.honest(rows, state) * self.honest.plan.rows * len(rows["mask"]) / max(1, rows["mask"].sum())


@dataclass(frozen=True, eq=False)
class SharedCritic(_Planted):
    """A baseline that everybody's rewards make."""

    def changed(self, rows: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        plan = self.honest.plan
        actions = rows["actions"].copy()
        actions[..., plan.tokens] = actions[..., plan.tokens].mean()
        return {**rows, "actions": actions}


@pytest.mark.parametrize("mistake", [BatchScaled, TokenCount, SharedCritic])
def test_the_vault_refuses_what_couples_people(mistake: type[_Planted]) -> None:
    checks = IsolationChecks(PLAN.spec(WRITER))
    with pytest.raises(MechanismError, match="another unit's rows do, or when others leave"):
        checks.try_contribution(PLAN.parts()[0], mistake(PersonGradient(PLAN, WRITER)), ReleasedSteering(THETA))


def test_the_honest_gradient_passes_with_texts_of_full_length() -> None:
    checks = IsolationChecks(PLAN.spec(WRITER))
    width = checks.try_contribution(PLAN.parts()[0], PersonGradient(PLAN, WRITER), ReleasedSteering(THETA))
    assert width == SHAPE.width
    assert checks.foreign_names == set()
