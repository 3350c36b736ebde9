"""The gallery of messages: every wrong call gets one clear sentence, holds nothing private and spends nothing.

`messages.txt` is what a user reads. After a change that is meant, write it again with
`TACIT_UPDATE_GALLERY=1 python -m pytest tests/gallery`, and read the difference.
"""

from __future__ import annotations

import os
import re
import traceback
from pathlib import Path

import pytest
from audit_calls import AUDIT_CALLS
from evaluation_calls import EVALUATION_CALLS
from expert_calls import EXPERT_CALLS, EXPERT_VOIDED
from movement_calls import MOVEMENT_CALLS
from policy_calls import POLICY_CALLS, POLICY_NOTHING_SPENT, POLICY_RESERVED_ONLY
from synthesis_calls import SYNTHESIS_CALLS
from trajectory_calls import TRAJECTORY_CALLS
from wrong_calls import NO_LEDGER_LEFT, NOTHING_SPENT, PRIVATE_ID, PRIVATE_VALUE, RESERVED_ONLY, WRONG_CALLS, WrongCall

from tacit.errors import TacitError
from tacit.privacy.ledger.ledger import Ledger

MESSAGES = Path(__file__).with_name("messages.txt")
UPDATE = bool(os.environ.get("TACIT_UPDATE_GALLERY"))
CALLS = (
    *WRONG_CALLS,
    *EVALUATION_CALLS,
    *POLICY_CALLS,
    *EXPERT_CALLS,
    *MOVEMENT_CALLS,
    *SYNTHESIS_CALLS,
    *TRAJECTORY_CALLS,
    *AUDIT_CALLS,
)
WORDS = [re.sub("_", " ", call.__name__) for call in CALLS]


def entries() -> dict[str, str]:
    """Words of the call -> kind of error and sentence, as the file has them."""
    blocks = MESSAGES.read_text(encoding="utf-8").strip().split("\n\n") if MESSAGES.exists() else []
    return dict(block.split("\n", 1) for block in blocks)


def refused(call: WrongCall, folder: Path) -> TacitError:
    with pytest.raises(TacitError) as caught:
        call(folder)
    return caught.value


def plain(text: str, folder: Path) -> str:
    """Without what differs from machine to machine: the temporary folder, plan ids and hashes."""
    text = text.replace(str(folder.resolve()), "FOLDER").replace(str(folder), "FOLDER")
    return re.sub(r"\b[0-9a-f]{16}([0-9a-f]{48})?\b", "HASH", text)


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    return {}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_the_message_is_the_one_in_the_gallery_and_nothing_is_spent(
    call: WrongCall, tmp_path: Path, said: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    error = refused(call, tmp_path)
    written = "".join(capfd.readouterr())
    sentence = plain(str(error), tmp_path)
    words = call.__name__.replace("_", " ")
    said[words] = f"{type(error).__name__}, exit code {error.exit_code}\n{sentence}"

    assert all((error.what, error.where, error.expected, error.remedy))
    assert "\n" not in sentence
    assert sentence.endswith(".")
    assert not sentence.endswith("..")
    chained = "".join(traceback.format_exception(error))
    for private in (PRIVATE_ID, str(PRIVATE_VALUE)):
        quoted = [line for line in chained.splitlines() if private in line and "PRIVATE_" not in line]
        assert not quoted, "a private value is in the traceback"
        assert private not in written
    if not UPDATE:
        assert said[words] == entries().get(words)
    require_nothing_spent(call, tmp_path)


def require_nothing_spent(call: WrongCall, folder: Path) -> None:
    path = next(folder.rglob("ledger"), None)
    if call in NO_LEDGER_LEFT or path is None:
        return
    view = Ledger.read(path)
    if call in EXPERT_VOIDED:  # the sentence itself tells something about the records, and the ledger says so
        assert view.void_reason is not None
        return
    assert view.void_reason is None
    free = (*EVALUATION_CALLS, *EXPERT_CALLS, *MOVEMENT_CALLS, *SYNTHESIS_CALLS, *TRAJECTORY_CALLS)
    if call in (*NOTHING_SPENT, *POLICY_NOTHING_SPENT, *free):
        assert view.spent() == (0.0, 0.0)
        assert [entry.kind for entry in view.entries()] in (["create"], ["create", "note"])
    elif call in (*RESERVED_ONLY, *POLICY_RESERVED_ONLY):
        assert [plan.claimed for plan in view.plans()] == [0]
    else:
        assert len(view.plans()) == 1


def test_the_gallery_holds_every_call_and_no_other(said: dict[str, str]) -> None:
    if UPDATE:
        MESSAGES.write_text("\n\n".join(f"{words}\n{said[words]}" for words in WORDS) + "\n", encoding="utf-8")
    assert list(entries()) == WORDS
