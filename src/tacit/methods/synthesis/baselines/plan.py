"""What baselines of tables do alike: a budget of quanta for noisy marginals, and tables from which rows are sampled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PlanError
from tacit.methods import load_class
from tacit.methods.synthesis.baselines.graphical import Clique, Measurement, Tree
from tacit.methods.synthesis.discretisation import Codes, Discretisation, to_trajectories
from tacit.methods.synthesis.plan import Progress, SynthesisPlan, label
from tacit.parameters import Option
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.marginals import Marginal, Marginals, Query
from tacit.privacy.sentences import Label, clause
from tacit.privacy.vault.base import exhausted_error
from tacit.privacy.vault.vault import Vault
from tacit.serialization import OPTIONAL

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories


PART = "marginals"
Weigh = Literal["rows"]
"""What counts alike; without a word, people do."""


@dataclass(frozen=True, kw_only=True)
class TablePlan(SynthesisPlan):
    """The public parameters of a baseline that knows the private table by noisy marginals alone.

    `noise_multiplier` is sigma of one quantum of the budget.
    """

    method: ClassVar[str]
    source: ClassVar[str]
    choices: ClassVar[bool]
    needs: ClassVar[tuple[str, ...]] = ()
    """optional packages that it is fitted with."""

    discretisation: Option[Discretisation]
    """the public bins of the columns."""
    rows_per_unit: Option[int] = 1
    """rows of one unit that count at most."""
    weigh: Option[Weigh | None] = field(default=None, metadata=OPTIONAL)
    """"rows": every row counts alike, as in most tables, up to --rows-per-unit (32, say) of a person; by default every
    person does, however many rows they have."""

    @classmethod
    def of(cls, discretisation: Discretisation) -> Self:
        """The plan with its own settings."""
        return cls(discretisation=discretisation)

    @property
    @abstractmethod
    def quanta(self) -> int:
        """T, the number of equal quanta that the budget is cut into."""

    def parts(self) -> tuple[Marginals, ...]:
        """The only touch of private rows."""
        part = Marginals(
            name=PART,
            steps=self.quanta,
            axes=self.discretisation.axes,
            noise_multiplier=self.noise_multiplier,
            choices=self.choices,
            rows_per_unit=self.rows_per_unit,
            weigh=self.weigh,
        )
        return (part,)

    def label(self) -> Label:
        """The certificate's statements."""
        marginals = clause("chosen_marginals" if self.choices else "marginals", quanta=self.quanta)
        return label(marginals, public=self.discretisation.public_clauses(), choices="bins_chosen")


class Measurements:
    """A run's budget for marginals, spent one measurement after another.

    Args:
        plan: calibrated for the vault's unit; reserved here.
        vault: the private rows and their ledger.
        progress: called after each measurement.

    Raises:
        PlanError: the plan cuts by other bounds than the private data declare.
        PlanExhausted: the plan was begun before.
        BudgetExceeded: the ledger cannot pay for the plan.
    """

    def __init__(self, plan: TablePlan, vault: Vault, progress: Progress | None) -> None:
        if plan.discretisation.spec != vault.spec:
            what = "the plan cuts columns by other public bounds than the private data declare"
            expected = "a discretisation of the private data's own public spec"
            remedy = "build the plan with Discretisation(vault.spec, ...)"
            raise PlanError(what, where=f"{plan.method} plan", expected=expected, remedy=remedy)
        self._run = vault.reserve(plan)
        if vault.has_started(self._run):
            raise exhausted_error(self._run, PART)
        self._plan, self._vault, self._progress, self.left = plan, vault, progress, plan.quanta

    def deviation(self, quanta: int) -> float:
        """Standard deviation of a cell of a marginal that takes so many quanta."""
        return (self._plan.noise_multiplier or 0.0) / float(np.sqrt(quanta))

    def marginal(self, axes: Clique, quanta: int) -> Measurement:
        """The noisy counts of some columns."""
        return Measurement(axes, self(Marginal(axes, quanta)), self.deviation(quanta))

    def release(self, model: Tree | SyntheticRecords) -> Release[TableSynthesizer]:
        """What rows are drawn from, with its certificate."""
        return self._vault.release(self._run, TableSynthesizer(self._plan, model), label=self._plan.label())

    def __call__(self, query: Query) -> NDArray[Any]:
        """The noisy answer to one query, paid for."""
        answer = self._vault.noisy_marginals(self._run, PART, query)
        self.left -= query.quanta
        if self._progress is not None:
            self._progress(self._plan.quanta - self.left, self._plan.quanta)
        return answer


@dataclass(frozen=True, eq=False)
class SyntheticRecords:
    """Synthetic records as cells: what PrivSyn ends with."""

    codes: Codes  # [M, A], M >= 1

    def draw(self, count: int, rng: np.random.Generator) -> Codes:
        """`count` records: each as often as any other, up to one."""
        return self.codes[np.resize(rng.permutation(len(self.codes)), count)]


@dataclass(frozen=True, eq=False)
class TableSynthesizer:
    """Tables of probabilities, or records, of a publicly cut table that have left the vault.

    Args:
        plan: the public parameters that they were made with.
        model: where cells are drawn from.

    Raises:
        ValueError: the model has other bins than the plan.
    """

    plan: TablePlan
    model: Tree | SyntheticRecords

    def __repr__(self) -> str:
        return f"TableSynthesizer({type(self.plan).__name__}, {len(self.plan.discretisation.shape)} columns)"

    def __post_init__(self) -> None:
        shape = self.plan.discretisation.shape
        if isinstance(self.model, SyntheticRecords):
            codes = self.model.codes
            fits = codes.ndim == 2 and codes.shape[1] == len(shape) and len(codes) >= 1
            fits = fits and codes.min() >= 0 and bool((codes < np.asarray(shape)).all())
        else:
            sizes = dict(zip(self.model.order, (table.shape[-1] for table in self.model.tables), strict=True))
            fits = sizes == dict(enumerate(shape))
        if not fits:
            raise ValueError("the model has other bins than the plan")

    def sample_columns(self, count: int, *, seed: int) -> dict[str, NDArray[Any]]:
        """`count` independent transitions as columns of raw units inside the public bounds.

        Args:
            count: how many rows.
            seed: of the sampling; public, since sampling is post-processing.
        """
        rng = np.random.default_rng(seed)
        return self.plan.discretisation.decode(self.model.draw(count, rng), rng)

    def sample(self, count: int, *, seed: int = 0) -> Trajectories:
        """`count` independent transitions as a data set that belongs to nobody, one unit a row."""
        return to_trajectories(self.sample_columns(count, seed=seed), self.plan.discretisation.spec)

    def to_json(self) -> dict[str, Any]:
        """What `arrays` and the plan do not hold."""
        tree = self.model.to_json() if isinstance(self.model, Tree) else None
        return {"plan": type(self.plan).__name__, "tree": tree}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All numbers, by name."""
        return self.model.arrays() if isinstance(self.model, Tree) else {"codes": self.model.codes}

    @classmethod
    def from_saved(
        cls, plan: Mapping[str, Any], fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> TableSynthesizer:
        """The synthesizer of which `privacy.plan.public_fields(plan)`, `to_json` and `arrays` were kept.

        Raises:
            KeyError, TypeError, ValueError, TacitError: something is missing or does not fit.
        """
        tree = fields["tree"]
        model: Tree | SyntheticRecords
        if tree is None:
            model = SyntheticRecords(np.asarray(arrays["codes"], np.int32))
        else:
            order = tuple(int(column) for column in tree["order"])
            tables = tuple(np.asarray(arrays[f"table.{column}"], np.float64) for column in order)
            model = Tree(order, tuple(tuple(int(p) for p in parents) for parents in tree["parents"]), tables)
        return cls(load_class("plan", fields["plan"]).from_json(plan), model)
