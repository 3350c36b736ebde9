"""Experiments that read no records: each row is what a function of public settings returns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.lib.configuration import Json
from experiments.lib.store import Store, store_of

Jobs = Mapping[str, tuple[Json, Callable[[], dict[str, Any]]]]  # for each key its settings, and what computes the row


@dataclass(frozen=True)
class Computed:
    """The rows of such an experiment."""

    file: str  # of the experiment
    jobs: Callable[..., Jobs]  # see `Jobs`
    hyperparameters: str = "none"  # see `Store`
    seed: int = 0  # of all rows
    dataset: str = "none"  # what they are about

    @property
    def store(self) -> Callable[..., Store]:
        return store_of(self.file, self.configuration, self.hyperparameters)

    def rows(self) -> list[str]:
        """Keys, in the order of the jobs."""
        return list(self.jobs())

    def configuration(self, key: str) -> Json:
        return self.jobs()[key][0]

    def run_row(self, key: str, results: Store) -> None:
        results.put(key, dataset=self.dataset, seed=self.seed, values=self.jobs()[key][1]())
