"""`python -m experiments.lib.pages` puts every table and picture in its place in docs/results/ and docs/scale.md.

    python -m experiments.lib.pages docs/results/mobility.md  # one page
    python -m experiments.lib.pages --show dppg_audit "tests of experts_table"  # print tables
    python -m experiments.lib.pages --draw  # pictures of policy gradients and experts

A place is `<!-- results: NAME -->`, up to `<!-- end -->` if there is one. NAME is one of `TABLES`, an experiment with a
table of its own, or `rows`, `changes` or `tests of EXPERIMENT ...`, or `coverage of PAPER`. Nothing is run.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.beyond import federation_scale, improvement, improvement_peers
from experiments.dppg import dppg_audit, dppg_frontier, dppg_riverswim, dppg_table1, dppg_tables
from experiments.experts import experts_table, experts_tables
from experiments.gpope import ope_pages
from experiments.lib import comparisons, coverage
from experiments.lib.check import CHANGED_AFTER_EVALUATION
from experiments.lib.store import ROOT, experiment
from experiments.lib.tables import markdown, seconds_of, stacked
from experiments.pategail import mobility_frontier, mobility_tables
from experiments.privorl.parts import synthesis_pages

PAGES = ROOT / "docs" / "results"
SCALE = ROOT / "docs" / "scale.md"
PLACE = re.compile(r"(<!-- results: ([\w ]+) -->\n)(?:(?:(?!<!-- results).)*?<!-- end -->\n)?", re.DOTALL)
RIVALS = {  # of tables of tests
    **synthesis_pages.WHOLE,
    **synthesis_pages.WORDS,
    **synthesis_pages.UNTAUGHT,
    **experts_tables.PRIVATE,
    **experts_tables.REFERENCES,
}


def movement(people: int) -> str:
    """SEQ by epsilon, and every measure at epsilon 2."""
    results = mobility_frontier.store()
    tables = {"SEQ": mobility_tables.by_epsilon(results, people)}
    for one in ("sequence", "robust"):
        tables[f"{one}, epsilon 2"] = mobility_tables.by_measure(results, people, 2.0, one)
    return stacked(tables)


TABLES: dict[str, Callable[[], str]] = {
    **synthesis_pages.PAGES,
    **ope_pages.PAGES,
    "dppg_short": lambda: dppg_tables.short(dppg_frontier.store(), dppg_table1.store(), dppg_riverswim.store()),
    "dppg_frontier": lambda: dppg_tables.frontier(dppg_frontier.store()),
    "dppg_riverswim": lambda: dppg_tables.riverswim(dppg_riverswim.store()),
    "dppg_table1": lambda: dppg_tables.table1(dppg_table1.store()),
    "dppg_audit": lambda: dppg_tables.audited(dppg_audit.store()),
    "experts_mixed": lambda: experts_tables.at_one(experts_table.store(), "mixed"),
    "experts_good": lambda: experts_tables.at_one(experts_table.store(), "good"),
    "experts_table": lambda: experts_tables.by_epsilon(experts_table.store()),
    "experts_clones": lambda: experts_tables.clones(experts_table.store()),
    "experts_prefixes": lambda: experts_tables.prefixes(experts_table.store()),
    **{f"mobility_{people}": lambda people=people: movement(people) for people in mobility_frontier.PEOPLE},
    **{
        f"mobility_reference_{people}": lambda people=people: mobility_tables.reference(
            mobility_frontier.store(), people
        )
        for people in mobility_frontier.PEOPLE
    },
    "mobility_recipes": mobility_tables.recipes,
    "mobility_published": mobility_tables.published,
    "federation_secure": lambda: federation_scale.secure_table(federation_scale.store()),
    "federation_floors": lambda: federation_scale.floor_table(federation_scale.store()),
    "federation_trees": lambda: federation_scale.tree_table(federation_scale.store()),
    "federation_flat": lambda: federation_scale.flat_table(federation_scale.store()),
    "improvement_scores": lambda: improvement.scores(improvement.store()),
    "improvement_physical": lambda: improvement.physical(improvement.store()),
    "improvement_statements": lambda: improvement.statements(improvement.store()),
    "improvement_units": lambda: improvement.units(improvement.store()),
    "improvement_coverage": lambda: improvement.covered(improvement.store()),
    "improvement_peers_elsewhere": lambda: improvement_peers.table_elsewhere(improvement_peers.store()),
}


def table(name: str) -> str | None:
    """What a place shows: a table, or which row a picture lacks; None where the name is unknown."""
    kind, _, names = name.partition(" of ")
    if names and kind in ("rows", "changes"):
        return origin(names.split()) if kind == "rows" else changes(names.split())
    if names and kind == "coverage":
        return coverage.table(names)
    if names and kind == "tests":
        return "\n\n".join(comparisons.table(name, RIVALS) for name in names.split())
    try:
        if name in TABLES:
            return TABLES[name]()
        module = experiment(name)
        shown: str = module.table(module.store())
        return shown
    except ModuleNotFoundError:
        return None
    except LookupError as missing:
        return str(missing.args[0])


def origin(names: Sequence[str]) -> str:
    """A line an experiment: command, rows, dates, commits, and hours where the rows have them."""
    lines = []
    for name in names:
        module = experiment(name)
        rows = module.store().rows.values()
        commits = Counter(row["commit"][:8] for row in rows)
        dates = sorted({row["date"] for row in rows if row["date"]})
        hours = sum(seconds_of(row["values"]) for row in rows) / 3600.0
        lines.append(
            [
                f"`python -m {module.__name__}`",
                f"{len(rows)}",
                " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "",
                f"{hours:.1f}" if hours >= 0.05 else "below 0.1" if hours else "none",
                ", ".join(f"{commit} ({count})" for commit, count in commits.most_common()),
            ]
        )
    return markdown(("rows", "made", "hours kept", "commits (rows)"), lines)


def changes(names: Sequence[str]) -> str:
    """A line an experiment: what was changed after its evaluation rows had been seen."""
    lines = [f"- `{name}`: " + " ".join(CHANGED_AFTER_EVALUATION.get(name, ("no change is known.",))) for name in names]
    return "\n".join(lines)


def filled(text: str) -> str:
    """The text with every table in its place."""

    def place(found: re.Match[str]) -> str:
        shown = table(found[2])
        return found[0] if shown is None else f"{found[1]}\n{shown}\n\n<!-- end -->\n"

    return PLACE.sub(place, text)


def main(arguments: Sequence[str]) -> None:
    """Fill the pages that are named, or all; or print the tables that are named; or draw what no page draws."""
    if arguments[:1] == ["--show"]:
        print("\n\n".join(str(table(name)) for name in arguments[1:] or TABLES))
    elif arguments[:1] == ["--draw"]:
        dppg_tables.plot()
        experts_tables.plot()
    else:
        for page in [Path(name) for name in arguments] or [*sorted(PAGES.glob("*.md")), SCALE]:
            page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
