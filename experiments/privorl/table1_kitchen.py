"""Table I in the kitchen: demonstrations of four tasks, other people's tasks as public rows, rivals at both epsilons.

Rows and agents see `Glance`, 13 of 59 numbers and 7 of 9 actions: with all of them a row has 129 columns and 8,256
pairs of columns, among which MST and AIM choose round after round; that was not tried. A policy is judged in the whole
kitchen. The agent imitates: it is TD3+BC whose weight of the value is next to nothing (`tune_kitchen`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Store, by_level, command_line, grid, store_of
from experiments.lib.statistics import iqm
from experiments.lib.table_cache import Columns
from experiments.privorl.envs import kitchen
from experiments.privorl.parts import synthesis_ways as ways
from experiments.privorl.parts.synthesis_cells import shown
from experiments.privorl.parts.synthesis_domains import Kitchen, Values
from experiments.privorl.parts.synthesis_returns import UNTAUGHT, OneTask
from tacit.data.spec import Box, PublicSpec
from tacit.envs.rollouts import Policies

AGENT = "imitation_kitchen"
SEEDS, EPSILONS = (10, 11, 12), (10.0, 1.0)
WAYS = ("real", "raked_of", "mst", "aim_wide", "privsyn", "pate_gan")
CONTROLS, CONTROLLED = ("noise_only",), (1.0,)
"""Tacit on a vault of one row: what it has from public rows alone, at one epsilon."""
TRIVIAL = UNTAUGHT
WANTED = 50.0  # return that real rows have to teach, without which no row says anything: two tasks of four

SEEN = (*range(7), 20, 26, 28, 31, 32, 33)
"""Of the 59 numbers: the arm's joints, a knob, light switch, slide cabinet, microwave, and the kettle's place."""
MOVED = 7  # joints that move; the two fingers stay closed


@dataclass(frozen=True)
class Glance(Kitchen):
    """The kitchen by what its tasks are about: 13 of 59 numbers, 7 of 9 actions."""

    name = "kitchen_glance"
    judge = MappingProxyType({"tasks": kitchen.PARTIAL, "episodes": 5})

    @property
    def spec(self) -> PublicSpec:
        whole = super().spec
        low, high, typical = (
            tuple(bounds[k] for k in SEEN)
            for bounds in (whole.observation.low, whole.observation.high, whole.difference)
        )
        action = Box((-1.0,) * MOVED, (1.0,) * MOVED)
        return PublicSpec(
            observation=Box(low, high), action=action, reward=whole.reward, source=whole.source, difference=typical
        )

    def private(self, seed: int) -> Columns:
        return glanced(super().private(seed))

    def public(self, seed: int) -> Columns:
        return glanced(super().public(seed))

    def returns(self, policies: Policies, seed: int) -> Values:
        """Tasks done of four, in per cent, by policies that see as little."""
        return super().returns(Glancing(policies), seed)


def glanced(rows: Columns) -> Columns:
    states = {name: np.ascontiguousarray(rows[name][:, SEEN]) for name in ("observations", "next_observations")}
    return {**rows, **states, "actions": np.ascontiguousarray(rows["actions"][:, :MOVED])}


@dataclass(frozen=True, eq=False)
class Glancing:
    """Policies of what is seen, in the whole kitchen, with closed fingers."""

    policies: Policies

    @property
    def members(self) -> int:
        return self.policies.members

    def act(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        joints = np.asarray(self.policies.act(np.asarray(observations)[..., SEEN]), np.float32)
        return np.concatenate([joints, np.full((*joints.shape[:-1], 2), -1.0, np.float32)], axis=-1)


WORDS = "defaults of methods; the agent's were chosen on public demonstrations (tune_kitchen)"
TASK = OneTask(Glance(), AGENT, SEEDS, ((WAYS, EPSILONS), (CONTROLS, CONTROLLED)), MOVED, "FrankaKitchen-v1")
rows, configuration, together = TASK.rows, TASK.configuration, TASK.together
run_rows, column = TASK.run_rows, TASK.column
store = store_of(__file__, configuration, WORDS)


def whole(results: Store) -> list[int]:
    return [seed for seed in SEEDS if all(results.has(key) for key in rows() if key.endswith(f"/{seed}"))]


def table(results: Store, words: Mapping[str, str]) -> str:
    """A line a way, a column an epsilon; of the seeds of which every row is there."""
    seeds, rows = whole(results), {words[way]: way for way in (*WAYS, *CONTROLS, *TRIVIAL)}
    found = grid(by_level(EPSILONS), rows, lambda way, at: shown(column, results, way, ways.at(way, at), seeds))
    return f"Seeds with every row: {len(seeds)} of {len(SEEDS)}\n\n{found}"


def figures() -> Figures:
    """Whether real rows teach what they should, without which no row says anything."""
    real = iqm(column(store(), "real", 0.0))
    yield at_least(f"kitchen, {AGENT}: return of real rows", real, WANTED)


if __name__ == "__main__":
    command_line(__file__)
