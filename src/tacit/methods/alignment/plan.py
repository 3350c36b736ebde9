"""The public parameters of private alignment: everything that is decided before anybody's text is read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, get_args

from tacit.agents.language.adapters import Adapter, Bias
from tacit.agents.language.judges import Reward
from tacit.agents.language.models import Writer
from tacit.data.spec import Box, PublicSpec
from tacit.errors import PlanError
from tacit.methods.alignment.judging import JUDGES, require_judges
from tacit.parameters import Option
from tacit.privacy.ledger.folds import JUDGING, LEARNING
from tacit.privacy.mechanisms.sums import PoissonSum, UserSum
from tacit.privacy.noise.correlated import Correlation
from tacit.privacy.sentences import Label, clause
from tacit.privacy.vault import plan as plans
from tacit.serialization import OPTIONAL
from tacit.units import Unit
from tacit.validation import require_positive, require_valid, require_whole

PART = "adapter"
"""The name of the part."""

Feedback = Literal["model", "person"]
"""Who values completions: a public reward model, or each person those of their own."""

SHARE = 0.2
"""Of the people who judge, where `AlignmentPlan.of` is told nothing else."""
_LARGEST = 1e6  # of a number in the residual stream; the clip, and not this, bounds what a person adds


@dataclass(frozen=True, kw_only=True)
class AlignmentPlan(plans.PrivatePlan):
    """Private policy gradient on an adapter of a frozen language model.

    Raises:
        PlanError: a value is out of range, or two of them exclude each other.
    """

    method: ClassVar[str] = "alignment of a language model (DPPG)"
    source: ClassVar[str] = "Differentially Private Policy Gradient (arXiv:2501.19080), section 6 and appendix C"

    rounds: Option[int] = 1
    """number of rounds; a single one has the least noise."""
    people: Option[int] = 768
    """how many people are expected in a round; the divisor, however many come."""
    sampling_rate: float | None = None
    """None for people who are met once; or everybody's chance to take part in a round, from a pool."""
    judges: Option[float | None] = field(default=None, metadata=OPTIONAL)
    """share of the people who judge what was learned and teach nothing; 0 is nobody, by default a fifth judges."""
    prompts: Option[int] = 1
    """how many prompts of one person are read at most."""
    prompt_tokens: Option[int] = 8
    """first tokens of a person's text that are the prompt; who has fewer adds nothing."""
    completions: Option[int] = 4
    """K, completions of a prompt; more of them cost no privacy."""
    tokens: Option[int] = 16
    """T, tokens of every completion."""
    adapter: Adapter = field(default_factory=Bias)
    """what is learned."""
    clip_norm: Option[float] = 2.8
    """the largest norm of all that one person adds to a round."""
    step: Option[float] = 2.0
    """step size."""
    feedback: Feedback = "model"
    """see `Feedback`."""
    reward_bound: float = 10.0
    """rewards are clipped to -bound .. bound."""
    critic: Option[float] = 0.7
    """share of the public reward of a completion's beginning that is taken off what follows it; 0 for no critic."""
    segment: int = 4
    """after how many tokens each the critic looks at the beginning."""
    kl: Option[float] = 0.0
    """factor of the log-ratio to the reference that is taken off the reward of a completion."""
    base: str = ""
    """SHA-256 of the base model."""
    reward: str = ""
    """SHA-256 of the public reward model."""
    words: str = ""
    """SHA-256 of the public vocabulary."""
    prefix: str = ""
    """public words before every prompt."""
    noise_multiplier: float | None = None
    """sigma of the whole plan; None until calibrated."""
    correlation: Correlation = "toeplitz"
    """of the noise of successive rounds."""

    def __post_init__(self) -> None:
        require_whole(
            rounds=self.rounds,
            people=self.people,
            prompts=self.prompts,
            prompt_tokens=self.prompt_tokens,
            tokens=self.tokens,
            segment=self.segment,
        )
        require_whole(2, completions=self.completions)
        require_positive(clip_norm=self.clip_norm, step=self.step, reward_bound=self.reward_bound)
        require_valid("feedback", self.feedback, self.feedback in get_args(Feedback), " or ".join(get_args(Feedback)))
        finite = 0 <= self.critic < math.inf and 0 <= self.kl < math.inf
        require_valid("critic, kl", (self.critic, self.kl), finite, "finite numbers >= 0")
        rated = self.sampling_rate is None or 0 < self.sampling_rate <= 1
        require_valid("sampling_rate", self.sampling_rate, rated, "None, or a probability in (0, 1]")
        require_judges(self.judges)
        met = self.judges is None or self.sampling_rate is None
        require_valid("judges", self.judges, met, "None beside a sampling rate: who is drawn again and again teaches")
        self.parts()

    @classmethod
    def of(cls, writer: Writer, reward: Reward | None, **options: Any) -> Self:
        """A plan for this model, vocabulary, prefix and public reward, whose digests certificates then state.

        Args:
            writer: the model.
            reward: the public reward; None where people alone value completions and there is no critic.
            options: other fields. A fifth of the people judge (`SHARE`), unless `judges` says another share, or 0; of
                people who are sampled nobody does.
        """
        judges = options.pop("judges", SHARE if options.get("sampling_rate") is None else None) or None
        digest = "" if reward is None else reward.digest
        words, prefix = writer.vocabulary_digest, writer.prefix
        return cls(base=writer.model.digest, reward=digest, words=words, prefix=prefix, judges=judges, **options)

    @property
    def rows(self) -> int:
        """Completions of one person."""
        return self.prompts * self.completions

    @property
    def uses_reward(self) -> bool:
        """Whether the public reward values completions, whole ones or their beginnings."""
        return self.feedback == "model" or self.critic > 0

    @property
    def reward_lengths(self) -> tuple[int, ...]:
        """Lengths of a completion at which the public reward values it: of its beginnings, and of the whole."""
        return (*(range(self.segment, self.tokens, self.segment) if self.critic else ()), self.tokens)

    @property
    def expected_judges(self) -> int:
        """How many people are expected to judge: the public share, beside those who teach."""
        share = self.judges or 0.0
        return round(self.people * self.rounds * share / (1 - share))

    def parts(self) -> tuple[PoissonSum] | tuple[UserSum, ...]:
        """The only touch of people's texts: a noisy sum a round, and one over people who judge."""
        if self.sampling_rate is not None:
            return (
                PoissonSum(
                    name=PART,
                    steps=self.rounds,
                    sampling_rate=self.sampling_rate,
                    clip_norm=self.clip_norm,
                    noise_multiplier=self.noise_multiplier,
                    rows_per_unit=self.rows,
                    rows="first",
                ),
            )
        teaching = UserSum(
            name=PART,
            steps=self.rounds,
            users=self.people,
            clip_norm=self.clip_norm,
            noise_multiplier=self.noise_multiplier,
            rows_per_unit=self.rows,
            correlation=self.correlation,
        )
        if self.judges is None:
            return (teaching,)
        judging = UserSum(
            name=JUDGES,
            steps=1,
            users=max(1, self.expected_judges),
            clip_norm=1.0,
            noise_multiplier=self.noise_multiplier,
            rows_per_unit=self.rows,
            correlation="independent",
            fold=JUDGING,
        )
        return replace(teaching, fold=LEARNING), judging

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> Self:
        """The plan with the least noise that keeps (epsilon, delta) for this unit (`privacy.vault.plan.calibrate`).

        Raises:
            PlanError: the plan says no noise; epsilon or delta is out of range, or delta >= 1 / population.
        """
        if self.noise_multiplier == 0:
            what = f"the plan says no noise, and epsilon {epsilon:g} is asked for"
            expected = "noise_multiplier=None, for the least noise that keeps epsilon"
            remedy = "leave noise_multiplier out, or state the infinite epsilon with plan.account(...)"
            raise PlanError(what, where=f"{self.method} plan", expected=expected, remedy=remedy)
        return plans.calibrate(self, unit=unit, epsilon=epsilon, delta=delta)

    def spec(self, writer: Writer) -> PublicSpec:
        """Public bounds of a row: one completion.

        observation: prompt tokens, and a draw for each token of the completion. action: its tokens, as places in the
        vocabulary; the public reward at each of `reward_lengths`; and what the frozen layers made of each token before
        one that was written, T times width. reward: what the completion is worth.
        """
        width, b = writer.model.shape.width, self.reward_bound
        said = self.tokens, len(self.reward_lengths), self.tokens * width
        low, high = (0.0, -b, -_LARGEST), (len(writer.model.vocabulary) - 1.0, b, _LARGEST)
        return PublicSpec(
            observation=Box(
                (0.0,) * (self.prompt_tokens + self.tokens),
                (writer.model.shape.tokens - 1.0,) * self.prompt_tokens + (1.0,) * self.tokens,
            ),
            action=Box(
                sum(((value,) * times for value, times in zip(low, said, strict=True)), ()),
                sum(((value,) * times for value, times in zip(high, said, strict=True)), ()),
            ),
            reward=Box((-b,), (b,)),
            source="declared",
        )

    def label(self) -> Label:
        """The certificate's statements."""
        named = {"base": self.base or "unnamed", "vocabulary": self.words or "unnamed", "prefix": self.prefix}
        return Label(
            covered=(
                clause("adapter", rounds=self.rounds),
                clause("prompts", prompts=self.prompts, completions=self.completions),
                *([] if self.judges is None else [clause("judged")]),
            ),
            not_covered=(
                clause("models_public", reward=self.reward or "none", **named),
                *(clause("hyperparameters"), clause("completions_seen"), clause("curator")),
            ),
            not_protected=(clause("population"), clause("texts_behind"), clause("several_ids")),
            assumptions=(clause("valued_by_model" if self.feedback == "model" else "valued_by_feedback"),),
        )
