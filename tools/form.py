"""Measure the form of the library's source: `python tools/form.py`, with `--places` where to look.

    files, lines            of Python below src/
    functions               and how many per 1,000 lines
    crumbs                  private functions of at most three lines that are used once: called, not handed on
    names                   of classes that are defined more than once
    private docstrings      lines of docstrings on names that are not public
    long errors             `raise` statements of more than two lines

`tests/test_source.py` holds the figures: they may only fall.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CRUMB = 3
"""Lines of a function, its signature and its docstring aside, up to which it may be a crumb."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


@dataclass(frozen=True)
class Form:
    """What was measured: numbers, and the places behind them as `file:line name`."""

    files: int
    lines: int
    functions: int
    crumbs: tuple[str, ...]
    repeated: dict[str, tuple[str, ...]]
    private_docstrings: tuple[str, ...]
    private_docstring_lines: int
    long_errors: tuple[str, ...]
    long_error_lines: int

    @property
    def density(self) -> float:
        """Functions per 1,000 lines."""
        return 1000 * self.functions / self.lines

    def figures(self) -> dict[str, int]:
        """The numbers that may only fall, by their names."""
        return {
            "files": self.files,
            "lines": self.lines,
            "functions": self.functions,
            "private functions of at most three lines used once": len(self.crumbs),
            "class names defined more than once": len(self.repeated),
            "docstring lines on names that are not public": self.private_docstring_lines,
            "errors of more than two lines": len(self.long_errors),
            "lines of these errors": self.long_error_lines,
        }


def measure(folders: tuple[Path, ...]) -> Form:
    """The form of every Python file below the folders."""
    paths = sorted(path for folder in folders for path in folder.rglob("*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    uses = {path: Counter(_uses(tree)) for path, tree in trees.items()}
    found = [(path, node, public) for path, tree in trees.items() for node, public in _definitions(tree, True)]
    functions = [(path, node) for path, node, _ in found if isinstance(node, Function)]
    owners = defaultdict(set)
    for path, node in functions:
        owners[node.name].add(path)
    calls = {path: Counter(_calls(tree)) for path, tree in trees.items()}
    crumbs = [
        _place(path, node, node.name)
        for path, node in functions
        if _is_small(node)
        and calls[path][node.name] == 1
        and sum(uses[user][node.name] for user in {*paths} - owners[node.name] | {path}) == 1
    ]
    classes = defaultdict(list)
    for path, node, _ in found:
        if isinstance(node, ast.ClassDef):
            classes[node.name].append(_place(path, node, node.name))
    described = [(path, node, _docstring(node)) for path, node, public in found if not public]
    private = [(path, node, _lines(doc)) for path, node, doc in described if doc is not None]
    raised = [(path, node) for path, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    errors = [(path, node) for path, node in raised if _lines(node) > 2]
    return Form(
        files=len(paths),
        lines=sum(text.count("\n") for text in texts.values()),
        functions=len(functions),
        crumbs=tuple(crumbs),
        repeated={name: tuple(places) for name, places in sorted(classes.items()) if len(places) > 1},
        private_docstrings=tuple(_place(path, node, f"{node.name}, {n}") for path, node, n in private if n > 1),
        private_docstring_lines=sum(n for _, _, n in private),
        long_errors=tuple(_place(path, node, f"{_lines(node)} lines") for path, node in errors),
        long_error_lines=sum(_lines(node) for _, node in errors),
    )


def _definitions(node: ast.AST, public: bool) -> Iterator[tuple[Definition, bool]]:
    """Classes and functions, and whether they are public: no underscore in the path, and not inside a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            seen = public and not _is_private(child.name)
            yield child, seen
            yield from _definitions(child, seen and isinstance(child, ast.ClassDef))
        else:
            yield from _definitions(child, public)


def _uses(tree: ast.AST) -> Iterator[str]:
    """Every name that is read, imported or written as a text (for `getattr`)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _calls(tree: ast.AST) -> Iterator[str]:
    """Every name of a function or method that is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield getattr(node.func, "id", getattr(node.func, "attr", ""))


def _is_small(node: Function) -> bool:
    """Whether a function is private and so short that it may be a crumb; a decorated one has other users."""
    body = node.body[1:] if _docstring(node) is not None else node.body
    if not body or not _is_private(node.name) or node.decorator_list:
        return False
    return (body[-1].end_lineno or 0) - body[0].lineno < CRUMB


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_")


def _docstring(node: Definition) -> ast.Expr | None:
    first = node.body[0]
    text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return first if text else None


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _place(path: Path, node: ast.stmt, text: str) -> str:
    return f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{node.lineno} {text}"


def main() -> None:
    """Print the figures and, with `--places`, the places behind them."""
    words = sys.argv[1:]
    folders = tuple(Path(word).resolve() for word in words if not word.startswith("-")) or (ROOT / "src",)
    form = measure(folders)
    for name, value in form.figures().items():
        print(f"{value:>10,}  {name}")
    print(f"{form.density:>10.1f}  functions per 1,000 lines")
    if "--places" in words:
        repeated = [f"{place}, of {len(places)}" for places in form.repeated.values() for place in places]
        for title, places in (
            ("private functions of at most three lines used once", form.crumbs),
            ("class names defined more than once", repeated),
            ("docstrings of more than a line on names that are not public", form.private_docstrings),
            ("errors of more than two lines", form.long_errors),
        ):
            print("", title, *(f"  {place}" for place in places), sep="\n")


if __name__ == "__main__":
    main()
