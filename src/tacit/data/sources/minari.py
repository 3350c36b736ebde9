"""Reads and writes local Minari datasets; the unit id comes from the metadata of an episode or from its infos.

What is written is plain Minari 0.5 (HDF5): an episode is a chain of rows, each of which begins where the one before
ends, so that `observations[1:]` are the next observations. Its last row terminates or is truncated, and its metadata
has the code of the unit. An episode of the records in which a row does not begin where the one before ends is cut
there. A row that nothing follows takes an episode of its own. Packed, such rows share episodes instead. Two neighbours
there have no common history: the next observation of step t is in `infos["next_observation"]`, shape `(T + 1, d)`, and
its unit in `infos["unit"]`; entry t + 1 belongs to step t, and entry 0 repeats the first. Propensities, where there are
any, are in `infos["propensity"]`, shape `(T + 1,)`, likewise.

The metadata of the dataset has `tacit` (whether it is packed, and the spec) and `certificate`. No statistics of rewards
are written.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
from minari.data_collector import EpisodeBuffer

from tacit.data.ingest import EACH_EPISODE, EACH_TRANSITION, Ingest
from tacit.data.sources.hdf5 import decode_texts, open_hdf5
from tacit.data.sources.lake import kind_error
from tacit.data.spec import Discrete, PublicSpec, Space
from tacit.data.store import CHUNK, Array, StoredRecords
from tacit.data.unit_keys import as_column
from tacit.errors import DataError, FileError
from tacit.plain_files import is_inside, is_plain_file
from tacit.units import UnitKey

NEXT, PROPENSITY = "next_observation", "propensity"
PACKED = (
    "Rows without a common history share an episode: the next observation of step t is "
    "infos['next_observation'][t + 1], not observations[t + 1], and its unit infos['unit'][t + 1]."
)
"""How a packed dataset of `to_minari` is read."""
_ID = re.compile(r"(?:[-\w]{2,}/)*[-\w]+-v\d+")
_PARTS = ("main_data.hdf5", "metadata.json")


def read(
    dataset: str | minari.MinariDataset,
    *,
    unit: str,
    spec: PublicSpec | None,
    reward: tuple[float, float] | None,
    propensity: str | None,
    observation: str | None,
    unit_key: UnitKey | None,
    simulated: bool,
    root: str | os.PathLike[str] | None,
    store: str | os.PathLike[str] | None,
) -> tuple[PublicSpec, StoredRecords]:
    """See `Trajectories.from_minari`."""
    if not isinstance(unit, str) or not unit:
        what, expected = "there is no unit id", "unit= a key of the episode metadata or the infos"
        remedy = f"name it, or say {EACH_TRANSITION!r} or {EACH_EPISODE!r}; there is no default"
        raise DataError(what, where="Trajectories.from_minari", expected=expected, remedy=remedy)
    loaded = _load(dataset, root) if isinstance(dataset, str) else dataset
    where = f"Trajectories.from_minari({loaded.spec.dataset_id!r})"
    notes = loaded.storage.metadata.get("tacit")
    notes = notes if isinstance(notes, Mapping) else {}
    if spec is None and "spec" in notes:
        spec = PublicSpec.from_json(notes["spec"])
    elif spec is None:
        spaces = (_observations(loaded.observation_space, observation, where), loaded.action_space)
        spec = PublicSpec.from_spaces(*spaces, reward=reward, propensities=propensity is not None)
    if propensity is None and spec.propensities and "spec" in notes:
        propensity = PROPENSITY
    with Ingest(spec, simulated=simulated, store=store, unit=unit, unit_key=unit_key) as ingest:
        ingest.start(where)
        pending: list[dict[str, Array]] = []
        rows = done = 0
        for index, (metadata, episode) in enumerate(_episodes(loaded, where)):
            place = f"{where}, episode {index + 1}"
            columns = partial(_columns, episode, metadata, loaded, notes, unit, observation, place)
            part = _make_part(columns, place)
            length = len(part["rewards"])
            if propensity is not None:
                part["propensities"] = _propensities(episode["infos"] or {}, propensity, length, place)
            packed = bool(notes.get("packed"))
            part["episode"] = done + np.arange(length) if packed else np.full(length, done)
            done += length if packed else 1
            pending.append(part)
            rows += length
            if rows >= CHUNK:
                _flush(ingest, pending, unit)
                pending, rows = [], 0
        if pending:
            _flush(ingest, pending, unit)
        return spec, ingest.finish()


def find_propensity_key(dataset_id: str, root: str | os.PathLike[str] | None) -> str | None:
    """A key of the first episode's infos that is called like propensities, or None; no value is looked at."""
    infos = next(iter(_episodes(_load(dataset_id, root), dataset_id)))[1]["infos"] or {}
    return next((key for key in infos if "propens" in key.lower()), None)


def _episodes(dataset: minari.MinariDataset, where: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    pairs = None
    while True:
        pair, damaged = None, False
        try:
            if pairs is None:
                metadata, indices = dataset.storage.get_episode_metadata, dataset.episode_indices
                pairs = zip(metadata(indices), dataset.storage.get_episodes(indices), strict=True)
            pair = next(pairs, None)
        except Exception:
            damaged = True
        if damaged:
            raise _unreadable_error(where)
        if pair is None:
            return
        yield pair


def _make_part(columns: Callable[[], dict[str, Array]], where: str) -> dict[str, Array]:
    with contextlib.suppress(AttributeError, IndexError, KeyError, TypeError, ValueError):
        return columns()
    what = "the arrays of the episode are not those of the dataset's spaces"
    expected = "observations and actions of the declared spaces, and one reward and two flags for each action"
    remedy = "leave the episode out (MinariDataset.filter_episodes) or write it again"
    raise DataError(what, where=where, expected=expected, remedy=remedy)


def _columns(
    episode: Mapping[str, Any],
    metadata: Mapping[str, Any],
    dataset: minari.MinariDataset,
    notes: Mapping[str, Any],
    unit: str,
    observation: str | None,
    where: str,
) -> dict[str, Array]:
    length = len(episode["rewards"])
    space, values = _observations(dataset.observation_space, observation, where), episode["observations"]
    observations = _flatten(values if observation is None else values[observation], space, where)
    part = {name: np.asarray(episode[name]) for name in ("rewards", "terminations", "truncations")}
    part["actions"] = _flatten(episode["actions"], dataset.action_space, where)
    sizes = {len(part["actions"]), len(part["terminations"]), len(part["truncations"]), length}
    if length == 0 or sizes != {length} or len(observations) != length + 1:
        what = "the episode is empty" if length == 0 else "the episode is ragged"
        expected = "T >= 1 actions, rewards and flags and T + 1 observations"
        remedy = "leave the episode out (MinariDataset.filter_episodes) or write it again"
        raise DataError(what, where=where, expected=expected, remedy=remedy)
    part["observations"], part["next_observations"] = observations[:-1], observations[1:]
    infos = episode["infos"] or {}
    if notes.get("chained") is False:
        part["next_observations"] = _info(infos, NEXT, length, where)
    if unit not in (EACH_TRANSITION, EACH_EPISODE):
        part["unit"] = _unit(infos, metadata, unit, length, bool(notes.get("packed")), where)
    return part


def _unit(
    infos: Mapping[str, Any], metadata: Mapping[str, Any], unit: str, length: int, packed: bool, where: str
) -> Array:
    value = _lookup(metadata, unit)
    if value is None and packed:
        return decode_texts(_info(infos, unit, length, where).astype(object))
    if value is None:
        value = _lookup(infos, unit)
    if value is None or isinstance(value, Mapping):
        what, expected = f"there is no unit id {unit!r}", "the key in the metadata or the infos of every episode"
        remedy = "name the key of the protected unit with unit=, or add it to the dataset"
        raise DataError(what, where=where, expected=expected, remedy=remedy)
    one = isinstance(value, (str, bytes)) or np.ndim(value) == 0
    # Of arrays alone, texts and bytes would be joined.
    values = decode_texts(as_column([value] if one else value).astype(object))
    if values.ndim != 1 or len(values) == 0 or not bool(np.all(values == values[0])):
        what, expected = "the unit id is not constant within an episode", "one unit for each episode"
        remedy = "split the episode where the unit changes, or protect the unit that owns all of it"
        raise DataError(what, where=where, expected=expected, remedy=remedy)
    return np.repeat(values[:1], length)


def _info(infos: Mapping[str, Any], key: str, length: int, where: str) -> Array:
    value = _lookup(infos, key)
    if value is None or isinstance(value, Mapping) or np.asarray(value).shape[:1] != (length + 1,):
        what, expected = f"infos[{key!r}] is missing or has another length", "T + 1 entries, as to_minari wrote them"
        raise DataError(what, where=where, expected=expected, remedy="write the dataset again")
    rows: Array = np.asarray(value)[1:]
    return rows


def _propensities(infos: Mapping[str, Any], key: str, length: int, where: str) -> Array:
    value = _lookup(infos, key)
    if value is None or isinstance(value, Mapping) or np.asarray(value).shape[:1] not in ((length,), (length + 1,)):
        what = f"infos[{key!r}] is missing or has another length"
        expected = "T propensities, or T + 1 of which the first belongs to the reset"
        remedy = "name the key with propensity=, or add it to the dataset"
        raise DataError(what, where=where, expected=expected, remedy=remedy)
    rows: Array = np.asarray(value)[len(value) - length :]
    return rows


def _lookup(tree: Mapping[str, Any], path: str) -> Any:
    node: Any = tree
    for key in path.split("/"):
        if not isinstance(node, Mapping) or key not in node:
            return None
        node = node[key]
    return node


def _observations(space: gymnasium.Space[Any], key: str | None, where: str) -> gymnasium.Space[Any]:
    """The space of the observations that are read: all of it, or one entry of a dictionary."""
    if key is None:
        return space
    if not isinstance(space, gymnasium.spaces.Dict) or key not in space.spaces:
        what, remedy = f"there is no observation {key!r}", "name another key with observation=, or leave it out"
        raise DataError(what, where=where, expected="a dictionary of observations with that key", remedy=remedy)
    return space.spaces[key]


def _flatten(values: Any, space: gymnasium.Space[Any], where: str) -> Array:
    """`(n, d)` of a box or a `Dict` of boxes (in its own order), `(n,)` of a discrete space."""
    if isinstance(space, gymnasium.spaces.Dict):
        return np.concatenate([_flatten(values[key], part, where) for key, part in space.spaces.items()], axis=-1)
    if not isinstance(space, (gymnasium.spaces.Box, gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete)):
        what = "the space is of a kind that is not supported"
        expected = "a Box, a Discrete, a MultiDiscrete or a Dict of boxes"
        raise DataError(what, where=where, expected=expected, remedy="flatten it first and write the dataset again")
    array = np.asarray(values)
    return array if isinstance(space, gymnasium.spaces.Discrete) else array.reshape(len(array), math.prod(space.shape))


def _flush(ingest: Ingest, pending: list[dict[str, Array]], unit: str) -> None:
    joined = {name: np.concatenate([part[name] for part in pending]) for name in pending[0]}
    episodes = joined.pop("episode")
    ingest.add(joined, joined.pop("unit", unit), episodes)


def _load(dataset_id: str, root: str | os.PathLike[str] | None) -> minari.MinariDataset:
    require_dataset_id(dataset_id)
    dataset: minari.MinariDataset | None = None
    with use_datasets_folder(root) as folder:
        parts = folder / dataset_id / "data"
        if parts.is_dir():
            inner = [f"{dataset_id}/data/{name}" for name in _PARTS]
            if not all(is_plain_file(folder / name) and is_inside(folder, name) for name in inner):
                raise _unreadable_error(dataset_id)
            with open_hdf5(parts / _PARTS[0], _unreadable_error(f"Trajectories.from_minari({dataset_id!r})")):
                pass  # looked through before anything is read: nothing in it leads elsewhere
        with contextlib.suppress(Exception):
            loaded = minari.load_dataset(dataset_id, download=False)
            dataset = loaded if loaded.spec.dataset_id else None  # made of the metadata when it is asked for
    if dataset is None:
        raise _unreadable_error(dataset_id)
    return dataset


def require_dataset_id(dataset_id: str) -> None:
    if Path(dataset_id).suffix and not _ID.fullmatch(dataset_id):
        raise kind_error(Path(dataset_id))
    if not _ID.fullmatch(dataset_id):
        what = "the id is malformed or leads out of the folder of the datasets"
        expected, remedy = "name-v0 or namespace/name-v0, of letters, digits, - and _", "choose such an id"
        raise FileError(what, where="Minari", expected=expected, remedy=remedy)


@contextlib.contextmanager
def use_datasets_folder(root: str | os.PathLike[str] | None) -> Iterator[Path]:
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


def _unreadable_error(where: str) -> FileError:
    what, expected = "the dataset is missing, truncated or of another kind", "a local Minari dataset in HDF5"
    remedy = "download or write it again, or say where it is with root= or MINARI_DATASETS_PATH"
    return FileError(what, where=where, expected=expected, remedy=remedy)


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
