"""The records of `tacit synthesize`: private, public to begin with, and others that nothing is learned from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from tacit.cli.budget import require_unit
from tacit.cli.console import progress
from tacit.cli.synthesis_commands import Synthesize
from tacit.cli.synthesis_plans import DIFFUSED, PRIVORL_J
from tacit.data import overlap
from tacit.data.spec import Discrete, PublicSpec
from tacit.data.store import read_spec
from tacit.data.trajectories import Trajectories
from tacit.envs import clinic, maze
from tacit.envs.maze_layouts import LAYOUTS
from tacit.errors import DataError
from tacit.methods.synthesis import Encoder
from tacit.privacy.vault.vault import Vault

Option = Literal["public", "holdout"]
CLINIC = "clinic"
"""The one world that is no maze."""
OVERLAP = "overlap of public and private rows"
"""Why the curator looks at the records before a public pre-training, as the ledger has it."""


@dataclass(frozen=True)
class Sources:
    """What a run reads: `data` is private unless simulated, `public` and `holdout` are there if they were given."""

    data: Trajectories
    public: Trajectories | None
    holdout: Trajectories | None


def require_there(command: Synthesize) -> None:
    """Refuse what is wrong with the records as far as their public parts tell: no record is read.

    Raises:
        DataError: the public or other records are the private ones or of other fields, the units are not those whose
            ids the records have or own no episodes where whole ones are learned, the bounds do not say how large a
            step is or are not those of --world, or there is nothing that other records would be compared for.
        FileError: a folder holds no records.
    """
    spec, simulated, kind = read_spec(command.data)
    require_unit(command)
    _require_world(command, spec)
    if command.method == PRIVORL_J and kind == "transition":
        raise DataError(
            "privorl-j learns whole trajectories, and every row of these records is a unit of its own",
            where=str(command.data),
            expected="records whose units own whole episodes, such as an episode or a patient",
            remedy="import them again with such a unit, or take --method privorl for single rows",
        )
    if command.holdout is not None and not (simulated or command.nonprivate_diagnostics):
        raise DataError(
            "distances to private records are not differentially private",
            where="--holdout",
            expected="it with simulated records, or with --nonprivate-diagnostics, for the curator alone",
            remedy="leave --holdout out, or add --nonprivate-diagnostics",
        )
    for option in get_args(Option):
        _place(command, spec, option)
    if command.method in DIFFUSED and command.public is None:
        Encoder.from_bounds(spec)


def opened(command: Synthesize) -> Sources:
    """The records; whatever else is wrong with them is found here, and nothing is spent.

    Raises:
        DataError: no row says where an episode ends, and the method needs whole ones.
        FileError: a file of a folder is damaged.
    """
    with progress("Opening the records"):
        data = Trajectories.open(command.data)
        if command.method == PRIVORL_J:
            data.require_ends()
        return Sources(data, others(command, data.spec, "public"), others(command, data.spec, "holdout"))


def require_apart(command: Synthesize, sources: Sources, vault: Vault) -> None:
    """Refuse public records that are private ones; the look at private records is noted in their ledger.

    Raises:
        DataError: they overlap, or may.
    """
    spec, apart = vault.spec, command.public_is_apart
    if sources.public is None:
        return
    if apart is not None:
        vault.ledger.note("public", f"declared apart from the private records: {apart}")
    if isinstance(spec.observation, Discrete) and isinstance(spec.action, Discrete):
        return  # discrete rows coincide by chance, which tells nothing
    public: Mapping[str, np.ndarray[Any, Any]] = sources.public.columns

    def look(rows: Mapping[str, np.ndarray[Any, Any]]) -> None:
        overlap.refuse(public, rows, spec, apart=apart is not None)

    with progress("Looking for public records among the private ones"):
        if sources.data.simulated:
            look(sources.data.columns)
        else:
            vault.nonprivate(look, reason=OVERLAP)


def others(command: Synthesize, spec: PublicSpec, option: Option) -> Trajectories | None:
    """The records of another option, if it was given.

    Args:
        command: the options.
        spec: public bounds of the private records.
        option: which.

    Raises:
        DataError: they are the private ones, or of other fields.
        FileError: the folder holds no records.
    """
    path = _place(command, spec, option)
    return None if path is None else Trajectories.open(path)


def _require_world(command: Synthesize, spec: PublicSpec) -> None:
    """Refuse a world that is unknown, or that has other bounds than the records.

    Raises:
        DataError: it is one of these.
    """
    name = command.world
    if name is None:
        return
    if name != CLINIC and name not in LAYOUTS:
        raise DataError(
            f"there is no world {name!r}",
            where="--world",
            expected=f"one of {', '.join((*LAYOUTS, CLINIC))}",
            remedy="choose one of these, or leave --world out",
        )
    known = clinic.spec() if name == CLINIC else maze.spec(LAYOUTS[name])
    if (known.observation, known.action) != (spec.observation, spec.action):
        raise DataError(
            f"the records have other bounds than {name}",
            where="--world",
            expected="the simulator that the records are of",
            remedy="choose another world, or leave --world out",
        )


def _place(command: Synthesize, spec: PublicSpec, option: Option) -> Path | None:
    """The folder of another option, whose bounds are alike, or None; arguments and errors as of `others`."""
    path: Path | None = getattr(command, option)
    if path is None:
        return None
    if _shape(read_spec(path)[0]) != _shape(spec) or path.resolve() == command.data.resolve():
        raise DataError(
            f"the {'public' if option == 'public' else 'other'} records are the private ones, or of other fields",
            where=str(path),
            expected="other records, with observations and actions of the same kind and width",
            remedy="choose records of the same problem",
        )
    return path


def _shape(spec: PublicSpec) -> tuple[object, ...]:
    return tuple((type(space).__name__, space.size) for space in (spec.observation, spec.action))
