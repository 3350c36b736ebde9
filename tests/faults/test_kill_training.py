"""Training that is killed, interrupted, torn or rolled back: no step is released twice, no noise drawn again."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import train_harness
from safetensors.torch import load_file
from training_cases import claimed, open_ledger, private_records, released, small_plan, train

from tacit.errors import FileError, LedgerError, PlanExhausted
from tacit.methods.synthesis.algorithm import fit
from tacit.methods.synthesis.plan import TransitionsPlan
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.noise import secret as noise
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.records import SealedRecords
from tacit.privacy.vault.vault import Vault

forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked children")


@forking
def test_runs_that_are_killed_again_and_again_finish_and_release_no_step_twice(tmp_path: Path) -> None:
    found = train_harness.main(tmp_path / "runs", kills=20, seed=1)
    assert found.pop("kills") >= 20
    assert found.pop("finished") >= 1
    assert found.pop("released") > 0
    assert found.pop("burned") >= 0
    assert found.pop("killed_in_checkpoint") >= 0
    assert {name for name, count in found.items() if count} == set()


@forking
def test_a_kill_at_each_point_of_a_step_and_a_checkpoint_costs_at_most_the_claimed_blocks(tmp_path: Path) -> None:
    for point, found in train_harness.points(tmp_path / "runs").items():
        assert found.pop("kills") == 2, point
        assert found.pop("finished") == 1, point
        assert found.pop("burned", 0) <= 2 * 2, f"two kills {point} burned more than two blocks of two steps"
        assert found == {}, point


class Stop(Exception):
    """Ends a life of the run from the progress callback."""


def stop_at(step: int, error: Callable[[], BaseException] = Stop) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        if done == step:
            raise error()

    return progress


@pytest.fixture(scope="module")
def plan() -> TransitionsPlan:
    return small_plan()


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's own handler of SIGINT, which a process begun in the background does not install."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def begun(folder: Path, plan: TransitionsPlan, step: int = 20) -> Path:
    """A run that stopped after `step` steps, of which the last block is in its checkpoint."""
    folder.mkdir(exist_ok=True)
    with pytest.raises(Stop):
        train(folder, plan, progress=stop_at(step))
    assert len(released(folder)) == step
    return folder / "checkpoint" / "checkpoint.safetensors"


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_between_steps_loses_nothing_but_the_step(tmp_path: Path, plan: TransitionsPlan) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, plan, progress=stop_at(21, lambda: signal.raise_signal(signal.SIGINT) or Stop()))
    train(tmp_path, plan)
    steps = [step for step, _ in released(tmp_path)]
    assert len(steps) == len(set(steps)) == plan.steps - 1  # the block's second step was claimed and not run


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_behind_the_door_keeps_the_step_claimed(
    tmp_path: Path, plan: TransitionsPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacit.privacy.gradients import clipped_sums as gradients

    with monkeypatch.context() as patch:
        patch.setattr(gradients, "add_clipped", lambda *_, **__: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt) as caught:
            train(tmp_path, plan)
    assert caught.value.__context__ is None
    assert "step" not in [frame.name for frame in caught.traceback], "a frame that holds rows is in the traceback"
    assert released(tmp_path) == []
    assert claimed(tmp_path, plans.plan_id(plan)) == 2
    train(tmp_path, plan)
    assert [step for step, _ in released(tmp_path)] == list(range(2, plan.steps))


def test_resuming_goes_on_with_the_weights_and_the_moments(tmp_path: Path, plan: TransitionsPlan) -> None:
    path = begun(tmp_path, plan)
    before = load_file(path)
    assert int(before["average.calls"]) == 20
    with pytest.raises(Stop):
        train(tmp_path, plan, progress=stop_at(24))
    after = load_file(path)
    assert int(after["average.calls"]) == 24
    moments = [name for name in before if name.startswith("adam.step.")]
    assert moments
    assert all(float(after[name]) == 24 for name in moments)
    assert [step for step, _ in released(tmp_path)] == list(range(24))


def test_a_run_that_was_begun_needs_its_checkpoint_or_resume(tmp_path: Path, plan: TransitionsPlan) -> None:
    begun(tmp_path, plan)
    with open_ledger(tmp_path) as ledger, pytest.raises(PlanExhausted):
        fit(plan, Vault(private_records(), ledger), folder=tmp_path / "checkpoint")
    assert len(released(tmp_path)) == 20


def test_a_finished_run_runs_no_step_again(tmp_path: Path) -> None:
    plan = small_plan(steps=30)
    first = train(tmp_path, plan)
    again = train(tmp_path, plan)  # from its checkpoint: the same release, at no cost
    assert len(released(tmp_path)) == plan.steps
    for name, weights in first.value.weights.items():
        assert torch.equal(weights, again.value.weights[name])
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(PlanExhausted):
        train(tmp_path, plan)


def test_two_resumes_of_one_checkpoint_draw_different_noise_and_samples(
    tmp_path: Path, plan: TransitionsPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the whole folder cannot be noticed; at least it never draws the same noise."""
    begun(tmp_path / "one", plan)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    real, samples = SealedRecords._draw_units, []

    def drawn(self: SealedRecords, part: Any) -> Any:
        replicate, units = real(self, part)
        samples[-1].append(units.tobytes())
        return replicate, units

    monkeypatch.setattr(SealedRecords, "_draw_units", drawn)
    for name in ("one", "two"):
        samples.append([])
        with pytest.raises(Stop):
            train(tmp_path / name, plan, progress=stop_at(40))
    one, two = (released(tmp_path / name)[20:] for name in ("one", "two"))
    assert [step for step, _ in one] == [step for step, _ in two] == list(range(20, 40))
    assert not {digest for _, digest in one} & {digest for _, digest in two}
    assert sum(a == b for a, b in zip(*samples, strict=True)) <= 1  # 30 units at rate 0.2 hardly ever agree


def test_no_state_of_a_random_generator_is_written(
    tmp_path: Path, plan: TransitionsPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, states = [], []
    real_key, real_bytes = noise._urandom_key, SecretNoise.bytes

    def urandom_key() -> bytes:
        keys.append(real_key())
        return keys[-1]

    def drawn(self: SecretNoise, count: int) -> bytes:
        states.append(real_bytes(self, count))
        return states[-1]

    monkeypatch.setattr(noise, "_urandom_key", urandom_key)
    monkeypatch.setattr(SecretNoise, "bytes", drawn)
    path = begun(tmp_path, plan)
    tensors = load_file(path)
    assert {name.partition(".")[0] for name in tensors} == {"weights", "average", "adam"}
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32, torch.int64}
    assert [name for name, tensor in tensors.items() if tensor.dtype == torch.int64] == ["average.calls"]
    assert keys
    assert states
    secret = [*keys, *(state[:16] for state in states), *(state[-16:] for state in states)]
    for file in (file for file in tmp_path.rglob("*") if file.is_file()):
        content = file.read_bytes()
        assert not any(value in content for value in secret), file.name


@pytest.mark.parametrize("kept", [0, 7, 100, 0.5, -1])
def test_a_torn_checkpoint_is_refused_and_nothing_is_claimed(
    tmp_path: Path, plan: TransitionsPlan, kept: float
) -> None:
    path = begun(tmp_path, plan)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept) if kept == 0.5 else int(kept)])
    with pytest.raises(FileError, match="truncated"):
        train(tmp_path, plan)
    assert claimed(tmp_path, plans.plan_id(plan)) == len(released(tmp_path)) == 20
    path.write_bytes(content)
    with pytest.raises(Stop):
        train(tmp_path, plan, progress=stop_at(22))


def test_a_checkpoint_of_which_the_disk_lost_a_block_is_refused(tmp_path: Path, plan: TransitionsPlan) -> None:
    path = begun(tmp_path, plan)
    content = path.read_bytes()
    path.write_bytes(content[:-64] + bytes(64))  # as long as before, and of the right shapes
    with pytest.raises(FileError, match="truncated"):
        train(tmp_path, plan)
    assert claimed(tmp_path, plans.plan_id(plan)) == len(released(tmp_path)) == 20


def test_what_a_kill_in_a_checkpoint_leaves_behind_is_ignored_and_replaced(
    tmp_path: Path, plan: TransitionsPlan
) -> None:
    path = begun(tmp_path, plan)
    partial = path.with_suffix(".partial")
    partial.write_bytes(path.read_bytes()[:100])
    with pytest.raises(Stop):
        train(tmp_path, plan, progress=stop_at(22))
    assert not partial.exists()


def test_a_full_disk_at_the_checkpoint_leaves_the_last_one(
    tmp_path: Path, plan: TransitionsPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = begun(tmp_path, plan)
    content = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        patch.setattr(os, "unlink", full)  # a full disk may not even let go of a file
        with pytest.raises(FileError, match="could not be written"):
            train(tmp_path, plan)
    assert path.read_bytes() == content
    with pytest.raises(Stop):
        train(tmp_path, plan, progress=stop_at(30))
    assert not path.with_suffix(".partial").exists()
    steps = [step for step, _ in released(tmp_path)]
    assert len(steps) == len(set(steps))


def test_a_ledger_behind_the_checkpoint_is_refused(tmp_path: Path, plan: TransitionsPlan) -> None:
    begun(tmp_path, plan)
    for name in ("ledger", "ledger.lock"):
        shutil.copy(tmp_path / name, tmp_path / f"old-{name}")
    with pytest.raises(Stop):
        train(tmp_path, plan, progress=stop_at(30))
    shutil.copy(tmp_path / "old-ledger", tmp_path / "ledger")
    with pytest.raises(LedgerError, match="older than the head"):
        train(tmp_path, plan)  # the ledger alone: its lock file knows better
    shutil.copy(tmp_path / "old-ledger.lock", tmp_path / "ledger.lock")
    with pytest.raises(LedgerError, match="does not contain the head"):
        train(tmp_path, plan)  # both: the checkpoint knows better
    assert len(released(tmp_path)) == 30
    assert claimed(tmp_path, plans.plan_id(plan)) == 20


def test_an_older_checkpoint_loses_steps_and_repeats_none(tmp_path: Path) -> None:
    plan = small_plan(steps=60)
    path = begun(tmp_path, plan)
    content = path.read_bytes()
    with pytest.raises(Stop):
        train(tmp_path, plan, progress=stop_at(40))
    path.write_bytes(content)
    train(tmp_path, plan)
    assert [step for step, _ in released(tmp_path)] == list(range(plan.steps))
    assert int(load_file(path)["average.calls"]) == plan.steps - 20


def test_a_checkpoint_of_another_plan_or_dataset_is_refused(tmp_path: Path, plan: TransitionsPlan) -> None:
    path = begun(tmp_path / "one", plan)
    other = tmp_path / "two"
    (other / "checkpoint").mkdir(parents=True)
    shutil.copy(path, other / "checkpoint")
    with pytest.raises(LedgerError, match="another plan or another dataset"):
        train(other, plan)
    assert released(other) == []
    assert Ledger.read(other / "ledger").plans() == []
