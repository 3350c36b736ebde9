"""Wrong calls, each as a user could make it: what tacit says to them is in `messages.txt`."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from vault_cases import Regression, Rewards, SumPlan

from tacit import Study, hub
from tacit.data import Box, Discrete, Fields, PublicSpec, Trajectories
from tacit.methods.synthesis import TransitionsPlan, fit
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger import checkpoint
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.vault import Vault
from tacit.study.folder import RunFolder
from tacit.units import Promise, Unit

PRIVATE_ID, PRIVATE_VALUE = "CANARY-7f3a", 2.71875
"""A unit id and a reward that no message may ever hold."""

SPEC = PublicSpec(Box((-4.0,), (4.0,)), Discrete(3), Box((-10.0,), (10.0,)), "declared", difference=(1.0,))
UNIT = Unit("person", "add_or_remove", 100)
DELTA = 1e-3


def columns(**changes: Any) -> dict[str, Any]:
    """Three records of two people in three episodes."""
    values: dict[str, Any] = {
        "observations": [[0.5], [0.25], [1.0]],
        "actions": [0, 1, 2],
        "rewards": [PRIVATE_VALUE, 1.0, 2.0],
        "next_observations": [[0.25], [1.0], [0.5]],
        "terminations": [False, False, True],
        "unit_ids": [PRIVATE_ID, PRIVATE_ID, "bob"],
        "episode_ids": [1, 1, 2],
        "spec": SPEC,
    }
    return values | changes


def data(**changes: Any) -> Trajectories:
    return Trajectories.from_arrays(**columns(**changes))


def csv(path: Path, rows: str) -> Path:
    path.write_text(f"person,episode,observation_0,action,reward,next_observation_0,termination\n{rows}\n")
    return path


def ledger(folder: Path, **changes: Any) -> Ledger:
    return Ledger(
        folder / "ledger", **({"unit": UNIT, "epsilon": 2.0, "delta": 2 * DELTA, "composition": SUM} | changes)
    )


def vault(folder: Path) -> Vault:
    return Vault(data(), ledger(folder))


def small_plan() -> TransitionsPlan:
    return TransitionsPlan(steps=2, sampling_rate=0.2, warmup=1, width=4, depth=1, harmonics=1).calibrate(
        unit=UNIT, epsilon=1.0, delta=DELTA
    )


def sum_plan(**changes: Any) -> SumPlan:
    return dataclasses.replace(
        plans.account(SumPlan(steps=1, noise_multiplier=8.0, rows_per_unit=2), unit=UNIT, delta=DELTA), **changes
    )


def released(folder: Path) -> Path:
    """A small release, saved."""
    with ledger(folder) as own:
        hub.save(fit(small_plan(), Vault(data(), own)), folder / "model")
    return folder / "model"


def shorten(path: Path, keep: int = 60) -> None:
    path.write_bytes(path.read_bytes()[:keep])


@contextmanager
def full_disk() -> Iterator[None]:
    """Renaming, the last act of every write, finds no space."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    real = os.replace, os.rename
    os.replace = os.rename = refuse  # type: ignore[assignment]
    try:
        yield
    finally:
        os.replace, os.rename = real


# -- ingest -------------------------------------------------------------------------------------------------------


def no_unit_id(folder: Path) -> None:
    data(unit_ids=None)


def no_unit_column(folder: Path) -> None:
    Trajectories.from_csv(csv(folder / "a.csv", f"{PRIVATE_ID},1,0.5,0,1.0,0.5,0"), unit="patient", spec=SPEC)


def missing_unit_id(folder: Path) -> None:
    data(unit_ids=[PRIVATE_ID, PRIVATE_ID, ""])


def unit_changes_in_an_episode(folder: Path) -> None:
    data(unit_ids=[PRIVATE_ID, "bob", "bob"])


def not_a_number(folder: Path) -> None:
    data(observations=[[0.5], [np.nan], [1.0]])


def infinite(folder: Path) -> None:
    data(rewards=[PRIVATE_VALUE, 1.0, np.inf])


def text_in_a_number_column(folder: Path) -> None:
    Trajectories.from_csv(csv(folder / "a.csv", f"bob,1,0.5,0,{PRIVATE_ID},0.5,0"), unit="person", spec=SPEC)


def bounds_of_another_column(folder: Path) -> None:
    data(observations=[[70.0], [72.0], [75.0]])


def a_column_without_bounds(folder: Path) -> None:
    path = csv(folder / "a.csv", f"{PRIVATE_ID},1,0.5,0,1.0,0.5,0")
    path.write_text(path.read_text().replace("reward,", "observation_1,"))
    Trajectories.from_csv(path, unit="person", spec=SPEC)


def a_file_of_another_kind(folder: Path) -> None:
    Trajectories.from_minari("visits.xlsx", unit="person", spec=SPEC)


def no_such_file(folder: Path) -> None:
    Trajectories.from_csv(folder / "a.csv", unit="person", spec=SPEC)


def fields_of_another_number_of_columns(folder: Path) -> None:
    Fields.from_pairs(SPEC, ["observations=pulse,pressure"])


def no_such_folder_of_records(folder: Path) -> None:
    Trajectories.open(folder / "visits")


def a_file_in_place_of_a_folder_of_records(folder: Path) -> None:
    Trajectories.open(csv(folder / "visits.csv", f"{PRIVATE_ID},1,0.5,0,1.0,0.5,0"))


def ragged_columns(folder: Path) -> None:
    data(rewards=[PRIVATE_VALUE, 1.0])


def ragged_rows(folder: Path) -> None:
    data(observations=[[0.5], [0.25, PRIVATE_VALUE], [1.0]])


def wrong_width(folder: Path) -> None:
    data(observations=[[0.5, 1.0], [0.25, 1.0], [1.0, PRIVATE_VALUE]])


def no_records(folder: Path) -> None:
    data(
        **{name: [] for name in columns() if name not in ("spec", "observations", "next_observations")}
        | {"observations": np.zeros((0, 1)), "next_observations": np.zeros((0, 1))}
    )


def empty_episode(folder: Path) -> None:
    import h5py

    path = data(simulated=True).to_minari("icu-v0", root=folder)
    with h5py.File(path / "data" / "main_data.hdf5", "r+") as file:
        for name in ("actions", "rewards", "terminations", "truncations"):
            shape = file["episode_1"][name].shape[1:]
            del file["episode_1"][name]
            file["episode_1"][name] = np.zeros((0, *shape), np.float32)
        file["episode_1"].attrs["total_steps"] = 0
    Trajectories.from_minari("icu-v0", unit="unit", root=folder, spec=SPEC)


def action_out_of_range(folder: Path) -> None:
    data(actions=[0, 7, 2])


def fitted_bounds(folder: Path) -> None:
    rows = [[0.5], [0.2613], [1.0]]
    data(observations=rows, next_observations=rows, spec=dataclasses.replace(SPEC, observation=Box((0.2613,), (1.0,))))


def no_bounds(folder: Path) -> None:
    data(spec=None)


def inverted_bounds(folder: Path) -> None:
    Box((0.0, 5.0), (1.0, -5.0))


def infinite_bounds(folder: Path) -> None:
    import gymnasium

    space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    PublicSpec.from_spaces(space, gymnasium.spaces.Discrete(2), reward=(0.0, 1.0))


def bounds_from_the_records(folder: Path) -> None:
    PublicSpec(Box((0.0,), (1.0,)), Discrete(3), Box((0.0,), (1.0,)), "private_data")  # type: ignore[arg-type]


def same_unit_in_two_files(folder: Path) -> None:
    one = csv(folder / "one.csv", f"{PRIVATE_ID},1,0.5,0,{PRIVATE_VALUE},0.5,0\nbob,2,1.5,0,1.0,0.5,0")
    two = csv(folder / "two.csv", f"ann,1,0.5,0,1.0,0.5,0\n{PRIVATE_ID},2,0.5,0,1.0,0.5,0")
    Trajectories.from_csv([one, two], unit="person", episode="episode", spec=SPEC)


def truncated_hdf5(folder: Path) -> None:
    shorten(data(simulated=True).to_minari("icu-v0", root=folder) / "data" / "main_data.hdf5", 500)
    Trajectories.from_minari("icu-v0", unit="unit", root=folder, spec=SPEC)


def truncated_column(folder: Path) -> None:
    data().save(folder / "records")
    shorten(folder / "records" / "rewards.npy", 100)
    Trajectories.open(folder / "records")


def column_that_is_a_link(folder: Path) -> None:
    data().save(folder / "records")
    (folder / "records" / "rewards.npy").rename(folder / "elsewhere.npy")
    (folder / "records" / "rewards.npy").symlink_to(folder / "elsewhere.npy")
    Trajectories.open(folder / "records")


def dataset_outside_its_folder(folder: Path) -> None:
    data(simulated=True).to_minari("../../icu-v0", root=folder)


def private_records_as_a_dataset(folder: Path) -> None:
    data().to_minari("icu-v0", root=folder)


def full_disk_at_ingest(folder: Path) -> None:
    with full_disk():
        data(store=folder / "records")


# -- units, plans, budgets ----------------------------------------------------------------------------------------


def no_relation(folder: Path) -> None:
    Unit("person", None, 100)


def no_population(folder: Path) -> None:
    Unit("person", "add_or_remove", None)


def population_below_the_records(folder: Path) -> None:
    three = data(unit_ids=[PRIVATE_ID, "ann", "bob"], episode_ids=[1, 2, 3])
    Vault(three, ledger(folder, unit=Unit("person", "add_or_remove", 2), delta=0.1))


def epsilon_of_zero(folder: Path) -> None:
    TransitionsPlan().calibrate(unit=UNIT, epsilon=0.0, delta=DELTA)


def delta_of_zero(folder: Path) -> None:
    TransitionsPlan().calibrate(unit=UNIT, epsilon=1.0, delta=0.0)


def delta_above_one_over_the_population(folder: Path) -> None:
    TransitionsPlan().calibrate(unit=UNIT, epsilon=1.0, delta=0.01)


def rate_over_one(folder: Path) -> None:
    TransitionsPlan(sampling_rate=128 / 100)


def negative_budget(folder: Path) -> None:
    ledger(folder, epsilon=-1.0)


def budget_delta_too_large(folder: Path) -> None:
    ledger(folder, delta=0.5)


def no_budget(folder: Path) -> None:
    Ledger(folder / "ledger", UNIT)


def budget_raised_above_its_ceiling(folder: Path) -> None:
    ledger(folder, ceiling=4.0).raise_budget(5.0)


def budget_lowered(folder: Path) -> None:
    ledger(folder, ceiling=4.0).raise_budget(1.5)


def study_without_a_budget(folder: Path) -> None:
    data().save(folder / "visits")
    Study(folder / "visits", unit="person", population=100).evaluate(epsilon=1.0, gamma=1.0, horizon=2)


def plan_not_calibrated(folder: Path) -> None:
    vault(folder).reserve(TransitionsPlan())


def edited_plan(folder: Path) -> None:
    vault(folder).reserve(dataclasses.replace(small_plan(), noise_multiplier=0.5))


def edited_plan_file(folder: Path) -> None:
    fields = plans.public_fields(small_plan()) | {"dropout": 0.1}
    TransitionsPlan.from_json(fields)


def plan_for_another_unit(folder: Path) -> None:
    vault(folder).reserve(
        dataclasses.replace(small_plan(), promise=Promise(Unit("visit", "add_or_remove", 100), 1.0, DELTA))
    )


def ledger_of_another_relation(folder: Path) -> None:
    ledger(folder).close()
    ledger(folder, unit=Unit("person", "replace_one", 100))


def ledger_of_another_population(folder: Path) -> None:
    ledger(folder).close()
    ledger(folder, unit=Unit("person", "add_or_remove", 200))


def plan_over_the_budget(folder: Path) -> None:
    vault(folder).reserve(TransitionsPlan(steps=2, warmup=1).calibrate(unit=UNIT, epsilon=3.0, delta=DELTA))


def second_writer(folder: Path) -> None:
    with ledger(folder):
        ledger(folder)


def damaged_ledger(folder: Path) -> None:
    with ledger(folder) as own:
        own.note("text", "something to damage")
    content = (folder / "ledger").read_bytes()
    (folder / "ledger").write_bytes(content.replace(b"something to damage", b"nothing to damage!!"))
    ledger(folder)


def ledger_older_than_the_checkpoint(folder: Path) -> None:
    plan = small_plan()
    with ledger(folder) as own:
        run = Vault(data(), own).reserve(plan)
        old = (folder / "ledger").read_bytes()
        own.claim(run.plan_id, "denoiser", 1)
        checkpoint.save(folder / "c.safetensors", {"w": torch.zeros(1)}, plan_id=run.plan_id, ledger=own)
    (folder / "ledger").write_bytes(old)
    (folder / "ledger.lock").unlink()
    with ledger(folder) as own:
        checkpoint.load(folder / "c.safetensors", plan_id=run.plan_id, ledger=own)


def ledger_put_back_from_a_backup(folder: Path) -> None:
    with ledger(folder) as own:
        old = (folder / "ledger").read_bytes()
        own.note("text", "newer")
    (folder / "ledger").write_bytes(old)
    ledger(folder)


def finished_plan(folder: Path) -> None:
    released(folder)
    fit(small_plan(), vault(folder))


def full_disk_at_a_claim(folder: Path) -> None:
    import resource

    own = vault(folder)
    run = own.reserve(sum_plan())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        own.noisy_sum(run, "sum", Rewards())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


# -- doors --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Centred:
    """Contributions centred over the batch."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return rows["rewards"][:, :1] - rows["rewards"].mean()


@dataclasses.dataclass(frozen=True)
class Complaining:
    """Fails on the private rows, with one of their values in its message."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        if (rows["rewards"] == PRIVATE_VALUE).any():
            raise MemoryError(f"what is {PRIVATE_VALUE}?")
        return rows["rewards"][:, :1]


def batch_norm(folder: Path) -> None:
    own = vault(folder)
    model = nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    own.noisy_gradient(own.reserve(sum_plan()), "sum", [model], Regression())


def unused_parameter(folder: Path) -> None:
    class TwoHeads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(1, 1), nn.Linear(1, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.used(x)
            return out

    own = vault(folder)
    own.noisy_gradient(own.reserve(sum_plan()), "sum", [TwoHeads()], Regression())


def callback_that_couples_units(folder: Path) -> None:
    own = vault(folder)
    own.noisy_sum(own.reserve(sum_plan()), "sum", Centred())


def callback_with_state(folder: Path) -> None:
    own = vault(folder)
    own.noisy_sum(own.reserve(sum_plan()), "sum", lambda rows, state: rows["rewards"][:, :1])


def callback_that_fails(folder: Path) -> None:
    own = vault(folder)
    own.noisy_sum(own.reserve(sum_plan()), "sum", Complaining())


def part_that_is_not_in_the_plan(folder: Path) -> None:
    own = vault(folder)
    own.noisy_sum(own.reserve(sum_plan()), "average", Rewards())


def records_after_sealing(folder: Path) -> None:
    records = data()
    Vault(records, ledger(folder))
    records.columns  # noqa: B018 - reading is the point


def records_in_two_vaults(folder: Path) -> None:
    records = data()
    Vault(records, ledger(folder))
    (folder / "second").mkdir()
    Vault(records, ledger(folder / "second"))


def starting_point_that_was_not_declared(folder: Path) -> None:
    from tacit.methods.synthesis import Pretraining

    plan = TransitionsPlan(steps=2, warmup=1, pretraining=Pretraining(provenance="public mazes"))
    fit(plan.calibrate(unit=UNIT, epsilon=1.0, delta=DELTA), vault(folder))


# -- files of a release -------------------------------------------------------------------------------------------


def edited_certificate(folder: Path) -> None:
    path = released(folder) / "certificate.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"epsilon": 0.01}))
    Certificate.load(path).verify()


def no_such_certificate(folder: Path) -> None:
    Certificate.load(folder / "certificate.json")


def truncated_certificate(folder: Path) -> None:
    path = released(folder) / "certificate.json"
    shorten(path)
    Certificate.load(path)


def truncated_model(folder: Path) -> None:
    path = released(folder)
    shorten(path / "model.safetensors")
    hub.load(path)


def truncated_checkpoint(folder: Path) -> None:
    with ledger(folder) as own:
        checkpoint.save(folder / "c.safetensors", {"w": torch.zeros(99)}, plan_id="p", ledger=own)
        shorten(folder / "c.safetensors")
        checkpoint.load(folder / "c.safetensors", plan_id="p", ledger=own)


def checkpoint_of_another_plan(folder: Path) -> None:
    with ledger(folder) as own:
        checkpoint.save(folder / "c.safetensors", {"w": torch.zeros(1)}, plan_id="other", ledger=own)
        checkpoint.load(folder / "c.safetensors", plan_id="0123456789abcdef", ledger=own)


def full_disk_at_a_checkpoint(folder: Path) -> None:
    with ledger(folder) as own, full_disk():
        checkpoint.save(folder / "c.safetensors", {"w": torch.zeros(1)}, plan_id="p", ledger=own)


def file_outside_the_run(folder: Path) -> None:
    RunFolder(folder).resolve("../elsewhere.json")


def run_folder_that_is_taken(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    RunFolder.begin(folder, "synthesize", {}, resume=False)


WrongCall = Callable[[Path], None]

NOTHING_SPENT: tuple[WrongCall, ...] = (
    no_unit_id,
    no_unit_column,
    missing_unit_id,
    unit_changes_in_an_episode,
    not_a_number,
    infinite,
    text_in_a_number_column,
    bounds_of_another_column,
    a_column_without_bounds,
    a_file_of_another_kind,
    no_such_file,
    fields_of_another_number_of_columns,
    no_such_folder_of_records,
    a_file_in_place_of_a_folder_of_records,
    ragged_columns,
    ragged_rows,
    wrong_width,
    no_records,
    empty_episode,
    action_out_of_range,
    fitted_bounds,
    no_bounds,
    inverted_bounds,
    infinite_bounds,
    bounds_from_the_records,
    same_unit_in_two_files,
    truncated_hdf5,
    truncated_column,
    column_that_is_a_link,
    dataset_outside_its_folder,
    private_records_as_a_dataset,
    full_disk_at_ingest,
    no_relation,
    no_population,
    population_below_the_records,
    epsilon_of_zero,
    delta_of_zero,
    delta_above_one_over_the_population,
    rate_over_one,
    negative_budget,
    budget_delta_too_large,
    no_budget,
    budget_raised_above_its_ceiling,
    budget_lowered,
    study_without_a_budget,
    plan_not_calibrated,
    edited_plan,
    edited_plan_file,
    plan_for_another_unit,
    ledger_of_another_relation,
    ledger_of_another_population,
    plan_over_the_budget,
    second_writer,
    ledger_put_back_from_a_backup,
    records_after_sealing,
    records_in_two_vaults,
    starting_point_that_was_not_declared,
    truncated_checkpoint,
    checkpoint_of_another_plan,
    full_disk_at_a_checkpoint,
    file_outside_the_run,
    run_folder_that_is_taken,
)
"""Wrong calls after which the ledger, if there is one, has nothing reserved and nothing claimed."""

RESERVED_ONLY: tuple[WrongCall, ...] = (
    full_disk_at_a_claim,
    batch_norm,
    unused_parameter,
    callback_that_couples_units,
    callback_with_state,
    part_that_is_not_in_the_plan,
    ledger_older_than_the_checkpoint,
)
"""A plan had rightly been reserved before; no step of it is claimed."""

AFTER_A_STEP: tuple[WrongCall, ...] = (
    callback_that_fails,
    finished_plan,
    edited_certificate,
    no_such_certificate,
    truncated_certificate,
    truncated_model,
)
"""Steps had rightly been claimed before."""

NO_LEDGER_LEFT: tuple[WrongCall, ...] = (damaged_ledger,)

WRONG_CALLS = (*NOTHING_SPENT, *RESERVED_ONLY, *AFTER_A_STEP, *NO_LEDGER_LEFT)
