"""Help that helps: short, grouped, with the defaults that hold and examples that run; and a mistyped word's nearest."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from tacit import methods
from tacit.cli import app, help, main, verbs
from tacit.cli.help import COMMON, EXAMPLES, commands, plan_defaults, shown_options
from tacit.study.words import method_options

VERBS = tuple(COMMON)
KINDS: dict[str, Any] = {verb: getattr(verbs, verb.capitalize()) for verb in VERBS}


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def shown(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_fits_a_screen(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(verb, "--help", capsys=capsys).splitlines()
    assert len(lines) <= help.LONGEST == 45
    assert max(map(len, lines)) <= 80
    assert f"All {len(dataclasses.fields(KINDS[verb]))} options: tacit {verb} --help-all" in lines
    assert 12 <= sum(map(len, COMMON[verb].values())) <= 15


@pytest.mark.parametrize("verb", VERBS)
def test_all_options_are_in_all_of_the_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(verb, "--help-all", capsys=capsys)
    for option in shown_options(KINDS[verb]):
        assert re.search(rf"^  {re.escape(option.words)}( |$)", text, re.MULTILINE), option.name
        assert option.meaning, option.name


def test_no_help_says_none(capsys: pytest.CaptureFixture[str]) -> None:
    """None is no word of a command line."""
    for name in commands():
        assert not re.search(r"\bNone\b(?! of)", shown(*name, "--help-all", capsys=capsys)), name


@pytest.mark.parametrize("verb", VERBS)
def test_the_defaults_shown_are_those_that_hold(verb: str) -> None:
    options = {option.name: option for option in shown_options(KINDS[verb])}
    for field in dataclasses.fields(KINDS[verb]):
        option = options[field.name]
        if field.default is dataclasses.MISSING:
            assert option.default == "required"
        elif isinstance(field.default, int | float | str) and not isinstance(field.default, bool):
            assert option.default.replace(",", "") == str(field.default)
        elif isinstance(field.default, bool) or field.default == ():
            assert option.default == ""
        elif option.told:
            assert option.default in option.meaning


@pytest.mark.parametrize("verb", VERBS)
def test_the_defaults_of_plans_are_read_from_the_plans(verb: Any) -> None:
    for name in KINDS[verb]._made:
        for method in methods.list_names(verb):
            if name not in method_options(verb, method):
                continue
            default = default_of(methods.load(methods.find_method(verb, method).plan), name)
            if default is not dataclasses.MISSING:
                value = f"{default:,}" if isinstance(default, int) else str(default)
                expected = "chosen by the plan" if default is None else value
                assert expected in plan_defaults(verb, name), (method, name)


def default_of(plan: Any, name: str) -> Any:
    """The default of a field of a plan, or of a plan that is a field of it."""
    own = [field.default for field in dataclasses.fields(plan) if field.name == name]
    hints = [each for hint in get_type_hints(plan).values() for each in (hint, *get_args(hint))]
    inner = [kind for kind in hints if dataclasses.is_dataclass(kind) and name in fields_of(kind)]
    return own[0] if own else default_of(inner[0], name)


def fields_of(plan: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(plan)}


def test_what_may_be_left_out_and_says_no_default_is_known() -> None:
    """Nothing holds without these: they are off, or another option stands for them."""
    silent = {
        (verb, option.name)
        for verb, names in COMMON.items()
        for option in shown_options(KINDS[verb])
        for group in names.values()
        if option.name in group and not option.default and " " in option.words and option.words.startswith("-")
    }
    assert {name for _, name in silent} == {
        *("budget_epsilon", "budget_sampled", "box", "cell", "zone", "city", "chosen", "completion", "public"),
        *("days", "policy_from", "population", "range", "reward", "world"),
    }


def test_the_same_word_means_the_same_in_every_verb() -> None:
    """What a promise is made of has one name, one form and one default wherever there is one."""
    for name in ("relation", "epsilon", "budget_epsilon", "budget_sampled", "ledger", "out", "dry_run", "population"):
        forms = {option.words for kind in KINDS.values() for option in shown_options(kind) if option.name == name}
        assert len(forms) == 1, forms
    relations = {o.default for kind in KINDS.values() for o in shown_options(kind) if o.name == "relation"}
    assert relations == {"add_or_remove"}
    other = {"person", "user", "author", "patient_id", "neighbours", "neighbors", "eps", "budget"}
    assert not other & {
        field.name for kind in KINDS.values() for field in dataclasses.fields(kind) if field.name != "x"
    }


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["data", "example", "visits.csv"]) == 0
        assert main(["data", "chain", "--out", "chain", "--people", "200"]) == 0
        assert main(["data", "clinic", "--out", "clinic", "--patients", "200"]) == 0
        assert main(["data", "clinic", "--out", "doctors", "--patients", "200", "--unit", "doctor"]) == 0
    lines = ["user,time,lat,lon", *(f"{user},2024-01-0{day} 12:00,39.9,116.4" for user in "abc" for day in (1, 2, 3))]
    (folder / "points.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "align"])  # which need a language model
@pytest.mark.parametrize("which", [0, 1])
def test_the_examples_run(
    verb: str, which: int, workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workplace)
    words = shlex.split(EXAMPLES[verb][which])
    assert words[:2] == ["tacit", verb]
    assert main([*(word for word in words[1:] if word != "--dry-run"), "--dry-run"]) == 0, capsys.readouterr().err
    assert "Dry run" in capsys.readouterr().out


@pytest.mark.parametrize("example", EXAMPLES["align"])
def test_the_words_of_examples_with_a_model_are_known(example: str) -> None:
    words = shlex.split(example)[1:]
    help.require_known(words)
    command: Any = app._parse(words)
    assert (command.budget_sampled, command.epsilon) == (0.0, 4.0)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["synthesise"], "did you mean synthesize."),
        (["sythesize", "x"], "did you mean synthesize."),
        (["verify"], "did you mean `tacit certificate verify`."),
        (["certificate", "verfy"], "did you mean verify."),
        (["synthesize", "--epsilom", "1"], "did you mean --epsilon."),
        (["synthesize", "d", "--budget-epsilo=1"], "did you mean --budget-epsilon."),
        (["synthesize", "d", "--zone", "x"], "did you mean `tacit imitate`, which has it."),
        (["evaluate", "d", "--polcy", "x"], "did you mean --policy."),
        (["ledger", "show", "x", "--jsn"], "did you mean --json."),
        (["nothinglike"], "`tacit --help` names all commands."),
    ],
)
def test_a_mistyped_word_meets_the_one_that_was_meant(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.rstrip().endswith(meant)


def test_without_words_there_is_help_with_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys=capsys)
    assert text == shown("--help", capsys=capsys) == shown("-h", capsys=capsys)
    assert {path[0] for path in commands()} == set(re.findall(r"^  ([a-z]+) ", text, re.MULTILINE))
    assert len(text.splitlines()) <= 60


def test_known_words_are_never_refused() -> None:
    for path, (kind, _) in commands().items():
        if kind is not None:
            own = [option.words.split()[0] for option in shown_options(kind) if option.words.startswith("--")]
            help.require_known(
                [*path, *own, *(f"{flag}=1" for flag in own), *(f"--{flag[2:].replace('-', '_')}" for flag in own)]
            )
