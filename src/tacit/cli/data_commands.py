"""The commands of `tacit data`, as `commands` has the others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg


@dataclass(frozen=True, kw_only=True)
class DataMaze:
    """Simulate maze transitions (declared as simulated: no person is in them).

    Args:
        out: folder to write, in tacit's own format; it must not exist.
        layout: name of the maze (open, umaze, medium, large, ring, tee, zigzag, comb, rooms).
        steps: how many transitions.
        episodes: so many whole episodes instead, of 100 to 300 steps each and a unit of its own.
        mazes: so many random mazes of the layout's size instead, never the layout itself, with --episodes in each of
            them; a maze is a unit, as a public world for `tacit synthesize --surroundings`.
        seed: of the simulation.
        unit: what one protected unit will be.
    """

    out: Path
    layout: str = "umaze"
    steps: int = 1_000_000
    episodes: int | None = None
    mazes: int | None = None
    seed: int = 0
    unit: Literal["transition", "episode"] = "transition"


@dataclass(frozen=True, kw_only=True)
class DataChain:
    """Simulate the logs of people who walk a chain of 40 states, with propensities, to try `tacit evaluate` on.

    Args:
        out: folder to write, in tacit's own format; it must not exist.
        people: how many, one episode each.
        seed: of the simulation.
    """

    out: Path
    people: int = 1_000
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class DataClinic:
    """Simulate the histories of a clinic's patients, one to four courses of treatment each, with propensities.

    Args:
        out: folder to write, in tacit's own format; it must not exist.
        patients: how many.
        doctors: how many treat them, each with habits of their own.
        seed: of the simulation and the habits.
        unit: whose history one protected unit is.
    """

    out: Path
    patients: int = 5_000
    doctors: int = 8
    seed: int = 0
    unit: Literal["patient", "doctor"] = "patient"


@dataclass(frozen=True, kw_only=True)
class DataInspect:
    """Show what is public about a dataset: fields, bounds and their source (counts only if it is simulated).

    Args:
        path: a folder that `tacit data` wrote.
    """

    path: Positional[Path]


@dataclass(frozen=True, kw_only=True)
class DataImport:
    """Read records into tacit's own format: checked, clipped to the public bounds, one unit for each row.

    Args:
        files: .csv, .parquet or .npz files of one kind, one .hdf5 file of D4RL's, or the id of a local Minari dataset.
        unit: column with the id of the protected unit (Minari: key of the episode metadata or infos), or
            ":transition" or ":episode" where each is a unit of its own (D4RL: or ":chunk", pieces of the recording of
            --chunk rows, which are nobody's). Its name is kept: whoever promises something to units of another name is
            refused.
        out: folder to write; it must not exist. It holds the private records: keep it where they may be.
        spec: JSON file with the public bounds (`PublicSpec.to_json`); only Minari can do without, from its spaces.
        chunk: rows of a piece of a D4RL recording, with --unit :chunk alone.
        horizon: after how many steps the task cuts an episode, for a D4RL file without timeouts.
        observation: which entry of a Minari dataset's dictionary of observations is read; all of them without it.
        fields: names of a table's columns where they are not the usual ones, FIELD=NAME,NAME with one name for each
            dimension: observations=pulse,pressure actions=dose rewards=effect (and next_observations, terminations,
            truncations).
        episode: column with the id of the episode; without it, terminations, truncations and units end episodes.
        reward: public bounds LOW HIGH of the reward, for Minari without a spec.
        propensity: column with the behaviour policy's probability of the logged action (Minari: key of the infos);
            without it, "propensity" (.npz: "propensities") where the spec declares propensities.
        minari_root: folder of the Minari datasets; otherwise Minari's own.
        simulated: declare that no record is a real person's.
    """

    files: Annotated[tuple[str, ...], arg(metavar="FILE [FILE ...]", help_behavior_hint="(required)"), Positional]
    unit: str
    out: Path
    spec: Path | None = None
    chunk: int | None = None
    horizon: int | None = None
    observation: str | None = None
    fields: tuple[str, ...] | None = None
    episode: str | None = None
    reward: tuple[float, float] | None = None
    propensity: str | None = None
    minari_root: Path | None = None
    simulated: bool = False
