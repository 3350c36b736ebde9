"""Hostile tables, texts, positions and bounds for the strict reader: no crash, hang or memory bomb.

    python -m tests.fuzz.fuzz_tables                # 100,000 inputs, in turn for each of the readers
    python -m tests.fuzz.fuzz_tables --inputs 300   # a small try
    python -m tests.fuzz.fuzz_tables --seconds 600  # no longer than so much processor time

One process and no coverage, so that it needs nothing installed (`fuzz` has libFuzzer and all readers). A
reader has to return a value or to refuse in one sentence, within `SECONDS` of processor time and `GROWTH` of memory.
What was found is printed as it is found, by the seed of its input, and lies under runs/fuzz_tables.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import random
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tests.fuzz.fuzz_mutations as change
from experiments.lib.store import ROOT
from tests.fuzz.fuzz_bombs import gzip_bomb
from tests.fuzz.fuzz_cases import GRID, RULES, Reader
from tests.fuzz.fuzz_records import READERS as RECORDS
from tests.fuzz.fuzz_worker import forget_peak, judge, memory

from tacit.data import mobility, spec_files
from tacit.data.sources import lake, sorting
from tacit.data.sources.tables import Style
from tacit.data.texts import Texts

INPUTS = 100_000
SECONDS, GROWTH = 2.0, 300 * 2**20
BOUNDS = """source = "declared"
terminals = false
[observation]
kind = "columns"
columns = [{name = "pulse", low = 30, high = 220, step = 5, missing = "flag"}, {name = "passed", kind = "duration", \
low = 0, high = 99, time_unit = "hours"}, {name = "sex", kind = "category", labels = ["f", "m"], static = true}]
[action]
kind = "columns"
columns = [{name = "drug", kind = "category", labels = ["none", "nitrate"]}]
[reward]
kind = "columns"
columns = [{name = "comfort", low = -1, high = 0}]
"""
_HOSTILE = (
    *(
        "nan",
        "-inf",
        "1e999",
        "9" * 400,
        "[" * 500,
        "{a=1}",
        '"""',
        "'''x'''",
        "2020-01-01",
        "true",
        "\\u0000",
        "[[x]]",
    ),
    *(
        "a.b.c = 1",
        "name = 1",
        "kind = []",
        "#",
        "\ud800",
        '""',
        "{}",
        "[]",
        "0x10",
        "1_0",
        "low",
        "\r",
        "\0",
        "=",
        "\n",
    ),
)


def _toml(data: bytes, rng: random.Random) -> bytes:
    """A settings file with a word exchanged, or lines removed, doubled or moved."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    i = rng.randrange(len(lines))
    if rng.random() < 0.6:
        words = lines[i].split(" ")
        words[rng.randrange(len(words))] = rng.choice(_HOSTILE)
        lines[i] = " ".join(words)
    else:
        lines = rng.choice((lines[:i] + lines[i + 1 :], [*lines, lines[i]], lines[i:] + lines[:i], lines[:i]))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _xml(data: bytes, rng: random.Random) -> bytes:
    """A GPX file with a tag, an attribute or an entity put somewhere, or a piece repeated."""
    found = (
        "<!DOCTYPE a [<!ENTITY a 'aa'>]>",
        "&a;",
        "<time>",
        "</trkpt>",
        "<trkseg>" * rng.randint(1, 90),
        ' lat="1e999"',
    )
    more = *found, "<![CDATA[", "<!--", "&#0;", "\ufeff", "<a>" * 5_000, "x" * 70_000, "<trkpt/>", "</gpx>", "<?xml?>"
    at, piece = rng.randrange(len(data) + 1), rng.choice(more).encode()
    end = min(len(data), at + rng.choice((0, 1, 9, 90)))
    return data[:at] + piece + data[end:]


def _zipped(data: bytes, rng: random.Random) -> bytes:
    """An archive with a changed member, several of them, a folder, or one that bursts or cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            content = archive.read(archive.infolist()[0])
    except Exception:  # of an archive that is damaged already
        return data
    out, kind = io.BytesIO(), rng.choice((zipfile.ZIP_STORED, *[zipfile.ZIP_DEFLATED] * 6, zipfile.ZIP_LZMA))
    content = change.table(content, rng) if rng.random() < 0.7 else content
    content += rng.choice((b"",) * 60 + (b"\0" * 2**23, b"a,b\n" * 2**20))
    names = rng.choice((["a.csv"],) * 6 + ([], ["a.csv", "b.csv"], ["__MACOSX/._a.csv", "a.csv"], ["d/", "../a.csv"]))
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name in names:
            archive.writestr(name, content)
    return out.getvalue()


# -- what is read ------------------------------------------------------------------------------------------------------


def _visits(folder: Path) -> list[bytes]:
    (folder / "bounds.toml").write_text(BOUNDS)
    days = [f"{'ab'[i % 2]},2024-12-{i // 2 + 1:02d} 14:05,{60 + i},{'fm'[i % 2]},none,-0.5" for i in range(8)]
    dates = [f"p {i % 3},2024/1/{9 - i},{60 + i}.5,f,nitrate,0" for i in range(9)]
    head = "who,when,pulse,sex,drug,comfort"
    texts = ["\n".join((head, *rows)) for rows in (days, dates)]
    return [texts[0].encode(), texts[1].encode(), texts[0].replace("60", '"60"').replace("\n", "\r\n").encode()]


def _sorted_with(name: str, style: Style = Style(), **more: Any) -> Callable[[Path], object]:  # noqa: B008 (frozen)
    def read(folder: Path) -> object:
        options = sorting.TableOptions("who", time="when", next="keep", **more)
        spec = spec_files.read(folder / "bounds.toml")
        return sorting.read(lake.open_table([str(folder / name)], style), options, spec, simulated=True)

    return read


def _spaced(folder: Path) -> list[bytes]:
    texts = [seed.decode().replace(" 14:05", "").replace("p ", "p") for seed in _visits(folder)[:2]]
    return [f" {text}".replace(",", "  ").replace(".", ",").encode("cp1252") for text in texts]


def _archives(folder: Path) -> list[bytes]:
    out = []
    for seed in _visits(folder):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("visits.csv", seed)
        out.append(file.getvalue())
    return out


def _texts(folder: Path) -> list[bytes]:
    return [b'who,text,done,stars\na,"one\ntwo ""2""",x,1\n\nb,three,y,0.5\nc,"","z, z",-1\n']


def _gpx(folder: Path) -> list[bytes]:
    points = [f'<trkpt lat="39.95" lon="116.0{i}"><time>2020-03-02T{i:02d}:00:00Z</time></trkpt>' for i in range(9)]
    head = '<?xml version="1.0"?>\n<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1">'
    return [f"{head}<trk><trkseg>{''.join(points)}</trkseg></trk></gpx>".encode()]


def _geojson(folder: Path) -> list[bytes]:
    times = [f"2020-03-02T{hour:02d}:00:00Z" for hour in range(0, 24, 6)]
    line = {"type": "LineString", "coordinates": [[116.02, 39.95]] * 4}
    features: list[dict[str, Any]] = [{"geometry": line, "properties": {"user": "b", "coordTimes": times}}]
    for moment in times:
        said = {"user": "a", "time": moment}
        features.append({"geometry": {"type": "Point", "coordinates": [116.02, 39.95]}, "properties": said})
    each = [{"type": "Feature", **feature} for feature in features]
    return [json.dumps({"type": "FeatureCollection", "features": each}).encode()]


def _bounds(folder: Path) -> list[bytes]:
    box = '[observation]\nkind = "box"\nlow = [0, 1]\nhigh = [2, 3]\n[action]\nkind = "discrete"\nn = 3\n'
    return [
        BOUNDS.encode(),
        f'source = "physics"\nterminals = true\n{box}[reward]\nkind = "box"\nlow = [0]\nhigh = [1]\n'.encode(),
    ]


def _read_texts(folder: Path) -> object:
    return Texts(folder / "texts.csv", "who", "text").ratings("done", "stars")


def _read_positions(name: str) -> Callable[[Path], object]:
    return lambda folder: mobility.from_points(folder / name, GRID, RULES)


_LINES = change.one_of(change.table, change.table, change.spans)
_SPACES = Style(separator="space", decimal=",", encoding="cp1252", missing=("n.a.",))
READERS: Sequence[Reader] = (
    Reader("csv chunks", "logs.csv", RECORDS[0].seeds, RECORDS[0].read, _LINES),
    Reader("sorted", "a.csv", _visits, _sorted_with("a.csv"), _LINES),
    Reader(
        "sorted, with expressions",
        "a.csv",
        _visits,
        _sorted_with(
            "a.csv",
            where="pulse > 0 OR pulse IS NULL",
            qualify="row_number() OVER (PARTITION BY who ORDER BY pulse) > 1",
            reward="coalesce(-abs(pulse - 75) / 145, 0)",
        ),
        _LINES,
    ),
    Reader("sorted, of white space", "a.txt", _spaced, _sorted_with("a.txt", _SPACES), _LINES),
    Reader("sorted, in zip", "a.csv.zip", _archives, _sorted_with("a.csv.zip"), change.one_of(_zipped, change.spans)),
    Reader(
        "sorted, in gzip",
        "a.csv.gz",
        lambda folder: [gzip.compress(seed, mtime=0) for seed in _visits(folder)],
        _sorted_with("a.csv.gz"),
        change.one_of(*[change.spans] * 59, gzip_bomb),
    ),
    Reader("texts", "texts.csv", _texts, _read_texts, _LINES),
    next(reader for reader in RECORDS if reader.name == "points"),
    Reader(
        "gpx",
        "anna.gpx",
        _gpx,
        lambda f: mobility.from_gpx(f / "anna.gpx", GRID, RULES),
        change.one_of(_xml, change.spans),
    ),
    Reader(
        "geojson", "a.geojson", _geojson, _read_positions("a.geojson"), change.one_of(change.json_text, change.spans)
    ),
    Reader(
        "bounds", "a.toml", _bounds, lambda f: spec_files.read(f / "a.toml"), change.one_of(_toml, _toml, change.spans)
    ),
)


def attack(inputs: int, seconds: float, kept: Path) -> Iterator[tuple[str, str]]:
    """The reader of each input, in turn, and what became of it: as `judge` says, or "hangs"."""
    # kept: folder of what was found, which is made when something is
    end = time.process_time() + seconds
    with tempfile.TemporaryDirectory(
        prefix="tacit-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None
    ) as name:
        folders = [Path(name) / str(i) for i in range(len(READERS))]
        seeds = []
        for reader, folder in zip(READERS, folders, strict=True):
            folder.mkdir()
            seeds.append(reader.seeds(folder))
            for seed in seeds[-1]:
                reader.attempt(folder, seed)
        for number in range(inputs):
            if time.process_time() > end:
                return
            i = number % len(READERS)
            reader, rng = READERS[i], random.Random(number)
            content = reader.mutate(rng.choice(seeds[i]), rng)
            reader.prepare(folders[i], content)
            forget_peak()
            used, begun = memory("VmRSS"), time.process_time()
            kind, error = judge(lambda: reader.read(folders[i]))  # noqa: B023 (called at once)
            kind = "hangs" if time.process_time() - begun > SECONDS else kind
            kind = "bombs" if memory("VmHWM") - used > GROWTH else kind
            if kind not in ("read", "refused"):
                kept.mkdir(parents=True, exist_ok=True)
                (kept / f"{number}").write_bytes(content)
                print(number, reader.name, kind, repr(error)[:300], file=sys.stderr, flush=True)
            yield reader.name, kind


def main(arguments: list[str]) -> None:
    """Attack, and print how many inputs each reader had, and what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--seconds", type=float, default=900.0)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    os.nice(19)
    found = Counter(attack(options.inputs, options.seconds, ROOT / "runs" / "fuzz_tables"))
    for (name, kind), count in sorted(found.items()):
        print(f"{name}: {kind} {count:,}")
    print(f"inputs: {found.total():,}")


if __name__ == "__main__":
    main(sys.argv[1:])
