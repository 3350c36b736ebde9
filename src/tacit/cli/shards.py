"""Records in shards: `tacit data shard` writes them, and the processes of a `torchrun` read one each."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.cli.console import progress, say
from tacit.cli.data_declarations import DataShard
from tacit.cli.options import refused
from tacit.data import spec_files
from tacit.data.sources import shards
from tacit.data.sources.files import described_spec
from tacit.data.trajectories import Trajectories
from tacit.errors import FileError, MechanismError
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.vault.ranks import Ranks
from tacit.privacy.vault.vault import Vault
from tacit.tracking import Tracker

if TYPE_CHECKING:
    from tacit.privacy.vault.sharded_vault import ShardedVault


def shard(command: DataShard) -> None:
    """Write the shards.

    Raises:
        DataError: a column is missing, or there are no public bounds.
        PlanError: the number of shards is out of range.
        FileError: a file is missing or damaged, or the folder exists.
    """
    if not command.files:
        raise refused("data shard", "there is no file", "Parquet files, globs or folders", "name them")
    spec = described_spec(command.files) if command.spec is None else spec_files.read(command.spec)
    with progress(f"Dealing the rows to {command.shards:,} shards"):
        shards.write(
            command.files,
            command.out,
            unit=command.unit,
            shards=command.shards,
            spec=spec,
            episode=command.episode,
            time=command.time,
            fields=command.fields,
            unit_key=command.unit_key,
            simulated=command.simulated,
            memory=command.memory,
        )
    what = "simulated records" if command.simulated else "the private records: keep it where they may be"
    say(f"Wrote {command.out} ({what}).")


@dataclass
class Lead:
    """How the process that leads a command opens its records: rank 0, or the only one.

    Args:
        ranks: all processes of a `torchrun`; None without one.
    """

    ranks: Ranks | None
    _stack: ExitStack = field(default_factory=ExitStack)
    _served: bool = False

    def open(self, folder: Path) -> Trajectories:
        """The records, or this process's shards of them.

        Raises:
            FileError: there are several processes and no shards, or a file is missing or damaged.
            DataError, PlanError: as for `shards.Shards.read`.
        """
        if self.ranks is not None:
            described = _described(folder)  # before the others read theirs
            return _read(described, self.ranks, self.ranks.share_key(), self._stack)
        whole = shards.described(folder)
        return Trajectories.open(folder) if whole is None else _read(whole, None, None, self._stack)

    @contextmanager
    def vault(self, data: Trajectories, ledger: Ledger, tracker: Tracker | None) -> Iterator[Vault]:
        """A vault over what `open` gave, and the shards of the other processes."""
        if self.ranks is None:
            yield Vault(data, ledger, tracker=tracker)
            return
        from tacit.privacy.vault.sharded_vault import ShardedVault

        self._served = True
        sharded: ShardedVault
        with ShardedVault(data, ledger, ranks=self.ranks, tracker=tracker) as sharded:
            yield sharded

    @contextmanager
    def on_its_way(self) -> Iterator[Lead]:
        """Whatever happens, the other processes are sent home, and no copy of a shard stays."""
        with self._stack:
            try:
                yield self
            finally:
                if self.ranks is not None:
                    with suppress(RuntimeError):  # of ranks that are gone
                        if not self._served:
                            self.ranks.tell(None)
                    self.ranks.close()


def serve(folder: Path, ranks: Ranks) -> None:
    """What every process but the first does: read its shards, and serve the vault of rank 0.

    Raises:
        MechanismError: rank 0 or another process is gone.
        DataError, PlanError, FileError: as for `Lead.open`.
    """
    from tacit.privacy.vault.sharded_vault import serve as answer

    gone = False
    with ExitStack() as stack:
        try:
            key = ranks.tell()
            if key is not None:
                answer(_read(_described(folder), ranks, key, stack), ranks)
        except RuntimeError:
            gone = True  # its text names addresses
        finally:
            ranks.close()
    if gone:
        what, remedy = "another process is gone", "see what the others wrote, and start all of them again with --resume"
        raise MechanismError(what, where=f"rank {ranks.rank}", expected="all processes of the run", remedy=remedy)


def _described(folder: Path) -> shards.Shards:
    described = shards.described(folder)
    if described is None:
        what, expected = "the records are in one piece, and there are several processes", "a folder of shards"
        remedy = "write one with `tacit data shard`, or start the command without torchrun"
        raise FileError(what, where=str(folder), expected=expected, remedy=remedy)
    return described


def _read(described: shards.Shards, ranks: Ranks | None, key: bytes | None, stack: ExitStack) -> Trajectories:
    temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tacit-shard-")))
    rank, count = (0, 1) if ranks is None else (ranks.rank, ranks.count)
    return described.read(rank, count, digest_key=key, store=temporary / "records")


def joined() -> Ranks | None:
    """The processes of the `torchrun` that started this one, if one did."""
    return Ranks() if Ranks.started() else None
