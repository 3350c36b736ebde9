"""What a certificate says about how the units came about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from expert_cases import Steppers, everything, logs, part, plan_of, vault_of
from vault_cases import SPEC, begun, priced

from tacit.data.ingest import Ingest
from tacit.data.trajectories import Trajectories
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.base import Label
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit


@pytest.mark.parametrize(
    ("unit_ids", "name", "stated"),
    [(":transition", "patient", True), (":transition", "transition", False), (np.arange(3), "patient", False)],
)
def test_units_that_were_never_told_apart_are_an_assumption(
    tmp_path: Path, unit_ids: object, name: str, stated: bool
) -> None:
    data = Trajectories.from_arrays(
        observations=np.zeros((3, 1)),
        actions=np.zeros(3, int),
        rewards=np.zeros(3),
        next_observations=np.zeros((3, 1)),
        terminations=np.ones(3, bool),
        unit_ids=unit_ids,
        spec=SPEC,
        simulated=True,
    )
    unit = Unit(name, "add_or_remove", 100)
    with Ledger(tmp_path / "a.ledger", unit, epsilon=1e6, delta=0.005, composition=SUM) as ledger:
        vault = Vault(data, ledger)
        run = vault.reserve(priced(vault, noise_multiplier=1.0))
        certificate = vault.release(begun(vault, run), 0.0, label=Label((), (), ())).certificate
    said = f"each transition counts as one {name}: the records were imported without unit ids"
    assert (said in certificate.lines("assumptions")) == stated


@pytest.mark.parametrize("queried", [True, False])
def test_that_a_query_made_the_records_is_an_assumption(tmp_path: Path, queried: bool) -> None:
    with Ingest(SPEC, simulated=True, store=tmp_path / "set", unit="patient", queried=queried) as ingest:
        columns = {"observations": np.zeros((3, 1)), "next_observations": np.zeros((3, 1)), "rewards": np.zeros(3)}
        flags = {"actions": np.zeros(3, int), "terminations": np.ones(3, bool)}
        ingest.add({**columns, **flags}, np.arange(3))
        ingest.finish()
    Trajectories.open(tmp_path / "set").save(tmp_path / "copy")
    assert ("queried" in json.loads((tmp_path / "copy" / "spec.json").read_text())) == queried
    with Ledger(
        tmp_path / "a.ledger",
        Unit("patient", "add_or_remove", 100),
        epsilon=1e6,
        delta=0.005,
        composition=SUM,
    ) as ledger:
        vault = Vault(Trajectories.open(tmp_path / "copy"), ledger)
        run = vault.reserve(priced(vault, noise_multiplier=1.0))
        certificate = vault.release(begun(vault, run), 0.0, label=Label((), (), ())).certificate
    said = "each patient is one of a query's result: that the query mixes no two of them was not checked"
    assert (said in certificate.lines("assumptions")) == queried
    certificate.verify()
    devices = StackedDevices(Trajectories.open(tmp_path / "copy"))
    assert ({"code": "queried"} in devices.assumptions) == queried


@pytest.mark.parametrize("unit_key", ["exact", "folded", None])
def test_that_twins_are_different_units_is_an_assumption(tmp_path: Path, unit_key: Any) -> None:
    ids = ["Ann", "ann", "bob"] if unit_key else ["Ann", "eve", "bob"]
    flags = {"actions": np.zeros(3, int), "terminations": np.ones(3, bool), "rewards": np.zeros(3)}
    columns = {"observations": np.zeros((3, 1)), "next_observations": np.zeros((3, 1)), **flags}
    options = {"spec": SPEC, "simulated": True, "store": tmp_path / "set"}
    Trajectories.from_arrays(**columns, unit_ids=ids, unit_key=unit_key, **options).save(tmp_path / "copy")
    data = Trajectories.open(tmp_path / "copy")
    assert data.counts()["units"] == (2 if unit_key == "folded" else 3)
    with Ledger(
        tmp_path / "a.ledger",
        Unit("patient", "add_or_remove", 100),
        epsilon=1e6,
        delta=0.005,
        composition=SUM,
    ) as ledger:
        vault = Vault(data, ledger)
        run = vault.reserve(priced(vault, noise_multiplier=1.0))
        certificate = vault.release(begun(vault, run), 0.0, label=Label((), (), ())).certificate
    said = "ids that differ by case, width, Unicode form, spaces or invisible characters alone are different patients, "
    assert (f"{said}as the user says" in certificate.lines("assumptions")) == (unit_key == "exact")
    certificate.verify()


def test_a_total_that_counts_a_release_of_policies_alone_says_so(tmp_path: Path) -> None:
    """A certificate of other sums, under a ledger that has published beginnings of logs, names that release."""
    vault = vault_of(tmp_path, logs(150), Steppers(np.full(150, 1e6)))
    sums = vault.reserve(plan_of(everything(held_out=part().held_out)))
    alone = vault.release(begun(vault, sums), 0.0, label=Label((), (), ())).certificate
    assert alone.not_protected == ()
    prefixes = vault.reserve(plan_of(part()))
    beside = vault.release(begun(vault, sums), 0.0, label=Label((), (), ())).certificate
    assert len(beside.not_protected) == 1
    assert prefixes.plan_id in beside.lines("not_protected")[0]
    assert "policies alone" in beside.lines("not_protected")[0]
    own = vault.release(begun(vault, prefixes), 0.0, label=Label((), (), ())).certificate
    assert not any(prefixes.plan_id in words for words in own.lines("not_protected"))
