"""Sampled transitions as a data set."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories


def as_trajectories(columns: Mapping[str, NDArray[Any]], spec: PublicSpec) -> Trajectories:
    """Independent sampled transitions as a data set that belongs to nobody, one unit a row.

    Propensities are not synthesised: no behaviour policy chose these actions.

    Args:
        columns: `observations`, `actions`, `rewards`, `next_observations`, `terminations`, each of T rows.
        spec: the public bounds that they lie in.
    """
    return Trajectories.from_arrays(
        observations=columns["observations"],
        actions=columns["actions"],
        rewards=columns["rewards"],
        next_observations=columns["next_observations"],
        terminations=columns["terminations"],
        unit_ids=":transition",
        spec=dataclasses.replace(spec, propensities=False),
        simulated=True,
    )
