"""Preferences between two completions of a prompt: direct preference optimisation (DPO, arXiv:2305.18290), privately.

A person's pairs enter every noisy sum under one clip:

    x = 1 / pairs sum beta sigma(-m) (grad log pi(chosen) - grad log pi(rejected)),
    m = beta (log pi(chosen) - log pi_0(chosen) - log pi(rejected) + log pi_0(rejected))

The divisor is the plan's number of pairs, and nothing of one person depends on another's pairs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.agents.language.adapters import Adapter, Bias, Steering
from tacit.agents.language.models import Writer
from tacit.agents.language.sampling import Completions, batch_indices, encode_completions, log_softmax, scores
from tacit.data.spec import Box, PublicSpec
from tacit.data.trajectories import Trajectories, receipt_of
from tacit.errors import DataError, PlanError
from tacit.methods.alignment.algorithm import (
    Finish,
    Progress,
    ask_judges,
    checkpoint_path,
    judging_level,
    save,
    start_iterates,
)
from tacit.methods.alignment.judging import JUDGES, person_vectors
from tacit.methods.alignment.people import TOGETHER, ReleasedSteering
from tacit.methods.alignment.steered import Steered
from tacit.parameters import Option
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.folds import JUDGING, LEARNING
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label, clause
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.vault import Vault
from tacit.serialization import OPTIONAL
from tacit.units import UnitKey
from tacit.validation import require_positive, require_valid, require_whole

PART = "preferences"
"""The name of the part."""
HALF = 0.5
"""Of the people who judge."""


@dataclass(frozen=True, kw_only=True)
class PreferencePlan(plans.PrivatePlan):
    """DPO on an adapter of a frozen language model, by noisy sums over people's pairs."""

    method: ClassVar[str] = "alignment of a language model (DPO)"
    source: ClassVar[str] = "Direct Preference Optimization (arXiv:2305.18290)"

    rounds: Option[int] = 8
    """number of noisy sums."""
    sampling_rate: Option[float] = 1.0
    """everybody's chance to take part in one."""
    judges: Option[float | None] = field(default=None, metadata=OPTIONAL)
    """share of the people who judge what was learned and teach nothing: a half, which is the default, or 0."""
    pairs: Option[int] = 4
    """how many pairs of one person are read at most."""
    prompt_tokens: Option[int] = 8
    """tokens of a prompt."""
    tokens: Option[int] = 16
    """tokens of a completion."""
    adapter: Adapter = field(default_factory=Bias)
    """what is learned."""
    beta: Option[float] = 0.1
    """factor of the log-ratios."""
    clip_norm: Option[float] = 1.0
    """the largest norm of all that one person adds to a sum."""
    step: Option[float] = 1.0
    """step size."""
    base: str = ""
    """SHA-256 of the base model."""
    words: str = ""
    """SHA-256 of the public vocabulary."""
    prefix: str = ""
    """public words before every prompt."""
    noise_multiplier: float | None = None
    """sigma; None until calibrated."""

    def __post_init__(self) -> None:
        require_whole(rounds=self.rounds, pairs=self.pairs, prompt_tokens=self.prompt_tokens, tokens=self.tokens)
        require_positive(beta=self.beta, clip_norm=self.clip_norm, step=self.step)
        halves = self.judges is None or (self.judges, self.sampling_rate) == (HALF, 1)
        require_valid("judges", self.judges, halves, "None, or 0.5 where nobody is sampled: a vault has two halves")
        self.parts()

    @classmethod
    def of(cls, writer: Writer, **options: Any) -> Self:
        """A plan for this model, vocabulary and prefix.

        Half of the people judge, unless `judges` is 0; where people are sampled nobody does.
        """
        judges = options.pop("judges", HALF if options.get("sampling_rate", cls.sampling_rate) == 1 else None) or None
        words, prefix = writer.vocabulary_digest, writer.prefix
        return cls(base=writer.model.digest, words=words, prefix=prefix, judges=judges, **options)

    def parts(self) -> tuple[PoissonSum, ...]:
        """The only touch of people's pairs: a noisy sum a round, and one over people who judge."""
        teaching = PoissonSum(
            name=PART,
            steps=self.rounds,
            sampling_rate=self.sampling_rate,
            clip_norm=self.clip_norm,
            noise_multiplier=self.noise_multiplier,
            rows_per_unit=self.pairs,
            rows="first",
        )
        if self.judges is None:
            return (teaching,)
        # one sum costs the half that judges what all rounds together cost the half that teaches
        sigma = self.noise_multiplier and self.noise_multiplier / math.sqrt(self.rounds)
        judging = replace(teaching, name=JUDGES, steps=1, clip_norm=1.0, noise_multiplier=sigma, fold=JUDGING)
        return replace(teaching, fold=LEARNING), judging

    def spec(self, writer: Writer) -> PublicSpec:
        """Public bounds of a row: a prompt's tokens, and those of the chosen and of the rejected completion."""
        n, both, largest_token = self.prompt_tokens, 2 * self.tokens, len(writer.model.vocabulary) - 1.0
        return PublicSpec(
            observation=Box((0.0,) * n, (writer.model.shape.tokens - 1.0,) * n),
            action=Box((0.0,) * both, (largest_token,) * both),
            reward=Box((0.0,), (1.0,)),
            source="declared",
        )

    def label(self) -> Label:
        """The certificate's statements."""
        named = {"base": self.base or "unnamed", "vocabulary": self.words or "unnamed", "prefix": self.prefix}
        return Label(
            covered=(
                clause("adapter", rounds=self.rounds),
                clause("pairs", pairs=self.pairs),
                *([] if self.judges is None else [clause("judged")]),
            ),
            not_covered=(clause("models_public", reward="none", **named), clause("hyperparameters"), clause("curator")),
            not_protected=(clause("population"), clause("texts_behind"), clause("several_ids")),
        )


@dataclass(frozen=True, eq=False)
class PairGradient:
    """The gradient of one person's log-likelihood of preferences, at the released parameters."""

    plan: PreferencePlan  # sizes and beta
    writer: Writer  # the model

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: ReleasedSteering) -> NDArray[np.float64]:
        """[U, P]."""
        plan, mask = self.plan, torch.from_numpy(np.array(rows["mask"], bool)).flatten()
        theta = torch.from_numpy(np.array(state.theta, np.float32))
        prompts, written = (
            torch.from_numpy(np.array(rows[name], np.int64)).flatten(0, 1) for name in ("observations", "actions")
        )
        vectors = torch.zeros(len(mask), len(theta))
        there = torch.nonzero(mask)[:, 0]
        for batch in torch.split(there, TOGETHER) if len(there) else ():
            vectors[batch] = self._gradients(prompts[batch], written[batch].view(len(batch), 2, plan.tokens), theta)
        total = vectors.view(len(rows["mask"]), -1, len(theta)).sum(dim=1)
        return np.asarray(total.numpy(), np.float64) / plan.pairs

    def _gradients(self, prompts: Tensor, written: Tensor, theta: Tensor) -> Tensor:
        """[B, P] of B pairs [B, 2, T], the chosen first."""
        model, before, adapter, beta = self.writer.model, self.writer.prefix_tokens, self.plan.adapter, self.plan.beta
        count, rows = len(prompts), batch_indices(len(prompts), self.plan.prompt_tokens, 2)
        completions = encode_completions(model, before, prompts[rows], written[rows], adapter.first_layer)
        start = adapter.initial_parameters(model.shape)
        policy_log_probs = _log_probabilities(self.writer, completions, adapter, theta)
        reference_log_probs = _log_probabilities(self.writer, completions, adapter, start)
        ratios = (policy_log_probs - reference_log_probs).double().sum(dim=2)  # in float64 a last digit decides nothing
        pull = beta * torch.sigmoid(-beta * (ratios[:, 0] - ratios[:, 1]))
        weights = torch.stack([pull, -pull], dim=1).float()[..., None].expand(completions.written.shape)
        return scores(model, before, completions, adapter, theta, weights)[:count]


@dataclass(frozen=True, eq=False)
class PairComparison:
    """How much more probable one person's chosen completions have become, as a vector of norm at most 1.

    Of the two completions of a pair a model would write the chosen one with probability pi(chosen) / (pi(chosen) +
    pi(rejected)). A person's number is the rise of that from the base model to this one, the mean over their pairs.
    """

    plan: PreferencePlan  # sizes
    writer: Writer  # the model

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: ReleasedSteering) -> NDArray[np.float64]:
        """[U, 3]."""
        plan, mask = self.plan, np.array(rows["mask"], bool)
        theta = torch.from_numpy(np.array(state.theta, np.float32))
        prompts, written = (
            torch.from_numpy(np.array(rows[name], np.int64)).flatten(0, 1) for name in ("observations", "actions")
        )
        rises = torch.zeros(mask.size, dtype=torch.float64)
        there = torch.from_numpy(np.flatnonzero(mask))
        for batch in torch.split(there, TOGETHER) if len(there) else ():
            rises[batch] = self._rises(prompts[batch], written[batch].view(len(batch), 2, plan.tokens), theta)
        pairs = mask.sum(axis=1)
        total = rises.numpy().reshape(mask.shape).sum(axis=1)
        return person_vectors(total / np.maximum(pairs, 1), pairs > 0)

    def _rises(self, prompts: Tensor, written: Tensor, theta: Tensor) -> Tensor:
        # [B] of B pairs [B, 2, T], the chosen first
        adapter, count = self.plan.adapter, len(prompts)
        rows = batch_indices(count, self.plan.prompt_tokens, 2)
        model, before = self.writer.model, self.writer.prefix_tokens
        completions = encode_completions(model, before, prompts[rows], written[rows], adapter.first_layer)
        base, steered = (
            torch.sigmoid(-_log_probabilities(self.writer, completions, adapter, one).double().sum(dim=2).diff()[:, 0])
            for one in (adapter.initial_parameters(model.shape), theta)
        )
        return (steered - base)[:count]


@torch.no_grad()
def _log_probabilities(writer: Writer, completions: Completions, adapter: Adapter, theta: Tensor) -> Tensor:
    """log-probabilities [B, K, T] of what was written."""
    log_probs = log_softmax(writer.model, writer.prefix_tokens, completions, Steering(adapter, theta[None]))
    return log_probs.gather(3, completions.written[..., None])[..., 0]


def pair_records(
    plan: PreferencePlan,
    writer: Writer,
    people: Sequence[str],
    pairs: Sequence[tuple[str, str, str]],
    *,
    unit_key: UnitKey | None = None,
    simulated: bool,
) -> Trajectories:
    """Records of pairs: everyone's texts as tokens.

    Args:
        plan: sizes.
        writer: the model.
        people: whose pair each is [n].
        pairs: (prompt, chosen, rejected) [n]; a prompt is its first tokens, and completions are cut. Pairs that are
            too short, outside the vocabulary, or equal after the cut are left out; how many they are is private.
        unit_key: what ids are that differ by case or form alone (see `Trajectories.from_arrays`).
        simulated: whether no pair is a real person's.

    Raises:
        DataError: no pair is left.
    """
    places = {token: place for place, token in enumerate(writer.model.vocabulary.tolist())}
    ids, observations, actions = list[str](), list[list[int]](), list[list[int]]()
    short, equal, unknown, cut = 0, 0, 0, 0
    for person, (prompt, *texts) in sorted(zip(people, pairs, strict=True), key=lambda pair: pair[0]):
        tokens = writer.tokenizer.encode(prompt)[: plan.prompt_tokens]
        whole = [writer.tokenizer.encode(text) for text in texts]
        completions = [one[: plan.tokens] for one in whole]
        if len(tokens) < plan.prompt_tokens or any(len(one) < plan.tokens for one in completions):
            short += 1
        elif completions[0] == completions[1]:
            equal += 1
        elif not all(token in places for one in completions for token in one):
            unknown += 1
        else:
            cut += any(len(one) > plan.tokens for one in whole)
            ids.append(person)
            observations.append(tokens)
            actions.append([places[token] for one in completions for token in one])
    if not ids:
        what = "no pair is long enough, within the vocabulary and of two completions that differ after the cut"
        expected = f"prompts of {plan.prompt_tokens} tokens or more, and completions of {plan.tokens}"
        remedy = "plan with fewer tokens (more where completions begin alike), or a larger public vocabulary"
        raise DataError(what, where="alignment.pairs_of", expected=expected, remedy=remedy)
    terminations = np.ones(len(ids), bool)
    data = Trajectories.from_arrays(
        observations=np.array(observations, np.float32),
        actions=np.array(actions, np.float32),
        rewards=np.zeros(len(ids), np.float32),
        next_observations=np.array(observations, np.float32),
        terminations=terminations,
        unit_ids=ids,
        unit_key=unit_key,
        spec=plan.spec(writer),
        simulated=simulated,
    )
    if (receipt := receipt_of(data)) is not None:
        left_out = {"too short": short, "equal after the cut": equal, "outside the vocabulary": unknown}
        receipt["pairs"] = {"all": len(pairs), "with a completion that was cut": cut} | {
            f"{why}, left out": count for why, count in left_out.items()
        }
    return data


def rated_pairs(
    people: Sequence[str], rows: Sequence[tuple[str, str, float]]
) -> tuple[list[str], list[tuple[str, str, str]]]:
    """Pairs of completions that one person rated behind one prompt: the best with the worst, and so on inwards.

    Args:
        people: whose rating each is [n].
        rows: (prompt, completion, rating) [n]; a thumb is a rating of two values.

    Returns:
        Whose pair each is, and the pairs (prompt, chosen, rejected). Equal ratings and equal completions make none.

    Raises:
        DataError: a rating is missing or not finite.
    """
    for number, (_, _, rating) in enumerate(rows, start=1):
        if not math.isfinite(rating):
            what, expected = f"row {number}: a rating is no number", "a finite number in every row"
            raise DataError(what, where="alignment.rated_pairs", expected=expected, remedy="leave the row out")
    ratings: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for person, (prompt, completion, rating) in zip(people, rows, strict=True):
        ratings.setdefault((person, prompt), []).append((rating, completion))
    ids, pairs = list[str](), list[tuple[str, str, str]]()
    for (person, prompt), rated in ratings.items():
        order = sorted(rated, key=lambda one: -one[0])
        for (highest, chosen), (lowest, rejected) in zip(order, reversed(order), strict=True):
            if highest <= lowest:
                break
            if chosen != rejected:
                ids.append(person)
                pairs.append((prompt, chosen, rejected))
    return ids, pairs


def fit_preferences(
    plan: PreferencePlan,
    vault: Vault,
    model: Writer,
    *,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    finish: Finish | None = None,
) -> Release[Steered]:
    """Learn an adapter from people's preferences, under the plan's promise.

    Args:
        plan: calibrated for the vault's unit, and made for this model (`PreferencePlan.of`).
        vault: over the records of `pair_records`.
        model: with its tokenizer, public vocabulary and prefix.
        folder, resume, progress, finish: as of `fit`.

    Raises:
        PlanError: the plan is for another model, or too much was said before by the people who are to judge.
        PlanExhausted: the plan was begun or finished already, and this is no resumption from its checkpoint.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    if (plan.base, plan.words, plan.prefix) != (model.model.digest, model.vocabulary_digest, model.prefix):
        what = "the plan is for another model, vocabulary or prefix"
        expected, remedy = "those whose digests the plan states", "make the plan with PreferencePlan.of(model, ...)"
        raise PlanError(what, where="alignment.fit_preferences", expected=expected, remedy=remedy)
    if vault.spec != plan.spec(model):
        what, expected = "the records are not pairs of this plan", "pairs of the plan's sizes"
        remedy = "make them with pair_records(plan, model, ...)"
        raise PlanError(what, where="alignment.fit_preferences", expected=expected, remedy=remedy)
    level = judging_level(plan, vault)
    path, run, contribution = checkpoint_path(folder), vault.reserve(plan), PairGradient(plan, model)
    iterates = start_iterates(vault, run, PART, plan.adapter.initial_parameters(model.model.shape), path, resume=resume)
    while left := vault.steps_left(run, PART):
        mean = vault.noisy_sum(run, PART, contribution, ReleasedSteering(iterates[-1].astype(np.float32)))[0]
        # a mean over those who teach, of whom there are so many fewer
        iterates = np.concatenate([iterates, iterates[-1:] + plan.step / (1 - (plan.judges or 0.0)) * mean])
        if path is not None:
            save(path, run, vault.ledger, iterates)
        if progress is not None:
            progress(plan.rounds - left + 1, plan.rounds)
    words = np.asarray(model.model.vocabulary.numpy(), np.int64)
    value = Steered(plan, iterates.astype(np.float32), words, model)
    value = value if finish is None else finish(value)
    if level is not None:
        state = ReleasedSteering(value.steering.theta[0].numpy())

        def ask() -> NDArray[np.float64]:
            return vault.noisy_sum(run, JUDGES, PairComparison(plan, model), state)

        value = ask_judges(value, vault, run, path, ask, scale=1.0, level=level)
    return vault.release(run, value, label=plan.label())
