"""Stacked critics of many people, a round over 9,481 people, and the synthetic city: process CPU time on one thread.

Run `python -m benchmarks.mobility`. The last line is one JSON object. `critics_speedup` is the time of ten WGAN-GP
steps of 83 people's critics one after another in torch (`benchmarks.peers.torch_critics`: a module, an Adam and a
double differentiation each; batches of 64 rows, two hidden layers of 32) over that of the same steps stacked
(`tacit.methods.mobility.pategail.critics`); `critics_difference` is how far their slopes are apart, over
their length. `stacked_over_shared` is the stacked time over that of ten steps of one critic, shared by everybody, on
the same rows with the same code.

`users_9481_round_s` is one round of the paper's method over 9,481 people of the synthetic city with 20 days each,
through the door of a `FederatedVault` over stacked devices: ten steps of everybody's own critic, everybody's rewards of
the rollouts of 300 public days, clipped, summed and noised. `users_9481_begin_s` is what is done once, before the first
round. `users_9481_gib` is the peak memory of a process that makes the city and does all this, interpreter and libraries
included. `city_users_per_s` is how many people of the city get a week of days in a second.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from benchmarks.peers import torch_critics
from tacit.data.mobility.days import SLOTS
from tacit.methods.mobility.pategail import critics
from tacit.methods.mobility.pategail.critics import Critic, CriticArrays, Embedding, adam
from tacit.methods.mobility.pategail.rewards import CHUNK, LocalCritics, pair_codes
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.base import Part
from tacit.privacy.mechanisms.device_sums import sum_over_all
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.plan import PrivatePlan
from tacit.units import Unit
from tacit_worlds.city import city

PEOPLE, STEPS = 83, 10
MANY, DAYS, ROLLOUTS = 9_481, 20, 300
EPSILON, DELTA, ROUNDS = 2.0, 1e-5, 3
CITIZENS, WEEK = 20_000, 7
CRITIC = Critic(hidden=(32, 32), penalty=10.0, steps=STEPS, batch=64)


def batches(people: int, embedding: Embedding, seed: int = 0) -> np.ndarray:
    """Embedded rows [S, U, 3 B, d + 1]: own, generated and mixed ones, and a column of ones."""
    rng, size = np.random.default_rng(seed), CRITIC.batch
    pairs = embedding.embed(rng.integers(embedding.codes, size=(STEPS, people, 2 * size)))
    share = rng.random((STEPS, people, size, 1), np.float32)
    mixed = share * pairs[:, :, :size] + (1 - share) * pairs[:, :, size:]
    rows = np.concatenate([pairs, mixed], axis=2)
    return np.concatenate([rows, np.ones((*rows.shape[:-1], 1), np.float32)], axis=-1)


def stacked(theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Parameters [U, P] after the steps, as `LocalCritics` trains them: some people at a time."""
    found = theta.copy()
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    for start in range(0, len(theta), CHUNK):
        chosen = slice(start, start + CHUNK)
        work = CriticArrays.of(CRITIC, rows[0, chosen])
        for step, batch in enumerate(rows[:, chosen], start=1):
            slope = CRITIC.slopes(found[chosen], batch.copy(), work)
            taken = np.full(len(slope), step)
            adam(found[chosen], first[chosen], second[chosen], slope, taken, CRITIC.rate, CRITIC.decays)
    return found


def shared(theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Parameters [1, P] of one critic after as many steps on everybody's rows."""
    found, people = theta[:1].copy(), rows.shape[1]
    first, second, size = np.zeros_like(found), np.zeros_like(found), CRITIC.batch
    for step, batch in enumerate(rows, start=1):
        total = np.zeros_like(found)
        for start in range(0, people, CHUNK):
            chunk = batch[start : start + CHUNK]
            kinds = chunk.reshape(len(chunk), 3, size, -1).swapaxes(0, 1)
            joined = kinds.reshape(1, 3 * len(chunk) * size, -1).copy()
            total += len(chunk) / people * CRITIC.slopes(found, joined)
        adam(found, first, second, total, np.array([step]), CRITIC.rate, CRITIC.decays)
    return found


def looped(theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """As `stacked`, in torch."""
    sizes, leak = (rows.shape[-1] - 1, *CRITIC.hidden, 1), float(critics._LEAK)
    return np.stack(
        [
            torch_critics.updates(
                torch_critics.critic(sizes, own, leak),
                np.ascontiguousarray(rows[:, person, :, :-1]),
                penalty=CRITIC.penalty,
                rate=CRITIC.rate,
                decays=CRITIC.decays,
            )
            for person, own in enumerate(theta)
        ]
    )


def critic_updates(repeats: int) -> dict[str, object]:
    """`critics_speedup`, `stacked_over_shared`, the times, and how far the results are apart."""
    embedding = Embedding()
    rows, theta = batches(PEOPLE, embedding), CRITIC.initial(embedding.size, PEOPLE)
    sizes, leak = (embedding.size, *CRITIC.hidden, 1), float(critics._LEAK)
    ours = CRITIC.slopes(theta, rows[0].copy())
    theirs = np.stack(
        [
            torch_critics.slopes(torch_critics.critic(sizes, own, leak), batch[:, :-1].copy(), CRITIC.penalty)
            for own, batch in zip(theta, rows[0], strict=True)
        ]
    )
    apart = float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
    seconds = timing.cpu_seconds(
        {
            "stacked": lambda: stacked(theta, rows),
            "shared": lambda: shared(theta, rows),
            "looped": lambda: looped(theta, rows),
        },
        repeats=repeats,
    )
    milliseconds = {name: 1000 * statistics.median(seconds[name]) for name in seconds}
    print(f"{STEPS} steps of {PEOPLE} critics: " + ", ".join(f"{k} {v:.0f} ms" for k, v in milliseconds.items()))
    return {
        "critics_speedup": timing.ratio(seconds, "looped", "stacked"),
        "stacked_over_shared": timing.ratio(seconds, "stacked", "shared"),
        **{f"critics_{name}_ms": value for name, value in milliseconds.items()},
        "critics_difference": apart,
    }


@dataclass(frozen=True, kw_only=True)
class Rounds(PrivatePlan):
    """Noisy sums of everybody's rewards of the same rollouts."""

    method: ClassVar[str] = "rounds of critics"
    source: ClassVar[str] = "benchmarks.mobility"
    people: int
    noise_multiplier: float | None = None

    def parts(self) -> tuple[Part, ...]:
        """One part of `ROUNDS` sums."""
        sigma, rows = self.noise_multiplier, DAYS * (SLOTS - 1)
        part = sum_over_all(
            self.people, name="rewards", clip_norm=1.0, noise_multiplier=sigma, steps=ROUNDS, rows_per_unit=rows
        )
        return (part,)


def rounds(people: int) -> dict[str, float]:
    """Seconds of the first round, and of a later one, and the peak memory of this process in GiB."""
    work, world = LocalCritics(critic=CRITIC), city(people, DAYS, preset="telecom").days
    public_days = city(ROLLOUTS, 1, seed=1, preset="telecom").days
    codes, rows = np.unique(pair_codes(public_days.cells, work.embedding), return_inverse=True)
    public = {"codes": codes, "rows": np.random.default_rng(0).permutation(rows.ravel())}
    public |= {"query": np.arange(len(codes)), "weights": np.ones(len(codes))}
    unit = Unit("person", "add_or_remove", people)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder, "ledger"), unit, epsilon=EPSILON, delta=DELTA, composition=SUM)
        vault = FederatedVault(StackedDevices(world.trajectories(simulated=True)), ledger)
        del world
        run = vault.reserve(Rounds(people=people).calibrate(unit=unit, epsilon=EPSILON, delta=DELTA))
        seconds = []
        for _ in range(ROUNDS):
            start = time.process_time()
            vault.noisy_sum(run, "rewards", work, public)
            seconds.append(time.process_time() - start)
        ledger.close()
    later = statistics.median(seconds[1:])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"begin_s": seconds[0] - later, "round_s": later, "gib": peak, "pairs": len(codes)}


def many(people: int) -> dict[str, object]:
    """`rounds` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.mobility", "--rounds", str(people)]
    alone = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(alone.stdout.splitlines()[-1])
    print(f"{people:,} people: {found['round_s']:.1f} s a round, {found['gib']:.2f} GiB")
    return {f"users_{people}_{name}": value for name, value in found.items()}


def citizens(repeats: int) -> dict[str, object]:
    """`city_users_per_s`."""
    seconds = timing.cpu_seconds({"city": lambda: city(CITIZENS, WEEK)}, repeats=repeats, warmup=1)
    rate = CITIZENS / statistics.median(seconds["city"])
    print(f"city: {rate:,.0f} people with a week of days a second")
    return {"city_users_per_s": rate}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, metavar="PEOPLE", help="print the figures of a round and nothing else")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.rounds:
        print(json.dumps(rounds(arguments.rounds)))
        return
    timing.report(
        {
            "benchmark": "mobility",
            **critic_updates(arguments.repeats),
            **many(MANY),
            **citizens(3),
            "at_least": {"critics_speedup": 5},
            "at_most": {"stacked_over_shared": 1.5, "critics_difference": 1e-4, f"users_{MANY}_gib": 4},
        }
    )


if __name__ == "__main__":
    main()
