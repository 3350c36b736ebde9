"""Clones: each expert's policy, learnt from that expert's own rows alone.

A clone is a frozen dataclass of public settings: a `Summary` (rows to parameters) and, with parameters, policies. All
experts' clones are computed side by side in products that are batched over experts, one matrix product an expert, so an
expert's clone is the same bits whoever the others are: that is what makes one expert one vote.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.agents.features import Features, OneHot, Quadratic, Scaled
from tacit.agents.networks import Mlp
from tacit.agents.stacked import Stacked
from tacit.errors import PlanError
from tacit.privacy.parts import check

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class LinearClone:
    """Ridge least squares of the centred indicators of an expert's actions on features of its observations.

    Args:
        features: a public map; nothing in it may have been fitted to any expert's rows.
        actions: A.
        ridge: penalty of squared parameters, a row. It also settles experts with a single action or few rows.
        floor: p_min of the policies that stand for the experts where these have to be stochastic.

    Raises:
        PlanError: a value is out of range, or the features are no public map.
    """

    features: Features
    actions: int
    ridge: float = 1e-3
    floor: float = 0.0
    kind: Literal["linear"] = field(default="linear", init=False)

    def __post_init__(self) -> None:
        _check_clone(self.features, self.actions, self.floor)
        check("clone.ridge", self.ridge, 0 < self.ridge < math.inf, "a finite number > 0")

    @property
    def network(self) -> Mlp:
        """What the parameters are of."""
        return Mlp((self.features.size, self.actions), gain=0.0)

    def __call__(self, rows: Mapping[str, Array]) -> dict[str, Array]:
        """Rows [U, L, ...] -> {"parameters": [U, P] float32}."""
        mask = np.asarray(rows["mask"], np.float64)[..., None]
        seen = self.features(rows["observations"])
        x = np.concatenate([seen, np.ones((*seen.shape[:-1], 1))], axis=-1) * mask
        y = ((rows["actions"][..., None] == np.arange(self.actions)) - 1.0 / self.actions) * mask
        turned, count = x.swapaxes(1, 2), mask.sum(axis=1)[:, None]
        gram = turned @ x / count + self.ridge * np.eye(x.shape[2])
        theta = np.linalg.solve(gram, turned @ y / count)
        return {"parameters": theta.reshape(len(theta), -1).astype(np.float32)}

    def experts(self, parameters: Array) -> Stacked:
        """The policies of m clones with parameters [m, P]."""
        return Stacked.from_mlp(self.features, self.network, parameters, self.floor)


Clone = LinearClone


def _check_clone(features: object, actions: object, floor: float) -> None:
    if not isinstance(features, Scaled | OneHot | Quadratic):
        raise PlanError(
            f"the clones share a {type(features).__name__} as their features",
            where="clone",
            expected="a public map: Scaled, Quadratic or OneHot",
            remedy="leave encoders out: one that learnt from several experts' rows ties their clones together, "
            "and then one expert is more than one vote",
        )
    known = type(actions) is int and actions >= 2
    check("clone.actions", actions, known, "a whole number >= 2")
    assert isinstance(actions, int)
    check("clone.floor", floor, 0 <= floor < 1 / actions, "a probability below 1 / actions")
