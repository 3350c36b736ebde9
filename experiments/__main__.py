"""What there is: `python -m experiments`, or `python -m experiments privorl` for the experiments of one paper."""

import ast
import json
import sys
from pathlib import Path

from experiments.lib.store import RESULTS

PAPERS = {  # by folder: where the tables are, and the cell that takes a method of one's own (docs/own-method.md)
    "privorl": ("docs/results/synthesis.md", "table1 --maze umaze --synthesizer mine:fit"),
    "dppg": ("docs/results/policy_gradient.md", "table1 --task CartPole --learner mine:fit"),
    "gpope": ("docs/results/off_policy_evaluation.md", "figure1 --domain chain --estimator mine:fit"),
    "pategail": ("docs/results/mobility.md", "table1 --people 1000 --simulator mine:fit"),
    "experts": ("docs/results/experts.md", "figure3 --world cart_pole --learner mine:fit"),
}


def described(folder: str) -> list[str]:
    """A line for each experiment that has rows: its command, how many, and its first words."""
    lines = []
    for path in sorted((Path(__file__).parent / folder).rglob("*.py")):
        rows = RESULTS / f"{path.stem}.json"
        if rows.exists():
            count = len(json.loads(rows.read_text(encoding="utf-8"))["rows"])
            words = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
            module = ".".join(path.relative_to(Path(__file__).parents[1]).with_suffix("").parts)
            lines.append(f"python -m {module}  # {count} rows. {words}")
    return lines


def main(folders: list[str]) -> None:
    for folder in folders:
        print("\n".join(described(folder)))
    for paper, (page, cell) in PAPERS.items() if not folders else ():
        print(ast.get_docstring(ast.parse((Path(__file__).parent / paper / "__init__.py").read_text(encoding="utf-8"))))
        print(f"    its tables          {page}")
        print(f"    its experiments     python -m experiments {paper}")
        print(f"    what was not run    python -m experiments.lib.coverage {paper}")
        print(f"    your own method     python -m experiments.{paper}.{cell} --epsilon 1")


if __name__ == "__main__":
    main(sys.argv[1:])
