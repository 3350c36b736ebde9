"""The folder of a run: what lies in it was perhaps put there by somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.errors import FileError
from tacit.evaluation import audits
from tacit.study.folder import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.begin(tmp_path / "run", "learn", {"epsilon": 1.0}, resume=None)


@pytest.mark.parametrize("target", ["run.json", "../elsewhere", "..", "/"])
def test_links_out_of_the_run_and_in_circles_are_refused(run: RunFolder, target: str) -> None:
    (run.path / "run.json").unlink()
    (run.path / "run.json").symlink_to(target)
    for attempt in (run.read, lambda: run.write("run.json", "text"), lambda: run.resolve("../run/../other")):
        with pytest.raises(FileError, match="leads out"):
            attempt()
    assert [path.name for path in run.path.parent.iterdir()] == ["run"]


def test_writing_a_part_leaves_what_a_planted_name_leads_to(run: RunFolder, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("report.html", audits.FILE):
        for planted in (name, f".{name}.partial"):
            (run.path / planted).hardlink_to(victim)
    (run.path / ".report.html.partial").unlink()
    (run.path / ".report.html.partial").symlink_to(victim)
    run.write("report.html", "text")
    audits.save(run.resolve(audits.FILE), ())
    assert victim.read_text() == "precious"
    assert (run.path / "report.html").read_text() == "text"
    assert audits.load_for_certificate(run.path / "certificate.json", "digest") == ()


def test_findings_behind_a_link_to_elsewhere_are_none_of_this_certificate(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "far.json").write_text("damaged")
    (run.path / audits.FILE).symlink_to(tmp_path / "far.json")
    assert audits.load_for_certificate(run.path / "certificate.json", "digest") == ()
    (run.path / audits.FILE).unlink()
    (run.path / audits.FILE).write_text("damaged")
    with pytest.raises(FileError, match="findings of an audit"):
        audits.load_for_certificate(run.path / "certificate.json", "digest")


def test_a_run_of_a_terabyte_that_is_not_there_is_refused(run: RunFolder) -> None:
    with (run.path / "run.json").open("r+b") as file:
        file.truncate(2**40)
    with pytest.raises(FileError, match="missing, truncated"):
        run.read()
