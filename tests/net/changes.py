"""What moved, was renamed or removed on purpose since the net was made: `changes.toml`, and how names follow it.

    [[change]]
    old = "tacit.synthesis.Plan"
    new = "tacit.synthesis.PrivOrl"
    reason = "plans are named after their methods"

`old` and `new` are keys of the inventory, `test: FUNCTION`, `mutation: NAME` or `detector: NAME`. What begins with
`old` follows it: the fields of the class above need no entries of their own. The longest `old` wins. `new` is "removed"
where nothing takes its place. A changed default is written `KEY = VALUE`: the old key on the left, the new one on the
right.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("changes.toml")
REMOVED = "removed"
_ENDS = (".", "(", ")", " ")
"""What may follow the name of a module, a class, a function or a command inside a key."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One line of the change log."""

    old: str
    new: str
    reason: str

    def __post_init__(self) -> None:
        if not (self.old and self.new and self.reason.strip()):
            raise ValueError(f"a change needs old, new and a reason: {self}")


@dataclass(frozen=True)
class Changes:
    """All changes, each old name once."""

    changes: tuple[Change, ...] = ()

    def __post_init__(self) -> None:
        known = [change.old for change in self.changes]
        if len(set(known)) < len(known):
            raise ValueError(f"twice in the change log: {sorted({old for old in known if known.count(old) > 1})}")

    @classmethod
    def load(cls, path: Path = FILE) -> Changes:
        """The change log of the repository."""
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        return cls(tuple(Change(**entry) for entry in content.get("change", ())))

    def now(self, key: str) -> str | None:
        """What a name of then is called now; None where it was removed."""
        followed = [change for change in self.changes if _under(key, change.old)]
        if not followed:
            return key
        change = max(followed, key=lambda change: len(change.old))
        return None if change.new == REMOVED else change.new + key[len(change.old) :]

    def allows(self, old: str, new: str) -> bool:
        """Whether exactly this change, of a default for example, is in the log."""
        return any((change.old, change.new) == (old, new) for change in self.changes)


def _under(key: str, old: str) -> bool:
    """Whether `key` is `old` or, where `old` is a key of the inventory, something inside it."""
    whole = ": " in old or " = " in old  # a test, a mistake, a detector, a default: nothing is inside it
    return key == old or (not whole and key.startswith(old) and key[len(old)] in _ENDS)
