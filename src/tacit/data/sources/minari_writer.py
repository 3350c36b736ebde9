"""Writes Minari datasets.

The layout is plain Minari 0.5 (HDF5): an episode is a chain of rows, each of which begins where the one before ends, so
that `observations[1:]` are the next observations. Its last row terminates or is truncated, and its metadata has the
code of the unit. An episode of the records in which a row does not begin where the one before ends is cut there.

A row that nothing follows takes an episode of its own. Packed, such rows share episodes instead. Two neighbours there
have no common history: the next observation of step t is in `infos["next_observation"]`, shape `(T + 1, d)`, and its
unit in `infos["unit"]`; entry t + 1 belongs to step t, and entry 0 repeats the first.

Propensities, where there are any, are in `infos["propensity"]`, shape `(T + 1,)`, likewise.

The metadata of the dataset has `tacit` (whether it is packed, and the spec) and `certificate`. No statistics of rewards
are written.
"""

from __future__ import annotations

import os
import secrets
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
from minari.data_collector import EpisodeBuffer

from tacit.data.sources.minari import NEXT, PACKED, PROPENSITY, require_dataset_id, use_datasets_folder
from tacit.data.spec import Discrete, PublicSpec, Space
from tacit.data.store import CHUNK, Array, StoredRecords
from tacit.errors import FileError

UNIT = "unit"


def write(
    records: StoredRecords,
    spec: PublicSpec,
    dataset_id: str,
    *,
    ends: Array | None,
    certificate: Mapping[str, Any] | None,
    description: str | None,
    root: str | os.PathLike[str] | None,
) -> Path:
    """See `Trajectories.to_minari`; `ends` says which rows end a chain, shape `(T,)`, and None packs the rows."""
    require_dataset_id(dataset_id)
    with use_datasets_folder(root) as base:
        final = base / dataset_id
        if final.exists():
            expected, remedy = "an id that is still free", "raise the version at its end, or delete the old dataset"
            raise FileError("a dataset of this id exists already", where=dataset_id, expected=expected, remedy=remedy)
        staging = base / f".partial-{secrets.token_hex(4)}"
        failed: str | None = None
        try:
            with use_datasets_folder(staging):
                _create(records, spec, dataset_id, certificate, description, ends)
            final.parent.mkdir(parents=True, exist_ok=True)
            _move_namespaces(staging, base, dataset_id)
            os.rename(staging / dataset_id, final)
        except OSError as error:
            failed = error.strerror or "unknown reason"
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        if failed is not None:
            what, expected = f"the dataset cannot be written ({failed})", "a writable place with enough free space"
            remedy = "free some space or choose another root; nothing was left behind"
            raise FileError(what, where=dataset_id, expected=expected, remedy=remedy)
        return final


def _create(
    records: StoredRecords,
    spec: PublicSpec,
    dataset_id: str,
    certificate: Mapping[str, Any] | None,
    description: str | None,
    ends: Array | None,
) -> None:
    total, units, packed = len(records.order), records.owners, ends is None
    bounds = np.append(np.arange(0, total, CHUNK), total) if ends is None else np.append(0, np.flatnonzero(ends) + 1)

    dataset: minari.MinariDataset | None = None
    first = 0
    while first < len(bounds) - 1:
        last = max(first + 1, int(np.searchsorted(bounds, bounds[first] + CHUNK, side="right")) - 1)
        spans = [slice(int(bounds[i]), int(bounds[i + 1])) for i in range(first, last)]
        buffers = [_buffer(records, span, units[span] if packed else None) for span in spans]
        if dataset is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # Minari asks for an author, an environment and so on
                dataset = minari.create_dataset_from_buffers(
                    dataset_id,
                    buffers,
                    observation_space=_space(spec.observation),
                    action_space=_space(spec.action),
                    algorithm_name="tacit",
                    description=description or (PACKED if packed else "Trajectories, or single steps."),
                )
        else:
            dataset.update_dataset_from_buffer(buffers)
        if not packed:
            marks = [{UNIT: int(units[span.start])} for span in spans]
            dataset.storage.update_episode_metadata(marks, range(first, last))
        first = last
    assert dataset is not None
    notes: dict[str, Any] = {"tacit": {"packed": packed, "chained": not packed, "spec": spec.to_json()}}
    if certificate is not None:
        notes["certificate"] = certificate
    dataset.storage.update_metadata(notes)


def _buffer(records: StoredRecords, span: slice, units: Array | None) -> EpisodeBuffer:
    """An episode of these rows: a chain, or, with their units, rows without a common history."""
    part = {name: np.array(column[span]) for name, column in records.columns.items()}
    infos: dict[str, Array] = {}
    if units is not None:
        infos[NEXT] = np.concatenate([part["observations"][:1], part["next_observations"]])
        infos[UNIT] = np.concatenate([units[:1], units])
    else:
        part["truncations"][-1] |= ~part["terminations"][-1]
    if "propensities" in part:
        infos[PROPENSITY] = np.concatenate([part["propensities"][:1], part["propensities"]])
    return EpisodeBuffer(
        observations=np.concatenate([part["observations"], part["next_observations"][-1:]]),
        actions=part["actions"],
        rewards=part["rewards"],
        terminations=part["terminations"],
        truncations=part["truncations"],
        infos=infos or None,
    )


def _space(space: Space) -> gymnasium.Space[Any]:
    if isinstance(space, Discrete):
        return gymnasium.spaces.Discrete(space.n, start=space.start or 0)
    low, high = space.float32_bounds()
    return gymnasium.spaces.Box(low, high, dtype=np.float32)


def _move_namespaces(staging: Path, base: Path, dataset_id: str) -> None:
    """Carries over the metadata file of every namespace of the id that is new to the folder."""
    for parent in Path(dataset_id).parents:
        name = parent / "namespace_metadata.json"
        if (staging / name).exists() and not (base / name).exists():
            os.rename(staging / name, base / name)
