"""The public parameters of the synthesis of whole trajectories: everything that is decided before a record is read."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from tacit.data.spec import Box
from tacit.methods.synthesis.plan import PEOPLE_A_STEP, Curiosity, DiffusionPlan, Pretraining, Sampler, scheduled_rate
from tacit.methods.synthesis.table_matching import TableMatching
from tacit.parameters import Option
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label, clause
from tacit.validation import require_positive, require_valid, require_whole

Network = Literal["transformer", "unet", "autoregressive"]
Tokens = Literal["rows", "components"]

FRAGMENTS, STARTS = "fragments", "starts"
"""Names of the plan's two parts."""

WORLD_STEPS = 12_000
"""Public steps of `TrajectoriesPlan.for_people` where networks learn from many worlds at once."""

WORLD_ROWS = 8_192
"""Public rows a step, likewise: of 1,024 fragments of 8."""

CONDITIONED_HORIZON = 8
"""Rows of a fragment where histograms tell where it is: they are looked up where its rows begin, and of all but the
first row that is known only as far as the noisy rows before it tell. In mazes that were not trained on, shorter ones
keep to the ways much better (precision of TrajScore .07, .13, .37, .52 and .60 with 128, 64, 32, 16 and 8)."""

CONDITIONED_HARMONICS = 6
"""Octaves of the place, likewise: an episode ends within a short way. On held-out mazes the log-loss of how fragments
end is .068 with 1, .050 with 3 and .034 with 5; where an end is missed, trajectories turn round and go on."""

CONDITIONED_ENDING_NOISE = 0.1
"""Likewise: without it, sampled fragments on a held-out maze end half as often as real ones."""

MOST_START_ROWS = 128
"""Among so many of a person's first rows `TrajectoriesPlan.for_people` looks for the beginnings of episodes."""


@dataclass(frozen=True, kw_only=True)
class TrajectoriesPlan(DiffusionPlan):
    """PrivORL-j: a conditional diffusion model of fragments, stitched to trajectories; a unit is a person's whole data.

    Two small models are trained, both by noisy sums over Poisson samples of units: where episodes start, from the first
    row of each unit, and how they go on, from L fragments of H rows that are drawn inside the unit in every step. What
    a unit adds to a sum is the gradient of its mean loss, clipped once, however much data the unit owns.

    The defaults were chosen on public maze layouts alone; `TrajectoriesPlan.paper` gives the paper's own sizes. `steps`
    are those of the model of fragments; `harmonics` are of the state in which a row begins. Histograms are released
    after the last gradient, or, with `local_context`, before the first.
    """

    method: ClassVar[str] = "synthesis of trajectories (PrivORL-j)"
    source: ClassVar[str] = "PrivORL: Differentially Private Synthetic Dataset for Offline Reinforcement Learning"
    learns_transitions: ClassVar[bool] = False

    steps: int = 100
    start_steps: int = 50
    """of the model of first observations."""
    sampling_rate: float = 0.4
    clip_norm: float = 0.05
    fragments_per_unit: Option[int] = 4
    """fragments L of one unit in a step, at least 1. Costs time, no privacy."""
    horizon: Option[int] = 32
    """rows H of a fragment."""
    start_rows: int = 1
    """among how many of a unit's first rows its episodes' first ones are looked for; 1 is the first episode's alone."""
    episodes_per_unit: Option[int] = 1
    """public usual number of episodes that one unit owns: with more than one, a weighted trajectory counts by its share
    of its owner's rows, not as a whole record."""
    longest: Option[int] = 1_000
    """public number of steps after which a sampled trajectory is cut off."""
    network: Option[Network] = "transformer"
    """`transformer` or `unet` (PrivORL-j-U), which denoise fragments, or `autoregressive` (the baseline
    DP-Transformer), which draws a fragment row by row."""
    tokens: Tokens = "rows"
    """`rows`, or `components` (the paper: five tokens a row, with five of the condition and one of the noise)."""
    rows_per_token: int = 4
    """how many rows make a token; a divisor of the horizon, and 1 with `components` or where rows are drawn one by
    one."""
    width: int = 64
    depth: int = 2
    heads: int = 4
    """of attention, in the network of fragments (`networks.py`)."""
    harmonics: int = 3
    start_width: int = 64
    """width of the residual MLP of first observations."""
    start_depth: int = 2
    """its depth."""
    mixture: int = 8
    """normals a row in the `autoregressive` network."""
    ending_weight: float = 0.1
    """weight of the loss of the endings beside that of the rows."""
    ending_noise: float = 0.0
    """standard deviation, in encoded units, of the noise that is added in training to the observation from which the
    ending is foretold (conditioning augmentation, arXiv:2106.15282): sampled fragments begin near real ones, but not
    quite where these do."""
    learning_rate: float = 1e-2
    start_learning_rate: float = 1e-2
    """of the model of first observations."""
    warmup: int = 5
    ema: float = 0.95
    P_mean: float = 0.0
    P_std: float = 1.4
    sampler: Sampler = field(default_factory=lambda: Sampler(sigma_max=40.0))
    local_context: Option[int | None] = None
    """up to how many bins around the place in which a row begins the networks are shown these histograms
    (`networks.py`); by default they are shown none. They have to be pre-trained on many public worlds then, and
    may be left as they are: with `steps` and `start_steps` of 0 the histograms are all that is learned of private rows.
    """

    def __post_init__(self) -> None:
        require_valid(
            "fragments_per_unit", self.fragments_per_unit, self.fragments_per_unit >= 1, "at least one fragment a unit"
        )
        require_whole(fragments_per_unit=self.fragments_per_unit)
        self._require_local_context()
        require_whole(horizon=self.horizon, longest=self.longest, start_rows=self.start_rows, heads=self.heads)
        require_whole(rows_per_token=self.rows_per_token, start_width=self.start_width, start_depth=self.start_depth)
        require_whole(mixture=self.mixture, episodes_per_unit=self.episodes_per_unit)
        super().__post_init__()
        require_valid("network", self.network, self.network in get_args(Network), " or ".join(get_args(Network)))
        require_valid("tokens", self.tokens, self.tokens in get_args(Tokens), " or ".join(get_args(Tokens)))
        fits = self.horizon % self.rows_per_token == 0
        require_valid("rows_per_token", self.rows_per_token, fits, "a divisor of the horizon")
        single = self.rows_per_token == 1 or (self.tokens == "rows" and self.network != "autoregressive")
        require_valid("rows_per_token", self.rows_per_token, single, "1 with components or an autoregressive network")
        rows = self.tokens == "rows" or self.network == "transformer"
        require_valid("tokens", self.tokens, rows, "rows, unless the network is a transformer")
        halved = self.network != "unet" or self.horizon // self.rows_per_token % 4 == 0
        require_valid("horizon", self.horizon, halved, "four tokens or a multiple: a U-Net halves them twice")
        split = self.network == "unet" or (self.width % self.heads == 0)
        require_valid("heads", self.heads, split, "a divisor of the width")
        require_positive(start_learning_rate=self.start_learning_rate)
        require_valid("ending_weight", self.ending_weight, self.ending_weight > 0, "a number > 0")
        noise = 0 <= self.ending_noise < math.inf
        require_valid("ending_noise", self.ending_noise, noise, "a finite number >= 0")
        inner = None if self.pretraining is None else self.pretraining.curiosity
        valid = inner is None or (inner.mode == "replace" and self.network != "autoregressive")
        require_valid("curiosity", inner, valid, "replace, with a network that denoises")

    def _require_local_context(self) -> None:
        if self.local_context is None:
            require_whole(steps=self.steps, start_steps=self.start_steps)
            return
        require_whole(0, steps=self.steps, start_steps=self.start_steps)
        valid = self.local_context in range(1, 9)
        require_valid("local_context", self.local_context, valid, "a whole number from 1 to 8")
        needed = self.matching is not None and self.pretraining is not None and self.tokens == "rows"
        expected = "them with matching, pre-training and tokens of rows"
        require_valid("local_context", self.local_context, needed, expected)
        assert self.matching is not None
        numbers = isinstance(self.matching.discretisation.spec.observation, Box)
        expected = "None for discrete observations, around which is nothing"
        require_valid("local_context", self.local_context, numbers, expected)

    @classmethod
    def paper(cls, *, population: int, provenance: str | None = None) -> TrajectoriesPlan:
        """The paper's network and optimiser (its appendix F), under a promise that is kept.

        Of the authors' code stay: fragments of 32 rows, at most 32 of one trajectory, a batch of 32 trajectories, 391
        updates, six layers of four heads and width 256 over 6 + 5 H tokens, Adam with 2e-4, and 489 public updates.
        The noise is EDM's instead of 200 levels of a variance-preserving process.

        Args:
            population: public number of units; gives the rate 32/population.
            provenance: of the public trajectories; None is without pre-training.

        Raises:
            PlanError: a population below 32.
        """
        require_valid("population", population, population >= 32, "at least one batch of 32")
        pretraining = None
        if provenance is not None:
            pretraining = Pretraining(
                provenance=provenance,
                steps=489,
                batch=1_024,
                learning_rate=2e-4,
                warmup=0,
                schedule="constant",
                ema=0.995,
                curiosity=Curiosity(sampler_steps=32),
            )
        return cls(
            steps=391,
            sampling_rate=32 / population,
            clip_norm=1.0,
            fragments_per_unit=32,
            tokens="components",
            rows_per_token=1,
            width=256,
            depth=6,
            heads=4,
            harmonics=0,
            learning_rate=2e-4,
            warmup=0,
            schedule="constant",
            betas=(0.9, 0.999),
            ema=0.995,
            sampler=dataclasses.replace(Sampler.paper(), steps=100),
            pretraining=pretraining,
        )

    @classmethod
    def for_people(
        cls,
        *,
        population: int,
        longest: int,
        episodes: int = 1,
        horizon: int | None = None,
        network: Network = "transformer",
        provenance: str | None = None,
        matching: TableMatching | None = None,
        local_context: int | None = None,
    ) -> TrajectoriesPlan:
        """Settings for thousands of people: this is the place where those of tacit's own runs are chosen.

        With `local_context`, nothing but the histograms is learned of private rows: the networks, which need not bear
        any noise then, are larger and learn from many public worlds how people move, and the histograms tell where.

        Args:
            population: of the unit.
            longest: public number of steps of the longest episode.
            episodes: public usual number of episodes that one unit owns.
            horizon: rows of a fragment; None takes at most `longest`.
            network: as of the class.
            provenance: of public trajectories to begin with; None is without pre-training.
            matching: histograms, `TableMatching.of(spec)` for one.
            local_context: as of the class; needs `matching` and `provenance`, of many public worlds.
        """
        require_valid("population", population, population >= 1, "a whole number >= 1")
        require_whole(longest=longest, episodes=episodes)
        usual = cls.horizon if local_context is None else CONDITIONED_HORIZON
        horizon = min(usual, max(4, longest // 4 * 4)) if horizon is None else horizon
        require_whole(horizon=horizon)
        halved = 4 if network == "unet" else 1
        together = next(
            (count for count in (4 if local_context is None else 8, 4, 2) if horizon % (count * halved) == 0), 1
        )
        pretraining = None if provenance is None else Pretraining(provenance=provenance, batch=256, learning_rate=2e-3)
        conditioned: dict[str, Any] = {}
        if local_context is not None:
            conditioned = {"steps": 0, "start_steps": 0, "width": 128, "depth": 3, "harmonics": CONDITIONED_HARMONICS}
            conditioned |= {"P_mean": 1.0, "ending_noise": CONDITIONED_ENDING_NOISE, "local_context": local_context}
            if pretraining is not None:
                batch = max(1, WORLD_ROWS // horizon)
                pretraining = dataclasses.replace(pretraining, steps=WORLD_STEPS, batch=batch)
        return cls(
            sampling_rate=min(1.0, PEOPLE_A_STEP / population),
            horizon=horizon,
            rows_per_token=1 if network == "autoregressive" else together,
            start_rows=1 if episodes == 1 else min(MOST_START_ROWS, episodes * longest),
            episodes_per_unit=episodes,
            longest=longest,
            network=network,
            learning_rate=cls.learning_rate if pretraining is None else 5e-3,
            pretraining=pretraining,
            matching=matching,
            **conditioned,
        )

    def parts(self) -> tuple[PoissonSum, ...]:
        """Every touch of private rows: noisy sums of clipped gradients, of first rows and of fragments; histograms.

        A fragment is drawn with the row before it, its condition, and the row behind it, which tells whether it is the
        episode's last.
        """
        settings: dict[str, Any] = {
            "sampling_rate": self.sampling_rate,
            "clip_norm": self.clip_norm,
            "noise_multiplier": self.noise_multiplier,
        }
        trained: list[PoissonSum] = []
        if self.start_steps > 0:
            first: dict[str, Any] = {"rows": "first", "rows_per_unit": self.start_rows}
            trained.append(PoissonSum(name=STARTS, steps=self.start_steps, **first, **settings))
        if self.steps > 0:
            inner: dict[str, Any] = {"rows_per_unit": self.fragments_per_unit, "horizon": self.horizon + 2}
            trained.append(PoissonSum(name=FRAGMENTS, steps=self.steps, **inner, **settings))
        if self.matching is None:
            return tuple(trained)
        tables = self.matching.tied_part(trained[-1]) if trained else self.matching.part(self.noise_multiplier)
        return (*trained, tables)

    def __str__(self) -> str:
        """The promise in plain words, and whether fragments are longer than any trajectory."""
        promise = super().__str__()
        if self.horizon <= self.longest:
            return promise
        padded = f"Fragments of {self.horizon:,} rows are longer than every trajectory ({self.longest:,} steps):"
        return f"{promise}\n{padded} the rest is padding, which costs time; choose a shorter horizon."

    def label(self) -> Label:
        """The certificate's statements."""
        gradients = self.start_steps + self.steps
        touches = [clause("gradients", steps=gradients)] if gradients else []
        return self._diffusion_label(*touches, clause("whole_unit"))

    def learning_rate_at(self, part: str, step: int) -> float:
        """The learning rate of a part's step: linear warm-up, then cosine to zero or constant."""
        peak, steps = (
            (self.start_learning_rate, self.start_steps) if part == STARTS else (self.learning_rate, self.steps)
        )
        return scheduled_rate(peak, step, steps, self.warmup, self.schedule)
