"""Checkpoints of a run: public numbers, tied to the ledger they were paid from.

A checkpoint holds what left the vault (noisy sums folded into weights and optimiser moments) and the ledger's head at
that moment. It never holds records, noise or the state of a generator of noise, so a resumed run draws fresh noise.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialize
from torch import Tensor

from tacit import plain_files
from tacit.errors import FileError, LedgerError

if TYPE_CHECKING:
    from tacit.privacy.ledger.ledger import Ledger


def save(path: Path, tensors: dict[str, Tensor], *, plan_id: str, ledger: Ledger) -> None:
    """Write a checkpoint atomically (temporary file, fsync, rename).

    Guarantee: after a crash at any moment the file is the old one or the new one, never a mixture.
    """
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    tensors = {name: t.detach().contiguous() for name, t in tensors.items()}
    meta = {"plan_id": plan_id, "ledger_head": ledger.head, "dataset_id": ledger.dataset_id}
    meta["sha256"] = _digest(tensors)
    temporary = path.with_suffix(".partial")
    try:
        content = serialize(tensors, {"tacit": json.dumps(meta)})  # its own writer renames files of its own
        temporary.unlink(missing_ok=True)  # what a crash left, or a link that somebody put there
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        what, expected = "the checkpoint could not be written", "a writable folder with free space"
        remedy = "free some space and resume: the last whole checkpoint is still there"
        raise FileError(what, where=str(path), expected=expected, remedy=remedy) from error


def load(path: Path, *, plan_id: str, ledger: Ledger) -> dict[str, Tensor]:
    """Read a checkpoint and refuse it unless it belongs to this plan and this ledger contains its head.

    Raises:
        FileError: the file is truncated, not a checkpoint, or not as it was written.
        LedgerError: another plan's checkpoint, or a ledger that is older than the checkpoint.
    """
    try:
        if not plain_files.is_plain_file(path) or path.is_symlink() or plain_files.is_sparse_file(path):
            raise ValueError("no plain file")
        with safe_open(path, framework="pt") as file:
            meta = json.loads(file.metadata()["tacit"])
            of, head = (meta["plan_id"], meta["dataset_id"]), meta["ledger_head"]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        if _digest(tensors) != meta["sha256"]:  # such as blocks that a disk lost behind a name that it kept
            raise ValueError("another content than was written")
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        what, expected = "the checkpoint is truncated or of another kind", "a checkpoint written by tacit"
        remedy = "delete it to start again with the steps that are left in the plan"
        raise FileError(what, where=str(path), expected=expected, remedy=remedy) from error
    if of != (plan_id, ledger.dataset_id):
        what = "the checkpoint belongs to another plan or another dataset's ledger"
        expected, remedy = f"plan {plan_id}", "resume with the plan and the ledger that began the run"
        raise LedgerError(what, where=str(path), expected=expected, remedy=remedy)
    ledger.require(head)
    return tensors


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()
