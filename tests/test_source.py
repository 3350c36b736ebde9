"""What the source may not say: read from its syntax trees, so that no test has to run into it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tools.form import measure

import tacit
import tacit_worlds

SOURCE, WORLDS = Path(tacit.__file__).parent, Path(tacit_worlds.__file__).parent
FILES = sorted([*SOURCE.rglob("*.py"), *WORLDS.rglob("*.py")])

UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml", "jsonpickle"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__", "torch.load", "torch.save", "os.system", "os.popen"}
RECORDS = {"_columns", "_unit_rows", "_records", "_order", "_offsets", "_episodes"}
SECRETS = {"_data", "_noise", "_stream"}  # of a vault: its records and its source of noise

Finding = tuple[int, str]


@functools.cache
def tree_of(path: Path) -> ast.AST:
    """Every rule walks the same trees."""
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(node: ast.AST) -> str:
    """`a.b.c` of nested attributes and names; "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}".lstrip(".")
    return ""


def unsafe_loading(tree: ast.AST) -> Iterator[Finding]:
    """Anything that could run what a file holds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found = UNSAFE_MODULES & {part for name in names for part in name.split(".")}
            yield from ((node.lineno, f"imports {name}") for name in found)
        elif isinstance(node, ast.Call):
            called, options = name_of(node.func), {k.arg: k.value for k in node.keywords}
            if called in UNSAFE_CALLS:
                yield node.lineno, f"calls {called}"
            for option in ("allow_pickle", "shell"):
                if option in options and not (
                    isinstance(options[option], ast.Constant) and not getattr(options[option], "value", True)
                ):
                    yield node.lineno, f"calls {called} with {option}"
            if called in ("np.load", "numpy.load") and "allow_pickle" not in options:
                yield node.lineno, "calls np.load without allow_pickle=False"


def touched_records(tree: ast.AST) -> Iterator[Finding]:
    """Attributes under which the records, or a vault's secrets, can be reached (by text too: getattr, __dict__)."""
    for node in ast.walk(tree):
        name = node.attr if isinstance(node, ast.Attribute) else node.value if isinstance(node, ast.Constant) else None
        if isinstance(name, str) and name in RECORDS:
            yield node.lineno, f"touches {name}"  # type: ignore[attr-defined]


def touched_secrets(tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in SECRETS:
            yield node.lineno, f"touches {node.attr}"


def output(tree: ast.AST) -> Iterator[Finding]:
    """Whatever could show a record behind the user's back: only the command line speaks.

    One function speaks from the privacy core: of a choice that was made on invented rows.
    """
    public = [node for node in ast.walk(tree) if getattr(node, "name", "") == "disable_bookkeeping"]
    spoken = {id(inner) for function in public for inner in ast.walk(function)}
    for node in (node for node in ast.walk(tree) if id(node) not in spoken):
        if isinstance(node, ast.Call) and name_of(node.func) in ("print", "warnings.warn", "sys.stdout.write"):
            yield node.lineno, f"calls {name_of(node.func)}"
        if isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "logging" for alias in node.names):
            yield node.lineno, "imports logging"
        if isinstance(node, ast.Assert) and node.msg is not None and not isinstance(node.msg, ast.Constant):
            yield node.lineno, "shows a value in an assertion"


DECISIONS = {"argmax", "argmin", "sign", "digitize", "bucketize", "heaviside"}
DECIDED = {
    "methods/improvement/planning.py": "public points",
    "methods/improvement/rules.py": "public points",
    "methods/mobility/baselines.py": "released counts",
    "methods/mobility/blocks.py": "a public ladder",
    "methods/mobility/pategail/critics.py": "slopes at a kink: a product of one shape for each person",
    "methods/mobility/pategail/rewards.py": "noisy answers",
    "methods/off_policy_evaluation/residual.py": "a noisy histogram",
    "methods/policy_gradient/ucb_vi.py": "released counters",
    "methods/policy_gradient/trust_region.py": "public weights",
    "methods/policy_gradient/votes.py": "a person's own returns, added row by row",
    "methods/synthesis/baselines/privsyn.py": "noisy errors",
    "methods/synthesis/encoding.py": "generated rows",
    "methods/synthesis/people/sums.py": "a visit's own scores, added row by row",
    "methods/synthesis/trajectories/models.py": "generated rows",
    "privacy/accounting/approximate.py": "numbers of the plan",
    "privacy/accounting/concentrated.py": "numbers of the plan",
    "privacy/accounting/poisson.py": "numbers of the plan",
    "privacy/accounting/selection.py": "numbers of the plan",
    "privacy/certificate/certificate.py": "a signature",
    "privacy/mechanisms/marginals.py": "the choice of a mechanism, of counts of whole rows",
    "privacy/mechanisms/releases.py": "the choice of a mechanism, of a sum under its noise",
    "privacy/mechanisms/responses.py": "answers that are 1, -1 or 0",
    "privacy/mechanisms/thresholds.py": "numbers of the plan",
}
"""Files that decide by these calls, and on what: never on a product of a batch of private rows."""
PRODUCTS = {"matmul", "dot", "tensordot", "inner", "einsum", "vdot", "linear", "softmax", "tanh"}


def decisions(tree: ast.AST) -> Iterator[Finding]:
    """The largest, the sign or the bin of something: where it is of a product of private rows, use `tacit.rowwise`."""
    for node in ast.walk(tree):
        called = name_of(node.func) if isinstance(node, ast.Call) else ""
        if called.startswith("rowwise."):
            continue
        if called.split(".")[-1] in DECISIONS:
            yield node.lineno, f"decides by {called}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in DECISIONS:
            yield node.lineno, f"decides by .{node.func.attr}"


def batched_products(tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield node.lineno, "multiplies a batch"
        called = name_of(node.func) if isinstance(node, ast.Call) else ""
        if called.split(".")[-1] in PRODUCTS and not called.startswith("rowwise."):
            yield node.lineno, f"calls {called}"


def unfinished(tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and "NotImplementedError" in ast.dump(node):
            yield node.lineno, "raises NotImplementedError"


def everywhere(path: Path) -> bool:
    return True


def outside_the_vault(path: Path) -> bool:
    vault = [SOURCE / "privacy" / "vault" / name for name in ("vault.py", "records.py", "sharded_vault.py")]
    return path not in vault and SOURCE / "data" not in path.parents


def outside_privacy(path: Path) -> bool:
    return SOURCE / "privacy" not in path.parents and SOURCE / "data" not in path.parents


def on_private_rows(path: Path) -> bool:
    name = path.relative_to(SOURCE.parent).as_posix().removeprefix("tacit/")
    return name.split("/")[0] in ("methods", "privacy", "federation") and name not in DECIDED


def of_public_policies(path: Path) -> bool:
    """Where probabilities and features of private rows come from."""
    names = ("policies.py", "features.py", "logged.py", "importance.py")
    return path in [SOURCE / "methods" / "off_policy_evaluation" / name for name in names] + [
        SOURCE / "agents" / "features.py",
        SOURCE / "methods" / "improvement" / "statement.py",
    ]


def outside_the_command_line(path: Path) -> bool:
    return path.parent != SOURCE / "cli"


RULES: list[tuple[Callable[[ast.AST], Iterator[Finding]], Callable[[Path], bool]]] = [
    (unsafe_loading, everywhere),
    (touched_records, outside_the_vault),
    (touched_secrets, outside_privacy),
    (output, outside_the_command_line),
    (unfinished, everywhere),
    (decisions, on_private_rows),
    (batched_products, of_public_policies),
]


@pytest.mark.parametrize(("rule", "applies"), RULES, ids=[rule.__name__ for rule, _ in RULES])
def test_no_file_breaks_the_rule(rule: Callable[[ast.AST], Iterator[Finding]], applies: Callable[[Path], bool]) -> None:
    found = [
        f"{path.relative_to(SOURCE.parent)}:{line} {what}"
        for path in FILES
        if applies(path)
        for line, what in rule(tree_of(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (unsafe_loading, "import pickle"),
        (unsafe_loading, "from joblib.numpy_pickle import load"),
        (unsafe_loading, "model = torch.load(path, weights_only=True)"),
        (unsafe_loading, "np.load(path)"),
        (unsafe_loading, "np.load(path, allow_pickle=True)"),
        (unsafe_loading, "eval(text)"),
        (unsafe_loading, "subprocess.run(line, shell=True)"),
        (touched_records, "rows = data._columns['rewards']"),
        (touched_records, "getattr(data, '_records')"),
        (touched_records, "vault._records.columns"),
        (touched_secrets, "vault._data"),
        (output, "print(loss)"),
        (output, "import logging"),
        (output, "assert finite, values"),
        (unfinished, "raise NotImplementedError"),
    ],
)
def test_the_rule_sees_what_breaks_it(rule: Callable[[ast.AST], Iterator[Finding]], text: str) -> None:
    assert list(rule(ast.parse(text)))


def test_the_whole_source_was_read() -> None:
    assert {"vault.py", "ledger.py", "trajectories.py", "app.py", "folder.py"} <= {path.name for path in FILES}


MOST = {
    "files": 394,
    "lines": 88_727,
    "functions": 5_217,
    "private functions of at most three lines used once": 14,
    "class names defined more than once": 1,
    "docstring lines on names that are not public": 653,
    "errors of more than two lines": 38,
    "lines of these errors": 216,
}
"""What `tools/form.py` may say at most: lower a figure when it has fallen."""


def test_the_form_gets_no_worse() -> None:
    figures = measure((SOURCE.parent,)).figures()
    assert set(figures) == set(MOST)
    worse = {name: value for name, value in figures.items() if value > MOST[name]}
    assert worse == {}, "see `python tools/form.py --places`"


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST, known: set[str]) -> Iterator[str]:
    """Modules of tacit that a file imports, in functions and for type checking, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else node.module for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Groups of modules each of which can be reached from every other one."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = list(graph[start])
        while left:
            if (name := left.pop()) not in seen:
                seen.add(name)
                left += graph[name]
        return seen

    after = {name: reached(name) for name in graph}
    groups = {frozenset(other for other in after[name] if name in after[other]) for name in graph}
    return {group for group in groups if group}


def test_no_import_circle() -> None:
    modules = {module_of(path): path for path in FILES}
    graph = {
        name: {other for other in imports(tree_of(path), set(modules)) if other in modules} - {name}
        for name, path in modules.items()
    }
    assert circles(graph) == set()


def test_a_circle_is_seen() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert circles(graph) == {frozenset({"b", "c"})}
