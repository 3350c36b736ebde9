"""Make notebooks/ from the scripts in examples/: `python tools/notebooks.py [NAME ...]`, all by default.

A script is a notebook in the percent format of jupytext: its cells run here, and their pictures are kept. Outputs that
change from run to run, such as names of temporary folders, are as the last run left them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jupytext
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
NAMES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def written(name: str) -> NotebookNode:
    """The notebook of a script, whose cells have not run."""
    notebook = jupytext.read(ROOT / "examples" / f"{name}.py", fmt="py:percent")
    notebook.metadata = NotebookNode(kernelspec=KERNEL)
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", NotebookNode()
    return notebook


def main() -> None:
    """Run the cells and write the notebooks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--out", type=Path, default=ROOT / "notebooks")
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True)
    for name in options.names:
        notebook = written(name)
        NotebookClient(notebook, timeout=900, kernel_name="python3", record_timing=False).execute(cwd=str(options.out))
        jupytext.write(notebook, options.out / f"{name}.ipynb")
        print(options.out / f"{name}.ipynb")


if __name__ == "__main__":
    main()
