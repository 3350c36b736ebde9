"""Writes Minari datasets.

The layout (plain Minari 0.5, HDF5; the key `tacit` of the dataset metadata says which case holds):

- Episodes whose rows chain (`next_observation` of a row is the observation of the row after it): ordinary episodes, the
  unit code in the metadata of each.
- Rows that do not chain: the last observation of an episode is its last `next_observation`, and the true one of every
  row is in `infos["next_observation"]`, shape `(T + 1, d)`: entry t + 1 belongs to step t, entry 0 repeats the first
  observation, as with the info that `reset` and `step` return.
- Sets where every episode is a single transition (independent synthetic rows) would need one HDF5 group a row. They are
  packed: consecutive rows share a Minari episode, with `infos["next_observation"]` and `infos["unit"]` as above. Two
  rows that are neighbours in such an episode have no common history.

Propensities, where there are any, are in `infos["propensity"]`, shape `(T + 1,)`: entry t + 1 belongs to step t, and
entry 0 repeats the first.

The certificate is under `certificate` in the dataset metadata. No statistics of rewards are written.
"""

from __future__ import annotations

import json
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

from tacit.data.sources.minari import NEXT, PROPENSITY, check_id, datasets_folder
from tacit.data.spec import Discrete, PublicSpec, Space
from tacit.data.store import CHUNK, Array, Records
from tacit.errors import DataError, FileError

UNIT = "unit"


def write(
    records: Records,
    spec: PublicSpec,
    dataset_id: str,
    *,
    certificate: Mapping[str, Any] | None,
    description: str | None,
    root: str | os.PathLike[str] | None,
) -> Path:
    """See `Trajectories.to_minari`."""
    check_id(dataset_id)
    certificate = None if certificate is None else _json(certificate)
    with datasets_folder(root) as base:
        final = base / dataset_id
        if final.exists():
            raise FileError(
                "a dataset of this id exists already",
                where=dataset_id,
                expected="an id that is still free",
                remedy="raise the version at its end, or delete the old dataset",
            )
        staging = base / f".partial-{secrets.token_hex(4)}"
        failed: str | None = None
        try:
            with datasets_folder(staging):
                _create(records, spec, dataset_id, certificate, description)
            final.parent.mkdir(parents=True, exist_ok=True)
            _name_spaces(staging, base, dataset_id)
            os.rename(staging / dataset_id, final)
        except OSError as error:
            failed = error.strerror or "unknown reason"
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        if failed is not None:
            raise FileError(
                f"the dataset cannot be written ({failed})",
                where=dataset_id,
                expected="a writable place with enough free space",
                remedy="free some space or choose another root; nothing was left behind",
            )
        return final


def _create(
    records: Records,
    spec: PublicSpec,
    dataset_id: str,
    certificate: Mapping[str, Any] | None,
    description: str | None,
) -> None:
    total, episodes = len(records.order), records.episodes
    units = np.empty(total, dtype=np.int64)
    units[records.order] = np.repeat(np.arange(len(records.offsets) - 1), np.diff(records.offsets))
    packed = len(episodes) - 1 == total
    chained = not packed and _chained(records)
    bounds = np.append(np.arange(0, total, CHUNK), total) if packed else np.asarray(episodes)

    dataset: minari.MinariDataset | None = None
    first = 0
    while first < len(bounds) - 1:
        last = max(first + 1, int(np.searchsorted(bounds, bounds[first] + CHUNK, side="right")) - 1)
        spans = [slice(int(bounds[i]), int(bounds[i + 1])) for i in range(first, last)]
        buffers = [_buffer(records, span, units if packed else None, chained) for span in spans]
        if dataset is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # Minari asks for an author, an environment and so on
                dataset = minari.create_dataset_from_buffers(
                    dataset_id,
                    buffers,
                    observation_space=_space(spec.observation),
                    action_space=_space(spec.action),
                    algorithm_name="tacit",
                    description=description or _describe(packed, chained),
                )
        else:
            dataset.update_dataset_from_buffer(buffers)
        if not packed:
            marks = [{UNIT: int(units[span.start])} for span in spans]
            dataset.storage.update_episode_metadata(marks, range(first, last))
        first = last
    assert dataset is not None
    notes: dict[str, Any] = {"tacit": {"packed": packed, "chained": chained, "spec": spec.to_json()}}
    if certificate is not None:
        notes["certificate"] = certificate
    dataset.storage.update_metadata(notes)


def _buffer(records: Records, span: slice, units: Array | None, chained: bool) -> EpisodeBuffer:
    part = {name: np.array(column[span]) for name, column in records.columns.items()}
    infos: dict[str, Array] = {}
    if not chained:
        infos[NEXT] = np.concatenate([part["observations"][:1], part["next_observations"]])
    if units is not None:
        infos[UNIT] = np.concatenate([units[span][:1], units[span]])
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


def _chained(records: Records) -> bool:
    observations, following = records.columns["observations"], records.columns["next_observations"]
    ends = np.zeros(len(records.order), dtype=np.bool_)
    ends[np.asarray(records.episodes[1:]) - 1] = True
    for start in range(0, len(ends) - 1, CHUNK):
        stop = min(start + CHUNK, len(ends) - 1)
        linked = (following[start:stop] == observations[start + 1 : stop + 1]).reshape(stop - start, -1).all(axis=1)
        if not np.all(linked | ends[start:stop]):
            return False
    return True


def _describe(packed: bool, chained: bool) -> str:
    if packed:
        return (
            "Independent transitions: neighbouring steps have no common history. The next observation of step t is "
            "infos['next_observation'][t + 1] and its unit infos['unit'][t + 1]."
        )
    rule = "observations[t + 1]" if chained else "infos['next_observation'][t + 1]"
    return f"Trajectories. The next observation of step t is {rule}."


def _space(space: Space) -> gymnasium.Space[Any]:
    if isinstance(space, Discrete):
        return gymnasium.spaces.Discrete(space.n)
    low, high = space.single()
    return gymnasium.spaces.Box(low, high, dtype=np.float32)


def _json(certificate: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        values: Mapping[str, Any] = json.loads(json.dumps(dict(certificate), allow_nan=False))
        return values
    except (TypeError, ValueError):
        pass
    raise DataError(
        "the certificate is not of JSON values",
        where="Trajectories.to_minari",
        expected="the mapping that Certificate.to_json gives",
        remedy="pass certificate.to_json()",
    )


def _name_spaces(staging: Path, base: Path, dataset_id: str) -> None:
    """Carries over the metadata file of every namespace of the id that is new to the folder."""
    for parent in Path(dataset_id).parents:
        name = parent / "namespace_metadata.json"
        if (staging / name).exists() and not (base / name).exists():
            os.rename(staging / name, base / name)
