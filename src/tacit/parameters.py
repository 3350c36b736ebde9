"""The parameters of a plan: each is said once, as a field of the plan's class with a doc line after it.

    steps: int = 1_000
    '''number T of noisy gradients.'''

A field whose type is `Option[...]` is an option of the command line; `Option` of another plan's class stands for the
options of that plan. They are read from the source, so that a command line can offer them without importing what a plan
needs.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

T = TypeVar("T")
Option = Annotated[T, "an option of the command line"]
"""Of a field that a command line offers."""
_PLAIN: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}
_IMPORT = re.compile(r"^from (tacit[\w.]+) import (\([^)]*|.*)", re.MULTILINE)
_METHOD, _NEXT_STATEMENT = re.compile(r"^    (?=def |@)", re.MULTILINE), re.compile(r"\n(?=[^\s)\]]|\Z)")


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A field of a plan.

    Attributes:
        name: of the field.
        type: of a value other than None: bool, int, float, str or a `Literal` of words; None for anything else.
        default: as it is written; None where a value is required.
        doc: its doc line; "" where there is none.
        option: whether the command line offers it.
        plan: "package.module:Class" of its type, where that is a class and it is an option.
    """

    name: str
    type: Any
    default: str | None
    doc: str
    option: bool = False
    plan: str | None = None


def parameters(plan_class: type) -> tuple[Parameter, ...]:
    """The parameters of a plan's class; a field that only changes a default keeps its doc line.

    Args:
        of: a dataclass of this package.
    """
    by_name: dict[str, Parameter] = {}
    for base in reversed(plan_class.__mro__):
        if "__dataclass_fields__" in vars(base):
            for parameter in declared_parameters(f"{base.__module__}:{base.__qualname__}"):
                doc = parameter.doc or (by_name[parameter.name].doc if parameter.name in by_name else "")
                by_name[parameter.name] = dataclasses.replace(parameter, doc=doc)
    return tuple(by_name[field.name] for field in dataclasses.fields(plan_class))


@cache
def plan_options(path: str) -> dict[str, Parameter]:
    """The options of a plan's class, those of the plans in it among them; nothing is imported.

    A field that only changes a default keeps its doc line and stays an option; one with another doc line says anew
    whether it is one.

    Args:
        path: "package.module:Class".

    Raises:
        LookupError: there is no such class.
    """
    options: dict[str, Parameter] = {}
    for parameter in _inherited_parameters(path).values():
        if parameter.plan is not None:
            options |= plan_options(parameter.plan)
        elif parameter.option:
            options[parameter.name] = parameter
    return options


@cache
def _inherited_parameters(path: str) -> dict[str, Parameter]:
    """The parameters that the source of a class and of its bases declares, those of bases first."""
    node, source = _class(path)
    found: dict[str, Parameter] = {}
    for base in node.bases:
        place = _class_path(ast.unparse(base), path.partition(":")[0], source)
        found |= _inherited_parameters(place) if place is not None else {}
    for parameter in declared_parameters(path):
        before = found.get(parameter.name)
        if before is not None and not parameter.doc:
            parameter = dataclasses.replace(before, default=parameter.default)
        found[parameter.name] = parameter
    return found


def _class_path(name: str, module: str, source: str) -> str | None:
    """Where a class is that a module names: in the module, or where it is imported from; None outside any plan."""
    if _statement(source, f"class {name}") is not None:
        return f"{module}:{name}"
    homes = (home for home, names in _IMPORT.findall(source) if name in re.split(r"\W+", names))
    return next((f"{home}:{name}" for home in homes), None)


@cache
def _class(path: str) -> tuple[ast.ClassDef, str]:
    module, _, name = path.partition(":")
    top, *inner = module.split(".")
    found = find_spec(top)
    file = Path((found and found.origin) or "")
    if inner:
        file = file.parent.joinpath(*inner).with_suffix(".py")
    source = file.read_text(encoding="utf-8") if file.is_file() else ""
    text = _statement(source, f"class {name}")
    if text is None:
        raise LookupError(f"there is no class {path}")
    (node,) = ast.parse(_METHOD.split(text, 1)[0]).body  # fields stand before methods, which take longer to parse
    assert isinstance(node, ast.ClassDef)
    return node, source


@cache
def declared_parameters(path: str) -> tuple[Parameter, ...]:
    """The parameters that the source of one class declares itself; nothing is imported.

    Args:
        path: "package.module:Class", of this package.

    Raises:
        LookupError: there is no such class.
    """
    node, source = _class(path)
    pairs = zip(node.body, [*node.body[1:], None], strict=True)
    module = path.partition(":")[0]
    return tuple(
        _parameter(node, after, module, source)
        for node, after in pairs
        if isinstance(node, ast.AnnAssign) and not ast.unparse(node.annotation).startswith("ClassVar")
    )


def _statement(source: str, start: str) -> str | None:
    """The first statement of a module that starts so, up to the next line that is not indented."""
    source, at = f"\n{source}\n", 0
    while at := source.find(f"\n{start}", at) + 1:
        if not re.match(r"\w", source[at + len(start)]):
            return _NEXT_STATEMENT.split(source[at:], 1)[0] + "\n"
    return None


def _parameter(field: ast.AnnAssign, next_statement: ast.stmt | None, module: str, source: str) -> Parameter:
    annotation = field.annotation
    option = isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Option"
    if isinstance(annotation, ast.Subscript) and option:
        annotation = annotation.slice
    name, doc = ast.unparse(field.target), ""
    if isinstance(next_statement, ast.Expr) and isinstance(next_statement.value, ast.Constant):
        doc = " ".join(str(next_statement.value.value).split())
    default = None if field.value is None else ast.unparse(field.value)
    kind = _type(annotation, source)
    named = ast.unparse(annotation).removesuffix(" | None")
    plan = _class_path(named, module, source) if option and kind is None else None
    return Parameter(name, kind, default, doc, option, plan)


def _type(annotation: ast.expr, source: str) -> Any:
    """The type that an annotation names, None aside; the module may give a `Literal` a name."""
    text = ast.unparse(annotation).removesuffix(" | None")
    if text in _PLAIN:
        return _PLAIN[text]
    alias = _statement(source, f"{text} =")
    named = annotation if alias is None else getattr(ast.parse(alias).body[0], "value", None)
    if isinstance(named, ast.Subscript) and ast.unparse(named.value) == "Literal":
        words = ast.literal_eval(named.slice)
        return Literal[words if isinstance(words, tuple) else (words,)]
    return None
