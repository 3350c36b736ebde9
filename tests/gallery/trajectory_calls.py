"""Wrong calls about whole trajectories and fragments; none of them spends anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from wrong_calls import PRIVATE_ID, PRIVATE_VALUE, WrongCall, data

from tacit.data.trajectories import Trajectories
from tacit.methods.synthesis.trajectories import TrajectoriesPlan
from tacit.privacy.mechanisms.sums import PoissonSum


def episodes_without_an_end(folder: Path) -> None:
    flags = np.zeros(3, np.bool_)
    data(unit_ids=[PRIVATE_ID, PRIVATE_ID, "bob"], terminations=flags, truncations=flags).require_ends()


def observations_of_several_shapes(folder: Path) -> None:
    data(observations=[np.zeros((2, 3)), np.zeros(2), np.full(1, PRIVATE_VALUE)])


def no_row_of_a_unit(folder: Path) -> None:
    PoissonSum(name="sum", steps=1, sampling_rate=0.1, clip_norm=1.0, rows_per_unit=0, horizon=8)


def no_fragment_of_a_unit(folder: Path) -> None:
    TrajectoriesPlan(fragments_per_unit=0)


def fragments_without_a_row(folder: Path) -> None:
    PoissonSum(name="sum", steps=1, sampling_rate=0.1, clip_norm=1.0, horizon=0)


def fragments_of_first_rows(folder: Path) -> None:
    PoissonSum(name="sum", steps=1, sampling_rate=0.1, clip_norm=1.0, rows="first", horizon=8)


def single_rows_that_minari_cannot_hold(folder: Path) -> None:
    rows = 10_001
    columns = {"observations": np.full((rows, 1), 0.5), "next_observations": np.full((rows, 1), 0.5)}
    columns |= {"actions": np.zeros(rows), "rewards": np.zeros(rows), "terminations": np.zeros(rows, bool)}
    data(**columns, unit_ids=":transition", episode_ids=None, simulated=True).to_minari("icu-v0", root=folder)


def parquet_file_without_public_bounds(folder: Path) -> None:
    import pandas as pd

    pd.DataFrame({"person": [PRIVATE_ID], "observation_0": [PRIVATE_VALUE]}).to_parquet(folder / "visits.parquet")
    Trajectories.from_parquet(folder / "visits.parquet", unit="person")


TRAJECTORY_CALLS: tuple[WrongCall, ...] = (
    episodes_without_an_end,
    observations_of_several_shapes,
    no_row_of_a_unit,
    no_fragment_of_a_unit,
    fragments_without_a_row,
    fragments_of_first_rows,
    single_rows_that_minari_cannot_hold,
    parquet_file_without_public_bounds,
)
