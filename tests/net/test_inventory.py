"""No command, option, default or public name goes unnoticed: `inventory.json` holds those that were there before.

Who takes one away, or changes a default, says so in CHANGELOG.md and runs `python -m tests.net.inventory`.
"""

from __future__ import annotations

import json

import pytest
from tests.net.inventory import FILE, Inventory, build

SMALL: Inventory = {
    "tacit train": {"help": "Learn."},
    "tacit train --clip": {"default": "1.0", "help": "bound."},
    "tacit.a.Plan": {"kind": "class"},
    "tacit.a.Plan.rate": {"kind": "field", "default": "0.1"},
    "tacit.a.Planner": {"kind": "class"},
}


def differences(old: Inventory, new: Inventory, absent: tuple[str, ...] = ()) -> list[str]:
    """What is gone, has another default or has lost its help."""
    found = []
    for key, was in old.items():
        if any(f"{key}.".startswith((f"{path}.", f"{path}(")) for path in absent):
            continue
        now = new.get(key)
        if now is None:
            found.append(f"{key} is gone")
            continue
        before, after = was.get("default"), now.get("default")
        if before != after:
            found.append(f"{key} = {before} became {after}")
        if was.get("help") and not now.get("help"):
            found.append(f"{key} has no help")
    return found


def test_nothing_is_lost_and_no_default_changed_without_another_inventory() -> None:
    today, absent = build()
    found = differences(json.loads(FILE.read_text(encoding="utf-8")), today, tuple(absent))
    assert found == [], "\n".join(["say it in CHANGELOG.md and run `python -m tests.net.inventory`:", *found])


def test_the_inventory_of_then_is_whole() -> None:
    then = json.loads(FILE.read_text(encoding="utf-8"))
    assert len(then) > 3000
    assert {"tacit demo --quick", "tacit synthesize DATA", "tacit ledger verify --head", "tacit.Vault"} <= set(then)
    assert then["tacit train --epsilon"]["default"]
    assert then["tacit data maze --seed"] == {"default": "0", "help": "of the simulation."}
    assert all(entry["help"] for key, entry in then.items() if key.startswith("tacit ") and "help" in entry)


@pytest.mark.parametrize(
    ("key", "entry", "message"),
    [
        ("tacit train", None, "tacit train is gone"),
        ("tacit train --clip", None, "tacit train --clip is gone"),
        ("tacit train --clip", {"default": "2.0", "help": "bound."}, "--clip = 1.0 became 2.0"),
        ("tacit train --clip", {"default": "1.0", "help": ""}, "--clip has no help"),
        ("tacit.a.Plan.rate", None, "tacit.a.Plan.rate is gone"),
        ("tacit.a.Plan.rate", {"default": "0.2"}, "tacit.a.Plan.rate = 0.1 became 0.2"),
    ],
)
def test_a_lost_name_or_another_default_is_seen(key: str, entry: dict[str, str] | None, message: str) -> None:
    new = {name: value for name, value in SMALL.items() if name != key} | ({key: entry} if entry else {})
    (found,) = differences(SMALL, new)
    assert message in found
    assert differences(SMALL, {**SMALL, "tacit more": {"help": "More."}}) == []
    assert differences(SMALL, {}, ("tacit.a.Plan", "tacit.a.Planner")) == [
        "tacit train is gone",
        "tacit train --clip is gone",
    ]
