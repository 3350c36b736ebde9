"""Table IV of PrivORL: agents on rows of the synthesizer before it has met a private row.

umaze and medium, IQL, seeds as in Table I, beside tacit at epsilon 10 and 1, the plan of epsilon 1 on a vault of a
single row, where noise is all that is learned, and matching without a model.
"""

from dataclasses import replace

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import command_line
from experiments.lib.statistics import bootstrap
from experiments.privorl import table1_transitions as table1
from experiments.privorl.parts.synthesis_returns import configuration
from experiments.privorl.table1_transitions import run_row

__all__ = ["configuration", "figures", "rows", "run_row", "store"]

MAZES, AGENT = ("umaze", "medium"), "iql"


store = table1.store  # the result file is shared with Table I


def parts() -> list[table1.Part]:
    return [
        replace(part, agents=(AGENT,))
        for part in table1.PARTS
        if part.domain in MAZES and part.group in ("own", "controls")
    ]


def rows() -> list[str]:
    return [cell.key for part in parts() for cell in part.cells()]


def figures() -> Figures:
    results = store()
    for domain in MAZES:
        for way, at in (("pretraining", 0.0), ("noise_only", 1.0), ("independent", 0.0), ("raking_alone", 1.0)):
            control = bootstrap(table1.returns(results, domain, AGENT, way, at))
            for epsilon in table1.EPSILONS:
                own = bootstrap(table1.returns(results, domain, AGENT, table1.OWN, epsilon))
                words = f"{domain}, epsilon {epsilon:g}: end of tacit's interval above that of {way}"
                yield at_least(words, own.low - control.high, 0.0)


if __name__ == "__main__":
    command_line(__file__)
