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
from pathlib import Path
from typing import Any

import pytest
from tests.certificate_edits import declared, edited, redigested, same

from tacit.parameters import EARLIER, PART_FIELDS
from tacit.privacy.certificate import words

ROOT = Path(__file__).parents[1]
FILE = ROOT / "verifier" / "tacit_verify.py"
GOLDEN = sorted((ROOT / "tests" / "golden" / "certificates").rglob("*.json"))
MODELS = ROOT / "tests" / "net" / "fixtures" / "models"
DERIVED = (
    "epsilon",
    "mu",
    "profile",
    "relations",
    "parts",
    "event",
    "total",
    "sentence",
    "covered",
    "not_covered",
    "assumptions",
)


@pytest.fixture(scope="module")
def verifier() -> Any:
    spec = importlib.util.spec_from_file_location("tacit_verify", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    trade_off = module.trade_off
    cached = functools.cache(lambda steps, relation, delta: trade_off(list(steps), relation, delta))
    module.trade_off = lambda steps, relation, delta: cached(tuple(steps), relation, delta)
    module.epsilon_at, module.mu_of = functools.cache(module.epsilon_at), functools.cache(module.mu_of)
    return module


def read(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


UNKNOWN = {"consensus_prefixes": "above_threshold", "own_proof": "smooth_sensitivity"}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_golden_certificate_is_answered(verifier: Any, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = verifier.main([str(path)]), capsys.readouterr().out
    if kind := UNKNOWN.get(path.stem):
        assert (code, said) == (2, f"not recomputable: {kind}\n")
    else:
        assert (code, said.split()[0].strip(":")) == ((3, "void") if path.stem == "void" else (0, "recomputed"))
        assert read(path)["sentence"] in said


@pytest.mark.parametrize("path", [path for path in GOLDEN if path.stem not in UNKNOWN], ids=lambda path: path.stem)
def test_its_epsilon_is_that_of_tacit(verifier: Any, path: Path) -> None:
    record = read(path)
    steps, relation = verifier.merged(verifier.steps_of(record["event"])), record["unit"]["relation"]
    epsilon = verifier.epsilon_at(verifier.trade_off(steps, relation, 1e-9), record["delta"])
    assert epsilon == pytest.approx(record["epsilon"], rel=1e-3)
    assert epsilon >= record["accountants"][1]["epsilon"] * (1 - 1e-4)


def test_it_is_one_short_file() -> None:
    lines = FILE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 260
    assert max(map(len, lines)) <= 120


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
    assert names <= {"base64", "collections", "functools", "hashlib", "json", "math", "re", "sys", "numpy", "scipy"}
    code = f"import sys; sys.argv = ['', {str(GOLDEN[0])!r}]; import runpy; runpy.run_path({str(FILE)!r})"
    seen = subprocess.run(
        [sys.executable, "-I", "-c", f"{code}; print(sorted({{'tacit', 'dp_accounting'}} & sys.modules.keys()))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout.splitlines()[-1] == "[]"


def test_its_names_of_format_1_are_those_of_tacit(verifier: Any) -> None:
    assert {name: EARLIER[name] for name in PART_FIELDS} == verifier.FIRST


def unimplied(record: dict[str, Any], path: tuple[Any, ...]) -> bool:
    """Whether nothing that the file reads implies what stands there."""
    return declared(record, path) or (path[-1] in ("bits", "floor") and record["parts"][0].get("noise") == "device")


@pytest.mark.parametrize("said", [words.mixing("patient"), words.sharded(4)], ids=["query", "shards"])
def test_lines_that_a_vault_declares_are_accepted(verifier: Any, said: str) -> None:
    (path,) = (path for path in GOLDEN if path.parts[-2:] == ("format_1", "synthesis.json"))
    record = read(path)
    verifier.verify(redigested({**record, "assumptions": [*record["assumptions"], said]}))
    with pytest.raises(verifier.Refused, match="words that are not tacit's"):
        verifier.verify(redigested({**record, "assumptions": [*record["assumptions"], f"{said}, or so"]}))


@pytest.mark.parametrize("count", [240, pytest.param(1_000, marks=pytest.mark.slow)])
def test_edits_of_derived_fields_are_refused(verifier: Any, count: int) -> None:
    rng, accepted = random.Random(count), []
    records = [read(path) | {"signature": None} for path in GOLDEN if path.stem != "void"]
    pools = [
        [(path, other) for path, other in edited(one) if path[0] in DERIVED and not unimplied(one, path)]
        for one in records
    ]
    for pool in rng.choices(pools, k=count):
        path, other = rng.choice(pool)
        try:
            verifier.verify(redigested(other))
        except (
            verifier.Refused,
            verifier.NotRecomputable,
            ArithmeticError,
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
        ):
            continue
        if not any(same(one, other) for one in records):
            accepted.append(path)
    assert accepted == []


@pytest.mark.parametrize(
    "path", [path for path in GOLDEN if path.stem not in UNKNOWN and path.stem != "void"], ids=lambda path: path.stem
)
def test_a_smaller_mu_is_refused(verifier: Any, path: Path) -> None:
    record = read(path)
    with pytest.raises(verifier.Refused, match="mu recomputes"):
        verifier.verify(redigested(record | {"mu": 0.8 * record["mu"], "signature": None}))


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
        for record_ in (other, redigested(other)):
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
