"""The attack on the readers: each reads its valid files and refuses hostile ones; what it did wrong would be seen."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.fuzz import fuzz_folders, fuzz_records, fuzz_releases
from tests.fuzz.fuzz_cases import Reader
from tests.fuzz.fuzz_worker import Doorman, Watch, judge, plant, sentence

from tacit.errors import FileError

READERS = (*fuzz_records.READERS, *fuzz_releases.READERS, *fuzz_folders.READERS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("count", [10, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_valid_files_are_read_and_hostile_ones_refused(
    reader: Reader, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    plant(tmp_path / "outside")
    monkeypatch.chdir(inside)
    seeds = reader.seeds(inside)
    assert judge(lambda: reader.attempt(inside, seeds[0]))[0] == "read"
    watch, rng, told = Watch(tmp_path / "outside"), random.Random(20), []
    for _ in range(count):
        content = reader.mutate(rng.choice(seeds), rng)
        kind, error = judge(lambda content=content: reader.attempt(inside, content))  # type: ignore[misc]
        told.append(kind)
        assert kind in ("read", "refused"), repr(error)
    assert "refused" in told
    assert not watch.touched()


def test_what_a_reader_does_wrong_is_seen(tmp_path: Path) -> None:
    def burst() -> None:
        raise MemoryError

    def fall() -> None:
        raise KeyError("a")

    def babble() -> None:
        raise FileError("one", where="a", expected="word " * 1_000, remedy="c")

    assert [judge(one)[0] for one in (burst, fall, babble, dict)] == ["bombs", "crashes", "crashes", "read"]
    assert sentence(FileError("one", where="a", expected="b", remedy="c"))
    assert not sentence(FileError("one", where="a", expected="x" * 3_000, remedy="c"))
    inside = tmp_path / "inside"
    inside.mkdir()
    plant(tmp_path / "outside")
    watch, doorman = Watch(tmp_path / "outside"), Doorman(inside)
    assert not watch.touched()
    doorman.watching = True
    (tmp_path / "outside" / "secret").read_bytes()
    (inside / "own").write_bytes(b"")
    (inside / "link").symlink_to("/")
    (inside / "link").unlink()  # the name alone
    with pytest.raises(FileNotFoundError):
        (tmp_path / "missing").read_bytes()
    doorman.watching = False
    assert watch.touched()
    assert doorman.seen == {str(tmp_path / "outside" / "secret")}
