"""Minari in and out.

Layout of what `write` leaves (plain Minari 0.5, HDF5; the key `tacit` of the dataset metadata says which case holds):

- Episodes whose rows chain (`next_observation` of a row is the observation of the row after it): ordinary episodes, the
  unit code in the metadata of each.
- Rows that do not chain: the last observation of an episode is its last `next_observation`, and the true one of every
  row is in `infos["next_observation"]`, shape `(T + 1, d)`: entry t + 1 belongs to step t, entry 0 repeats the first
  observation, as with the info that `reset` and `step` return.
- Sets where every episode is a single transition (independent synthetic rows) would need one HDF5 group a row. They are
  packed: consecutive rows share a Minari episode, with `infos["next_observation"]` and `infos["unit"]` as above. Two
  rows that are neighbours in such an episode have no common history.

The certificate is under `certificate` in the dataset metadata. No statistics of rewards are written.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
from minari.data_collector import EpisodeBuffer

from tacit.data.ingest import EACH_EPISODE, EACH_TRANSITION, Ingest
from tacit.data.spec import Discrete, PublicSpec, Space
from tacit.data.store import CHUNK, Array, Records
from tacit.errors import DataError, FileError

UNIT = "unit"
NEXT = "next_observation"
_ID = re.compile(r"(?:[-\w]{2,}/)*[-\w]+-v\d+")


def read(
    dataset: str | minari.MinariDataset,
    *,
    unit: str,
    spec: PublicSpec | None,
    reward: tuple[float, float] | None,
    simulated: bool,
    root: str | os.PathLike[str] | None,
    store: str | os.PathLike[str] | None,
) -> tuple[PublicSpec, Records]:
    """See `Trajectories.from_minari`."""
    if not isinstance(unit, str) or not unit:
        raise DataError(
            "there is no unit id",
            where="Trajectories.from_minari",
            expected="unit= a key of the episode metadata or the infos",
            remedy=f"name it, or say {EACH_TRANSITION!r} or {EACH_EPISODE!r}; there is no default",
        )
    found = _load(dataset, root) if isinstance(dataset, str) else dataset
    where = f"Trajectories.from_minari({found.spec.dataset_id!r})"
    own = found.storage.metadata.get("tacit")
    own = own if isinstance(own, Mapping) else {}
    if spec is None and "spec" in own:
        spec = PublicSpec.from_json(own["spec"])
    elif spec is None:
        spec = PublicSpec.from_spaces(found.observation_space, found.action_space, reward=reward)
    with Ingest(spec, simulated=simulated, store=store) as ingest:
        ingest.start(where)
        waiting: list[dict[str, Array]] = []
        rows = done = 0
        for index, (metadata, episode) in enumerate(_episodes(found, where)):
            part = _transitions(episode, metadata, found, own, unit, f"{where}, episode {index + 1}")
            length = len(part["rewards"])
            packed = bool(own.get("packed"))
            part["episode"] = done + np.arange(length) if packed else np.full(length, done)
            done += length if packed else 1
            waiting.append(part)
            rows += length
            if rows >= CHUNK:
                _flush(ingest, waiting, unit)
                waiting, rows = [], 0
        if waiting:
            _flush(ingest, waiting, unit)
        return spec, ingest.finish()


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
    _check_id(dataset_id)
    certificate = None if certificate is None else _json(certificate)
    with _datasets(root) as base:
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
            with _datasets(staging):
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
        same = (following[start:stop] == observations[start + 1 : stop + 1]).reshape(stop - start, -1).all(axis=1)
        if not np.all(same | ends[start:stop]):
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


def _episodes(dataset: minari.MinariDataset, where: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    indices = dataset.episode_indices
    pairs = zip(dataset.storage.get_episode_metadata(indices), dataset.storage.get_episodes(indices), strict=True)
    while True:
        pair, damaged = None, False
        try:
            pair = next(pairs, None)
        except Exception:
            damaged = True
        if damaged:
            raise _unreadable(where)
        if pair is None:
            return
        yield pair


def _transitions(
    episode: Mapping[str, Any],
    metadata: Mapping[str, Any],
    dataset: minari.MinariDataset,
    own: Mapping[str, Any],
    unit: str,
    where: str,
) -> dict[str, Array]:
    length = len(episode["rewards"])
    observations = _flat(episode["observations"], dataset.observation_space)
    part = {name: np.asarray(episode[name]) for name in ("rewards", "terminations", "truncations")}
    part["actions"] = _flat(episode["actions"], dataset.action_space)
    sizes = {len(part["actions"]), len(part["terminations"]), len(part["truncations"]), length}
    if length == 0 or sizes != {length} or len(observations) != length + 1:
        raise DataError(
            "the episode is empty" if length == 0 else "the episode is ragged",
            where=where,
            expected="T >= 1 actions, rewards and flags and T + 1 observations",
            remedy="leave the episode out (MinariDataset.filter_episodes) or write it again",
        )
    part["observations"], part["next_observations"] = observations[:-1], observations[1:]
    infos = episode["infos"] or {}
    if own.get("chained") is False:
        part["next_observations"] = _info(infos, NEXT, length, where)
    if unit not in (EACH_TRANSITION, EACH_EPISODE):
        part["unit"] = _unit(infos, metadata, unit, length, bool(own.get("packed")), where)
    return part


def _unit(
    infos: Mapping[str, Any], metadata: Mapping[str, Any], unit: str, length: int, packed: bool, where: str
) -> Array:
    value = _lookup(metadata, unit)
    if value is None and packed:
        return _info(infos, unit, length, where)
    if value is None:
        value = _lookup(infos, unit)
    if value is None or isinstance(value, Mapping):
        raise DataError(
            f"there is no unit id {unit!r}",
            where=where,
            expected="the key in the metadata or the infos of every episode",
            remedy="name the key of the protected unit with unit=, or add it to the dataset",
        )
    values = np.atleast_1d(np.asarray(value))
    if values.ndim != 1 or len(values) == 0 or not bool(np.all(values == values[0])):
        raise DataError(
            "the unit id is not constant within an episode",
            where=where,
            expected="one unit for each episode",
            remedy="split the episode where the unit changes, or protect the unit that owns all of it",
        )
    return np.repeat(values[:1], length)


def _info(infos: Mapping[str, Any], key: str, length: int, where: str) -> Array:
    value = _lookup(infos, key)
    if value is None or isinstance(value, Mapping) or len(value) != length + 1:
        raise DataError(
            f"infos[{key!r}] is missing or has another length",
            where=where,
            expected="T + 1 entries, as to_minari wrote them",
            remedy="write the dataset again",
        )
    rows: Array = np.asarray(value)[1:]
    return rows


def _lookup(tree: Mapping[str, Any], path: str) -> Any:
    node: Any = tree
    for key in path.split("/"):
        if not isinstance(node, Mapping) or key not in node:
            return None
        node = node[key]
    return node


def _flat(values: Any, space: gymnasium.Space[Any]) -> Array:
    if isinstance(space, gymnasium.spaces.Dict):
        return np.concatenate([_flat(values[key], part) for key, part in space.spaces.items()], axis=1)
    array = np.asarray(values)
    return array.reshape(len(array), -1) if isinstance(space, gymnasium.spaces.Box) and len(array) else array


def _flush(ingest: Ingest, waiting: list[dict[str, Array]], unit: str) -> None:
    joined = {name: np.concatenate([part[name] for part in waiting]) for name in waiting[0]}
    episodes = joined.pop("episode")
    ingest.add(joined, joined.pop("unit", unit), episodes)


def _load(dataset_id: str, root: str | os.PathLike[str] | None) -> minari.MinariDataset:
    _check_id(dataset_id)
    found: minari.MinariDataset | None = None
    with _datasets(root), contextlib.suppress(Exception):
        found = minari.load_dataset(dataset_id, download=False)
    if found is None:
        raise _unreadable(dataset_id)
    return found


def _check_id(dataset_id: str) -> None:
    if not _ID.fullmatch(dataset_id):
        raise FileError(
            "the id is malformed or leads out of the folder of the datasets",
            where="Minari",
            expected="name-v0 or namespace/name-v0, of letters, digits, - and _",
            remedy="choose such an id",
        )


def _json(certificate: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(json.dumps(dict(certificate), allow_nan=False))
        return found
    except (TypeError, ValueError):
        pass
    raise DataError(
        "the certificate is not of JSON values",
        where="Trajectories.to_minari",
        expected="the mapping that Certificate.to_json gives",
        remedy="pass certificate.to_json()",
    )


@contextlib.contextmanager
def _datasets(root: str | os.PathLike[str] | None) -> Iterator[Path]:
    """Points Minari to another folder of datasets meanwhile; yields the folder."""
    before = os.environ.get("MINARI_DATASETS_PATH")
    try:
        if root is not None:
            os.environ["MINARI_DATASETS_PATH"] = os.path.abspath(root)
        from minari.storage.datasets_root_dir import get_dataset_path

        yield get_dataset_path()
    finally:
        if before is None:
            os.environ.pop("MINARI_DATASETS_PATH", None)
        else:
            os.environ["MINARI_DATASETS_PATH"] = before


def _name_spaces(staging: Path, base: Path, dataset_id: str) -> None:
    """Carries over the metadata file of every namespace of the id that is new to the folder."""
    for parent in Path(dataset_id).parents:
        name = parent / "namespace_metadata.json"
        if (staging / name).exists() and not (base / name).exists():
            os.rename(staging / name, base / name)


def _unreadable(where: str) -> FileError:
    return FileError(
        "the dataset is missing, truncated or of another kind",
        where=where,
        expected="a local Minari dataset in HDF5",
        remedy="download or write it again, or say where it is with root= or MINARI_DATASETS_PATH",
    )
