"""PateGAIL++ that is cut and goes on: no round is run twice, none of the critics' state is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import RegularGrid
from tacit.envs.spaces import JumpLaw
from tacit.errors import FileError, LedgerError, PlanError, PlanExhausted, TacitError
from tacit.methods.mobility.pategail import Critic, PateGailPlan, Ppo, fit
from tacit.methods.mobility.pategail.algorithm import RunState
from tacit.methods.mobility.pategail.plan import CRITICS
from tacit.methods.mobility.places import JUMPS, STARTS, StartDistribution
from tacit.methods.mobility.simulator import Simulator
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.units import Unit

PEOPLE, DELTA, ROUNDS = 12, 1e-3, 5
UNIT = Unit("person", "add_or_remove", PEOPLE)
GRID = RegularGrid(30.0, 100.0, 30.45, 100.45, 0.05)
GIVEN = {"starts": StartDistribution.uniform(GRID), "space": JumpLaw(GRID, (1.0, 5.0), (1.0,))}


def small(kind: str = "table", **fields: Any) -> PateGailPlan:
    settings: dict[str, Any] = {
        "people": PEOPLE,
        "kind": kind,
        "rounds": ROUNDS,
        "queries": 20,
        "days": 10,
        "updates": 1,
        "clip_norm": 0.5 if kind in ("linear", "gradient") else None,
        "critic": Critic(hidden=(4,), steps=2, batch=8),
        "ppo": Ppo(hidden=() if kind == "gradient" else (4,), epochs=2, value_steps=2),
        "rows_per_unit": 2 * (SLOTS - 1),
    }
    return PateGailPlan(**settings | fields)


def calibrated(kind: str = "table", **fields: Any) -> PateGailPlan:
    return small(kind, **fields).calibrate(unit=UNIT, epsilon=5.0, delta=DELTA)


def free(**fields: Any) -> PateGailPlan:
    """Without noise, and linear critics have no seeds: everything that happens is public."""
    return small("linear", starts="given", noise_multiplier=0.0, **fields).account(unit=UNIT, delta=DELTA)


def life(
    folder: Path, plan: PateGailPlan, *, resume: bool = True, grid: RegularGrid = GRID, **options: Any
) -> Release[Any]:
    """One process's part of a run: new devices, a new vault, the same ledger."""
    rng = np.random.default_rng(0)
    cells = np.repeat(rng.integers(0, grid.size, (2 * PEOPLE, 6)), 8, axis=1)
    data = Days(cells, np.repeat(np.arange(PEOPLE), 2), grid).trajectories(simulated=True)
    with Ledger(folder / "ledger", UNIT, epsilon=1e6, delta=2 * DELTA, composition=SUM) as ledger:
        vault = FederatedVault(StackedDevices(data), ledger)
        return fit(plan, vault, grid=grid, folder=folder / "checkpoint", resume=resume, **options)


class Stop(Exception):
    """Ends a life."""


def stop_at(done: int) -> Callable[[int, int], None]:
    def progress(k: int, rounds: int) -> None:
        if k == done:
            raise Stop

    return progress


def begun(folder: Path, plan: PateGailPlan, done: int = 2, **options: Any) -> Path:
    with pytest.raises(Stop):
        life(folder, plan, resume=False, progress=stop_at(done), **options)
    return kept(folder)


def kept(folder: Path) -> Path:
    return folder / "checkpoint" / "checkpoint.safetensors"


def heard(folder: Path) -> int:
    return int(load_file(kept(folder))["heard"][0])


def claimed(folder: Path, plan: PateGailPlan, part: str = CRITICS) -> int:
    with Ledger(folder / "ledger", UNIT, epsilon=1e6, delta=2 * DELTA, composition=SUM) as ledger:
        ledger.verify()
        return ledger.claimed(plans.plan_id(plan), part)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("samples", {}),
        ("samples", {"memory": 0.5, "beta": 0.5}),
        ("samples", {"smooth": False}),
        ("table", {"memory": 0.5, "noise": "shared", "floor": PEOPLE}),
        ("linear", {"updates": 2}),
        ("gradient", {}),
    ],
)
def test_a_run_that_was_cut_goes_on(kind: str, fields: dict[str, Any], tmp_path: Path) -> None:
    plan, seen = calibrated(kind, **fields), []
    begun(tmp_path, plan)
    assert (heard(tmp_path), claimed(tmp_path, plan)) == (2, 2)
    release = life(tmp_path, plan, progress=lambda k, rounds: seen.append((k, rounds)))
    assert seen == [(3, ROUNDS), (4, ROUNDS), (5, ROUNDS)]
    assert (heard(tmp_path), claimed(tmp_path, plan)) == (ROUNDS, ROUNDS)
    assert [claimed(tmp_path, plan, part) for part in (STARTS, JUMPS)] == [1, 1]
    assert isinstance(release.value, Simulator)
    assert release.value.generate(5, seed=1).cells.shape == (5, SLOTS)
    assert release.certificate.verify().private
    assert release.certificate.epsilon <= 5.0


@pytest.mark.parametrize("cuts", [(1,), (2, 3, 4)])
def test_a_cut_between_blocks_changes_nothing_where_nothing_is_secret(cuts: tuple[int, ...], tmp_path: Path) -> None:
    plan, whole, parts = free(updates=2), tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    expected = life(whole, plan, resume=False, seed=3, **GIVEN)
    for i, cut in enumerate(cuts):
        with pytest.raises(Stop):
            life(parts, plan, resume=i > 0, seed=3, progress=stop_at(cut), **GIVEN)
    found = life(parts, plan, seed=4, **GIVEN)  # the generator goes on, so its seed plays no part any more
    assert np.array_equal(found.value.policy.table, expected.value.policy.table)
    assert kept(parts).read_bytes() != kept(whole).read_bytes()  # each is tied to its ledger
    one, two = (load_file(kept(folder)) for folder in (whole, parts))
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[name].numpy(), two[name].numpy()) for name in one)


def test_starts_and_jumps_are_those_that_were_released(tmp_path: Path) -> None:
    plan = calibrated()
    before = load_file(begun(tmp_path, plan))
    release = life(tmp_path, plan)
    after = load_file(kept(tmp_path))
    for part in (STARTS, JUMPS):
        assert np.array_equal(before[f"mean.{part}"].numpy(), after[f"mean.{part}"].numpy())
    (tmp_path / "other").mkdir()
    other = load_file(begun(tmp_path / "other", plan))
    assert not np.array_equal(other[f"mean.{STARTS}"].numpy(), after[f"mean.{STARTS}"].numpy())
    assert release.value.starts.probabilities.sum() == pytest.approx(1.0)


def test_a_crash_between_a_claim_and_its_checkpoint_costs_the_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, real = calibrated("samples", memory=0.5), RunState.save

    def crash(self: RunState, *arguments: Any) -> None:
        if self.server.rounds_answered == 2:
            raise Stop
        real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(RunState, "save", crash)
        with pytest.raises(Stop):
            life(tmp_path, plan, resume=False)
    assert (heard(tmp_path), claimed(tmp_path, plan)) == (1, 2)
    life(tmp_path, plan)
    assert (heard(tmp_path), claimed(tmp_path, plan)) == (ROUNDS - 1, ROUNDS)


def test_a_block_that_was_cut_is_burnt(tmp_path: Path) -> None:
    plan = free(rounds=200)  # two rounds a block
    begun(tmp_path, plan, 5, **GIVEN)
    assert (heard(tmp_path), claimed(tmp_path, plan)) == (4, 6)
    seen: list[int] = []

    def progress(k: int, _: int) -> None:
        seen.append(k)
        if k == 8:
            raise Stop

    with pytest.raises(Stop):
        life(tmp_path, plan, progress=progress, **GIVEN)
    assert seen == [7, 8]
    assert (heard(tmp_path), claimed(tmp_path, plan)) == (6, 8)


def test_starts_that_were_asked_for_and_lost_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = calibrated()

    def crash(*_: object) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(RunState, "save", crash)
        with pytest.raises(Stop):
            life(tmp_path, plan, resume=False)
    for resume in (True, False):
        with pytest.raises(PlanExhausted):
            life(tmp_path, plan, resume=resume)
    assert claimed(tmp_path, plan) == 0


def test_given_starts_need_no_first_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = calibrated(starts="given")

    def crash(*_: object) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(RunState, "save", crash)
        with pytest.raises(Stop):
            life(tmp_path, plan, resume=False, **GIVEN)
    assert not kept(tmp_path).exists()
    life(tmp_path, plan, **GIVEN)
    assert (heard(tmp_path), claimed(tmp_path, plan)) == (ROUNDS - 1, ROUNDS)


def test_a_run_of_which_no_round_was_kept_releases_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, real = calibrated(rounds=1), RunState.save

    def crash(self: RunState, *arguments: Any) -> None:
        if self.server.rounds_answered:
            raise Stop
        real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(RunState, "save", crash)
        with pytest.raises(Stop):
            life(tmp_path, plan, resume=False)
    assert (heard(tmp_path), claimed(tmp_path, plan)) == (0, 1)
    with pytest.raises(PlanExhausted):
        life(tmp_path, plan)


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    plan = calibrated()
    first = life(tmp_path, plan)
    head = Ledger.read(tmp_path / "ledger").head
    again = life(tmp_path, plan)  # from its checkpoint: the same release, at no cost
    assert again.value.to_json() == first.value.to_json()
    assert Ledger.read(tmp_path / "ledger").head == head
    with pytest.raises(PlanExhausted, match="never run again"):
        life(tmp_path, plan, resume=False)
    kept(tmp_path).unlink()
    with pytest.raises(PlanExhausted, match="never run again"):
        life(tmp_path, plan)


def test_a_run_that_was_begun_is_not_begun_again(tmp_path: Path) -> None:
    plan = calibrated()
    begun(tmp_path, plan)
    with pytest.raises(PlanExhausted):
        life(tmp_path, plan, resume=False)
    assert (heard(tmp_path), claimed(tmp_path, plan)) == (2, 2)


def refused(kind: type[TacitError], match: str, folder: Path, plan: PateGailPlan, **options: Any) -> None:
    """One sentence, and nothing is charged or claimed."""
    before = Ledger.read(folder / "ledger").head if (folder / "ledger").exists() else None
    with pytest.raises(kind, match=match) as caught:
        life(folder, plan, **options)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert before is None or Ledger.read(folder / "ledger").head == before


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    plan = calibrated()
    path = begun(tmp_path, plan)
    refused(LedgerError, "another plan", tmp_path, replace(plan, days=11))
    moved = RegularGrid(30.0, 100.5, 30.45, 100.95, 0.05)
    assert moved.size == GRID.size
    refused(PlanError, "another grid", tmp_path, plan, grid=moved)
    other = tmp_path / "other"
    kept(other).parent.mkdir(parents=True)
    kept(other).write_bytes(path.read_bytes())
    refused(LedgerError, "another dataset", other, plan)
    assert Ledger.read(other / "ledger").plans() == []
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    refused(FileError, "truncated", tmp_path, plan)
    path.write_bytes(content)
    life(tmp_path, plan)
    assert heard(tmp_path) == ROUNDS


def test_resuming_needs_the_folder(tmp_path: Path) -> None:
    data = Days(np.zeros((2, SLOTS), np.int64), np.arange(2), GRID).trajectories(simulated=True)
    with Ledger(tmp_path / "ledger", UNIT, epsilon=10.0, delta=DELTA, composition=SUM) as ledger:
        vault = FederatedVault(StackedDevices(data), ledger)
        with pytest.raises(PlanError, match="without the folder of its checkpoints"):
            fit(calibrated(), vault, grid=GRID, resume=True)


def test_nothing_of_the_devices_or_of_the_noise_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[bytes] = []
    real = SecretNoise.bytes

    def noted(self: SecretNoise, count: int) -> bytes:
        drawn.append(real(self, count))
        return drawn[-1]

    monkeypatch.setattr(SecretNoise, "bytes", noted)
    tensors = load_file(begun(tmp_path, calibrated("samples")))
    weights = {f"{name}{of}" for name in ("theta", "phi") for of in ("", ".first", ".second")}
    assert set(tensors) == {
        *weights,
        *("mean", "steps", "heard", "price.0.centres", "price.0.coefficients"),
        *("mean.starts", "mean.jumps", "grid", "generator"),
    }
    content = kept(tmp_path).read_bytes()
    assert drawn
    assert not any(piece in content for some in drawn for piece in (some[:16], some[-16:]) if len(piece) == 16)
