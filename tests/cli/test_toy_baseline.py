"""A baseline synthesizer is one file and one entry of `tacit.methods.METHODS`: every command knows it by them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from test_synthesize import PROMISE, SPEC, write_records

from tacit.privacy import sentences

REGISTERED = """
import json, sys
from tacit import methods

methods.METHODS += (
    methods.Method(
        name="toy",
        task="synthesize",
        certified="synthesis of transitions (independent columns)",
        plan="toy_baseline:ToyPlan",
        fit="toy_baseline:fit",
        value=".synthesis.baselines.plan:TableSynthesizer",
        kind="baselines",
        public="bins",
        audits={"toy": "tacit.evaluation.audits.defaults:tables"},
    ),
)
from tacit.cli import main

for words in json.loads(sys.argv[1]):
    code = main(words)
    if code:
        sys.exit(f"{words[0]} ended with {code}")
"""


def run(*commands: list[str]) -> subprocess.CompletedProcess[str]:
    """The commands in a process of its own, whose registry has the toy."""
    line = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{REGISTERED}"]
    return subprocess.run([*line, json.dumps(commands)], capture_output=True, text=True, timeout=300)


def test_one_file_and_one_entry_make_a_method(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    write_records(tmp_path / "visits.csv")
    out, model = tmp_path / "run", str(tmp_path / "run" / "model")
    spec = ["--spec", str(tmp_path / "spec.json"), "--out", str(tmp_path / "visits")]
    options = ["--method", "toy", "--bins", "4", "--records", "300", "--rows", "40"]
    done = run(
        ["data", "import", str(tmp_path / "visits.csv"), "--unit", "patient", *spec],
        ["synthesize", str(tmp_path / "visits"), *PROMISE, *options, "--out", str(out)],
        ["report", str(out)],
        ["sample", "--model", model, "--count", "7", "--out", str(tmp_path / "rows")],
        ["certificate", "verify", str(out / "certificate.json")],
        ["certificate", "label", str(out / "certificate.json")],
        ["audit", "--methods", "toy", "--runs", "8", "--out", str(tmp_path / "toy.json")],
    )
    assert done.returncode == 0, done.stderr
    assert "promises (4, 0.0001)" in done.stdout
    certificate = json.loads((out / "certificate.json").read_text())
    assert certificate["method"] == "synthesis of transitions (independent columns)"
    assert (certificate["plan"]["records"], certificate["plan"]["discretisation"]["bins"]) == (300, 4)
    assert any(line.startswith("all noisy marginals") for line in sentences.lines(certificate, "covered"))
    assert (out / "report.html").exists()
    assert json.loads((tmp_path / "toy.json").read_text())["audits"][0]["name"] == "toy"


def test_its_options_are_its_own(tmp_path: Path) -> None:
    shown = " ".join(run(["synthesize", "--help-all"]).stdout.split())
    assert "toy: how many records are drawn from the noisy marginals (default: " in shown
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    write_records(tmp_path / "visits.csv")
    words = ["data", "import", str(tmp_path / "visits.csv"), "--spec", str(tmp_path / "spec.json")]
    visits = str(tmp_path / "visits")
    refused = run(
        [*words, "--unit", "patient", "--out", visits],
        ["synthesize", visits, *PROMISE, "--method", "mst", "--records", "3", "--out", "never"],
    )
    assert "--records has no meaning here; expected it with a method that has it, not mst" in refused.stderr
