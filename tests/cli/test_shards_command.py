"""`tacit data shard`, and `tacit synthesize` in the processes of a torchrun, which are started here without it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.cli.app import main
from tacit.data import Box, Discrete, PublicSpec
from tacit.data.sources import shards
from tacit.errors import FileError
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import Ledger
from tacit.study.records import Lead

SPEC = PublicSpec(
    observation=Box((-5.0,), (5.0,)),
    action=Discrete(2),
    reward=Box((-3.0,), (3.0,)),
    source="declared",
    difference=(1,),
)
PATIENTS = 60


def raw(folder: Path, name: str = "raw.parquet", first: int = 0) -> Path:
    """Three rows of each patient."""
    ids = np.repeat(np.arange(first, first + PATIENTS), 3)
    seen = np.sin(np.arange(len(ids)))
    columns = {"patient": ids, "observation_0": seen, "next_observation_0": seen / 2, "reward": seen / 4}
    flags = {"action": ids % 2, "termination": np.arange(len(ids)) % 3 == 2}
    pq.write_table(pa.table({**columns, **flags}), folder / name)
    (folder / "spec.json").write_text(json.dumps(SPEC.to_json()))
    return folder / name


def dealt(folder: Path, count: int = 3) -> Path:
    words = ["data", "shard", str(raw(folder)), "--unit", "patient", "--shards", str(count), "--simulated"]
    assert main([*words, "--out", str(folder / "shards"), "--spec", str(folder / "spec.json")]) == 0
    return folder / "shards"


def run_words(data: Path, out: Path) -> list[str]:
    promise = ["--unit", "patient", "--relation", "add_or_remove", "--population", "100", "--epsilon", "5"]
    promise += ["--budget-epsilon", "5", "--budget-sampled", "1"]
    small = ["--delta", "1e-3", "--steps", "2", "--expected-batch-size", "30", "--no-match", "--rows", "20"]
    return ["synthesize", str(data), *promise, *small, "--out", str(out)]


def in_two_processes(words: list[str]) -> list[subprocess.CompletedProcess[str]]:
    """The same command as both ranks of a torchrun, in forks of this process, which has imported everything."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    address = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    with tempfile.TemporaryDirectory() as name:
        told = Path(name)
        children = [fork_rank(rank, words, address, told) for rank in range(2)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        return [
            subprocess.CompletedProcess(
                words, code, *((told / f"{rank}.{name}").read_text() for name in ("out", "err"))
            )
            for rank, code in enumerate(codes)
        ]


def fork_rank(rank: int, words: list[str], address: dict[str, str], told: Path) -> int:
    """Its process, whose words lie in this folder when it has ended."""
    child, code = os.fork(), 70
    if not child:
        try:
            os.environ.update(address, RANK=f"{rank}", LOCAL_RANK=f"{rank}")
            with (told / f"{rank}.out").open("w") as sys.stdout, (told / f"{rank}.err").open("w") as sys.stderr:
                code = main(words)
        finally:
            os._exit(code)
    return child


def test_two_processes_make_a_certificate_that_verifies(tmp_path: Path) -> None:
    leader, worker = in_two_processes(run_words(dealt(tmp_path), tmp_path / "run"))
    assert (leader.returncode, worker.returncode) == (0, 0), leader.stderr + worker.stderr
    assert (worker.stdout, worker.stderr) == ("", "")
    certificate = Certificate.load(tmp_path / "run" / "certificate.json")
    certificate.verify()
    assert any(line.startswith("the user's 2 rank(s)") for line in certificate.lines("assumptions"))
    assert pq.read_table(tmp_path / "run" / "rows.parquet").num_rows == 20


@pytest.mark.parametrize("method", [pytest.param("people", marks=pytest.mark.slow), "structured"])  # the same sums
def test_two_processes_count_one_set_of_tables(method: str, tmp_path: Path) -> None:
    words = run_words(dealt(tmp_path), tmp_path / "run")
    training = words.index("--steps")
    leader, worker = in_two_processes([*words[:training], "--method", method, "--out", str(tmp_path / "run")])
    assert (leader.returncode, worker.returncode) == (0, 0), leader.stderr + worker.stderr
    certificate = Certificate.load(tmp_path / "run" / "certificate.json")
    assert certificate.verify().private
    assert any(line.startswith("the user's 2 rank(s)") for line in certificate.lines("assumptions"))
    more = [
        "sample",
        "--model",
        str(tmp_path / "run" / "model"),
        "--count",
        "7",
        "--out",
        str(tmp_path / "more.parquet"),
    ]
    assert main(more) == 0
    assert pq.read_table(tmp_path / "more.parquet").num_rows >= 7


@pytest.mark.slow
def test_a_patient_in_two_shards_is_refused_and_nothing_is_spent(tmp_path: Path) -> None:
    data = dealt(tmp_path, 2)
    twins = pq.read_table(data / "shard-00000.parquet")
    pq.write_table(pa.concat_tables([pq.read_table(data / "shard-00001.parquet"), twins]), data / "shard-00001.parquet")
    done = in_two_processes(run_words(data, tmp_path / "run"))
    assert [process.returncode for process in done] == [2, 2]
    assert all("a patient lies in two shards" in process.stderr for process in done)
    assert not (tmp_path / "run").exists()


def test_one_process_reads_all_shards(tmp_path: Path) -> None:
    data = dealt(tmp_path)
    assert main(run_words(data, tmp_path / "run")) == 0
    with Ledger(tmp_path / "shards.ledger") as ledger:
        assert len(ledger.plans()) == 1
    assert not any("rank" in line for line in Certificate.load(tmp_path / "run" / "certificate.json").assumptions)


class Nobody:
    """Ranks that must not be spoken to."""

    rank, count = 0, 2


def test_records_in_one_piece_have_no_ranks(tmp_path: Path) -> None:
    """They are refused before the other ranks hear of them."""
    raw(tmp_path)
    words = ["data", "import", str(tmp_path / "raw.parquet"), "--unit", "patient", "--out", str(tmp_path / "records")]
    assert main([*words, "--spec", str(tmp_path / "spec.json"), "--simulated"]) == 0
    with pytest.raises(FileError, match="the records are in one piece, and there are several processes"):
        Lead(Nobody()).open(tmp_path / "records")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--unit", "patient", "--shards", "0"], 2, "0 shards"),
        (["--unit", "nobody", "--shards", "2"], 2, "there is no column 'nobody'"),
    ],
)
def test_what_cannot_be_dealt_is_said(
    tmp_path: Path, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "shards"), "--spec", str(tmp_path / "spec.json")]
    assert main(["data", "shard", str(raw(tmp_path)), *words, *out]) == code
    assert said in capsys.readouterr().err
    assert shards.read_shards(tmp_path / "shards") is None
