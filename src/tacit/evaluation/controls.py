"""Control tables: what a measure or an agent scores when the table holds less than the synthetic one.

`independent_columns` keeps every marginal and destroys every dependence; `uniform_table` knows the public bounds only
(the "noise only" control). A measure that does not put a synthetic table above both measures nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Box, Discrete, PublicSpec


def independent_columns(columns: Mapping[str, NDArray[np.generic]], *, seed: int) -> dict[str, NDArray[np.generic]]:
    """The table with each scalar column permuted on its own: equal marginals, no dependence between columns.

    Args:
        columns: columns by name, each [T] or [T, d]; every one of the d entries is permuted separately. Looks at rows:
            for simulated, public or synthetic tables.
        seed: of the public permutations.
    """
    generator = np.random.default_rng(seed)
    return {
        name: generator.permuted(values, axis=0) if values.ndim > 1 else generator.permutation(values)
        for name, values in columns.items()
    }


def uniform_table(spec: PublicSpec, *, rows: int, seed: int) -> dict[str, NDArray[np.generic]]:
    """A table of `rows` transitions drawn uniformly inside the public bounds, with no terminations: noise only.

    Returns:
        `observations`, `actions`, `next_observations` ([rows, d] float32, or [rows] int64 when discrete), `rewards`
        [rows] float32, `terminations` and `truncations` [rows] bool, all False.
    """
    generator = np.random.default_rng(seed)

    def draw(space: Box | Discrete) -> NDArray[np.generic]:
        if isinstance(space, Discrete):
            return generator.integers(space.n, size=rows)
        return generator.uniform(space.low, space.high, size=(rows, space.size)).astype(np.float32)

    return {
        "observations": draw(spec.observation),
        "actions": draw(spec.action),
        "rewards": draw(spec.reward)[:, 0],
        "next_observations": draw(spec.observation),
        "terminations": np.zeros(rows, dtype=np.bool_),
        "truncations": np.zeros(rows, dtype=np.bool_),
    }
