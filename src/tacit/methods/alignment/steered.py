"""What alignment releases: an adapter's parameters. Completing and shrinking need public texts alone, and are free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.agents.language.adapters import Steering
from tacit.agents.language.models import LanguageModel, Tokenizer, Writer
from tacit.agents.language.sampling import Completions, complete, divergence
from tacit.errors import PlanError
from tacit.methods.alignment.judging import Judgement

Float32 = NDArray[np.float32]


HALVINGS = 7
"""Steps of the search for a share of the adapter."""
TOGETHER = 128
"""Prompts that are completed at once."""


@dataclass(frozen=True, eq=False)
class Steered:
    """A frozen language model with the released parameters of an adapter.

    Args:
        plan: under which they were learned, an `AlignmentPlan` or a `PreferencePlan`.
        iterates: parameters at the start and after each round, [rounds + 1, P].
        words: tokens of the public vocabulary [V].
        writer: the model, which no release holds; None until `with_model` is given it.
        share: of the way from the start to the last parameters (`limit_kl`).
        judgement: what people who did not teach it say of it; None where nobody was asked, or the answer was lost.
    """

    plan: Any
    iterates: Float32
    words: NDArray[np.int64]
    writer: Writer | None = None
    share: float = 1.0
    judgement: Judgement | None = None

    def __repr__(self) -> str:
        kind = type(self.plan.adapter).__name__
        return f"Steered({kind} of {self.iterates.shape[1]:,} parameters, {self.plan.rounds} round(s), {self.share:g})"

    @property
    def steering(self) -> Steering:
        """The adapter with its parameters, as far as they are used."""
        start, last = torch.from_numpy(self.iterates[[0, -1]].copy())
        return Steering(self.plan.adapter, (start + self.share * (last - start))[None])

    @property
    def opinion(self) -> str:
        """What people say of it, or why they say nothing."""
        if self.judgement is not None:
            return str(self.judgement)
        if self.plan.judges is None:
            return "Nobody judged: whether people like it better is not known."
        return "The answer of the people who judged was lost in an interruption, and nobody is asked twice."

    def with_model(self, model: LanguageModel, tokenizer: Tokenizer) -> Steered:
        """The same with its base model.

        Raises:
            PlanError: it is not the model that the certificate names.
        """
        writer = Writer(model.with_vocabulary(self.words.tolist()), tokenizer, self.plan.prefix)
        if (model.digest, writer.vocabulary_digest) != (self.plan.base, self.plan.words):
            what, expected = "the base model is another one", f"the model with the SHA-256 {self.plan.base}"
            remedy = "load the file that the run was made with"
            raise PlanError(what, where="Steered.with_model", expected=expected, remedy=remedy)
        return replace(self, writer=writer)

    def complete(
        self, prompts: Sequence[str], *, tokens: int | None = None, seed: int = 0, reference: bool = False
    ) -> list[str]:
        """One completion of each prompt, behind it.

        Args:
            prompts: of any length, at least one token.
            tokens: of a completion; None is the plan's number.
            seed: of the drawing; a prompt's completion depends on its place and on the seed.
            reference: by the base model as it is.

        Raises:
            PlanError: there is no base model, or a prompt is empty.
        """
        writer = self._require_writer()
        ids = [writer.tokenizer.encode(prompt) for prompt in prompts]
        if not all(ids):
            what, expected = "a prompt is empty", "at least one token"
            raise PlanError(what, where="Steered.complete", expected=expected, remedy="leave it out")
        draws = np.random.default_rng(seed).random((len(ids), 1, tokens or self.plan.tokens), np.float32)
        result = [""] * len(ids)
        for length in sorted(set(map(len, ids))):
            group = [place for place, one in enumerate(ids) if len(one) == length]
            batch = torch.tensor([ids[i] for i in group])
            completions = self.sample_completions(batch, torch.from_numpy(draws[group]), reference)
            for place, text in zip(group, writer.texts(completions.prompts, completions.written[:, 0]), strict=True):
                result[place] = text
        return result

    def sample_completions(self, prompts: Tensor, draws: Tensor, reference: bool = False) -> Completions:
        """Completions of prompts [B, n] at draws [B, K, T], by this model or by the reference."""
        writer, steering = self._require_writer(), replace(self, share=0.0).steering if reference else self.steering
        parts = [
            complete(writer.model, writer.prefix_tokens, *batch, steering)
            for batch in zip(torch.split(prompts, TOGETHER), torch.split(draws, TOGETHER), strict=True)
        ]
        return Completions(
            prompts, torch.cat([part.written for part in parts]), torch.cat([part.residual for part in parts])
        )

    def kl(self, prompts: Tensor, draws: Tensor) -> float:
        """KL(steered || reference) a token, the mean over completions of public prompts [B, n] at draws [B, K, T]."""
        writer, completions = self._require_writer(), self.sample_completions(prompts, draws)
        columns = (completions.prompts, completions.written, completions.residual)
        parts = zip(*(torch.split(column, TOGETHER) for column in columns), strict=True)
        model, before = writer.model, writer.prefix_tokens
        divergences = [divergence(model, before, Completions(*part), self.steering) for part in parts]
        return float(torch.cat(divergences).double().mean())

    def limit_kl(self, public_prompts: Sequence[str], *, kl: float, seed: int = 0) -> Steered:
        """The largest share of the adapter whose KL a token to the reference is at most `kl`, on public prompts.

        Several rounds go too far from the reference; this comes after the release, from public texts, and is free.

        Args:
            public_prompts: nobody's secret; those with fewer tokens than the plan's prompts are left out.
            kl: > 0, in nats a token.
            seed: of the completions.

        Raises:
            PlanError: there is no base model, no prompt is long enough, or kl is not positive.
        """
        writer, n = self._require_writer(), self.plan.prompt_tokens
        ids = [tokens[:n] for tokens in map(writer.tokenizer.encode, public_prompts) if len(tokens) >= n]
        if not ids or not kl > 0:
            what = "no public prompt is long enough, or kl is not positive"
            expected, remedy = f"prompts of {n} tokens or more, and kl > 0", "pass more public texts"
            raise PlanError(what, where="Steered.limit_kl", expected=expected, remedy=remedy)
        prompts = torch.tensor(ids)
        draws = torch.from_numpy(np.random.default_rng(seed).random((len(ids), 1, self.plan.tokens), np.float32))
        if self.kl(prompts, draws) <= kl:
            return self
        low, high = 0.0, self.share
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if replace(self, share=middle).kl(prompts, draws) <= kl else (low, middle)
        return replace(self, share=low)

    def _require_writer(self) -> Writer:
        if self.writer is None:
            what, expected = "the base model is not in the release", "steered.using(model, tokenizer) before it writes"
            remedy = "load the model, for example with tacit.agents.language.llama.load"
            raise PlanError(what, where="Steered", expected=expected, remedy=remedy)
        return self.writer
