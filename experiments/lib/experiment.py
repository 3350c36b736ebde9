"""What experiments are made of, by one import; `store.experiment` says what the module of one has."""

from experiments.lib.configuration import Json, calls, constants, describe
from experiments.lib.queue import command_line, grouped
from experiments.lib.store import RESULTS, ROOT, Computed, Jobs, Store, store_of
from experiments.lib.tables import BLANK, NONE, at_each, by_level, grid, markdown, spread, stacked

__all__ = ["BLANK", "NONE", "RESULTS", "ROOT", "Computed", "Jobs", "Json", "Store", "at_each", "by_level", "calls"]
__all__ += ["command_line", "constants", "describe", "grid", "grouped", "markdown", "spread", "stacked", "store_of"]
