"""Mutations: the real code with one planted privacy mistake each, most of them seen in published code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import bit_mutations
import consensus_mutations
import federated_mutations
import figure_mutations
import fold_mutations
import gaussian_mutations
import identity_mutations
import improvement_mutations
import learning_mutations
import ledger_mutations
import level_mutations
import numpy as np
import online_mutations
import paper_mutations
import people_mutations
import price_mutations
import pytest
import removal_mutations
import round_mutations
import selection_mutations
import shard_mutations
import structured_mutations
import table_mutations
import tie_mutations
import torch
import vote_mutations

from tacit.data.trajectories import Trajectories
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import (
    ComposedEvent,
    GaussianEvent,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
)
from tacit.privacy.gradients import clipping
from tacit.privacy.ledger import folds
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.noise import lattice
from tacit.privacy.noise import secret as noise
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault import records, steps, vault
from tacit.privacy.vault.records import Reader
from tacit.privacy.vault.removal import Harness
from tacit.privacy.vault.vault import Vault

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutation:
    """A mistake, how to plant it, and the detectors that must see it (others may)."""

    name: str
    plant: Plant
    seen_by: tuple[str, ...]


def _coefficients(patch: pytest.MonkeyPatch, broken: Callable[[Any, float], Any]) -> None:
    """Replace the rule from norms [U] (numpy or torch) to factors [U]."""
    patch.setattr(clipping, "coefficients", broken)


def no_clip(patch: pytest.MonkeyPatch) -> None:
    _coefficients(patch, lambda norms, clip: norms * 0 + 1)


def clip_per_batch(patch: pytest.MonkeyPatch) -> None:
    """One factor for the whole batch, so that the batch's sum (not each unit's term) has norm at most C."""
    _coefficients(patch, lambda norms, clip: norms * 0 + clip / max(clip, float(norms.sum())))


def stale_norm(patch: pytest.MonkeyPatch) -> None:
    """The factors are those of the previous step's norms, as when a hook did not fire."""
    real = clipping.coefficients
    kept: dict[tuple[type, int], Any] = {}

    def broken(norms: Any, clip: float) -> Any:
        key = type(norms), len(norms)
        before = kept.get(key, norms)
        kept[key] = norms.clone() if isinstance(norms, torch.Tensor) else norms.copy()
        return real(before, clip)

    _coefficients(patch, broken)


def nan_bypass(patch: pytest.MonkeyPatch) -> None:
    """`min(1, C / norm)` in an order of comparisons that lets a norm of NaN or infinity through with factor 1."""
    real = clipping.coefficients

    def broken(norms: Any, clip: float) -> Any:
        factors = real(norms, clip)
        factors[~(norms < 1e150)] = 1.0
        return factors

    _coefficients(patch, broken)


def weight_inflation(patch: pytest.MonkeyPatch) -> None:
    """Factors of 1.05 C / norm, as when the clip is applied to another norm than the sum's."""
    real = clipping.coefficients
    _coefficients(patch, lambda norms, clip: real(norms, 1.05 * clip))


def half_sigma(patch: pytest.MonkeyPatch) -> None:
    """The noise of one neighbour definition, the account of the other."""
    real = vault._sigma
    patch.setattr(vault, "_sigma", lambda spec: real(spec) / 2)


def noise_without_clip(patch: pytest.MonkeyPatch) -> None:
    """Noise of standard deviation sigma C^2, as when the clip is multiplied in twice."""
    real = vault._sigma
    patch.setattr(vault, "_sigma", lambda spec: real(spec) * spec.clip_norm)


def _count_samples(patch: pytest.MonkeyPatch) -> list[int]:
    real, sizes = records.poisson_sample, [1]

    def counted(*arguments: Any) -> np.ndarray:
        drawn = real(*arguments)
        sizes[0] = len(drawn)
        return drawn

    patch.setattr(records, "poisson_sample", counted)
    return sizes


def realised_denominator(patch: pytest.MonkeyPatch) -> None:
    """Sums are divided by the size of the sample, which is private, in place of rate * population."""
    sizes = _count_samples(patch)
    for door in ("noisy_sum", "noisy_gradient"):
        real = getattr(Vault, door)

        def broken(self: Vault, run: Any, part: str, *rest: Any, real: Any = real) -> Any:
            result = real(self, run, part, *rest)
            return result * (run.sum_part(part).divisor(self.unit) / max(1, sizes[0]))

        patch.setattr(Vault, door, broken)


def population_from_data(patch: pytest.MonkeyPatch) -> None:
    """The divisor is rate times the number of units in the records."""
    for door in ("noisy_sum", "noisy_gradient"):
        real = getattr(Vault, door)

        def broken(self: Vault, *rest: Any, real: Any = real) -> Any:
            return real(self, *rest) * (self.unit.size / self._records.reader().units)

        patch.setattr(Vault, door, broken)


def no_noise_on_an_empty_sample(patch: pytest.MonkeyPatch) -> None:
    sizes = _count_samples(patch)
    real = lattice.add_noise
    patch.setattr(steps, "add_noise", lambda total, *rest: real(total, *rest) if sizes[0] else total)


def same_noise_every_step(patch: pytest.MonkeyPatch) -> None:
    def broken(self: SecretNoise, size: int, scale: float = 1.0, out: Any = None) -> Any:
        return (scale * np.random.default_rng(0).standard_normal(size)).astype(np.float32)

    patch.setattr(SecretNoise, "gaussian", broken)


def noise_replayed_on_resume(patch: pytest.MonkeyPatch) -> None:
    """Every process keys its stream alike, as with `torch.manual_seed(0)` at the top of a script."""
    patch.setattr(noise, "_urandom_key", lambda: bytes(32))


def one_noise_for_all_coordinates(patch: pytest.MonkeyPatch) -> None:
    real = SecretNoise.gaussian

    def broken(self: SecretNoise, size: int, scale: float = 1.0, out: Any = None) -> Any:
        return np.repeat(real(self, -(-size // 2), scale), 2)[:size]

    patch.setattr(SecretNoise, "gaussian", broken)


def _sampler(patch: pytest.MonkeyPatch, draw: Callable[[int, float, np.random.Generator], np.ndarray]) -> None:
    rng = np.random.default_rng()
    patch.setattr(records, "poisson_sample", lambda population, rate, noise: draw(population, rate, rng))


def shuffled_batches(patch: pytest.MonkeyPatch) -> None:
    """Batches of fixed size, accounted as Poisson samples."""
    _sampler(patch, lambda n, rate, rng: np.sort(rng.permutation(n)[: round(n * rate)]))


def sampling_with_replacement(patch: pytest.MonkeyPatch) -> None:
    _sampler(patch, lambda n, rate, rng: np.sort(rng.integers(n, size=rng.binomial(n, rate))))


def higher_rate(patch: pytest.MonkeyPatch) -> None:
    """Units join with 1.4 times the rate that is accounted for."""
    real = records.poisson_sample
    patch.setattr(records, "poisson_sample", lambda n, rate, noise: real(n, min(1.0, 1.4 * rate), noise))


def same_sample_every_step(patch: pytest.MonkeyPatch) -> None:
    real = records.poisson_sample
    patch.setattr(records, "poisson_sample", lambda n, rate, _: real(n, rate, SecretNoise.for_tests(3)))


def row_for_a_unit(patch: pytest.MonkeyPatch) -> None:
    """Each row counts as a unit, where a person owns several."""

    def each_row(self: Trajectories) -> tuple[np.ndarray, np.ndarray]:
        rows = len(self._columns["rewards"])
        return np.arange(rows), np.arange(rows + 1)

    patch.setattr(Trajectories, "_unit_rows", property(each_row))


def private_normaliser(patch: pytest.MonkeyPatch) -> None:
    """Rewards are scaled by their largest absolute value in the private records."""
    real = Reader.rows

    def broken(self: Reader, *chosen: Any) -> Mapping[str, np.ndarray]:
        rows = real(self, *chosen)
        return {**rows, "rewards": rows["rewards"] / np.abs(self._data._columns["rewards"]).max()}

    patch.setattr(Reader, "rows", broken)


def claims_kept_in_memory(patch: pytest.MonkeyPatch) -> None:
    """Claims are forgotten when the process ends: a resumed run releases its steps twice."""
    real_steps = Ledger.steps

    def claim(self: Ledger, plan_id: str, part: str, count: int) -> range:
        taken = self.__dict__.setdefault("taken", {})
        start = taken.get((plan_id, part), 0)
        taken[plan_id, part] = min(start + count, real_steps(self, plan_id, part))
        return range(start, taken[plan_id, part])

    patch.setattr(Ledger, "claim", claim)
    patch.setattr(Ledger, "claimed", lambda self, *key: self.__dict__.get("taken", {}).get(key, 0))


def claim_after_release(patch: pytest.MonkeyPatch) -> None:
    """The step is claimed when it is over: a crash in between runs it again."""
    real, take = Vault.noisy_sum, Vault._take

    def broken(self: Vault, run: Any, part: str, *rest: Any) -> Any:
        self.__dict__["_take"] = lambda *_: None
        try:
            result = real(self, run, part, *rest)
        finally:
            del self.__dict__["_take"]
        take(self, run, run.sum_part(part))
        return result

    patch.setattr(Vault, "noisy_sum", broken)


def callbacks_not_tried(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Harness, "_require_near", lambda *_: None)


def filter_that_admits_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(folds, "admits", lambda *_: True)


def plan_taken_at_its_word(patch: pytest.MonkeyPatch) -> None:
    """A plan is charged what its epsilon field says, and not what its parts cost."""
    patch.setattr(
        plans,
        "certified_bound",
        lambda plan, parts=None: accounting.Bound(plan.epsilon, "its own word", plan.epsilon, "its own word"),
    )


def halves_by_position(patch: pytest.MonkeyPatch) -> None:
    """Units are dealt to the halves in turn: a unit that leaves moves all after it to the other half."""
    patch.setattr(Reader, "folds", lambda self, key: np.arange(self.units) % 2)


def places_with_replacement(patch: pytest.MonkeyPatch) -> None:
    """Samples of fixed size are drawn with replacement, and accounted as drawn without."""

    def places(self: Reader, population: int, batch: int, replicates: int) -> np.ndarray:
        return np.random.default_rng().integers(population, size=(replicates, batch))

    patch.setattr(Reader, "draw_places", places)


def replacement_as_removal(patch: pytest.MonkeyPatch) -> None:
    """A replaced record is taken to move a sum by one clip, where it can move it by two."""
    real = accounting.epsilon

    def halved(event: Any, *, delta: float, relation: Any) -> accounting.Bound:
        def wider(node: Any) -> Any:
            if isinstance(node, GaussianEvent):
                return GaussianEvent(2 * node.noise_multiplier)
            if isinstance(node, ComposedEvent):
                return ComposedEvent([wider(one) for one in node.events])
            if isinstance(node, SelfComposedEvent):
                return SelfComposedEvent(wider(node.event), node.count)
            if isinstance(node, SampledWithoutReplacementEvent):
                size, batch = node.population, node.batch
                return SampledWithoutReplacementEvent(size, batch, wider(node.event))
            return node

        return real(wider(event) if relation == "replace_one" else event, delta=delta, relation=relation)

    patch.setattr(accounting, "epsilon", halved)


SUM, GRADIENT = "neighbours_of_a_sum", "neighbours_of_a_gradient"
MEETINGS = "neighbours_of_meetings"

MUTATIONS = (
    Mutation("no clip", no_clip, (SUM, GRADIENT, "worst_case_canary")),
    Mutation("clip per batch", clip_per_batch, (SUM, GRADIENT)),
    Mutation("stale norm", stale_norm, (SUM, GRADIENT)),
    Mutation("NaN bypass", nan_bypass, ("hostile_rows",)),
    Mutation("weight inflation", weight_inflation, (SUM, GRADIENT)),
    Mutation("half sigma", half_sigma, ("noise_law", "worst_case_canary")),
    Mutation("noise times clip twice", noise_without_clip, ("noise_law",)),
    Mutation("realised denominator", realised_denominator, (SUM, GRADIENT, "noise_law")),
    Mutation("population counted from the data", population_from_data, (SUM, GRADIENT, "noise_law")),
    Mutation("no noise on an empty sample", no_noise_on_an_empty_sample, ("noise_law",)),
    Mutation("same noise every step", same_noise_every_step, ("noise_law", "resumed_twice")),
    Mutation("noise replayed on resume", noise_replayed_on_resume, ("resumed_twice",)),
    Mutation("noise shared by coordinates", one_noise_for_all_coordinates, ("noise_law",)),
    Mutation("shuffle instead of Poisson", shuffled_batches, ("sampler_law",)),
    Mutation("sampling with replacement", sampling_with_replacement, ("sampler_law",)),
    Mutation("rate above the accounted one", higher_rate, ("sampler_law",)),
    Mutation("same sample every step", same_sample_every_step, ("sampler_law",)),
    Mutation("unit = row", row_for_a_unit, (SUM, GRADIENT)),
    Mutation("private normaliser", private_normaliser, (SUM, GRADIENT)),
    Mutation("claims kept in memory", claims_kept_in_memory, ("step_counter",)),
    Mutation("claim after release", claim_after_release, ("step_counter",)),
    Mutation("callbacks not tried", callbacks_not_tried, ("coupling_is_refused",)),
    Mutation("filter that admits all", filter_that_admits_all, ("budget",)),
    Mutation("plan taken at its word", plan_taken_at_its_word, ("budget",)),
    Mutation("halves by position", halves_by_position, ("neighbours_of_halves",)),
    Mutation("halves by rows", identity_mutations.halves_by_rows, ("edits_move_no_half",)),
    Mutation("ids stripped in one place", identity_mutations.stripped_in_one_place, ("one_person_stays_one",)),
    Mutation("bytes of ids replaced", identity_mutations.bytes_replaced, ("people_stay_apart",)),
    Mutation("twins unseen", identity_mutations.twins_unseen, ("twins_are_refused",)),
    Mutation("twins unseen across chunks", identity_mutations.twins_unseen_across_chunks, ("twins_are_refused",)),
    Mutation("twins unseen across shards", identity_mutations.twins_unseen_across_shards, ("twins_meet_in_shards",)),
    Mutation("invisible characters after the form", identity_mutations.invisible_after_form, ("twins_are_refused",)),
    Mutation("folders unseen", identity_mutations.folders_unseen, ("one_ledger_for_a_folder_and_its_parts",)),
    Mutation("windows by the column", identity_mutations.windows_by_the_column, ("windows_stay_inside",)),
    Mutation("events become episodes", identity_mutations.events_become_episodes, ("events_are_no_episodes",)),
    Mutation(
        "one source knows the ledger", identity_mutations.ledger_with_the_first_source, ("one_ledger_for_all_sources",)
    ),
    Mutation("fixed size with replacement", places_with_replacement, ("fixed_size_law",)),
    Mutation("replacement as removal", replacement_as_removal, ("replaced_record",)),
    Mutation("everybody is let in", online_mutations.everybody_is_let_in, (MEETINGS,)),
    Mutation("register kept in memory", online_mutations.register_kept_in_memory, (MEETINGS,)),
    Mutation("a meeting released twice", online_mutations.a_meeting_released_twice, (MEETINGS,)),
    Mutation("divisor counted at the meeting", online_mutations.divisor_counted_at_the_meeting, (MEETINGS,)),
    Mutation("sensitivity of one step", online_mutations.sensitivity_of_one_step, ("correlated_noise_law",)),
    *(
        Mutation(*mutation)
        for mutation in (*consensus_mutations.CONSENSUS, *federated_mutations.FEDERATED, *table_mutations.TABLE)
    ),
    *(Mutation(*mutation) for mutation in removal_mutations.REMOVAL),
    *(Mutation(*mutation) for mutation in (*bit_mutations.BITS, *selection_mutations.SELECTION)),
    *(Mutation(*mutation) for mutation in (*paper_mutations.PAPERS, *fold_mutations.FOLDS)),
    *(Mutation(*mutation) for mutation in (*learning_mutations.LEARNING, *ledger_mutations.LEDGER)),
    *(
        Mutation(*mutation)
        for mutation in (
            *shard_mutations.SHARDS,
            *vote_mutations.VOTES,
            *price_mutations.PRICES,
            *tie_mutations.TIES,
        )
    ),
    *(Mutation(*mutation) for mutation in round_mutations.ROUNDS),
    *(Mutation(*mutation) for mutation in (*improvement_mutations.IMPROVEMENTS, *level_mutations.LEVELS)),
    *(
        Mutation(*mutation)
        for mutation in (
            *figure_mutations.FIGURES,
            *gaussian_mutations.GAUSSIANS,
            *people_mutations.PEOPLE,
            *structured_mutations.STRUCTURED,
        )
    ),
)
