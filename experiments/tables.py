"""A result file as a table: `python -m experiments.tables maze_synthesis` prints mean and 95 % interval over seeds."""

from __future__ import annotations

import importlib
import sys

from tacit.evaluation.statistics import t_interval

COLUMNS = ("marginal", "correlation", "in_wall", "next_position", "return_all", "return_far")


def main(names: list[str]) -> None:
    """Print one Markdown table a layout, recomputed from the raw rows."""
    for name in names:
        module = importlib.import_module(f"experiments.{name}")
        results = module.store()
        for layout in module.PRIVATE_LAYOUTS:
            print(f"\n| {layout} | " + " | ".join(COLUMNS) + " |\n" + "|---" * (len(COLUMNS) + 1) + "|")
            for table in module.TABLES:
                cells = []
                for key in COLUMNS:
                    mean, low, _ = t_interval(module.column(results, layout, table, key))
                    digits = 1 if key.startswith("return") else 3
                    cells.append(f"{mean:.{digits}f} ± {mean - low:.{digits}f}")
                print(f"| {table} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
