"""Ranks that are threads of one process: what they send goes through pickle, as between processes."""

from __future__ import annotations

import pickle
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from vault_cases import SPEC, priced, unit_of

from tacit.data.ingest import Ingest
from tacit.data.trajectories import Trajectories
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.lattice import step
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.sharded_vault import Int64, ShardedVault, serve
from tacit.units import Unit

KEY = b"0123456789abcdef"
WAIT = 60
GONE = b""
WIDE = 20_000
SIGMA = 1.5


class Meeting:
    """A line of letters from each thread to each other one."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.lines: dict[tuple[int, int], queue.Queue[bytes]] = {
            (sender, receiver): queue.Queue() for sender in range(count) for receiver in range(count)
        }

    def send(self, sender: int, letter: bytes) -> None:
        for receiver in range(self.count):
            self.lines[sender, receiver].put(letter)

    def received(self, sender: int, receiver: int) -> Any:
        letter = self.lines[sender, receiver].get(timeout=WAIT)
        if letter == GONE:
            raise RuntimeError("a rank is gone")
        return pickle.loads(letter)  # noqa: S301 - of this very process


@dataclass(frozen=True)
class Threads:
    """What `Ranks` is between processes."""

    meeting: Meeting
    rank: int

    @property
    def count(self) -> int:
        return self.meeting.count

    def tell(self, message: Any = None) -> Any:
        if self.rank == 0:
            self.meeting.send(0, pickle.dumps(message))
        return self.meeting.received(0, self.rank)

    def add(self, numbers: Int64) -> Int64:
        return np.sum(self.gather(numbers), axis=0)

    def gather(self, numbers: Int64) -> list[Int64]:
        self.meeting.send(self.rank, pickle.dumps(numbers))
        return [self.meeting.received(sender, self.rank) for sender in range(self.count)]


def shard(people: Sequence[Sequence[float]], names: Sequence[Any], *, key: bytes | None = KEY) -> Trajectories:
    """One person a list, whose rows carry the listed rewards; observations follow from the rewards."""
    rewards = np.array([reward for person in people for reward in person], np.float32)
    ids = np.repeat(np.array(names, object), [len(person) for person in people])
    with Ingest(SPEC, simulated=True, unit="person", digest_key=key) as ingest:
        columns = {"observations": rewards[:, None] / 4, "next_observations": rewards[:, None] / 4}
        flags = {"actions": np.zeros(len(ids), int), "terminations": np.zeros(len(ids), bool)}
        ingest.add({**columns, **flags, "rewards": rewards}, ids)
        return Trajectories(ingest.finish(), SPEC, simulated=True)


def dealt(people: Sequence[Sequence[float]], ranks: int) -> list[Trajectories]:
    """The people, one after another to each rank."""
    return [shard(people[rank::ranks], range(len(people))[rank::ranks]) for rank in range(ranks)]


def together(
    folder: Path,
    shards: Sequence[Trajectories],
    do: Callable[[ShardedVault], Any],
    *,
    unit: Unit | None = None,
    noises: Sequence[Callable[[], SecretNoise]] | None = None,
    ranks_of: Callable[[Meeting, int], Any] = Threads,
) -> tuple[Any, list[BaseException]]:
    """What `do` makes of the vault of rank 0, or the error of it, and the errors of the other ranks."""
    unit, meeting = unit or unit_of(), Meeting(len(shards))
    own: Sequence[Callable[[], Any]] = noises or [lambda: None] * len(shards)  # made in each rank's own thread
    errors: list[BaseException] = []

    def worker(rank: int) -> None:
        try:
            serve(shards[rank], ranks_of(meeting, rank), noise=own[rank]())
        except BaseException as error:
            errors.append(error)
            meeting.send(rank, GONE)

    threads = [threading.Thread(target=worker, args=(rank,)) for rank in range(1, len(shards))]
    for thread in threads:
        thread.start()
    result: Any
    with Ledger(folder / "sharded.ledger", unit, epsilon=1e6, delta=0.5 / unit.size, composition=SUM) as ledger:
        try:
            with ShardedVault(shards[0], ledger, ranks=ranks_of(meeting, 0), noise=own[0]()) as vault:
                result = do(vault)
        except Exception as error:
            result = error
            meeting.send(0, GONE)
    for thread in threads:
        thread.join(WAIT)
    return result, errors


@dataclass(frozen=True)
class Zeros:
    """Every unit adds nothing."""

    size: int = WIDE

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return np.zeros((len(rows["rewards"]), self.size))


def released_steps(folder: Path, ranks: int, seeds: int | None = None) -> Int64:
    """The noise of one sum over so many ranks, in whole steps of the lattice."""

    def noise_of(vault: ShardedVault) -> Int64:
        run = vault.reserve(priced(vault, noise_multiplier=SIGMA))
        steps = vault.noisy_sum(run, "sum", Zeros())[0] * vault.unit.size / step(SIGMA)
        assert np.allclose(steps, np.rint(steps), rtol=0, atol=1e-6), "a number lies between the lattice's"
        return np.rint(steps).astype(np.int64)

    noises = None if seeds is None else [partial(SecretNoise.for_tests, seeds + rank) for rank in range(ranks)]
    result, _ = together(folder, dealt([[0.0]] * 8, ranks), noise_of, noises=noises)
    if isinstance(result, BaseException):
        raise result
    return result


def p_of_law(steps: Int64) -> float:
    """How likely whole numbers are so far from N(0, SIGMA^2), rounded to the lattice, or farther (64 cells)."""
    cells = stats.norm.ppf(np.arange(1, 64) / 64)
    edges = np.floor(cells * SIGMA / step(SIGMA)) + 0.5  # between two whole numbers: their masses are exact
    masses = np.diff(stats.norm.cdf(edges * step(SIGMA) / SIGMA), prepend=0, append=1)
    counts = np.bincount(np.searchsorted(edges, steps), minlength=64)
    return float(stats.chisquare(counts, masses * len(steps)).pvalue)
