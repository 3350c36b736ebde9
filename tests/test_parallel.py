"""Work in several processes: in its order, lazily, each process with one thread; and never over private records."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
from pathlib import Path

import pytest
import torch

from tacit.cli.app import FUNCTIONS, main
from tacit.cli.declarations import AuditCommand, Sample
from tacit.parallel import parallel_map


def worker(number: int) -> tuple[int, int, int]:
    return number, os.getpid(), torch.get_num_threads()


def test_processes_give_all_results_in_order() -> None:
    with parallel_map(worker, range(5), jobs=2) as results:
        numbers, processes, threads = zip(*results, strict=True)
    assert numbers == (0, 1, 2, 3, 4)
    assert os.getpid() not in processes
    assert set(threads) == {1}


def test_one_job_is_this_process_and_begins_nothing_early() -> None:
    begun: list[int] = []
    with parallel_map(begun.append, range(5), jobs=1) as results:
        next(results)
    assert begun == [0]


def fails(number: int) -> None:
    raise ValueError(f"number {number}")


def test_an_error_of_a_process_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    forking = multiprocessing.get_context("fork")  # a fresh process takes two seconds to import all
    monkeypatch.setattr("tacit.parallel.multiprocessing.get_context", lambda _: forking)
    with parallel_map(fails, range(2), jobs=2) as results, pytest.raises(ValueError, match="number 0"):
        next(results)


@pytest.mark.slow
def test_a_ray_cluster_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # of which Ray warns
    with parallel_map(abs, range(-5, 0), jobs=2, address="local") as results:
        assert list(results) == [5, 4, 3, 2, 1]


def test_only_what_reads_no_private_record_runs_in_several_processes() -> None:
    spread = {kind for kind in FUNCTIONS if {"jobs", "ray"} & {field.name for field in dataclasses.fields(kind)}}
    assert spread == {Sample, AuditCommand}


@pytest.mark.parametrize("option", ["--jobs", "--ray"])
def test_a_private_choice_of_settings_is_refused_in_several_processes(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    promise = ["--epsilon", "1", "--delta", "1e-6", "--unit", "patient", "--out", str(tmp_path / "run")]
    assert main(["synthesize", "records", *promise, "--choose", "steps=1,2", option, "2"]) == 2
    said = capsys.readouterr().err
    assert f"there is no option {option}" in said
    assert option in said
