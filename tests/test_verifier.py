"""The verifier that needs no tacit: it answers every golden certificate, and refuses edits even with a new digest."""

from __future__ import annotations

import ast
import copy
import functools
import importlib.util
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tacit.parameters import EARLIER

ROOT = Path(__file__).parents[1]
FILE = ROOT / "verifier" / "tacit_verify.py"
GOLDEN = sorted((ROOT / "tests" / "golden" / "certificates").rglob("*.json"))
MODELS = ROOT / "tests" / "net" / "fixtures" / "models"
DERIVED = (
    "epsilon",
    "mu",
    "profile",
    "relations",
    "accountants",
    "total",
    "parts",
    "event",
    "sentence",
    "contribution",
)
MECHANISM = {"steps", "noise_multiplier", "epsilon", "delta", "size", "population"}
"""Numbers of parts from which their events are made, beside those that have another name in format 1."""


@pytest.fixture(scope="module")
def verifier() -> Any:
    spec = importlib.util.spec_from_file_location("tacit_verify", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    profile = module.profile
    cached = functools.cache(lambda steps, relation, delta: profile(list(steps), relation, delta))
    module.profile = lambda steps, relation, delta: cached(tuple(steps), relation, delta)
    return module


def read(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def resealed(verifier: Any, record: dict[str, Any]) -> dict[str, Any]:
    """The record with the digest of its fields, as an editor would make it."""
    content = {name: value for name, value in record.items() if name not in ("digest", "signature")}
    return record | {"digest": verifier.sha256(content, {})}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_golden_certificate_is_answered(verifier: Any, path: Path) -> None:
    record = read(path)
    code, sentence = verifier.verify(record)
    assert (code, sentence.split(":")[0]) == ((3, "void") if path.stem == "void" else (0, "recomputed"))
    if code == 0:
        epsilon = float(sentence.split("epsilon ")[1].split()[0])
        assert epsilon == pytest.approx(record["epsilon"], rel=1e-3)


def test_what_it_has_no_numerics_for_is_said(verifier: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert verifier.main([str(MODELS / "marginals" / "certificate.json")]) == 2
    assert capsys.readouterr().out == "not recomputable: marginals\n"


def test_it_needs_numpy_and_scipy_alone() -> None:
    tree = ast.parse(FILE.read_text(encoding="utf-8"))
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    assert names <= {"hashlib", "json", "math", "re", "sys", "numpy", "scipy"}
    code = f"import sys; sys.argv = ['', {str(GOLDEN[0])!r}]; import runpy; runpy.run_path({str(FILE)!r})"
    seen = subprocess.run(
        [sys.executable, "-I", "-c", f"{code}; print(sorted({{'tacit', 'dp_accounting'}} & sys.modules.keys()))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout.splitlines()[-1] == "[]"


def test_its_names_of_format_1_are_those_of_tacit(verifier: Any) -> None:
    assert verifier.FIRST == EARLIER


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of the numbers and sentences of a JSON value that are derived from others, or derive others."""
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, name))
    elif isinstance(value, str) and path[0] in ("sentence", "contribution"):
        yield path
    elif isinstance(value, int | float) and not isinstance(value, bool):
        field = path[-1]
        told = path[0] != "parts" or (len(path) == 3 and field in MECHANISM)
        budget = str(field).startswith("budget")
        if told and not budget and (path[0], field) != ("profile", "delta"):
            yield path


def edited(record: dict[str, Any], path: tuple[Any, ...], rng: random.Random) -> dict[str, Any]:
    """The record with another value there: by a factor of at least 1 %, or with another number in a sentence."""
    record = copy.deepcopy(record)
    place = record
    for name in path[:-1]:
        place = place[name]
    value = place[path[-1]]
    if isinstance(value, str):
        digits = [i for i, letter in enumerate(value) if letter.isdigit()]
        at = digits[0] if path[0] == "sentence" else value.index("norm at most ") + 13
        place[path[-1]] = value[:at] + str((int(value[at]) + rng.randint(1, 8)) % 10) + value[at + 1 :]
    elif isinstance(value, int):
        place[path[-1]] = value + rng.choice([1, 2, value])
    else:
        place[path[-1]] = (value or 1e-3) * rng.choice([0.1, 0.5, 0.98, 1.02, 2.0, 10.0])
    return record


@pytest.mark.parametrize("count", [40, pytest.param(1_000, marks=pytest.mark.slow)])  # each recomputes epsilon
def test_edits_of_derived_fields_are_refused(verifier: Any, count: int) -> None:
    rng, refused = random.Random(count), 0
    records = [read(path) for path in GOLDEN if path.stem not in ("void", "signed")]
    for _ in range(count):
        record = rng.choice(records)
        paths = [path for field in DERIVED for path in leaves(record[field], (field,))]
        paths = [p for p in paths if p[0] != "contribution" or "norm at most " in record["contribution"][p[1]]]
        if record["mu"] != "inf":
            paths.remove(("mu",))
        path = rng.choice(paths)
        try:
            verifier.verify(resealed(verifier, edited(record, path, rng)))
        except (verifier.Refused, verifier.NotRecomputable, ArithmeticError):
            refused += 1
        else:
            pytest.fail(f"an edit of {path} was accepted")
    assert refused == count


@pytest.mark.parametrize("path", [path for path in GOLDEN if path.stem != "void"], ids=lambda path: path.stem)
def test_a_smaller_mu_is_refused(verifier: Any, path: Path) -> None:
    record = read(path)
    with pytest.raises(verifier.Refused, match="mu does not bound"):
        verifier.verify(resealed(verifier, record | {"mu": 0.8 * record["mu"], "signature": None}))


def test_every_edit_of_a_signed_certificate_is_refused(verifier: Any) -> None:
    record, rng = read(ROOT / "tests" / "golden" / "certificates" / "format_2" / "signed.json"), random.Random(1)
    key = record["signature"]["public_key"]
    assert verifier.verify(record, key)[0] == 0
    for name in record.keys() - {"signature", "digest", "format"}:
        other = copy.deepcopy(record)
        value = other[name]
        other[name] = f"{value} " if isinstance(value, str) else [*value, "more"] if isinstance(value, list) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            other[name] = value * rng.choice([0.5, 2.0])
        if other[name] == value:
            other[name] = "another"
        for record_ in (other, resealed(verifier, other)):
            with pytest.raises((verifier.Refused, KeyError, TypeError, ValueError, AttributeError)):
                verifier.verify(record_, key)
    for signature in (None, record["signature"] | {"value": "00" * 64}):
        with pytest.raises(verifier.Refused):
            verifier.verify(record | {"signature": signature}, key)
    with pytest.raises(verifier.Refused, match="not signed by that key"):
        verifier.verify(record, "00" * 32)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", "null", '{"format": 1}', '{"epsilon": NaN}', "[" * 100_000], ids=range(8)
)
def test_what_is_no_certificate_is_refused_in_one_sentence(
    verifier: Any, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "certificate.json"
    path.write_text(text, encoding="utf-8")
    assert verifier.main([str(path)]) == 1
    assert capsys.readouterr().out.startswith("refused: ")
    assert verifier.main([str(tmp_path / "none.json")]) == 1
