"""Hygiene: telling ids and values are planted in the records and must never come out, whatever goes wrong.

Searched: stdout, stderr, logs, warnings, messages and tracebacks (with the locals of every frame, once the records are
in a vault), and every written file outside `private/`, for the id and for the values as float32 and float64, and in
decimals.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch

from tacit import hub
from tacit.cli import main
from tacit.data import Box, PublicSpec, Trajectories
from tacit.data import store as stores
from tacit.errors import DataError, MechanismError, SealedError, TacitError
from tacit.methods.synthesis import algorithm, training
from tacit.methods.synthesis.plan import TransitionsPlan
from tacit.privacy.gradients import clipping
from tacit.privacy.ledger import checkpoint
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault import records
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

ID = "CANARY-7f3a"
VALUES = (
    7.391827,
    3.6174852,
    -4.1062945,
)  # larger than weights get: reward, observation and action of the canary's only record
NEXT = 3.9483756
SPEC = PublicSpec(Box((-4.0,), (4.0,)), Box((-5.0,), (5.0,)), Box((-10.0,), (10.0,)), "declared", difference=(1.0,))
UNIT = Unit("person", "add_or_remove", 60)


def needles() -> dict[str, bytes]:
    """Every form in which a planted thing could be written."""
    found = {"the id": ID.encode(), "the id, lower case": ID.lower().encode(), "the id, UTF-16": ID.encode("utf-16-le")}
    for value in (*VALUES, NEXT):
        for kind in (np.float32, np.float64):
            for order in "<>":
                found[f"{value} as {order}{kind.__name__}"] = (
                    np.array(value, kind).astype(f"{order}f{kind().nbytes}").tobytes()
                )
        digits = (repr(abs(value)), f"{abs(value):.6g}", str(np.float32(abs(value))))
        found |= {f"{value} as {text}": text.encode() for text in (*digits, digits[0][:8])}
    return found


NEEDLES = needles()


def leaks(content: bytes, shortest: int = 4) -> list[str]:
    return [name for name, needle in NEEDLES.items() if len(needle) >= shortest and needle in content]


def test_the_search_finds_what_was_planted(tmp_path: Path) -> None:
    assert len(leaks(table(tmp_path).read_bytes())) >= 5
    people(tmp_path).save(tmp_path / "records")
    assert leaks((tmp_path / "records" / "rewards.npy").read_bytes())
    assert leaks(repr(np.array(VALUES, np.float32)).encode())
    assert leaks(f"{VALUES[1]:.7f}".encode())
    assert not leaks(b"a page of ordinary text, 0.12345 and CANARY alone")


def table(folder: Path, **changes: str) -> Path:
    """A CSV file of 30 people, one of them the canary."""
    rng = np.random.default_rng(11)
    lines = ["person,observation_0,action_0,reward,next_observation_0,termination"]
    for person in range(30):
        a, b, c, d = rng.uniform(-2, 2, 4)
        lines.append(f"p{person},{a:.3f},{b:.3f},{c:.3f},{d:.3f},1")
    canary = {"id": ID, "observation": str(VALUES[1]), "action": str(VALUES[2]), "reward": str(VALUES[0])} | changes
    lines.insert(9, f"{canary['id']},{canary['observation']},{canary['action']},{canary['reward']},{NEXT},1")
    (folder / "private").mkdir(exist_ok=True)
    path = folder / "private" / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def people(folder: Path) -> Trajectories:
    return Trajectories.from_csv(table(folder), unit="person", spec=SPEC)


def small_plan() -> TransitionsPlan:
    return TransitionsPlan(steps=4, sampling_rate=1.0, width=8, depth=1, harmonics=1, warmup=1).calibrate(
        unit=UNIT, epsilon=8.0, delta=1e-3
    )


def open_ledger(folder: Path) -> Ledger:
    return Ledger(folder / "ledger", UNIT, epsilon=64.0, delta=8e-3, composition=SUM)


@pytest.fixture
def nothing_leaks(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> Iterator[Callable[[], None]]:
    """A search through all that was said and written so far; also runs when the test ends."""
    caplog.set_level(logging.DEBUG)

    def search() -> None:
        said = capfd.readouterr()
        for name, text in (("stdout", said.out), ("stderr", said.err), ("logs", caplog.text)):
            assert leaks(text.encode()) == [], name
        for path in tmp_path.rglob("*"):
            inside = path.relative_to(tmp_path)
            assert leaks(str(inside).encode()) == [], "a file's name"
            if path.is_file() and "private" not in inside.parts:
                assert leaks(path.read_bytes()) == [], inside

    with warnings.catch_warnings(record=True) as warned:
        yield search
    search()
    assert [leaks(str(w.message).encode()) for w in warned if leaks(str(w.message).encode())] == []


def say_nothing(error: BaseException, *, and_frames: bool = True) -> None:
    """Neither the message, nor its chain, nor (once sealed) the locals of its frames hold anything planted."""
    text = "".join(traceback.format_exception(error))
    assert leaks(text.encode()) == [], text
    if and_frames:
        deep = traceback.TracebackException.from_exception(error, capture_locals=True)
        own = [frame for frame in deep.stack if "tacit" in frame.filename and "test_" not in frame.filename]
        assert own, "no frame of tacit was looked at"
        for frame in own:
            # Among the digits of many public weights, short needles would turn up by chance.
            assert leaks(repr(frame.locals).encode(), shortest=8) == [], f"locals of {frame.name}"


# -- a whole run --------------------------------------------------------------------------------------------------


def test_a_run_from_ingest_to_release_writes_and_says_nothing(
    tmp_path: Path, nothing_leaks: Callable[[], None]
) -> None:
    data = Trajectories.from_csv(table(tmp_path), unit="person", spec=SPEC, store=tmp_path / "private" / "records")
    with open_ledger(tmp_path) as ledger:
        vault = Vault(data, ledger)
        shown = [repr(thing) for thing in (data, vault, ledger, vault._noise, small_plan())]
        release = algorithm.fit(small_plan(), vault, folder=tmp_path / "checkpoint", progress=print)
        hub.save(release, tmp_path / "model")
        release.value.sample(50).to_minari("icu-v0", root=tmp_path / "minari")
        vault.nonprivate(lambda rows: rows["rewards"].max(), reason="to see", folder=tmp_path)
    shown += [repr(release), release.certificate.to_markdown(), json.dumps(release.certificate.to_json())]
    assert leaks("\n".join(shown).encode()) == []
    nothing_leaks()
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert {"ledger", "checkpoint.safetensors", "model.safetensors", "certificate.json", "main_data.hdf5"} <= names
    assert leaks((tmp_path / "private" / "to-see.json").read_bytes()), "the curator's file is under private/"


PROMISE = ("--unit", "person", "--relation", "add_or_remove", "--population", "60", "--epsilon", "8", "--delta", "1e-3")
BUDGET = ("--budget-epsilon", "8", "--budget-sampled", "1")
TINY = ("--steps", "4", "--expected-batch-size", "60", "--width", "8", "--depth", "1", "--rows", "50")


def imported(folder: Path) -> tuple[str, ...]:
    """Words of `tacit synthesize` on imported records; the ledger lies beside `private/`, not in it."""
    (folder / "spec.json").write_text(json.dumps(SPEC.to_json()))
    records = folder / "private" / "records"
    words = ("data", "import", str(table(folder)), "--unit", "person", "--spec", str(folder / "spec.json"))
    assert main([*words, "--out", str(records)]) == 0
    return (
        "synthesize",
        str(records),
        "--out",
        str(folder / "run"),
        "--ledger",
        str(folder / "ledger"),
        *PROMISE,
        *BUDGET,
        *TINY,
    )


@pytest.mark.usefixtures("small_pools")
def test_the_command_line_says_and_writes_nothing(tmp_path: Path, nothing_leaks: Callable[[], None]) -> None:
    words = imported(tmp_path)
    assert main(words) == 0
    assert main(["data", "inspect", str(tmp_path / "private" / "records")]) == 0
    assert main(["ledger", "show", str(tmp_path / "ledger")]) == 0
    assert main(["certificate", "show", str(tmp_path / "run" / "certificate.json")]) == 0
    nothing_leaks()
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize("changes", [{"reward": ID}, {"reward": "nan"}, {"observation": "inf"}, {"action": ""}])
def test_an_import_that_fails_quotes_no_cell(
    tmp_path: Path, nothing_leaks: Callable[[], None], changes: dict[str, str]
) -> None:
    with pytest.raises(DataError) as caught:
        Trajectories.from_csv(table(tmp_path, **changes), unit="person", spec=SPEC)
    say_nothing(caught.value, and_frames=False)
    (tmp_path / "spec.json").write_text(json.dumps(SPEC.to_json()))
    words = ["data", "import", str(tmp_path / "private" / "table.csv"), "--unit", "person"]
    out = tmp_path / "records"
    assert main([*words, "--spec", str(tmp_path / "spec.json"), "--out", str(out)]) == 2
    assert not out.exists()
    nothing_leaks()


def test_a_file_that_is_cut_off_quotes_no_cell(tmp_path: Path, nothing_leaks: Callable[[], None]) -> None:
    for name, content in (
        ("quote", f'person,reward\n"{ID},{VALUES[0]}'),
        ("width", f"person,reward\n{ID},1,{VALUES[0]}"),
    ):
        path = tmp_path / "private" / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        with pytest.raises(TacitError) as caught:
            Trajectories.from_csv(path, unit="person", spec=SPEC)
        say_nothing(caught.value, and_frames=False)
    nothing_leaks()


# -- failures behind the door -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Telling:
    """A callback that fails on the canary's rows with all it knows."""

    error: type[BaseException]

    @property
    def more(self) -> dict[str, str]:
        return {"where": ID, "expected": ID, "remedy": ID} if issubclass(self.error, TacitError) else {}

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        here = np.abs(rows["rewards"] - np.float32(VALUES[0])) < 1e-6
        if here.any():
            try:
                raise KeyError(str(rows["rewards"][here]))
            except KeyError as cause:
                raise self.error(f"{ID} has {VALUES}, {rows['rewards'][here].tolist()}", **self.more) from cause
        return rows["rewards"][:, :1]


@pytest.mark.parametrize(
    "error",
    [ValueError, MemoryError, RecursionError, OSError, AssertionError, MechanismError, KeyboardInterrupt, SystemExit],
)
def test_a_callback_that_tells_is_not_heard(
    tmp_path: Path, nothing_leaks: Callable[[], None], error: type[BaseException]
) -> None:
    from vault_cases import SumPlan

    with open_ledger(tmp_path) as ledger:
        vault = Vault(people(tmp_path), ledger)
        run = vault.reserve(plans.account(SumPlan(noise_multiplier=4.0), unit=UNIT, delta=1e-3))
        if error not in (MemoryError, KeyboardInterrupt, SystemExit):
            assert vault.noisy_sum(run, "sum", Telling(error)).shape == (1, 1)
            return nothing_leaks()
        with pytest.raises((MechanismError, KeyboardInterrupt, SystemExit)) as caught:
            vault.noisy_sum(run, "sum", Telling(error))
    say_nothing(caught.value)
    assert error.__name__ in repr(caught.value)


def failing(function: Callable[..., Any], after: int, error: type[BaseException] = RuntimeError) -> Callable[..., Any]:
    """The function, but after so many calls (trials make three of the clip) it fails and tells its arguments."""
    calls = 0

    def told(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > after:
            raise error(f"{arguments} {options} {VALUES} {ID}")
        return function(*arguments, **options)

    return told


def test_a_failure_in_the_middle_of_training_is_not_heard(
    tmp_path: Path, nothing_leaks: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_printoptions(precision=8, threshold=200)
    drawn = ((records, "poisson_sample", 2), (records, "rows_within_units", 2))
    for owner, name, after in ((clipping, "coefficients", 5), *drawn):
        with monkeypatch.context() as patch, open_ledger(tmp_path) as ledger:
            vault = Vault(people(tmp_path), ledger)
            plan = dataclasses.replace(small_plan(), learning_rate=0.01 + 1e-3 * len(ledger.plans()))
            patch.setattr(owner, name, failing(getattr(owner, name), after=after))
            with pytest.raises(MechanismError) as caught:
                algorithm.fit(plan, vault, folder=tmp_path / "checkpoint" / name)
        say_nothing(caught.value)
    torch.set_printoptions(profile="default")


def test_a_full_disk_is_told_without_what_was_to_be_written(
    tmp_path: Path, nothing_leaks: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for number, patched in enumerate(
        ((checkpoint, "serialize"), (hub, "save_file"), (os, "fsync"), (stores.os, "rename"))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        with open_ledger(folder) as ledger, monkeypatch.context() as patch:
            vault = Vault(people(tmp_path), ledger)
            vault.reserve(small_plan())
            patch.setattr(*patched, full)
            with pytest.raises(TacitError) as caught:  # noqa: PT012 - which of the writes fails depends on the patch
                release = algorithm.fit(small_plan(), vault, folder=folder / "checkpoint")
                hub.save(release, folder / "model")
                Trajectories.from_csv(table(tmp_path), unit="person", spec=SPEC, store=folder / "private" / "records")
        say_nothing(caught.value, and_frames=patched[1] != "rename")


@pytest.mark.usefixtures("small_pools")
@pytest.mark.parametrize(("error", "code"), [(RuntimeError, 1), (KeyboardInterrupt, 130), (MemoryError, 1)])
def test_the_command_line_tells_a_failure_by_its_kind(
    tmp_path: Path,
    nothing_leaks: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    code: int,
) -> None:
    words = imported(tmp_path)

    def told(*_: object, **__: object) -> None:
        raise error(f"{ID} {VALUES}")

    with monkeypatch.context() as patch:
        patch.setattr(training.TrainingState, "update", told)  # outside the door, where nothing private is at hand
        assert main(words) == code
    with monkeypatch.context() as patch:
        patch.setattr(clipping, "coefficients", failing(clipping.coefficients, after=4, error=error))
        assert main([*words, "--resume"]) in (4, 130)
    nothing_leaks()
    assert main([*words, "--resume"]) == 0


# -- poisoned records ---------------------------------------------------------------------------------------------


READERS = (os.path.join("privacy", "vault", "records.py"), os.path.join("privacy", "vault", "reader.py"))


def caller_outside_data(frame: FrameType | None) -> str:
    """The file of the nearest caller that is not of `tacit.data`."""
    while frame is not None and os.sep + os.path.join("tacit", "data") + os.sep in frame.f_code.co_filename:
        frame = frame.f_back
    return "" if frame is None else frame.f_code.co_filename


def test_after_sealing_only_the_vault_reads_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every access is poisoned unless the line that makes it is in the vault's `records.py` or `records.py`."""
    read = []

    def poisoned(name: str) -> property:
        real = getattr(Trajectories, name).fget

        def access(self: Trajectories) -> Any:
            file = caller_outside_data(sys._getframe(1))
            read.append(file)
            if self._sealed and not self.simulated and not file.endswith(READERS):
                raise AssertionError(f"{name} is read in {file}")
            return real(self)

        return property(access)

    for name in ("_columns", "_unit_rows", "_episodes"):
        monkeypatch.setattr(Trajectories, name, poisoned(name))
    data = people(tmp_path)
    with open_ledger(tmp_path) as ledger:
        vault = Vault(data, ledger)
        release = algorithm.fit(small_plan(), vault, folder=tmp_path / "checkpoint")
        hub.save(release, tmp_path / "model")
        hub.load(tmp_path / "model").value.sample(20).to_minari("icu-v0", root=tmp_path / "minari")
        vault.nonprivate(lambda rows: len(rows["rewards"]), reason="to count")
        with pytest.raises(AssertionError, match="is read in"):
            data._columns  # noqa: B018 - reading is the point
    assert len(read) > small_plan().steps


@pytest.mark.parametrize(
    "use",
    [
        lambda data: data.columns,
        lambda data: data.episodes,
        lambda data: data.save("records"),
        lambda data: data.counts(),
        lambda data: data.to_minari("icu-v0"),
        lambda data: data.to_arrow(),
        lambda data: data.to_parquet("rows.parquet"),
        lambda data: data.to_csv("rows.csv"),
        lambda data: data.to_npz("rows.npz"),
        lambda data: __import__("copy").deepcopy(data),
        lambda data: __import__("pickle").dumps(data),
    ],
)
def test_every_public_way_to_sealed_records_is_closed(
    tmp_path: Path, use: Callable[[Trajectories], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = people(tmp_path)
    with open_ledger(tmp_path) as ledger:
        Vault(data, ledger)
        with pytest.raises(DataError) as caught:
            use(data)
    say_nothing(caught.value)
    assert leaks(repr(data).encode()) == []
    assert isinstance(caught.value, SealedError) or "private" in str(caught.value) or "real" in str(caught.value)
