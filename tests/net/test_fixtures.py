"""What commit 82bbe36 wrote opens today: ledgers, registers, releases and records.

An old ledger or register opens with its spent budget or is refused in one sentence; it is never opened empty. The
script that wrote the fixtures ran on that commit alone: `tests/net/make_fixtures.py` of commit a7e5158. Certificates
and configurations of the releases were converted to format 1, and to today's names of fields and arrays.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import hub
from tacit.cli import main
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import BudgetExceeded, LedgerError
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.register import Register
from tacit.units import Unit

FOLDER = Path(__file__).with_name("fixtures")
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
UNIT = Unit("patient", "add_or_remove", 1000)
DRAWING = ("transitions", "trajectories", "marginals")
Damage = Callable[[Path], Any]


def copied(name: str, to: Path) -> Path:
    """A copy of some fixtures; Git keeps no modes, so the keys get theirs back."""
    folder = to / name
    shutil.copytree(FOLDER / name, folder)
    for key in [*folder.rglob("key"), *folder.rglob("*.key")]:
        key.chmod(0o600)
    return folder


def lock(path: Path) -> Path:
    """What lies beside a ledger or register."""
    return path.with_name(f"{path.name}.lock")


def cut(path: Path) -> None:
    """Leave the first half."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def older(path: Path) -> None:
    """Put a backup in its place, but not the file beside it."""
    shutil.copy(path.with_name("older.ledger" if path.suffix else "older"), path)


OPENS: dict[str, Damage] = {
    "as it was": lambda path: None,
    "without its lock": lambda path: lock(path).unlink(),
    "with an empty lock": lambda path: lock(path).write_bytes(b""),
    "with a torn lock": lambda path: cut(lock(path)),
}
REFUSED: dict[str, Damage] = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "cut in half": cut,
    "older than its lock": older,
}


@pytest.fixture
def ledgers(tmp_path: Path) -> Path:
    return copied("ledgers", tmp_path)


@pytest.fixture
def register(tmp_path: Path) -> tuple[Path, Path]:
    folder = copied("register", tmp_path)
    return folder / "register" / "register", folder / "keys" / "key"


@pytest.mark.parametrize("name", sorted(EXPECTED["ledgers"]))
def test_an_old_ledger_opens_with_its_spent_budget(name: str, ledgers: Path) -> None:
    was = EXPECTED["ledgers"][name]
    with Ledger(ledgers / name, UNIT) as ledger:
        for now in (ledger, Ledger.read(ledgers / name)):
            assert list(now.spent()) == was["spent"]
            assert (now.head, now.void_reason) == (was["head"], was["void"])
            assert [[plan.id, plan.method, plan.steps, plan.claimed] for plan in now.plans()] == was["plans"]
            now.verify()
        ledger.require(was["head"])
        steps = {"rdp": 5.0} if name == "renyi.ledger" else {}
        with pytest.raises(BudgetExceeded):
            ledger.reserve("more", {"method": "more"}, parts={"a": 1}, epsilon=2.9, delta=1e-5, **steps)
        assert list(ledger.spent()) == was["spent"]
        _, _, _, claimed = was["plans"][0]
        assert ledger.claim("p", "a", 1) == range(claimed, claimed + 1)
    assert main(["ledger", "verify", str(ledgers / name), "--head", was["head"]]) == 0
    with pytest.raises(LedgerError, match="bound to another"):
        Ledger(ledgers / name, Unit("doctor", "add_or_remove", 1000))


def test_the_spent_budgets_are_those_that_were_reserved() -> None:
    assert EXPECTED["ledgers"]["sum.ledger"]["spent"] == pytest.approx([0.65, 3e-5], rel=1e-12)
    assert EXPECTED["ledgers"]["renyi.ledger"]["spent"][0] > 0.25
    assert EXPECTED["ledgers"]["void.ledger"]["void"] == "the curator published figures"


@pytest.mark.parametrize("damage", OPENS)
def test_a_copied_ledger_opens_with_its_spent_budget(damage: str, ledgers: Path) -> None:
    path = ledgers / "sum.ledger"
    OPENS[damage](path)
    with Ledger(path, UNIT, epsilon=1.0, delta=1e-4, composition=SUM) as ledger:
        assert list(ledger.spent()) == EXPECTED["ledgers"]["sum.ledger"]["spent"]


@pytest.mark.parametrize("damage", REFUSED)
def test_a_damaged_ledger_is_refused_in_one_sentence(damage: str, ledgers: Path) -> None:
    path = ledgers / "sum.ledger"
    REFUSED[damage](path)
    before = path.exists() and path.read_bytes()
    for _ in range(2):
        with pytest.raises(LedgerError) as refusal:
            Ledger(path, UNIT, epsilon=1.0, delta=1e-4, composition=SUM)
        assert "\n" not in str(refusal.value)
        assert (path.exists() and path.read_bytes()) == before


def test_an_old_register_remembers_who_contributed(register: tuple[Path, Path]) -> None:
    path, key = register
    with Register(path, key=key) as opened:
        assert opened.head == EXPECTED["register"]["head"]
        opened.require(EXPECTED["register"]["head"])
        assert opened.reserve("p", ["ada", "ben", "eve", "new"], 2).tolist() == [False, True, True, True]
        assert opened.reserve("p", ["ada", "ben", "eve", "new"], 2).tolist() == [False, False, False, True]
        assert opened.reserve("q", ["ada"], 1).tolist() == [True]
        opened.bind(["0" * 32])
        with pytest.raises(LedgerError, match="belongs to another ledger"):
            opened.bind(["1" * 32])


@pytest.mark.parametrize("damage", OPENS)
def test_a_copied_register_remembers_who_contributed(damage: str, register: tuple[Path, Path]) -> None:
    path, key = register
    OPENS[damage](path)
    with Register(path, key=key) as opened:
        assert opened.reserve("p", ["ada", "new"], 2).tolist() == [False, True]


@pytest.mark.parametrize("damage", [*REFUSED, "without its key", "with another key"])
def test_a_damaged_register_is_refused_in_one_sentence(damage: str, register: tuple[Path, Path]) -> None:
    path, key = register
    if damage == "without its key":
        key.unlink()
    elif damage == "with another key":
        key.write_bytes(bytes(32))
    else:
        REFUSED[damage](path)
    for _ in range(2):
        with pytest.raises(LedgerError) as refusal:
            Register(path, key=key)
        assert "\n" not in str(refusal.value)


def drawn(name: str, value: Any) -> Any:
    """What a release of then draws, or does, at the seeds of then."""
    seen = np.linspace(-0.9, 0.9, 48).reshape(12, 4).astype(np.float32)
    nobody, rng = np.zeros(12, np.int64), np.random.default_rng(0)
    if name in ("simulator", "chain"):
        return value.generate(4, seed=3).cells
    return value.actor(greedy=True)(seen if name == "policy" else seen[:, :2], nobody, rng)


@pytest.mark.parametrize("name", DRAWING)
def test_an_old_model_draws_what_it_drew(name: str) -> None:
    release = hub.load(FOLDER / "models" / name)
    columns, was = release.value.sample(5, seed=3).columns, EXPECTED["models"][name]
    assert columns.keys() == was.keys()
    for key, values in was.items():
        np.testing.assert_allclose(columns[key], values, rtol=1e-4, atol=1e-5, err_msg=key)


@pytest.mark.parametrize("name", ["policy", "experts", "simulator", "chain"])
def test_an_old_policy_acts_and_an_old_simulator_moves_as_they_did(name: str) -> None:
    release = hub.load(FOLDER / "models" / name)
    assert np.array_equal(drawn(name, release.value), EXPECTED["models"][name])


@pytest.mark.parametrize("name", sorted(EXPECTED["models"]["epsilons"]))
def test_an_old_release_keeps_its_guarantee(name: str) -> None:
    release = hub.load(FOLDER / "models" / name)
    assert release.certificate.verify().private
    assert release.certificate.epsilon == EXPECTED["models"]["epsilons"][name]
    assert hub.notes(FOLDER / "models" / name) == {"made by": "make_fixtures.py"}


def test_policies_of_experts_come_back() -> None:
    spec = PublicSpec(Box((-1.0, -1.0), (1.0, 1.0)), Discrete(3), Box((0.0,), (1.0,)), "declared")
    seen = np.linspace(-0.9, 0.9, 48).reshape(12, 4).astype(np.float32)
    stack = hub.load_experts(FOLDER / "models" / "own_policies", spec)
    assert np.array_equal(stack.greedy(seen[:, :2]), EXPECTED["models"]["own_policies"])


def test_imported_records_come_back() -> None:
    kept = Trajectories.open(FOLDER / "data" / "visits")
    assert kept.columns.keys() == EXPECTED["data"]["columns"].keys()
    for name, values in EXPECTED["data"]["columns"].items():
        assert kept.columns[name].tolist() == values, name
    assert kept.episodes.tolist() == EXPECTED["data"]["episodes"]
    assert (kept.unit_kind, kept.simulated) == ("id", False)
    public = json.loads((FOLDER / "data" / "spec.json").read_text(encoding="utf-8"))
    assert kept.spec == PublicSpec.from_json(public)
    assert {**kept.spec.to_json(), **public} == kept.spec.to_json()
