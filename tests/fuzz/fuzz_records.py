"""Readers of records: tables of transitions, and where people were."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tests.fuzz.fuzz_mutations as change
from tests.fuzz.fuzz_bombs import gzip_bomb, parquet_bomb, zip_bomb
from tests.fuzz.fuzz_cases import CONTINUOUS, GRID, RULES, SPEC, Reader, days, logs, people, trajectories

from tacit import Trajectories
from tacit.data import mobility
from tacit.data.mobility.trips import to_geoparquet
from tacit.data.sources import open_bandit

# -- tables of transitions ---------------------------------------------------------------------------------------------


def _table() -> dict[str, Any]:
    named = logs()
    wide = {f"{stem}_{i}": named[f"{stem}s"][:, i] for stem in ("observation", "next_observation") for i in range(2)}
    flags = {"reward": "rewards", "termination": "terminations", "truncation": "truncations"}
    narrow = {name: named[field] for name, field in {**flags, "propensity": "propensities"}.items()}
    return {"person": people(), **wide, "action": named["actions"], **narrow}


def _csv(folder: Path) -> list[bytes]:
    import pandas as pd

    frame = pd.DataFrame(_table())
    texts = [frame.to_csv(index=False), frame.assign(person=[f"p{i}" for i in people()]).to_csv(index=False)]
    return [text.encode() for text in texts]


def _parquet(folder: Path) -> list[bytes]:
    import pandas as pd

    out = []
    for compression in ("snappy", "zstd"):
        file = io.BytesIO()
        pd.DataFrame(_table()).to_parquet(file, compression=compression)
        out.append(file.getvalue())
    to_geoparquet(days(), folder / "days.parquet")
    return [*out, (folder / "days.parquet").read_bytes()]


def _npz(folder: Path) -> list[bytes]:
    out = []
    for save, ids in ((np.savez, people()), (np.savez_compressed, np.array([f"p{i}" for i in people()]))):
        file = io.BytesIO()
        save(file, **logs(), person=ids)
        out.append(file.getvalue())
    return out


def _d4rl(folder: Path) -> list[bytes]:
    named, out = logs(), []
    for more in ({}, {"next_observations": named["next_observations"]}, {"compressed": True}):
        image = io.BytesIO()
        with h5py.File(image, "w") as file:
            how = {"compression": "gzip", "chunks": True} if more.pop("compressed", False) else {}
            fields = {name: named[name] for name in ("observations", "rewards")} | more
            fields |= {"actions": np.zeros((12, 1)), "terminals": named["terminations"], "ids": people()}
            for name, values in {**fields, "timeouts": named["truncations"]}.items():
                file.create_dataset(name, data=values, **how)
        out.append(image.getvalue())
    return out


def _read_d4rl(folder: Path) -> object:
    return Trajectories.from_d4rl(folder / "logs.hdf5", unit="ids", spec=CONTINUOUS, simulated=True)


def _minari(folder: Path) -> list[bytes]:
    trajectories().to_minari("logs-v0", root=folder)
    return [(folder / "logs-v0" / "data" / "main_data.hdf5").read_bytes()]


def _metadata(folder: Path) -> list[bytes]:
    _minari(folder)
    return [(folder / "logs-v0" / "data" / "metadata.json").read_bytes()]


def _read_minari(folder: Path) -> object:
    return Trajectories.from_minari("logs-v0", unit="unit", root=folder, simulated=True)


def _bandit(folder: Path) -> list[bytes]:
    (folder / "random" / "men").mkdir(parents=True)
    rows = [f"{i},2019-11-24 00:00:0{i}+00:00,{i},{i % 3 + 1},{i % 2},0.5,cef339,0.0" for i in range(8)]
    return ["\n".join((",timestamp,item_id,position,click,propensity_score,user_feature_0,more", *rows)).encode()]


def _native(name: str) -> Callable[[Path], list[bytes]]:
    def seeds(folder: Path) -> list[bytes]:
        trajectories().save(folder / "logs")
        return [(folder / "logs" / name).read_bytes()]

    return seeds


# -- movement ----------------------------------------------------------------------------------------------------------


def _points(folder: Path) -> list[bytes]:
    rows = [f"{p},2020-03-02 {h:02d}:00:00,{39.9 + 0.1 * (h > 8)},116.0" for p in ("a", "b") for h in (0, 9, 18)]
    return ["\n".join(("user,time,lat,lon", *rows)).encode()]


def _squeezed(folder: Path) -> list[bytes]:
    return [gzip.compress(seed, mtime=0) for seed in _points(folder)]


def _plt(folder: Path) -> list[bytes]:
    (folder / "people" / "0" / "Trajectory").mkdir(parents=True)
    rows = [f"39.95,116.02,0,100,39000,2020-03-02,{h:02d}:00:00" for h in range(0, 24, 3)]
    return ["\r\n".join(["Geolife trajectory", "WGS 84", "Altitude", "Reserved", "0,2,255", "0", *rows]).encode()]


def _cells(folder: Path) -> list[bytes]:
    file = io.BytesIO()
    found, size = days(), np.arange(GRID.size)
    np.savez(file, days=found.cells, user=found.person, cell_latlon=GRID.centres(size))
    return [file.getvalue()]


def _options(kind: str) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        options: dict[str, Any] = {"unit": "person", "spec": SPEC, "simulated": True}
        return getattr(Trajectories, f"from_{kind}")(folder / f"logs.{kind}", **options)

    return read


def _read_native(folder: Path) -> object:
    return Trajectories.open(folder / "logs")


def _read_points(name: str) -> Callable[[Path], object]:
    return lambda folder: mobility.from_points(folder / name, GRID, RULES, recorded="UTC")


_TEXT, _JSON = (
    change.one_of(change.table, change.spans),
    change.one_of(change.json_text, change.json_text, change.spans),
)
_HDF5, _ARRAY = change.one_of(change.hdf5, change.hdf5, change.spans), change.one_of(change.npy, change.spans)
_PARQUET, _ARRAYS = (
    change.one_of(change.parquet_file, parquet_bomb, change.spans),
    change.one_of(change.archive, change.archive, zip_bomb, change.spans),
)
_GZIP = change.one_of(*[change.spans] * 29, gzip_bomb)
_MINARI_FILES = "logs-v0/data"

READERS = (
    Reader("csv", "logs.csv", _csv, _options("csv"), _TEXT),
    Reader("parquet", "logs.parquet", _parquet, _options("parquet"), _PARQUET),
    Reader("npz", "logs.npz", _npz, _options("npz"), _ARRAYS),
    Reader("d4rl", "logs.hdf5", _d4rl, _read_d4rl, _HDF5),
    Reader("minari", f"{_MINARI_FILES}/main_data.hdf5", _minari, _read_minari, _HDF5),
    Reader("minari metadata", f"{_MINARI_FILES}/metadata.json", _metadata, _read_minari, _JSON),
    Reader("open bandit", "random/men/men.csv", _bandit, lambda f: open_bandit.read(folder=f), _TEXT),
    Reader("native spec", "logs/spec.json", _native("spec.json"), _read_native, _JSON),
    Reader("native column", "logs/rewards.npy", _native("rewards.npy"), _read_native, _ARRAY),
    Reader("native index", "logs/offsets.npy", _native("offsets.npy"), _read_native, _ARRAY),
    Reader("points", "points.csv", _points, _read_points("points.csv"), _TEXT),
    Reader("points in gzip", "points.csv.gz", _squeezed, _read_points("points.csv.gz"), _GZIP),
    Reader("plt", "people/0/Trajectory/1.plt", _plt, lambda f: mobility.from_plt(f / "people", GRID, RULES), _TEXT),
    Reader("cells", "days.npz", _cells, lambda f: mobility.from_cells(f / "days.npz", GRID), _ARRAYS),
)
