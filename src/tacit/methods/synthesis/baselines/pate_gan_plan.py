"""The public parameters of PATE-GAN and PrePATE-GAN: everything that is decided before a record is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

from tacit.methods.synthesis.plan import SynthesisPlan, label, pretraining_clause, require_provenance, scheduled_rate
from tacit.parameters import Option
from tacit.privacy.mechanisms.votes import TeacherVotes
from tacit.privacy.sentences import Label, clause
from tacit.validation import require_fraction, require_positive, require_valid, require_whole

Labels = Literal["shares", "majority"]

PART = "votes"


@dataclass(frozen=True, kw_only=True)
class GanPretraining:
    """PrePATE-GAN: generator and student are first an ordinary GAN of public rows, and are kept."""

    # where the public rows come from and why they contain no private record. Declared, printed in the certificate,
    # never inferred.
    provenance: str
    steps: int = 2_000  # steps, batch, learning_rate: of both networks; Adam with cosine decay
    batch: int = 512
    learning_rate: float = 1e-3
    penalty: float = 0.05  # of the student's gradient (see `PateGanPlan`)
    # the generator's in the fit that follows, instead of the plan's: it should keep what it learned
    generator_rate: float = 8e-6

    def __post_init__(self) -> None:
        require_provenance(self.provenance)
        require_whole(steps=self.steps, batch=self.batch)
        require_positive(learning_rate=self.learning_rate, generator_rate=self.generator_rate)
        require_valid("penalty", self.penalty, 0 <= self.penalty < float("inf"), "a finite number >= 0")


@dataclass(frozen=True, kw_only=True)
class PateGanPlan(SynthesisPlan):
    """PATE-GAN (Jordon, Yoon and van der Schaar, ICLR 2019) for single transitions.

    Teachers that have each seen other private rows vote on generated rows; a student learns the noisy votes and
    nothing else; the generator learns from the student. The price is that of the votes' Gaussian noise, whatever the
    votes are (the paper's own accounting depends on the private votes, so its epsilon may not be published).

    The defaults were chosen on public maze layouts. They differ from the paper's setting (`PateGanPlan.paper`) in
    many teachers, shares of votes instead of majorities as labels, and a student whose gradient is held back (R1,
    arXiv:1801.04406).

    `noise_multiplier` is sigma: a count of votes gets N(0, b sigma^2).
    """

    method: ClassVar[str] = "synthesis of transitions (PATE-GAN)"
    source: ClassVar[str] = "PATE-GAN: Generating Synthetic Data with Differential Privacy Guarantees"

    steps: Option[int] = 600
    """number T of batches of votes."""
    queries: int = 128
    """b, generated rows that are voted on in a step."""
    teachers: Option[int] = 1_000
    """k; each has about population / k units of its own."""
    teacher_width: int = 32
    """hidden width of a teacher."""
    teacher_updates: int = 1
    """its steps of Adam before every vote."""
    teacher_batch: int = 8
    """own rows in one of them."""
    teacher_rate: float = 1e-3
    """its learning rate."""
    opponents: int = 1_024
    """generated rows that the teachers of a step learn to tell from their own."""
    labels: Labels = "shares"
    """what the student learns of a generated row: the noisy share of votes (`shares`, unbiased) or whether it is above
    a half (`majority`, the paper)."""
    harmonics: int = 0
    """octaves of Fourier features of every input of teachers and student."""
    width: int = 128
    """width of the hidden layers of the generator."""
    depth: int = 3
    """number of its hidden layers."""
    student_width: int = 128
    """width of the two hidden layers of the student."""
    student_updates: int = 2
    """its steps of Adam after every vote."""
    student_batch: int = 256
    """rows of one of them, drawn from the votes of the last `window` steps."""
    window: int = 8
    """of how many steps the votes are from which the student's rows are drawn."""
    penalty: float = 0.5
    """weight of the squared norm of the student's gradient at generated rows."""
    generator_updates: int = 1
    """the generator's steps of Adam after every vote."""
    generator_batch: int = 512
    """their rows."""
    hold: int = 60
    """steps at the beginning in which the generator stands still, until teachers and student know something."""
    student_rate: float = 1e-3
    """learning rate of the student."""
    generator_rate: float = 1e-3
    """of the generator; it falls to 0 as a cosine after these steps."""
    ema: float = 0.98
    """decay of the moving average of the generator's weights, which is what is released."""
    pretraining: GanPretraining | None = None
    """None is PATE-GAN, otherwise PrePATE-GAN."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(opponents=self.opponents, width=self.width, depth=self.depth, window=self.window)
        require_whole(student_width=self.student_width, student_updates=self.student_updates)
        require_whole(student_batch=self.student_batch)
        require_whole(generator_updates=self.generator_updates, generator_batch=self.generator_batch)
        require_positive(student_rate=self.student_rate, generator_rate=self.generator_rate)
        require_fraction(ema=self.ema)
        valid = type(self.hold) is int and 0 <= self.hold < self.steps
        require_valid("hold", self.hold, valid, "a whole number below the steps")
        require_valid("labels", self.labels, self.labels in get_args(Labels), "shares or majority")
        require_valid("harmonics", self.harmonics, self.harmonics in range(9), "a whole number from 0 to 8")
        require_valid("penalty", self.penalty, 0 <= self.penalty < float("inf"), "a finite number >= 0")

    @classmethod
    def paper(cls, *, pretraining: GanPretraining | None = None) -> PateGanPlan:
        """The PrivORL paper's setting (its appendix F): 15 teachers, 3 x 141 and 2 x 113 units, majority labels.

        Steps and learning rate are those of its code; the batch is the original's 64 rows a vote.
        """
        return cls(
            steps=3_195,
            queries=64,
            teachers=15,
            teacher_width=113,
            teacher_batch=64,
            teacher_rate=7.5e-5,
            opponents=64,
            labels="majority",
            width=141,
            student_width=113,
            student_updates=1,
            student_batch=64,
            window=1,
            penalty=0.0,
            generator_batch=64,
            hold=0,
            student_rate=7.5e-5,
            generator_rate=7.5e-5,
            ema=0.0,
            pretraining=None if pretraining is None else replace(pretraining, generator_rate=7.5e-5),
        )

    def generator_rate_at(self, step: int) -> float:
        """The generator's learning rate in step `step` (0 .. steps-1): a cosine to zero, after standing still."""
        if step < self.hold:
            return 0.0
        peak = self.generator_rate if self.pretraining is None else self.pretraining.generator_rate
        return scheduled_rate(peak, step - self.hold, self.steps - self.hold, 0, "cosine")

    def parts(self) -> tuple[TeacherVotes, ...]:
        """The only touch of private rows: T batches of noisy counts of votes."""
        part = TeacherVotes(
            name=PART,
            steps=self.steps,
            queries=self.queries,
            teachers=self.teachers,
            noise_multiplier=self.noise_multiplier,
            width=self.teacher_width,
            updates=self.teacher_updates,
            batch_size=self.teacher_batch,
            learning_rate=self.teacher_rate,
        )
        return (part,)

    def label(self) -> Label:
        """The certificate's statements."""
        provenance = None if self.pretraining is None else self.pretraining.provenance
        return label(clause("votes", steps=self.steps), public=(pretraining_clause(provenance),))
