"""A torchrun that starts lost ranks again: no step is released twice, and what was claimed stays claimed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.data import Box, Discrete, PublicSpec
from tacit.data.sources import shards
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import Ledger

FAULTS = Path(__file__).parent
SPEC = PublicSpec(Box((-5.0,), (5.0,)), Discrete(2), Box((-3.0,), (3.0,)), "declared", difference=(1,))


def restarted(folder: Path, mode: str) -> subprocess.CompletedProcess[str]:
    """Two ranks, which are started again up to three times."""
    words = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "3", str(FAULTS / "restart_harness.py")]
    command = [sys.executable, "-m", "torch.distributed.run", *words, str(folder), mode]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


def judged(folder: Path) -> Counter[str]:
    """What `shard_harness.judged` finds in a folder."""
    code = (
        "import json, sys; from collections import Counter; from pathlib import Path; import shard_harness as harness; "
    )
    code += "found = Counter(); harness.judged(Path(sys.argv[1]), found); print(json.dumps(found))"
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, cwd=FAULTS)
    return Counter(json.loads(done.stdout))


@pytest.mark.slow
def test_steps_of_two_lost_lives_are_not_released_again(tmp_path: Path) -> None:
    """As eight kills of a rank in `test_kill_ranks`, with torchrun's own restarts.

    A worker dies before its fourth sum, then the leader after its third claim; the third life ends.

    Where a rank is slow to leave, torchrun may begin one more life, which releases other steps.
    """
    done = restarted(tmp_path, "as it is")
    assert done.returncode == 0, done.stderr
    found = judged(tmp_path)
    assert (found["twice"], found["unclaimed"], found["other noise"]) == (0, 0, 0)
    assert found["burnt"] == 2
    assert found["released"] in (3 + 2 + 15, 3 + 2 + 15 + 15)


@pytest.mark.slow
def test_the_test_sees_steps_that_are_released_again(tmp_path: Path) -> None:
    assert restarted(tmp_path, "forgets claims").returncode == 0
    assert judged(tmp_path)["twice"] > 0


def dealt(folder: Path) -> list[str]:
    """Shards of sixty invented patients, and what to do with them: eight steps."""
    ids = np.repeat(np.arange(60), 3)
    seen = np.sin(np.arange(len(ids)))
    columns = {"patient": ids, "observation_0": seen, "next_observation_0": seen / 2, "reward": seen / 4}
    rows = pa.table({**columns, "action": ids % 2, "termination": np.arange(len(ids)) % 3 == 2})
    pq.write_table(rows, folder / "raw.parquet")
    shards.write([str(folder / "raw.parquet")], folder / "shards", unit="patient", shards=2, spec=SPEC, simulated=True)
    promise = ["--relation", "add_or_remove", "--population", "100", "--epsilon", "5", "--delta", "1e-3"]
    small = ["--steps", "8", "--expected-batch-size", "30", "--no-match", "--rows", "20"]
    words = ["synthesize", str(folder / "shards"), *promise, *small, "--unit", "patient", "--out", str(folder / "run")]
    (folder / "words").write_text("\n".join(words))
    return words


@pytest.mark.slow
def test_a_command_that_resumes_comes_to_its_certificate_without_the_lost_steps(tmp_path: Path) -> None:
    dealt(tmp_path)
    done = restarted(tmp_path, "command")
    assert done.returncode == 0, done.stderr
    Certificate.load(tmp_path / "run" / "certificate.json").verify()
    (plan,) = Ledger.read(tmp_path / "shards.ledger").plans()
    assert plan.claimed == plan.steps == 8
    assert not (tmp_path / "life1.rank0").exists()  # it died
    assert (tmp_path / "life2.rank0").read_text() == "0"


@pytest.mark.slow
def test_a_command_that_does_not_resume_refuses_to_begin_again(tmp_path: Path) -> None:
    dealt(tmp_path)
    done = restarted(tmp_path, "command, no resume")
    assert done.returncode != 0
    assert "--resume" in done.stderr
    (plan,) = Ledger.read(tmp_path / "shards.ledger").plans()
    assert plan.claimed < 8
