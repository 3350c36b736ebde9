"""The records of `tacit synthesize`: private, public to begin with, and others that nothing is learned from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tacit.cli.budget import require_unit
from tacit.cli.console import progress
from tacit.cli.synthesis_commands import Synthesize
from tacit.data import overlap
from tacit.data.spec import Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError
from tacit.privacy.vault import Vault

OVERLAP = "overlap of public and private rows"
"""Why the curator looks at the records before a public pre-training, as the ledger has it."""


@dataclass(frozen=True)
class Sources:
    """What a run reads: `data` is private unless simulated, `public` and `holdout` are there if they were given."""

    data: Trajectories
    public: Trajectories | None
    holdout: Trajectories | None


def opened(command: Synthesize) -> Sources:
    """The records; whatever is wrong with them is found here, and nothing is spent.

    Raises:
        DataError: the public or other records are the private ones or of other fields, the records cannot be encoded,
            or there is nothing that other records would be compared for.
        FileError: a folder holds no records.
    """
    if command.rows < 1:
        raise DataError(
            "the number of synthetic rows is below 1",
            where="synthesize",
            expected="--rows of at least 1",
            remedy="choose another number",
        )
    require_unit(command)
    with progress("Opening the records"):
        data = Trajectories.open(command.data)
        if command.holdout is not None and not (data.simulated or command.nonprivate_diagnostics):
            raise DataError(
                "distances to private records are not differentially private",
                where="--holdout",
                expected="it with simulated records, or with --nonprivate-diagnostics, for the curator alone",
                remedy="leave --holdout out, or add --nonprivate-diagnostics",
            )
        return Sources(data, others(command, data.spec, "public"), others(command, data.spec, "holdout"))


def require_apart(sources: Sources, vault: Vault) -> None:
    """Refuse public records that are private ones; the look at private records is noted in their ledger.

    Raises:
        DataError: they overlap.
    """
    spec = vault.spec
    if sources.public is None or (isinstance(spec.observation, Discrete) and isinstance(spec.action, Discrete)):
        return  # discrete rows coincide by chance, which tells nothing
    public: Mapping[str, np.ndarray[Any, Any]] = sources.public.columns

    def look(rows: Mapping[str, np.ndarray[Any, Any]]) -> None:
        overlap.refuse(public, rows, spec)

    with progress("Looking for public records among the private ones"):
        if sources.data.simulated:
            look(sources.data.columns)
        else:
            vault.nonprivate(look, reason=OVERLAP)


def others(command: Synthesize, spec: PublicSpec, option: Literal["public", "holdout"]) -> Trajectories | None:
    """The records of another option, if it was given.

    Args:
        command: the options.
        spec: public bounds of the private records.
        option: which.

    Raises:
        DataError: they are the private ones, or of other fields.
        FileError: the folder holds no records.
    """
    path: Path | None = getattr(command, option)
    if path is None:
        return None
    found = Trajectories.open(path)
    if _shape(found.spec) != _shape(spec) or path.resolve() == command.data.resolve():
        raise DataError(
            f"the {'public' if option == 'public' else 'other'} records are the private ones, or of other fields",
            where=str(path),
            expected="other records, with observations and actions of the same kind and width",
            remedy="choose records of the same problem",
        )
    return found


def _shape(spec: PublicSpec) -> tuple[object, ...]:
    return tuple((type(space).__name__, space.size) for space in (spec.observation, spec.action))
