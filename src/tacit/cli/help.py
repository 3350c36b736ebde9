"""What `--help` prints, made from the commands: the common options of a verb in groups, and with --help-all every one.

Here, too, a word that no command knows meets the one that may have been meant.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from tyro.conf import Positional

from tacit import methods
from tacit.cli import declarations, verbs
from tacit.errors import PlanError
from tacit.study.words import method_options, option_flag

SHORT, LONG = ("-h", "--help"), "--help-all"
LONGEST = 45
"""Lines of the help of a verb, on a terminal of 80 columns."""
_INDENT = 26
_ABOUT = "Differentially private reinforcement learning, with guarantees that anyone can recompute."
_STUDY, _BUDGET = ("data", "unit", "population"), ("budget_epsilon", "budget_sampled")
_PROMISE, _RUN = ("epsilon", "delta"), ("out", "dry_run")
Groups = Mapping[str, tuple[str, ...]]

COMMON: Mapping[str, Groups] = {
    "synthesize": {
        "Whose records (study.toml says these, where there is one)": (*_STUDY, *_BUDGET),
        "The promise": _PROMISE,
        "What is made": ("method", "public", "rows", "trajectories", "shape"),
        "The run": (*_RUN, "resume"),
    },
    "evaluate": {
        "Whose records (study.toml says these, where there is one)": (*_STUDY, *_BUDGET),
        "The promise": _PROMISE,
        "What is asked": ("gamma", "horizon", "range", "policy", "policy_from", "method"),
        "The run": _RUN,
    },
    "improve": {
        "Whose records (study.toml says these, where there is one)": (*_STUDY, *_BUDGET),
        "The promise": _PROMISE,
        "What is learned": ("gamma", "horizon", "range", "episodes_per_unit", "advice"),
        "The run": _RUN,
    },
    "train": {
        "Who is met, and where": ("environment", "users", "unit"),
        "The promise": _PROMISE,
        "What is learned": ("method", "policy", "gamma", "participations", "evaluate"),
        "The run": (*_RUN, "seed", "resume"),
    },
    "learn": {
        "Whose logs": (*_STUDY, "budget_epsilon", "world", "experts"),
        "The promise": _PROMISE,
        "What is learned": ("method", "clone", "policy", "evaluate"),
        "The run": (*_RUN, "seed"),
    },
    "imitate": {
        "Whose whereabouts": ("source", "city", "unit", "population", *_BUDGET),
        "The map": ("box", "cell", "zone"),
        "The promise": _PROMISE,
        "The run": ("method", "days", *_RUN),
    },
    "align": {
        "Whose texts": ("data", "text", "unit", "population", *_BUDGET),
        "The promise": _PROMISE,
        "What is steered, and by what": ("model", "reward", "chosen", "completion", "public"),
        "The run": _RUN,
    },
}
"""The options of a verb that most runs need, by what they are about."""
_CHAIN = "chain --unit person --population 5000 --gamma 0.99 --horizon 160"
_CLINIC = "clinic --unit patient --population 20000 --gamma 1 --horizon 24"
_NEW = "--budget-epsilon 4 --budget-sampled 0"
EXAMPLES: Mapping[str, tuple[str, str]] = {
    "synthesize": (
        "tacit synthesize --epsilon 2 --out run",
        f"tacit synthesize clinic --unit patient --population 20000 --epsilon 2 {_NEW} --method privsyn --out run",
    ),
    "evaluate": (
        f"tacit evaluate {_CHAIN} --range 0 1 --policy uniform --epsilon 1 {_NEW} --out run",
        f"tacit evaluate {_CHAIN} --range 0 1 --method wpdis --epsilon 1 {_NEW} --out run --dry-run",
    ),
    "improve": (
        f"tacit improve {_CLINIC} --episodes-per-unit 4 --range -9 5 --epsilon 1 {_NEW} --out run",
        f"tacit improve {_CLINIC} --episodes-per-unit 4 --method elite --epsilon 1 {_NEW} --out run --dry-run",
    ),
    "train": (
        "tacit train CartPole-v1 --users 320 --epsilon 2 --out run",
        "tacit train CartPole-v1 --method votes --epsilon 8 --out run",
    ),
    "learn": (
        "tacit learn --world cart_pole --experts 300 --episodes 5 --kind mixed --epsilon 1 --out run",
        f"tacit learn doctors --unit doctor --population 300 --epsilon 1 {_NEW} --out run",
    ),
    "imitate": (
        "tacit imitate --city 1000 --days 10 --epsilon 2 --out run",
        "tacit imitate points.csv --box 39.77 116.22 40.03 116.57 --cell auto --zone Asia/Shanghai "
        f"--recorded Asia/Shanghai --population 80 --epsilon 2 {_NEW} --out run",
    ),
    "align": (
        "tacit align reviews.csv --unit author --population 3072 --text text --model base.gguf --reward minilm "
        f"--head head.json --public public.txt --epsilon 4 {_NEW} --out run",
        "tacit align thumbs.csv --unit user --population 5000 --text prompt --completion answer --feedback thumb "
        f"--model base.gguf --public public.txt --epsilon 4 {_NEW} --out run",
    ),
}
"""Two commands of a verb that run, where the files in them are there."""
_BEGIN = {
    "Begin": ("new", "check", "data", "demo"),
    "Learn with privacy": ("synthesize", "evaluate", "improve", "train", "learn", "imitate", "align"),
    "Use what was released": ("sample", "generate", "map", "play", "export", "complete"),
    "Show and verify": ("report", "letter", "certificate", "ledger", "audit", "hub"),
}
"""All commands, by what they are for."""
_CHOSEN = "chosen by the plan"
_METAVARS = {int: "INT", float: "FLOAT", str: "STR", Path: "PATH"}


@dataclasses.dataclass(frozen=True)
class ShownOption:
    """An option as help shows it.

    Args:
        name: of the field.
        words: what is written on a command line, with what it takes.
        meaning: what it does.
        default: what holds without it, in words; "" where nothing does, "required" where it is.
        told: whether the meaning says its default.
        choices: what it takes, where these are too many to stand in `words`.
    """

    name: str
    words: str
    meaning: str
    default: str
    told: bool
    choices: tuple[str, ...]


@cache
def commands() -> Mapping[tuple[str, ...], tuple[type | None, str]]:
    """Words of a command -> its class, or None of a group of commands, and what it does."""
    return dict(_walk(declarations.Command, ()))


def _walk(union: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], tuple[type | None, str]]]:
    members = get_args(get_args(union)[0]) if get_origin(union) is Annotated else get_args(union)
    for member in members:
        inner, config = get_args(member)[:2]
        name = (*words, config.name)
        if isinstance(inner, type):
            yield name, (inner, inspect.cleandoc(inner.__doc__ or "").partition("\n\nArgs:")[0])
        else:
            yield name, (None, config.description)
            yield from _walk(inner, name)


def find_help(words: Sequence[str]) -> str | None:
    """The help that these words of a command line ask for; None where they ask for none."""
    if words and not {*SHORT, LONG} & set(words):
        return None
    name = command_words(words)
    kind = commands()[name][0] if name else None
    if kind is None:
        return _list_commands(name)
    return _command_help(name, kind, every=LONG in words or name[0] not in COMMON)


def require_known(words: Sequence[str]) -> None:
    """Refuse a command or an option that there is not, and name the nearest one.

    Raises:
        PlanError: there is one.
    """
    name = command_words(words)
    group = {path[len(name)] for path in commands() if path[: len(name)] == name and len(path) == len(name) + 1}
    if group and words[len(name) :]:  # a group of commands, or none of them
        word, where = words[len(name)], " ".join(("tacit", *name)) if name else "commands"
        if not word.startswith("-"):
            elsewhere = [f"`tacit {' '.join(path)}`" for path in commands() if path[-1] == word]
            near = elsewhere or difflib.get_close_matches(word, group, n=1)
            raise _unknown(f"there is no command {word[:40]!r}", where, f"one of {', '.join(sorted(group))}", near)
    kind = commands()[name][0] if name else None
    if kind is None:
        return
    known = _flags(kind)
    for word in words[len(name) :]:
        flag = word.partition("=")[0].replace("_", "-")
        if flag.startswith("--") and flag != "--" and flag not in known:
            others = [" ".join(path) for path, (other, _) in commands().items() if other and flag in _flags(other)]
            near = [f"`tacit {others[0]}`, which has it"] if others else difflib.get_close_matches(flag, known, n=1)
            expected = f"an option that `tacit {' '.join(name)} --help{'-all' if name[0] in COMMON else ''}` names"
            raise _unknown(f"there is no option {flag[:40]}", " ".join(("tacit", *name)), expected, near)


def _unknown(what: str, where: str, expected: str, near: Sequence[str]) -> PlanError:
    remedy = f"did you mean {near[0]}" if near else "`tacit --help` names all commands"
    return PlanError(what, where=where, expected=expected, remedy=remedy)


def _flags(kind: type) -> set[str]:
    flags = {option.words.split()[0] for option in shown_options(kind) if option.words.startswith("--")}
    return {*flags, *(f"--no-{flag.removeprefix('--')}" for flag in flags), *SHORT, LONG}


def command_words(words: Sequence[str]) -> tuple[str, ...]:
    """The first words of a command line, as many as name a command or a group of commands."""
    name: tuple[str, ...] = ()
    for word in words:
        if (*name, word) not in commands():
            break
        name = (*name, word)
    return name


def _command_help(name: tuple[str, ...], kind: type, *, every: bool) -> str:
    options = {option.name: option for option in shown_options(kind)}
    text = commands()[name][1]
    verb = name[0] if name[0] in COMMON else None
    positional = " ".join(option.words for option in options.values() if not option.words.startswith("-"))
    lines = [f"usage: tacit {' '.join(name)} {positional} [OPTIONS]".replace("  ", " "), ""]
    lines += [*_wrap(text if every else text.partition("\n\n")[0], ""), ""]
    groups = dict(COMMON[verb]) if verb is not None else {"Options": tuple(options)}
    if every and verb is not None:
        shown = {each for group in groups.values() for each in group}
        groups["Everything else"] = tuple(each for each in options if each not in shown)
    for heading, names in groups.items():
        lines.append(f"{heading}:")
        for each in names:
            lines += _option_lines(options[each], every=every)
    if verb is not None:
        lines.append("Examples:")
        for example in EXAMPLES[verb]:  # in lines that a shell takes as one; an option stands with its value
            *before, last = _wrap(re.sub(r"(?<!^)(?<!^tacit) (?!--)", "\0", example), "  ", more="    ", margin=2)
            lines += [line.replace("\0", " ") for line in (*(f"{line} \\" for line in before), last)]
        lines += [] if every else [f"All {len(options)} options: tacit {verb} {LONG}"]
    return "\n".join(lines)


@cache
def shown_options(kind: type) -> tuple[ShownOption, ...]:
    """The options of a command, in the order of its class."""
    meanings: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        meanings |= verbs.argument_meanings(base.__doc__ or "")
    hints, marker = get_type_hints(kind, include_extras=True), get_args(Positional[int])[1]
    shown = []
    for field in dataclasses.fields(kind):
        inner, extras = hints[field.name], list[Any]()
        while get_origin(inner) is Annotated:
            inner, *more = get_args(inner)
            extras += more
        said = {
            key: value
            for extra in extras
            for key in ("help", "name", "metavar", "help_behavior_hint")
            if (value := getattr(extra, key, None))
        }
        meaning = " ".join(said.get("help", meanings.get(field.name, "")).split())
        meaning = (
            " ".join([meaning.rstrip("."), said["help_behavior_hint"]]) if "help_behavior_hint" in said else meaning
        )
        metavar, choices = _metavar(inner)
        required = field.default is dataclasses.MISSING
        if marker in extras:
            several = f"{field.name.upper()}{' ...' if get_origin(inner) is tuple else ''}"
            words = said.get("metavar", several if required else f"[{several}]")
        else:
            words = option_flag(said.get("name", field.name))
            words += "" if inner is bool else f" {said.get('metavar', metavar)}"
        default, told = _default_words(kind, field.name, field.default, meaning)
        shown.append(ShownOption(field.name, words, meaning, "required" if required else default, told, choices))
    return tuple(shown)


def _metavar(kind: Any) -> tuple[str, tuple[str, ...]]:
    if get_origin(kind) in (Union, UnionType):
        kinds = [_metavar(each) for each in get_args(kind) if each is not NoneType]
        joined = "|".join(dict.fromkeys(metavar for metavar, _ in kinds if metavar))
        return (joined if all(dict(kinds)) else f"[{joined}]"), tuple(c for _, many in kinds for c in many)
    if get_origin(kind) is Literal:
        choices = tuple(map(str, get_args(kind)))
        joined = "{" + ",".join(choices) + "}"
        return (joined, ()) if len(joined) < _INDENT else ("NAME", choices)
    if get_origin(kind) is tuple and not get_args(kind):
        return "", ()
    if get_origin(kind) is tuple:
        inner = [each for each in get_args(kind) if each is not Ellipsis]
        metavar, choices = _metavar(inner[0])
        return (f"{metavar}...", choices) if Ellipsis in get_args(kind) else (" ".join([metavar] * len(inner)), choices)
    return _METAVARS.get(kind, "VALUE"), ()


def _default_words(kind: type, name: str, default: Any, meaning: str) -> tuple[str, bool]:
    if isinstance(default, tuple | list):
        return " ".join(map(str, default)), False
    if default is not None:
        return ("" if isinstance(default, bool) or default == "" else _plain(default)), False
    found = re.search(r"(?:^|[;.,(] ?)by default,? ([^;]*?)(?:[;.)]|$)|([\w,]+) by default", meaning, re.IGNORECASE)
    if found is not None:
        return next(each for each in found.groups() if each), True
    return (plan_defaults(vars(kind)["_verb"], name) if name in getattr(kind, "_made", ()) else ""), False


def plan_defaults(task: methods.Task, name: str) -> str:
    """The default of an option in the plans of a verb's methods, in words."""
    found: dict[str, list[str]] = {}
    for method in methods.list_names(task):
        field = method_options(task, method).get(name)
        if field is not None and field.default is not None:
            try:
                value = ast.literal_eval(field.default)
            except ValueError:
                value = None
            found.setdefault(_CHOSEN if value is None else _plain(value), []).append(method)
    if len(found) < 2:
        return next(iter(found), _CHOSEN)
    return ", ".join(f"{value} ({', '.join(names)})" for value, names in found.items())


def _plain(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _option_lines(option: ShownOption, *, every: bool) -> list[str]:
    meaning = option.meaning.rstrip(".")
    if not every:  # the first clause; of what methods mean by an option, the first method's
        meaning = re.split(", by default", _first_clause(re.sub(r"^(?:[a-z-]+, )*[a-z-]+: ", "", meaning)))[0]
    if option.choices and (not every or option.choices[0] not in meaning):
        choices = f"one of {', '.join(option.choices)}"
        meaning = f"{meaning}; {choices}" if every else choices
    if option.default == "required":
        meaning += " (required)"
    elif option.default and not (every and option.told):
        meaning += f" (default: {option.default})"
    first, *rest = _wrap(meaning, " " * _INDENT)
    words = f"  {option.words}"
    return [words.ljust(_INDENT) + first.lstrip(), *rest] if len(words) < _INDENT else [words, first, *rest]


def _first_clause(text: str) -> str:
    clause = re.match(r"(?:\([^()]*\)|[.;:](?! |$)|[^.;:(]|\()*", text)
    return text if clause is None else clause[0]


def _wrap(text: str, indent: str, *, more: str | None = None, margin: int = 0) -> list[str]:
    width = max(40, min(100, shutil.get_terminal_size().columns)) - margin
    after, lines = indent if more is None else more, list[str]()
    for paragraph in text.split("\n\n"):
        plain = " ".join(paragraph.split(None if margin == 0 else " "))
        folded = textwrap.fill(
            plain,
            width,
            initial_indent=indent,
            subsequent_indent=after,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += [*([""] if lines else []), *folded.split("\n")]
    return lines or [indent]


def _list_commands(name: tuple[str, ...]) -> str:
    groups = {"Commands": tuple(path[-1] for path in commands() if path[:-1] == name)} if name else _BEGIN
    lines = [
        f"usage: {' '.join(('tacit', *name))} COMMAND",
        "",
        *_wrap(commands()[name][1] if name else _ABOUT, ""),
        "",
    ]
    for heading, names in groups.items():
        lines += [f"{heading}:", *(line for each in names for line in _command_lines((*name, each)))]
    return "\n".join([*lines, "", "tacit COMMAND --help explains a command, and --help-all every option of it."])


def _command_lines(path: tuple[str, ...]) -> list[str]:
    text = " ".join(commands()[path][1].partition("\n\n")[0].split())
    first, *rest = _wrap(_first_clause(text), " " * 15)
    return [f"  {path[-1]}".ljust(15) + first.lstrip(), *rest]
