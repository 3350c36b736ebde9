"""What the fuzzer found in the readers of records, each as a file that is refused in a sentence."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from records import SPEC, arrays

from tacit.data import Box, PublicSpec, Trajectories, mobility
from tacit.data.mobility.grids import H3Grid, RegularGrid
from tacit.data.sources import tables
from tacit.errors import DataError, FileError, TacitError

CONTINUOUS = PublicSpec(SPEC.observation, Box((-1.0,), (1.0,)), SPEC.reward, "declared")
FIELDS: dict[str, Any] = {
    "observations": np.full((4, 2), 0.5),
    "actions": np.zeros((4, 1)),
    "rewards": np.full(4, 0.5),
    "terminals": np.zeros(4, bool),
    "timeouts": np.zeros(4, bool),
}


def d4rl(path: Path, change: Callable[[h5py.File], object]) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in FIELDS.items():
            file[name] = values
        del file["rewards"]
        change(file)
    return path


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((4,), "f8")
    layout[:] = h5py.VirtualSource("other.hdf5", "rewards", (4,))
    file.create_virtual_dataset("rewards", layout)


LEADING: dict[str, Callable[[h5py.File], object]] = {
    "a link": lambda file: file.__setitem__("rewards", h5py.ExternalLink("other.hdf5", "rewards")),
    "raw bytes": lambda file: file.create_dataset("rewards", (4,), "f8", external=[("other.hdf5", 0, 32)]),
    "a virtual column": virtual,
}


@pytest.mark.parametrize("kind", LEADING)
@pytest.mark.parametrize("reader", ["d4rl", "minari"])
def test_a_file_that_leads_to_another_one_is_refused_before_that_one_is_touched(
    kind: str, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if reader == "minari":
        folder = Trajectories.from_arrays(**arrays(), simulated=True).to_minari("logs-v0", root=tmp_path)
        path = folder / "data" / "main_data.hdf5"
        with h5py.File(path, "r+") as file:
            group = file["episode_0"]
            del group["rewards"]
            LEADING[kind](group)
    else:
        path = d4rl(tmp_path / "logs.hdf5", LEADING[kind])
    other = path.parent / "other.hdf5"
    with h5py.File(other, "w") as file:
        file["rewards"] = FIELDS["rewards"]
    touched: list[str] = []
    opened = h5py.File

    def watch(name: Any, *rest: Any, **options: Any) -> Any:
        touched.append(str(name))
        return opened(name, *rest, **options)

    monkeypatch.setattr(h5py, "File", watch)
    read = {
        "minari": lambda: Trajectories.from_minari("logs-v0", unit="unit", root=tmp_path),
        "d4rl": lambda: Trajectories.from_d4rl(path, unit=":transition", spec=CONTINUOUS),
    }
    with pytest.raises(FileError, match="'rewards' lies in another file"):
        read[reader]()
    assert touched == [str(path)]  # and the library in C has nothing to follow, since no column was looked at


def test_a_file_on_which_the_library_never_ends_is_refused() -> None:
    """`endless.hdf5` was found by the fuzzer: HDF5 2.0.0 loops for good when it opens one of its columns."""
    with pytest.raises(FileError, match="damaged or of another kind"):
        Trajectories.from_d4rl(Path(__file__).with_name("endless.hdf5"), unit="ids", spec=CONTINUOUS, simulated=True)


def test_a_column_that_takes_no_space_and_holds_a_terabyte_is_refused(tmp_path: Path) -> None:
    path = d4rl(tmp_path / "logs.hdf5", lambda file: file.create_dataset("rewards", (2**37,), "f8", chunks=(4096,)))
    with pytest.raises(FileError, match="declares far more"):
        Trajectories.from_d4rl(path, unit=":transition", spec=CONTINUOUS)


def npz(path: Path, header: str = "", body: bytes = b"", *, how: int = zipfile.ZIP_STORED) -> Path:
    """An archive of the fields whose rewards have this header, or this body."""
    with zipfile.ZipFile(path, "w", how) as file:
        for name, values in arrays().items():
            if isinstance(values, np.ndarray):
                array = io.BytesIO()
                np.save(array, values)
                file.writestr(f"{name}.npy", array.getvalue())
        padded = header.encode().ljust(117) + b"\n"
        file.writestr("rewards.npy", body or b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded)
    return path


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "header",
    ["{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }", "(" * 90, "__import__('os').getcwd()"],
)
def test_headers_of_arrays_are_neither_run_nor_believed(header: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="damaged or of another kind"):
        Trajectories.from_npz(npz(tmp_path / "a.npz", header), unit="unit_ids", episode="episode_ids", spec=SPEC)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_that_bursts_is_refused(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", body=b"\x93NUMPY" + bytes(2**23), how=zipfile.ZIP_LZMA)
    assert path.stat().st_size < 10_000
    with pytest.raises(FileError, match="declares far more"):
        Trajectories.from_npz(path, unit="unit_ids", episode="episode_ids", spec=SPEC)


def test_damaged_compression_is_a_sentence(tmp_path: Path) -> None:
    import gzip

    grid, rules = RegularGrid(39.9, 116.0, 40.0, 116.1, 0.1), mobility.Rules("UTC")
    squeezed = bytearray(gzip.compress(b"user,time,lat,lon\n" * 400, mtime=0))
    squeezed[30:34] = b"\xff" * 4
    (tmp_path / "points.csv.gz").write_bytes(squeezed)
    with pytest.raises(FileError, match="damaged or of another kind"):
        mobility.from_points(tmp_path / "points.csv.gz", grid, rules, recorded="UTC")


def bomb(folder: str) -> Callable[[zipfile.ZipFile], object]:
    return lambda archive: archive.writestr(f"{folder}a.csv", bytes(2**25))


ARCHIVES: dict[str, tuple[Callable[[zipfile.ZipFile], object], str]] = {
    "nothing": (lambda archive: archive.mkdir("a"), "not of one file"),
    "two": (
        lambda archive: [archive.writestr(f"{name}.csv", "person,reward\n1,0\n") for name in "ab"],
        "not of one file",
    ),
    "another packing": (lambda archive: archive.writestr("a.csv", "x", zipfile.ZIP_LZMA), "not of one file"),
    "a row without an end": (bomb(""), "damaged or of another kind"),
    "what is no file of the user's": (bomb("__MACOSX/"), "not of one file"),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_that_is_not_of_one_table_is_refused(kind: str, tmp_path: Path) -> None:
    write, said = ARCHIVES[kind]
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        write(archive)
    with pytest.raises(FileError, match=said):
        tables.csv_header(tmp_path / "a.csv.zip")


def test_an_archive_that_ends_early_or_has_a_password_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", "person,reward\n" + "".join(f"{i},0\n" for i in range(99)))
    whole = (tmp_path / "a.csv.zip").read_bytes()
    listed = whole.index(b"PK\1\2")
    for place, sign, said in ((listed + 8, 1, "encrypted"), (listed + 16, 0, "damaged"), (60, 0, "damaged")):
        (tmp_path / "b.csv.zip").write_bytes(whole[:place] + bytes([sign]) + whole[place + 1 :])
        with pytest.raises(FileError, match=said):
            list(tables.csv_texts(tmp_path / "b.csv.zip", ["person"]))
    assert sum(batch.num_rows for batch in tables.csv_texts(tmp_path / "a.csv.zip", ["person"])) == 99


def test_parquet_rows_that_take_no_space_are_refused_and_long_ids_are_kept_once(tmp_path: Path) -> None:
    rows = 3_000_000
    table = pa.table({"person": pa.array(np.zeros(rows, np.int64)), "reward": pa.array(np.zeros(rows))})
    parquet.write_table(table, tmp_path / "a.parquet", compression="zstd")
    with pytest.raises(FileError, match="declares far more"):
        next(tables.parquet_chunks(tmp_path / "a.parquet", ["reward"], ["person"]))
    names = pa.array(["x" * 100_000, None, "y"]).dictionary_encode().take(pa.array([0, 2, 1] * 2_000))
    parquet.write_table(pa.table({"person": names, "reward": np.zeros(6_000)}), tmp_path / "b.parquet")
    (chunk,) = tables.parquet_chunks(tmp_path / "b.parquet", ["reward"], ["person"])
    assert chunk["person"][1:6:2].tolist() == ["y", "x" * 100_000, None]
    assert len({id(value) for value in chunk["person"]}) == 3


def test_a_whole_number_of_hundreds_of_digits_is_no_number() -> None:
    assert np.isnan(tables.to_numbers([1, 10**400, None])[1:]).all() or np.isinf(tables.to_numbers([10**400])).all()


def test_a_grid_of_a_trillion_hexagons_is_refused_at_once() -> None:
    with pytest.raises(DataError, match="hexagons are in the box"):
        H3Grid(-80.0, -170.0, 80.0, 170.0, 15)


@pytest.mark.parametrize("ids", [[[1.0, 2.0], [3.0, 4.0]], [np.zeros(2), np.ones(2)]])
def test_ids_that_are_lists_are_refused(ids: Any) -> None:
    cells = np.empty(2, object)
    cells[:] = [np.asarray(one) for one in ids]
    two = {name: values[:2] for name, values in arrays().items() if isinstance(values, np.ndarray)}
    with pytest.raises(TacitError, match="neither text, bytes nor a whole number"):
        Trajectories.from_arrays(**{**two, "unit_ids": cells, "episode_ids": None}, spec=SPEC)


def test_bounds_that_no_float_holds_are_refused_and_long_names_are_cut() -> None:
    told = SPEC.to_json()
    with pytest.raises(DataError, match="not a sequence of numbers"):
        PublicSpec.from_json({**told, "reward": {"kind": "box", "low": [0], "high": [10**400]}})
    with pytest.raises(DataError, match="is unknown") as refused:
        PublicSpec.from_json({**told, "x" * 100_000: 1})
    assert len(str(refused.value)) < 500


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("kind", ["csv", "parquet", "npz", "d4rl"])
def test_a_pipe_or_a_circle_of_links_in_the_place_of_a_file_is_refused(kind: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # opening it would block for ever
    (tmp_path / "circle").symlink_to("circle")
    read = getattr(Trajectories, f"from_{kind}")
    for name in ("pipe", "circle"):
        with pytest.raises(FileError, match=r"no plain file|no such file|missing"):
            read(tmp_path / name, unit="person", spec=CONTINUOUS, simulated=True)


def test_a_link_out_of_a_folder_of_records_is_not_followed(tmp_path: Path) -> None:
    from tacit.data.sources import open_bandit

    far = tmp_path / "far"
    far.mkdir()
    (far / "1.plt").write_text("\n" * 6 + "39.95,116.02,0,100,39000,2020-03-02,08:00:00\n")
    (far / "men.csv").write_text("item_id,position,click,propensity_score\n1,1,0,0.5\n")
    place = tmp_path / "people" / "0" / "Trajectory"
    place.mkdir(parents=True)
    (place / "1.plt").symlink_to(far / "1.plt")
    with pytest.raises(FileError, match="missing, truncated"):
        mobility.from_plt(tmp_path / "people", RegularGrid(39.9, 116.0, 40.0, 116.1, 0.1), mobility.Rules("UTC"))
    bandit = tmp_path / "bandit"
    (bandit / "random" / "men").mkdir(parents=True)
    (bandit / "random" / "men" / "men.csv").symlink_to(far / "men.csv")
    with pytest.raises(FileError, match="damaged or of another kind"):
        open_bandit.read(folder=bandit)


def test_a_dataset_of_minari_whose_file_is_a_link_to_elsewhere_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    folder = Trajectories.from_arrays(**arrays(), simulated=True).to_minari("logs-v0", root=root)
    for name in ("main_data.hdf5", "metadata.json"):
        path = folder / "data" / name
        path.rename(tmp_path / name)
        path.symlink_to(tmp_path / name)
        with pytest.raises(FileError):
            Trajectories.from_minari("logs-v0", unit="unit", root=root, simulated=True)
        path.unlink()
        (tmp_path / name).rename(path)
    assert Trajectories.from_minari("logs-v0", unit="unit", root=root, simulated=True).counts()["transitions"] > 0


@pytest.mark.parametrize(
    ("limit", "text"),
    [("LINE", "x" * 100), ("TEXT", '"' + "x\n" * 50), ("CELLS", "x\n" + "," * 20)],
)
def test_a_row_without_an_end_is_not_kept(
    limit: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gzip

    content = f"person,reward\n{text}".encode()
    for name, written in (("a.csv", content), ("a.csv.gz", gzip.compress(content))):
        path = tmp_path / name
        path.write_bytes(written)
        with tables.TextStream(path) as whole:
            assert whole.read() == content
        with monkeypatch.context() as patch:
            patch.setattr(tables, limit, 15)
            with pytest.raises(TacitError), tables.TextStream(path) as file:
                list(tables.csv_chunks(path, ["reward"], ["person"]))
            with pytest.raises(ValueError, match="without an end"), tables.TextStream(path) as file:
                file.read()


def test_each_chunk_of_rows_has_the_limits_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_text("person,reward\n" + "1,0.5\n" * 60_000)
    monkeypatch.setattr(tables, "CHUNK", 10_000)
    monkeypatch.setattr(tables, "TEXT", 330_000)  # less than the file, more than a block that is read ahead
    chunks = list(tables.csv_chunks(path, ["reward"], ["person"]))
    assert [len(chunk["reward"]) for chunk in chunks] == [10_000] * 6


def test_words_in_the_place_of_numbers_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    word = pa.DictionaryArray.from_arrays(pa.array(np.zeros(50_000, np.int32)), pa.array(["x" * 2**20]))
    table = pa.table({"person": pa.array(np.zeros(50_000, np.int64)), "reward": word})
    parquet.write_table(table, tmp_path / "a.parquet")  # 50 GiB, of which one MiB is stored
    with pytest.raises(DataError, match="row 1"):
        next(tables.parquet_chunks(tmp_path / "a.parquet", ["reward"], ["person"]))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    column = pa.array(np.zeros(3))
    parquet.write_table(
        pa.Table.from_arrays([column] * 3, names=["reward", "reward", "person"]), tmp_path / "a.parquet"
    )
    with pytest.raises(DataError, match="two columns have one name"):
        next(tables.parquet_chunks(tmp_path / "a.parquet", ["reward"], ["person"]))


def test_a_member_of_an_archive_that_is_no_array_is_refused_without_its_bytes(tmp_path: Path) -> None:
    path, file = tmp_path / "days.npz", io.BytesIO()
    np.save(file, np.zeros((1, 48), np.int64))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("days.npy", file.getvalue())
        archive.writestr("user.npy", b"somebody@example.org")
    grid = RegularGrid(39.9, 116.0, 40.0, 116.1, 0.1)
    with pytest.raises(FileError, match="damaged or of another kind") as refused:
        mobility.from_cells(path, grid, places=None)
    assert "somebody" not in str(refused.value)
