"""Every command, option, default and public name of commit 82bbe36 is still there, or a line says what became of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.net.changes import Change, Changes
from tests.net.inventory import FILE, Inventory, build

SMALL: Inventory = {
    "tacit train": {"help": "Learn."},
    "tacit train --clip": {"default": "1.0", "help": "bound."},
    "tacit.a.Plan": {"kind": "class"},
    "tacit.a.Plan.rate": {"kind": "field", "default": "0.1"},
    "tacit.a.Planner": {"kind": "class"},
}


def differences(old: Inventory, new: Inventory, changes: Changes, absent: tuple[str, ...] = ()) -> list[str]:
    """What is gone, has another default or has lost its help, without a line in the change log."""
    found = []
    for key, was in old.items():
        name = changes.now(key)
        if name is None or any(f"{name}.".startswith((f"{path}.", f"{path}(")) for path in absent):
            continue
        now = new.get(name)
        if now is None:
            found.append(f"{key} is gone" if name == key else f"{key} should be {name} now, which is not there")
            continue
        before, after = was.get("default"), now.get("default")
        if before != after and not changes.allows(f"{key} = {before}", f"{name} = {after}"):
            found.append(f"{key} = {before} became {name} = {after}")
        if was.get("help") and not now.get("help"):
            found.append(f"{name} has no help")
    return found


def test_nothing_is_lost_and_no_default_changed_without_a_line_in_the_change_log() -> None:
    today, absent = build()
    found = differences(json.loads(FILE.read_text(encoding="utf-8")), today, Changes.load(), tuple(absent))
    assert found == [], "\n".join(["add the reason to tests/net/changes.toml for:", *found])


def test_the_inventory_of_then_is_whole() -> None:
    then = json.loads(FILE.read_text(encoding="utf-8"))
    assert len(then) > 3000
    assert {"tacit demo maze --quick", "tacit synthesize DATA", "tacit ledger verify --head", "tacit.Vault"} <= set(
        then
    )
    assert then["tacit train --epsilon"]["default"]
    assert then["tacit data maze --seed"] == {"default": "0", "help": "of the simulation."}
    assert all(entry["help"] for key, entry in then.items() if key.startswith("tacit ") and "help" in entry)


@pytest.mark.parametrize(
    ("key", "entry", "message"),
    [
        ("tacit train", None, "tacit train is gone"),
        ("tacit train --clip", None, "tacit train --clip is gone"),
        ("tacit train --clip", {"default": "2.0", "help": "bound."}, "--clip = 1.0 became tacit train --clip = 2.0"),
        ("tacit train --clip", {"default": "1.0", "help": ""}, "--clip has no help"),
        ("tacit.a.Plan.rate", None, "tacit.a.Plan.rate is gone"),
        ("tacit.a.Plan.rate", {"default": "0.2"}, "tacit.a.Plan.rate = 0.1 became tacit.a.Plan.rate = 0.2"),
    ],
)
def test_a_lost_name_or_another_default_is_seen(key: str, entry: dict[str, str] | None, message: str) -> None:
    new = {name: value for name, value in SMALL.items() if name != key} | ({key: entry} if entry else {})
    (found,) = differences(SMALL, new, Changes())
    assert message in found
    assert differences(SMALL, {**SMALL, "tacit more": {"help": "More."}}, Changes()) == []


def test_a_change_with_its_reason_is_allowed() -> None:
    new: Inventory = {
        "tacit learn": {"help": "Learn."},
        "tacit learn --clip-norm": {"default": "2.0", "help": "bound."},
        "tacit.a.Gradient": {"kind": "class"},
        "tacit.a.Gradient.sampling_rate": {"kind": "field", "default": "0.1"},
    }
    changes = Changes(
        (
            Change(old="tacit train", new="tacit learn", reason="test"),
            Change(old="tacit train --clip", new="tacit learn --clip-norm", reason="test"),
            Change(old="tacit train --clip = 1.0", new="tacit learn --clip-norm = 2.0", reason="test"),
            Change(old="tacit.a.Plan", new="tacit.a.Gradient", reason="test"),
            Change(old="tacit.a.Plan.rate", new="tacit.a.Gradient.sampling_rate", reason="test"),
            Change(old="tacit.a.Planner", new="removed", reason="test"),
        )
    )
    assert differences(SMALL, new, changes) == []
    fewer = Changes(changes.changes[:2] + changes.changes[3:])
    assert differences(SMALL, new, fewer) == ["tacit train --clip = 1.0 became tacit learn --clip-norm = 2.0"]
    assert changes.now("tacit.a.Plan.calibrate(delta)") == "tacit.a.Gradient.calibrate(delta)"
    assert changes.now("tacit.a.Plans") == "tacit.a.Plans"


def test_a_change_needs_its_reason_and_stands_once(tmp_path: Path) -> None:
    path = tmp_path / "changes.toml"
    path.write_text('[[change]]\nold = "a"\nnew = "b"\nreason = " "\n')
    with pytest.raises(ValueError, match="a reason"):
        Changes.load(path)
    path.write_text('[[change]]\nold = "a"\nnew = "b"\nreason = "c"\n' * 2)
    with pytest.raises(ValueError, match="twice"):
        Changes.load(path)
