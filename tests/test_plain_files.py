"""Plain files: what is no file is refused before it is opened for long, and what is written follows no link."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tacit import plain_files
from tacit.errors import FileError

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX files")


def hollow(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


NOT_READ: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,  # opening it would block for ever
    "a circle": lambda path: path.symlink_to(path.name),
    "a device that never ends": lambda path: path.symlink_to("/dev/zero"),
    "a terabyte that is not there": hollow,
    "a byte too many": lambda path: path.write_bytes(bytes(11)),
}


@pytest.mark.parametrize("kind", NOT_READ)
def test_what_is_no_plain_file_of_that_size_is_not_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    NOT_READ[kind](path)
    with pytest.raises(OSError, match=r"\w"):
        plain_files.read(path, 10)
    assert plain_files.is_plain_file(path) == (kind in ("a terabyte that is not there", "a byte too many"))


def test_a_plain_file_is_read_whole_also_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("zwölf", encoding="utf-8")
    (tmp_path / "b").symlink_to("a")
    assert plain_files.read(tmp_path / "b", 6) == b"zw\xc3\xb6lf"
    assert plain_files.read_text(tmp_path / "b", 6) == "zwölf"
    assert plain_files.is_plain_file(tmp_path / "b")


def test_one_name_and_no_link_is_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("")
    assert plain_files.has_single_link(os.lstat(path))
    (tmp_path / "b").symlink_to("a")
    assert not plain_files.has_single_link(os.lstat(tmp_path / "b"))
    os.link(path, tmp_path / "c")
    assert not plain_files.has_single_link(os.lstat(path))
    assert not plain_files.has_single_link(os.lstat(tmp_path))


@pytest.mark.parametrize(
    ("target", "stays"), [("b", True), ("../folder/b", True), ("../b", False), ("/", False), ("a", True)]
)
def test_a_name_is_inside_where_it_leads(target: str, stays: bool, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").symlink_to(target)
    assert plain_files.is_inside(folder, "a") is stays
    assert not plain_files.is_inside(folder, "../other")


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_writing_replaces_a_link_and_leaves_its_target(link: Callable[[Path, Path], None], tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "folder" / "a"
    path.parent.mkdir()
    victim.write_text("precious")
    link(victim, path)
    plain_files.write(path, "text")
    assert (victim.read_text(), path.read_text()) == ("precious", "text")
    assert plain_files.has_single_link(os.lstat(path))
    assert [file.name for file in path.parent.iterdir()] == ["a"]


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    plain_files.write(tmp_path / "a", "old", mode=0o600)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        plain_files.write(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "old"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("mode", [0, 0o400])
def test_what_somebody_may_not_read_is_refused_in_a_sentence(mode: int) -> None:
    import pandas  # noqa: F401 - before nobody may read it

    from tacit import hub
    from tacit.data import Box, Discrete, PublicSpec, Trajectories

    spec = PublicSpec(Box((0.0,), (1.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared")
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        folder = Path(place, "folder")
        folder.mkdir()
        (folder / "a.csv").write_text("person\n1\n")
        (folder / "0.safetensors").write_bytes(b"")
        folder.chmod(mode)
        os.chown(folder, 65_534, 65_534)
        os.seteuid(65_534)
        try:
            assert not plain_files.is_plain_file(folder / "a.csv")
            for attempt in (
                lambda: hub.load_experts(folder, spec),
                lambda: hub.load(folder),
                lambda: Trajectories.open(folder),
                lambda: Trajectories.from_csv(folder / "a.csv", unit="person", spec=spec, simulated=True),
            ):
                with pytest.raises(FileError):
                    attempt()
        finally:
            os.seteuid(0)


def written(path: Path, *, whole: bool = True) -> None:
    with plain_files.create_file(path) as partial:
        partial.write_text("a text")
        assert not path.exists()
        if not whole:
            raise ValueError("it stops here")


def test_a_new_file_is_there_when_it_is_whole(tmp_path: Path) -> None:
    written(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "a text"
    with pytest.raises(FileError, match="the file exists already"):
        written(tmp_path / "a")
    with pytest.raises(ValueError, match="it stops here"):
        written(tmp_path / "b", whole=False)
    with pytest.raises(FileError, match="the file could not be written"):
        written(tmp_path / "no" / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
