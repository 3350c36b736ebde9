"""Detectors of mistakes about who is one unit: what a correct library does for odd ids, twins, windows and halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from vault_cases import told_apart_by_rewards

from tacit.data import Box, Discrete, PublicSpec, Trajectories
from tacit.errors import DataError, LedgerError
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.records import Reader
from tacit.study.account import Account, VerbPhrases
from tacit.study.folder import RunFolder
from tacit.study.words import Budget
from tacit.units import Unit

SPEC = PublicSpec(Box((0.0,), (9.0,)), Discrete(2), Box((0.0,), (9.0,)), "declared", terminals=False)


def table(ids: Sequence[Any], **more: Sequence[Any]) -> pa.Table:
    """One row an id, in the order of time."""
    ones, numbers = [1.0] * len(ids), list(range(len(ids)))
    columns = {"observation_0": numbers, "next_observation_0": ones, "action": [1] * len(ids), "reward": ones}
    return pa.table({"who": list(ids), "hour": numbers, "truncation": [True] * len(ids), **columns, **more})


def read(ids: Sequence[Any], **wanted: Any) -> Trajectories:
    """The rows of a frame; its unit is named so."""
    data: Trajectories = Trajectories.from_frame(table(ids), unit="who", spec=SPEC, simulated=True, **wanted)
    return data


def refused(read: Callable[[], Any]) -> bool:
    """Whether these rows are."""
    try:
        read()
    except (DataError, LedgerError):
        return True
    return False


def one_person_stays_one(folder: Path) -> None:
    """White space at the ends makes no second person, in SQL as in Python, and her rows lie in the order of time."""
    data = read(["Ann\t", "M", "Ann", "\u2028Ann"], time="hour")
    assert data.counts()["units"] == 2, "one person is several"
    seen = np.asarray(data.columns["observations"])[:, 0]
    own = [seen[rows].tolist() for rows in np.split(*_rows(data))]
    assert sorted(own) == [[0.0, 2.0, 3.0], [1.0]], "a person's rows are sorted apart"


def _rows(data: Trajectories) -> tuple[np.ndarray, np.ndarray]:
    order, offsets = data._unit_rows
    return order, offsets[1:-1]


def people_stay_apart(folder: Path) -> None:
    """Ids of any bytes are as many people as there are ids."""
    ids = [bytes([byte, 128]) for byte in range(128, 256)]
    pq.write_table(table(ids), folder / "bytes.parquet")
    options: dict[str, Any] = {"unit": "who", "spec": SPEC, "simulated": True}
    assert Trajectories.from_parquet(folder / "bytes.parquet", **options).counts()["units"] == 128, "people became one"
    assert Trajectories.from_frame(table(ids), **options).counts()["units"] == 128, "people became one in SQL"


def twins_are_refused(folder: Path) -> None:
    """Ids that differ by case or form alone, in one chunk, in two, in two files."""
    for one, other in (("Ann", "ann"), ("caf\u00e9", "cafe\u0301"), ("12", "1\u200b2"), ("\u00e9", "e\u200d\u0301")):
        assert refused(lambda pair=(one, other): read(pair)), "one person passes for two"
        files = [folder / f"{name}.parquet" for name in "ab"]
        for path, name in zip(files, (one, other), strict=True):
            pq.write_table(table([name]), path)
        many = {"unit": "who", "spec": SPEC, "simulated": True}
        assert refused(lambda files=files, many=many: Trajectories.from_parquet(files, **many)), "two files, two people"


def twins_meet_in_shards(folder: Path) -> None:
    """Two shards with the same person under two spellings have a digest in common."""
    digests = []
    for name in ("Ann", "ann"):
        pq.write_table(table([name]), folder / f"{len(digests)}.parquet")
        data = Trajectories.from_parquet(
            folder / f"{len(digests)}.parquet", unit="who", spec=SPEC, simulated=True, digest_key=bytes(16)
        )
        digests.append(data._records.digests)
    assert np.array_equal(*digests), "two shards do not see that they hold one person"


def windows_stay_inside(folder: Path) -> None:
    """Windows see the rows of one unit, where its ids are numbers of the spec too, and whatever columns are called."""
    path = folder / "windows.csv"
    path.write_text(
        "observation_0,hour,action,termination,observation_0 as it is\n"
        + "".join(f"{name},{hour},1,False,x\n" for hour, name in enumerate(("1", "01", "1.0", "1")))
    )
    from tacit.data.sources import lake, sorting

    wanted = sorting.TableOptions(
        "observation_0", time="hour", next="keep", reward="count(*) OVER (PARTITION BY observation_0)"
    )
    data = Trajectories(sorting.read(lake.open_table([str(path)]), wanted, SPEC, simulated=True), SPEC, simulated=True)
    assert data.counts()["units"] == 3, "ids became one, or several"
    assert sorted(np.asarray(data.columns["rewards"]).tolist()) == [1, 1, 2, 2], "a window sees another unit's rows"


def events_are_no_episodes(folder: Path) -> None:
    """Rows in the order of events, of people in turn, are refused: whose episode goes on is not said."""
    some = dict.fromkeys(("observations", "next_observations", "rewards"), np.ones(4))
    flags = {"actions": np.ones(4, int), "terminations": np.zeros(4, bool)}
    rows = {**some, **flags, "unit_ids": [1, 2, 1, 2], "spec": SPEC, "simulated": True}
    assert refused(lambda: Trajectories.from_arrays(**rows)), "one-row episodes, silently"
    assert not refused(lambda: Trajectories.from_arrays(**rows, truncations=np.ones(4, bool)))
    assert not refused(lambda: Trajectories.from_arrays(**{**rows, "unit_ids": [1, 1, 2, 2]}))


def one_ledger_for_all_sources(folder: Path) -> None:
    """Two files share a ledger: neither of them gets another one."""
    files = folder / "a.csv", folder / "b.csv"
    for path in files:
        path.write_text("user\n")
    with paying(files, folder / "both.ledger").open_ledger(RunFolder(folder)) as ledger:
        ledger.note("look", "an entry")
    for path in files:
        assert refused(paying((path,)).require_sole_ledger), "a second ledger for the same people"


def one_ledger_for_a_folder_and_its_parts(folder: Path) -> None:
    """A folder of records, a folder in it and the folder around it are the same people: the first one's ledger pays."""
    nested = [folder / "all", folder / "all" / "some", folder / "all" / "some" / "one"]
    nested[-1].mkdir(parents=True)
    with paying((nested[1],)).open_ledger(RunFolder(folder)) as ledger:
        ledger.note("look", "an entry")
    for path in (nested[0], nested[2]):
        assert refused(paying((path,)).require_sole_ledger), "a second ledger for the same people"
        paying((path,), folder / "all" / "some.ledger").require_sole_ledger()


def paying(sources: tuple[Path, ...], ledger: Path | None = None) -> Account:
    """What pays for a release of these records."""
    unit, words = Unit("person", "add_or_remove", 100), VerbPhrases("people", "imitation", "made of", "imitate")
    budget = Budget(epsilon=1.0, sampled=1.0)
    return Account(sources=sources, unit=unit, epsilon=1.0, delta=1e-4, phrases=words, ledger=ledger, budget=budget)


def edits_move_no_half(folder: Path) -> None:
    """Rows of people with ids are edited, one person after another: nobody's half changes, in a vault or in shards."""
    units = [[i / 10] for i in range(30)]
    before = Reader(told_apart_by_rewards(units, range(30)), SecretNoise()).folds("key")
    for edited in range(30):
        other = [*units[:edited], [8.0, 9.0], *units[edited + 1 :]]
        after = Reader(told_apart_by_rewards(other, range(30)), SecretNoise()).folds("key")
        assert np.array_equal(before, after), "an edit of a person's rows moves a half"
        alone = Reader(told_apart_by_rewards([other[edited]], [edited]), SecretNoise()).folds("key")
        assert alone[0] == before[edited], "a shard deals its units otherwise"


IDENTITY_DETECTORS = (
    one_person_stays_one,
    people_stay_apart,
    twins_are_refused,
    twins_meet_in_shards,
    windows_stay_inside,
    events_are_no_episodes,
    one_ledger_for_all_sources,
    one_ledger_for_a_folder_and_its_parts,
    edits_move_no_half,
)
