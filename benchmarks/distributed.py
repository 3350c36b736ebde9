"""Steps of a sharded vault on two ranks against those of a vault in one process, and what the protocol takes alone.

Run `python -m benchmarks.distributed`; it starts its own ranks, of one thread each. `weak` is a step of two ranks with
as many people each as the one process, over its step; `strong` is a step of two ranks with half of them each, over
half of its step. Both are wall clock: they mean something only where every rank has a core of its own; `weak_cpu` and
`strong_cpu` are the same in CPU time of rank 0. `protocol_ms` is a step of two ranks in which hardly anybody takes
part, less that of one process, and `protocol_cpu_ms` the same in CPU time of rank 0.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data import Box, Discrete, PublicSpec, Trajectories
from tacit.data.ingest import Ingest
from tacit.methods.synthesis import TransitionsPlan, pretrain
from tacit.methods.synthesis.algorithm import PART, Denoising
from tacit.methods.synthesis.encoding import Encoder
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.sharded_vault import Ranks, ShardedVault, serve
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

WIDE = (4.0,) * 4
SPEC = PublicSpec(
    observation=Box(tuple(-x for x in WIDE), WIDE),
    action=Discrete(4),
    reward=Box((-4.0,), (4.0,)),
    source="declared",
    difference=(1.0,) * 4,
)
PEOPLE, RATE, HARDLY_ANY, WARM = 20_000, 0.1, 1e-4, 5
KEY = b"a key of the benchmark"
Step = tuple[float, float]
"""Wall and CPU seconds."""


def shard(rank: int, people: int) -> Trajectories:
    """Invented people of one row each."""
    seen = np.random.default_rng(rank).uniform(-3, 3, (people, 4))
    columns = {"observations": seen, "next_observations": 0.9 * seen, "rewards": seen[:, 0]}
    flags = {"actions": np.zeros(people, int), "terminations": np.zeros(people, bool)}
    with Ingest(SPEC, simulated=True, unit="person", digest_key=KEY) as ingest:
        ingest.add({**columns, **flags}, np.arange(rank * people, (rank + 1) * people))
        return Trajectories(ingest.finish(), SPEC, simulated=True)


def steps(vault: Vault, rate: float, count: int) -> Step:
    """Medians of the steps of the demo's network."""
    plan = TransitionsPlan(steps=count + WARM, sampling_rate=rate, warmup=0, noise_multiplier=2.0)
    run = vault.reserve(plan.account(unit=vault.unit, delta=1e-6))
    model = pretrain(plan, Encoder.from_bounds(SPEC), None, seed=0).model(plan)
    objective = Denoising(model.encoder, plan.noise_multiplicity, plan.P_mean, plan.P_std)
    wall, cpu = list[float](), list[float]()
    for _ in range(count + WARM):
        begun, busy = time.perf_counter(), time.process_time()
        vault.noisy_gradient(run, PART, [model], objective)
        wall.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - busy)
    return statistics.median(wall[WARM:]), statistics.median(cpu[WARM:])


def measured(rank: int, ranks: int, people: int, rate: float, count: int, port: int, answers: Any) -> None:
    """What one process does; the first one answers."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    import torch

    torch.set_num_threads(1)
    everybody, unit = Ranks() if ranks > 1 else None, Unit("person", "add_or_remove", ranks * people)
    if rank and everybody is not None:
        serve(shard(rank, people), everybody)
        everybody.close()
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger(Path(folder) / "ledger", unit, epsilon=1e6, delta=9e-6, composition=SUM) as ledger,
    ):
        if everybody is None:
            answers.put(steps(Vault(shard(0, people), ledger), rate, count))
            return
        with ShardedVault(shard(0, people), ledger, ranks=everybody) as vault:
            answers.put(steps(vault, rate, count))
        everybody.close()


def free_port() -> int:
    """A port at which ranks of this machine may meet."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return int(free.getsockname()[1])


def of(ranks: int, people: int, rate: float, count: int) -> Step:
    """Medians of the steps on so many ranks with so many people each."""
    context = multiprocessing.get_context("spawn")
    answers: Any = context.Queue()
    given = (people, rate, count, free_port(), answers)
    processes = [context.Process(target=measured, args=(rank, ranks, *given)) for rank in range(ranks)]
    for process in processes:
        process.start()
    step: Step = answers.get(timeout=1_800)
    for process in processes:
        process.join()
    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    count = parser.parse_args().steps
    one, weak, strong = (of(*setting, RATE, count) for setting in ((1, PEOPLE), (2, PEOPLE), (2, PEOPLE // 2)))
    alone, idle = of(1, PEOPLE, HARDLY_ANY, count), of(2, PEOPLE, HARDLY_ANY, count)
    timing.report(
        {
            "one_ms": 1e3 * one[0],
            "weak": weak[0] / one[0],
            "strong": strong[0] / (one[0] / 2),
            "weak_cpu": weak[1] / one[1],
            "strong_cpu": strong[1] / (one[1] / 2),
            "protocol_ms": 1e3 * (idle[0] - alone[0]),
            "protocol_cpu_ms": 1e3 * (idle[1] - alone[1]),
            "cores": len(os.sched_getaffinity(0)),
            "at_most": {"protocol_ms": 3.0},
        }
    )


if __name__ == "__main__":
    main()
