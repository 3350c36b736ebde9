"""The released synthesizer of a baseline: public tables that rows are sampled from, at no further cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.methods.synthesis.baselines.plan import TablePlan
from tacit.methods.synthesis.baselines.tree import Tree
from tacit.methods.synthesis.cut import Codes
from tacit.methods.synthesis.rows import as_trajectories

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories

_PLANS = {"PgmPlan": "pgm", "MstPlan": "mst", "AimPlan": "aim", "PrivSynPlan": "privsyn"}


@dataclass(frozen=True, eq=False)
class Records:
    """Synthetic records as cells: what PrivSyn ends with.

    Args:
        codes: [M, A], M >= 1.
    """

    codes: Codes

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
    model: Tree | Records

    def __repr__(self) -> str:
        return f"TableSynthesizer({type(self.plan).__name__}, {len(self.plan.cut.shape)} columns)"

    def __post_init__(self) -> None:
        shape = self.plan.cut.shape
        if isinstance(self.model, Records):
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
        return self.plan.cut.decode(self.model.draw(count, rng), rng)

    def sample(self, count: int, *, seed: int = 0) -> Trajectories:
        """`count` independent transitions as a data set that belongs to nobody, one unit a row."""
        return as_trajectories(self.sample_columns(count, seed=seed), self.plan.cut.spec)

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
        name = fields["plan"]
        kind = getattr(import_module(f"tacit.methods.synthesis.baselines.{_PLANS[name]}"), name)
        tree = fields["tree"]
        model: Tree | Records
        if tree is None:
            model = Records(np.asarray(arrays["codes"], np.int32))
        else:
            order = tuple(int(column) for column in tree["order"])
            tables = tuple(np.asarray(arrays[f"table.{column}"], np.float64) for column in order)
            model = Tree(order, tuple(tuple(int(p) for p in parents) for parents in tree["parents"]), tables)
        return cls(kind.from_json(plan), model)
