"""Trips as GeoParquet 1.1 (extra `data`): one row a day, a LineString in well-known binary, and its times beside it.

Written with pyarrow alone. The standard has no measured coordinates, so the seconds of the vertices are a list in a
column of their own, in the order of the vertices.
"""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.days import Days
from tacit.data.trips import DATE, Trips, require_free, trips, unwritable

__all__ = ["to_geoparquet"]

_HEADER = np.dtype([("order", "u1"), ("kind", "<u4"), ("points", "<u4")])
"""Of a LineString: 1 for little-endian, 2 for the kind, and how many points follow."""


def to_geoparquet(days: Days, path: str | os.PathLike[str], *, date: datetime.date = DATE) -> None:
    """Columns day, person, geometry (LineString, lon and lat, WGS 84), times (timestamps, local) and bbox.

    Args:
        days: one row each.
        path: a name that is still free.
        date: on which the days are put; times are local and carry no zone.

    Raises:
        FileError: the file exists already or cannot be written.
    """
    import pyarrow as pa
    from pyarrow import parquet

    path = Path(path)
    require_free(path)
    found = trips(days)
    offsets = pa.array(found.starts.astype(np.int32))
    midnight = np.datetime64(date, "ms")
    times = pa.array(midnight + found.seconds.astype("timedelta64[s]").astype("timedelta64[ms]"))
    boxes = _boxes(found)
    table = pa.table(
        {
            "day": pa.array(np.arange(len(found.person))),
            "person": pa.array(found.person),
            "geometry": pa.array(well_known_binary(found), type=pa.binary()),
            "times": pa.ListArray.from_arrays(offsets, times),
            "bbox": pa.StructArray.from_arrays([pa.array(column) for column in boxes.values()], names=list(boxes)),
        }
    )
    table = table.replace_schema_metadata({"geo": json.dumps(_metadata(boxes))})
    partial = path.with_name(f".{path.name}.partial")
    try:
        parquet.write_table(table, partial, compression="zstd")
        os.link(partial, path)
    except OSError as error:
        raise unwritable(path) from error
    finally:
        partial.unlink(missing_ok=True)


def well_known_binary(found: Trips) -> list[bytes]:
    """A LineString of each way, as well-known binary."""
    header = np.zeros(len(found.person), dtype=_HEADER)
    header["order"], header["kind"], header["points"] = 1, 2, np.diff(found.starts)
    points = np.stack([found.lon, found.lat], axis=1).astype("<f8")
    ends = found.starts.tolist()
    return [
        head.tobytes() + points[first:last].tobytes() for head, first, last in zip(header, ends, ends[1:], strict=False)
    ]


def _boxes(found: Trips) -> dict[str, npt.NDArray[np.float64]]:
    at = found.starts[:-1]
    if not len(at):
        return {name: np.zeros(0) for name in ("xmin", "ymin", "xmax", "ymax")}
    return {
        "xmin": np.minimum.reduceat(found.lon, at),
        "ymin": np.minimum.reduceat(found.lat, at),
        "xmax": np.maximum.reduceat(found.lon, at),
        "ymax": np.maximum.reduceat(found.lat, at),
    }


def _metadata(boxes: dict[str, npt.NDArray[np.float64]]) -> dict[str, Any]:
    """The `geo` metadata; without `crs` the standard means longitude and latitude on WGS 84."""
    geometry: dict[str, Any] = {
        "encoding": "WKB",
        "geometry_types": ["LineString"],
        "covering": {"bbox": {name: ["bbox", name] for name in boxes}},
    }
    if len(boxes["xmin"]):
        low, high = (boxes["xmin"].min(), boxes["ymin"].min()), (boxes["xmax"].max(), boxes["ymax"].max())
        geometry["bbox"] = [float(value) for value in (*low, *high)]
    return {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": geometry}}
