"""Agents on tables: what the experiments on synthesis share between a table of rows and a return.

A cell is one agent: (domain, agent, way, epsilon, seed). The seed is that of the private rows, the public rows, the
networks, the noise draws that are public, the agent and its evaluation; the noise behind the doors is secret. Where a
table teaches several agents, these differ in their own seeds alone, and their mean is what the table is worth. The last
policy is judged, none is picked, and states and rewards are standardised by the table that the agent learns from.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.lib.experiment import Json, Store, describe, grouped
from experiments.lib.table_cache import Columns
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_agents import KITCHEN, LOCOMOTION, MAZE, Untaught
from experiments.privorl.parts.synthesis_domains import DOMAINS, Domain
from tacit_worlds.agents.offline import OfflinePolicies, Watch, train_tables
from tacit_worlds.maze_layouts import LAYOUTS

WORDS = (
    "defaults of methods, settings of experiments.privorl.parts.synthesis_agents, chosen on public layouts and seeds"
)


@dataclass(frozen=True)
class Cell:
    """One agent on one table; `again` counts the agents before it on the same table."""

    domain: str
    agent: str
    way: str
    epsilon: float
    seed: int
    again: int = 0

    @property
    def key(self) -> str:
        first = f"{self.domain}/{self.agent}/{self.way}/{self.epsilon:g}/{self.seed}"
        return f"{first}/{self.again}" if self.again else first

    @staticmethod
    def of(key: str) -> Cell:
        domain, agent, way, epsilon, *seeds = key.split("/")
        return Cell(domain, agent, way, float(epsilon), *map(int, seeds))


def configuration(
    key: str, *, scale: ways.Scale = ways.FULL, domains: Mapping[str, Domain] = DOMAINS
) -> dict[str, Json]:
    cell = Cell.of(key)
    here = domains[cell.domain]
    return {
        **ways.configuration(here, cell.way, cell.epsilon, scale),
        "agent": describe(config(cell.domain, cell.agent, scale)),
        "judge": describe(here.judge),
    }


def cells(
    domain: str,
    agents: Iterable[str],
    names: Iterable[str],
    epsilons: Iterable[float],
    seeds: Iterable[int],
    *,
    each: int = 1,
) -> list[Cell]:
    names, epsilons, agents, seeds = tuple(names), tuple(epsilons), tuple(agents), tuple(seeds)
    return [
        Cell(domain, agent, way, epsilon, seed, again)
        for again in range(each)
        for seed in seeds
        for agent in agents
        for way in names
        for epsilon in (epsilons if ways.WAYS[way].private else (0.0,))
    ]


def fill(results: Store, wanted: Sequence[Cell], scale: ways.Scale, domains: Mapping[str, Domain] = DOMAINS) -> None:
    """Put the cells that are missing: the agents of one domain, seed and kind are trained in one stack."""
    missing = (cell for cell in wanted if not results.has(cell.key))
    for stack in grouped(missing, lambda cell: (cell.domain, cell.seed, cell.again, cell.agent)):
        first = stack[0]
        here, seed, began = domains[first.domain], first.seed, time.process_time()
        found = [ways.table(here, cell.way, cell.epsilon, seed, scale) for cell in stack]
        made = time.process_time() - began
        own = [table for table, _ in found]
        policies = train(first.domain, first.agent, own, seed + 1_000 * first.again, scale)
        spent = round((time.process_time() - began - made) / len(stack), 1)
        for cell, (_, notes), policy in zip(stack, found, policies, strict=True):
            values: dict[str, Any] = {key: float(one[0]) for key, one in here.returns(policy, seed).items()}
            values |= {key: notes[key] for key in ("epsilon", "noise_multiplier") if key in notes}
            dataset = f"{here.words(seed)}; table {cell.way}"
            results.put(cell.key, dataset=dataset, seed=seed, values=values | {"agent_cpu_s": spent})


@dataclass(frozen=True)
class OneTask:
    """Table I on the rows of one task, with policies that learn nothing beside ("POLICY/SEED")."""

    here: Domain  # the task
    agent: str  # who learns
    seeds: tuple[int, ...]  # of networks, noise, agents and starts, for all ways alike
    ways: tuple[tuple[tuple[str, ...], tuple[float, ...]], ...]  # names with their epsilons
    actions: int  # numbers of an action, as uniform ones are drawn
    played: str  # what is played

    @property
    def domains(self) -> Mapping[str, Domain]:
        return {self.here.name: self.here}

    def cells(self) -> list[Cell]:
        return [
            cell
            for seed in self.seeds
            for names, epsilons in self.ways
            for cell in cells(self.here.name, (self.agent,), names, epsilons, [seed])
        ]

    def rows(self) -> list[str]:
        return [*(f"{one}/{seed}" for one in UNTAUGHT for seed in self.seeds), *(cell.key for cell in self.cells())]

    def configuration(self, key: str, scale: ways.Scale = ways.FULL) -> Json:
        policy = key.split("/")[0]
        if policy in UNTAUGHT:
            return {"policy": policy, "judge": describe(self.here.judge)}
        return configuration(key, scale=scale, domains=self.domains)

    def together(self, keys: Sequence[str]) -> list[list[str]]:
        return grouped(keys, lambda key: key if key.split("/")[0] in UNTAUGHT else Cell.of(key).seed)

    def run_rows(self, keys: Sequence[str], results: Store, scale: ways.Scale = ways.FULL) -> None:
        for key in (key for key in keys if key.split("/")[0] in UNTAUGHT):
            policy, seed = key.split("/")[0], int(key.split("/")[1])
            untaught = Untaught(self.actions, float(policy == "random"), np.random.default_rng(seed))
            values = {name: round(float(one[0]), 2) for name, one in self.here.returns(untaught, seed).items()}
            results.put(key, dataset=self.played, seed=seed, values=values)
        taught = [Cell.of(key) for key in keys if key.split("/")[0] not in UNTAUGHT]
        fill(results, taught, scale, self.domains)

    def column(self, results: Store, way: str, epsilon: float, seeds: Sequence[int] | None = None) -> np.ndarray:
        """Returns over seeds; empty where the way has no rows at this epsilon."""
        seeds = self.seeds if seeds is None else seeds
        if way in UNTAUGHT:
            return np.array([results.values(f"{way}/{seed}")["return"] for seed in seeds])
        if epsilon and not any(way in names and epsilon in epsilons for names, epsilons in self.ways):
            return np.array([])
        return column(results, cells(self.here.name, (self.agent,), (way,), (epsilon,), seeds))


UNTAUGHT = ("still", "random")


def config(domain: str, agent: str, scale: ways.Scale) -> Any:
    chosen = {**(MAZE if domain.removeprefix("own_") in LAYOUTS else LOCOMOTION), **KITCHEN}[agent]
    return dataclasses.replace(chosen, steps=100) if scale.quick else chosen


def train(
    domain: str, agent: str, tables: Sequence[Columns], seed: int, scale: ways.Scale, *, watch: Watch | None = None
) -> list[OfflinePolicies]:
    return train_tables(tables, config(domain, agent, scale), seeds=[seed], watch=watch)


def column(results: Store, wanted: Iterable[Cell], name: str = "return") -> np.ndarray:
    return np.array([results.values(cell.key)[name] for cell in wanted], np.float64)
