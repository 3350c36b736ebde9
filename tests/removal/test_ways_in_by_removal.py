"""From a file to a sum: somebody leaves, somebody comes, the others stand in another order, and what they add stays.

Each way in reads invented people, and those who are left of them. The others' names, folds, rows and contributions have
to stay byte for byte, and the exact sum of a real vault moves by the one person's clipped contribution alone.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from minari.data_collector import EpisodeBuffer
from round_cases import marks, rounds_of
from shard_cases import KEY, together
from user_cases import priced
from vault_cases import unit_of

from tacit.data import Box, Discrete, PublicSpec, Trajectories
from tacit.data.mobility import Rules, from_cells, from_points
from tacit.data.mobility.grids import RegularGrid
from tacit.data.sources import databases, lake, shards, sorting
from tacit.data.sources.dictionaries import from_scope_rl
from tacit.data.sources.sorting import TableOptions
from tacit.data.texts import Texts
from tacit.privacy import deals
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.records import Reader
from tacit.privacy.vault.removal import Harness
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

SPEC = PublicSpec(Box((0.0,), (9.0,)), Discrete(3), Box((0.0,), (9.0,)), "declared", terminals=True)
GRID = RegularGrid.of_metres((39.9, 116.3, 39.92, 116.32), 1000)
UNIT, ROWS, PERIOD = unit_of(100), 96, 4
SLACK = 2e-4
"""How far the slack in the clip, 1e-4 of it, moves a sum."""

People = dict[str, pd.DataFrame]
Way = Callable[[pd.DataFrame, Path], list[Trajectories]]


def person(number: int) -> pd.DataFrame:
    """One to five steps in one to three episodes, and as many fixes on as many days."""
    steps = np.arange(1 + number % 5)
    ends = (steps % 2 == 1) | (steps == steps[-1])
    return pd.DataFrame(
        {
            "who": f"p{number}",
            "observation_0": (number + steps) % 7 / 4,
            "next_observation_0": (number + steps + 1) % 7 / 4,
            "action": (number + steps) % 3,
            "reward": (number % 4 + steps) / 4,
            "termination": ends,
            "time": [f"2020-03-{step + 2:02}T00:00:00+08:00" for step in steps],
            "lat": 39.901 + number % 3 * 0.007,
            "lon": 116.301 + steps % 2 * 0.009,
            "text": [f"words {number} {step}" for step in steps],
        }
    )


PEOPLE: People = {f"p{number}": person(number) for number in range(3, 12)}
NEW = {"p2": person(2), "p0": person(0)}
CHANGES: dict[str, People] = {
    "first leaves": dict(itertools.islice(PEOPLE.items(), 1, None)),
    "one in the middle leaves": {who: rows for who, rows in PEOPLE.items() if who != "p7"},
    "one comes first": {"p2": NEW["p2"], **PEOPLE},
    "one comes last": {**PEOPLE, "p0": NEW["p0"]},
    "another order": dict(reversed(PEOPLE.items())),
}


def of_csv(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    table.to_csv(folder / "a.csv", index=False)
    return [Trajectories.from_csv(folder / "a.csv", unit="who", spec=SPEC, simulated=True)]


def of_parquet(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    table.to_parquet(folder / "a.parquet", index=False)
    return [Trajectories.from_parquet(folder / "a.parquet", unit="who", spec=SPEC, simulated=True)]


def of_frame(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    return [Trajectories.from_frame(table, unit="who", spec=SPEC, simulated=True)]


def of_arrow(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    return [Trajectories.from_frame(pa.Table.from_pandas(table), unit="who", spec=SPEC, simulated=True)]


def arrays(table: pd.DataFrame) -> dict[str, Any]:
    """Columns by the names of fields."""
    fields = {"observations": "observation_0", "next_observations": "next_observation_0", "actions": "action"}
    fields |= {"rewards": "reward", "terminations": "termination", "unit_ids": "who"}
    return {field: table[column].to_numpy() for field, column in fields.items()}


def of_arrays(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    return [Trajectories.from_arrays(**arrays(table), spec=SPEC, simulated=True)]


def of_blocks(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    """Four rows at a time: somebody who leaves moves everybody's blocks."""
    blocks = (arrays(table[start : start + 4]) for start in range(0, len(table), 4))
    return [Trajectories.from_blocks(blocks, spec=SPEC, simulated=True)]


def of_sorted(found: lake.SourceTable) -> list[Trajectories]:
    return [
        Trajectories(
            sorting.read(found, TableOptions(unit="who", time="time"), SPEC, simulated=True), SPEC, simulated=True
        )
    ]


def mixed(table: pd.DataFrame) -> pd.DataFrame:
    """Nobody's rows are together, nor in order of time."""
    return table.sort_values(["time", "who"], ascending=[False, True], kind="stable")


def of_lake(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    mixed(table).to_csv(folder / "a.csv", index=False)
    return of_sorted(lake.open_table([str(folder / "a.csv")]))


def of_database(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    with sqlite3.connect(folder / "a.sqlite") as base:
        mixed(table).to_sql("rows", base, index=False)
    return of_sorted(databases.open_table("SELECT * FROM rows", f"sqlite:{folder / 'a.sqlite'}"))


def of_dictionaries(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    """Episodes of a length, as `SCOPE-RL` has them: a person's rows, one each."""
    given = arrays(table)
    done = np.ones(len(table))
    logged = {"state": given["observations"][:, None], "action": given["actions"], "reward": given["rewards"]}
    logged |= {"done": done, "terminal": 0 * done}
    return [from_scope_rl(logged, unit_ids=given["unit_ids"].tolist(), spec=SPEC, simulated=True)]


def of_minari(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    whose, buffers = [], []
    for who, rows in table.groupby("who", sort=False):
        whose.append({"who": who})
        buffers.append(
            EpisodeBuffer(
                observations=np.append(rows["observation_0"], 0).astype(np.float32)[:, None],
                actions=rows["action"].to_numpy(),
                rewards=rows["reward"].tolist(),
                terminations=[False] * (len(rows) - 1) + [True],
                truncations=[False] * len(rows),
            )
        )
    made = minari.create_dataset_from_buffers(
        f"{folder.name}/people-v0",
        buffers,
        observation_space=gymnasium.spaces.Box(0, 9, (1,), np.float32),
        action_space=gymnasium.spaces.Discrete(3),
    )
    made.storage.update_episode_metadata(whose)
    return [Trajectories.from_minari(made, unit="who", spec=SPEC, simulated=True)]


def of_positions(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    days = from_points(table.rename(columns={"who": "user"}), GRID, Rules("Asia/Shanghai", carry=48, observed=1))
    return [days.trajectories(simulated=True)]


def of_days(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    cells = np.arange(48) // 12 % 2 + table["action"].to_numpy()[:, None] % 2
    days = from_cells({"days": cells, "user": table["who"].tolist()}, GRID, places=None)
    return [days.trajectories(simulated=True)]


def of_shards(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    table.to_parquet(folder / "a.parquet", index=False)
    shards.write([str(folder / "a.parquet")], folder / "s", unit="who", shards=2, spec=SPEC, simulated=True)
    found = shards.read_shards(folder / "s")
    assert found is not None
    return [found.read(rank, 2, digest_key=KEY, store=folder / f"store {rank}") for rank in range(2)]


WAYS: tuple[Way, ...] = (of_csv, of_parquet, of_frame, of_arrow, of_arrays, of_blocks, of_lake, of_database)
WAYS += (of_dictionaries, of_minari, of_positions, of_days, of_shards)


def the_first_rows(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    """Reads no more than 16 rows: whoever leaves lets another one in."""
    return of_frame(table[:16], folder)


def by_rank(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    """Every third person by rank takes the other action."""
    ranks = np.unique(table["who"], return_inverse=True)[1]
    return of_frame(table.assign(action=np.where(ranks % 3 == 0, 2 - table["action"], table["action"])), folder)


def to_the_largest(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    """Scales rewards by the largest of all."""
    return of_frame(table.assign(reward=table["reward"] / table["reward"].max()), folder)


def by_number(table: pd.DataFrame, folder: Path) -> list[Trajectories]:
    """Calls people by their number in the file."""
    return of_frame(table.assign(who=pd.factorize(table["who"])[0]), folder)


PLANTED: tuple[Way, ...] = (the_first_rows, by_rank, to_the_largest, by_number)


@dataclass(frozen=True)
class Told:
    """All of a person's rows in one vector, each by its place among the person's own; larger than the clip."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        places = (1 + np.arange(rows["mask"].shape[1])) * rows["mask"]
        found = [
            (rows[name].reshape(*places.shape, -1).astype(np.float64) * places[..., None]).sum(1)
            for name in ("actions", "observations", "rewards", "terminations")
        ]
        return np.concatenate([np.ones((len(places), 1)), *found], axis=1)


@dataclass(frozen=True)
class Seen:
    """Of every person by name: what is theirs, byte for byte, and their clipped vector; and the exact sums."""

    own: dict[bytes, tuple[bytes, ...]]
    added: dict[bytes, np.ndarray]
    sums: list[np.ndarray]


def seen(way: Way, people: People, folder: Path) -> Seen:
    """What a way in and a real vault make of these people."""
    table = pd.concat(people.values(), ignore_index=True)
    own, added = dict[bytes, tuple[bytes, ...]](), dict[bytes, np.ndarray]()
    folder.mkdir()
    read = way(table, folder)
    for data in read:
        reader = Reader(data, SecretNoise.for_tests(1))
        rows = reader.rows(np.arange(reader.units), ROWS, "first")
        vectors = Told()(rows, None)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1)
        dealt = [
            reader.folds("key"),
            deals.choose(reader.names, "plan", PERIOD, purpose="round"),
            reader.episodes_per_unit(),
        ]
        for unit, name in enumerate(map(bytes, reader.names)):
            columns = [rows[column][unit] for column in sorted(rows)]
            own[name] = tuple(np.asarray(value).tobytes() for value in (*columns, *(each[unit] for each in dealt)))
            added[name] = vectors[unit]
        assert reader.units == len(set(map(bytes, reader.names)))
    return Seen(own, added, exact_sums(read, lambda: way(table, _beside(folder)), folder))


def _beside(folder: Path) -> Path:
    other = folder.with_name(f"{folder.name}_again")
    other.mkdir()
    return other


def exact_sums(read: list[Trajectories], again: Callable[[], list[Trajectories]], folder: Path) -> list[np.ndarray]:
    """Of a vault over records and one over devices; or of one over shards."""
    part = PoissonSum(
        name="sum", steps=1, sampling_rate=1.0, clip_norm=1.0, rows="first", rows_per_unit=ROWS, noise_multiplier=0.0
    )
    plan = priced(part, unit=UNIT)

    def total(vault: Any) -> np.ndarray:
        return np.asarray(vault.noisy_sum(vault.reserve(plan), "sum", Told())[0] * UNIT.size)

    if len(read) > 1:
        found, errors = together(folder, read, total, unit=UNIT)
        assert not errors
        return [found]
    vaults = [Vault(read[0], ledger(folder, "a")), FederatedVault(StackedDevices(again()[0]), ledger(folder, "b"))]
    return [total(vault) for vault in vaults]


def ledger(folder: Path, name: str, unit: Unit = UNIT) -> Ledger:
    return Ledger(folder / f"{name}.ledger", unit, epsilon=1e6, delta=0.5 / unit.size, composition=SUM)


def require_others_stay(before: Seen, after: Seen) -> None:
    """Who is in both is the same in both; the sums differ by one person's vector, or by nothing."""
    changed = before.own.keys() ^ after.own.keys()
    assert len(changed) <= 1, f"{len(changed)} people came or left"
    for name in before.own.keys() & after.own.keys():
        assert before.own[name] == after.own[name]
        assert before.added[name].tobytes() == after.added[name].tobytes()
    signed = [after.added[name] if name in after.added else -before.added[name] for name in changed]
    for one, other in zip(before.sums, after.sums, strict=True):
        moved = other - one
        assert np.linalg.norm(moved) <= 1 + SLACK
        np.testing.assert_allclose(moved, np.sum(signed, axis=0) if signed else 0 * moved, atol=SLACK)


@pytest.fixture(autouse=True)
def tried_briefly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Harness, "try_at_length", Harness.try_briefly)  # callbacks have tests of their own
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


@pytest.mark.filterwarnings("ignore:.* None:UserWarning")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_nobody_else_moves(way: Way, tmp_path: Path) -> None:
    before = seen(way, PEOPLE, tmp_path / "before")
    assert len(before.own) == len(PEOPLE)
    for number, people in enumerate(CHANGES.values()):
        require_others_stay(before, seen(way, people, tmp_path / f"after_{number}"))


@pytest.mark.parametrize("way", PLANTED, ids=lambda way: way.__name__)
def test_a_way_in_that_couples_people_is_seen(way: Way, tmp_path: Path) -> None:
    before = seen(way, PEOPLE, tmp_path / "before")
    for number, people in enumerate(CHANGES.values()):
        after = seen(way, people, tmp_path / f"after_{number}")
        try:
            require_others_stay(before, after)
        except AssertionError:
            return
    raise AssertionError(f"{way.__name__} is not seen")


def of_texts(people: Sequence[pd.DataFrame], folder: Path) -> dict[str, tuple[str, ...]]:
    """Texts by key, in the order of the file."""
    folder.mkdir()
    pd.concat(people, ignore_index=True).to_csv(folder / "a.csv", index=False)
    found: dict[str, tuple[str, ...]] = {}
    for key, (text,) in Texts(folder / "a.csv", "who", "text").rows():
        found[key] = (*found.get(key, ()), text)
    return found


def test_nobody_elses_texts_or_round_moves(tmp_path: Path) -> None:
    before = of_texts(list(PEOPLE.values()), tmp_path / "before")
    whole = rounds_of(tmp_path / "rounds before", list(before))
    assert whole.sum() == pytest.approx(len(PEOPLE), abs=len(PEOPLE) * 2.0**-7)
    for number, people in enumerate(CHANGES.values()):
        after = of_texts(list(people.values()), tmp_path / f"after {number}")
        moved = rounds_of(tmp_path / f"rounds after {number}", list(after)) - whole
        changed = before.keys() ^ after.keys()
        assert {key: before[key] for key in before if key in after} == {
            key: after[key] for key in after if key in before
        }
        for place in (int(4 * earned[0]) for key, earned in marks(list(before)).items() if key not in changed):
            assert not moved[:, place].any()
        assert np.linalg.norm(moved) == pytest.approx(len(changed), abs=2.0**-7)
