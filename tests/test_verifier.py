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

import numpy as np
import pytest
from tests.certificate_edits import forged, identified, outcomes, put, redigested, same, sampled, unimplied

import tacit
from tacit import off_policy_evaluation as ope
from tacit.data.spec import Box, Discrete
from tacit.errors import CertificateError
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.certificate.fields import parts_from_json
from tacit.privacy.certificate.plan import standing_clauses
from tacit.privacy.sentences import LISTS

ROOT = Path(__file__).parents[1]
FILE = ROOT / "verifier" / "tacit_verify.py"
GOLDEN = sorted((ROOT / "tests" / "golden" / "certificates").rglob("*.json"))
MODELS = ROOT / "tests" / "net" / "fixtures" / "models"


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
        name = read(path)["unit"]["name"]
        assert f"differential privacy for every {name}" in said or f"nothing is promised to any {name}" in said


@pytest.mark.parametrize("path", [path for path in GOLDEN if path.stem not in UNKNOWN], ids=lambda path: path.stem)
def test_its_epsilon_is_that_of_tacit(verifier: Any, path: Path) -> None:
    record = read(path)
    steps, relation = verifier.merged(verifier.steps_of(record["event"])), record["unit"]["relation"]
    epsilon = verifier.epsilon_at(verifier.trade_off(steps, relation, 1e-9), record["delta"])
    assert epsilon == pytest.approx(record["epsilon"], rel=1e-3)
    assert epsilon >= record["accountants"][1]["epsilon"] * (1 - 1e-4)


def test_it_is_one_short_file() -> None:
    lines = FILE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 700
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
    assert names <= {"collections", "functools", "hashlib", "json", "math", "re", "sys", "numpy", "scipy"}
    code = f"import sys; sys.argv = ['', {str(GOLDEN[0])!r}]; import runpy; runpy.run_path({str(FILE)!r})"
    seen = subprocess.run(
        [sys.executable, "-I", "-c", f"{code}; print(sorted({{'tacit', 'dp_accounting'}} & sys.modules.keys()))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout.splitlines()[-1] == "[]"


REFUSALS = (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError)
"""What `main` answers as a file that cannot be read, beside the two of its own."""


@pytest.mark.parametrize("count", [250, pytest.param(2_000, marks=pytest.mark.slow)])
def test_edits_are_refused_or_printed_as_declared(verifier: Any, count: int) -> None:
    records = [read(path) | {"signature": None} for path in GOLDEN if path.stem not in UNKNOWN]
    refusals = (verifier.Refused, verifier.NotRecomputable, *REFUSALS)
    counts, unseen = outcomes(sampled(records, count, seed=count), verifier.verify, refusals, unimplied)
    print(dict(counts))
    assert unseen == []
    assert counts["refused"] > 0.4 * count


FREE = ("emptied", "a free line", "other numbers in covered", "an unknown field", "the method in other letters")
"""Forgeries of what the file prints that it does not recompute."""


@pytest.mark.parametrize("name", ["policies", "signed"])
def test_forgeries_are_refused_but_for_what_is_printed_as_declared(verifier: Any, name: str) -> None:
    record = read(ROOT / "tests" / "golden" / "certificates" / f"{name}.json") | {"signature": None}
    for what, other in forged(record):
        if not any(word in what for word in FREE) and not same(record, other):
            with pytest.raises((verifier.Refused, *REFUSALS)):
                raise AssertionError(f"{what}: {verifier.verify(redigested(other))}")


def test_what_is_not_recomputed_is_printed(verifier: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert verifier.main([str(GOLDEN[0])]) == 0
    sentence, recomputed, declared_fields, signature = capsys.readouterr().out.splitlines()
    assert sentence.startswith("recomputed (not signed): ")
    assert declared_fields.startswith("Declared, not recomputed: ")
    assert recomputed.startswith("Recomputed: epsilon, mu, ")
    for name in (*LISTS, "plan", "simulated", "other releases", "audit", "the unit's name and population"):
        assert name in declared_fields
    assert "only a signature" in signature


def test_the_standing_assumptions_are_those_that_tacit_asks_for(verifier: Any) -> None:
    for path in (path for path in GOLDEN if path.stem not in UNKNOWN):
        record = read(path) | {"signature": None}
        standing = standing_clauses("assumptions", parts_from_json(record["parts"]))
        assert {"code": "ran_as_stated"} in standing
        for one in standing:
            fewer = redigested(record | {"assumptions": [each for each in record["assumptions"] if each != one]})
            with pytest.raises(verifier.Refused, match="a standing assumption is missing"):
                verifier.verify(fewer)


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda text: text.replace('"epsilon"', '"epsilon": 0.1, "epsilon"', 1), "a name is repeated"),
        (lambda text: text + " " * (4 << 20), "more than 4 MiB"),
        (lambda text: text[:-2] + ', "plan": {}' + text[-2:], "a name is repeated"),
        (lambda text: text.replace("patient", "pat\\u001b[8mient"), "not plain"),
        (lambda text: text.replace("patient", "pat\\ud800ient"), "not plain"),
        (lambda text: text.replace("patient", "pat\u202eient"), "not plain"),
    ],
)
def test_text_that_is_not_what_it_seems_is_refused(
    verifier: Any, edit: Any, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "certificate.json"
    text = (ROOT / "tests/golden/certificates/signed.json").read_text(encoding="utf-8")
    path.write_text(edit(text), encoding="utf-8")
    assert verifier.main([str(path)]) == 1
    assert why in capsys.readouterr().out
    with pytest.raises(CertificateError):
        Certificate.load(path).verify()


@pytest.mark.parametrize(
    "path", [path for path in GOLDEN if path.stem not in UNKNOWN and path.stem != "void"], ids=lambda path: path.stem
)
def test_a_smaller_mu_is_refused(verifier: Any, path: Path) -> None:
    record = read(path)
    with pytest.raises(verifier.Refused, match="mu recomputes"):
        verifier.verify(redigested(record | {"mu": 0.8 * record["mu"], "signature": None}))


def test_every_edit_of_a_signed_certificate_is_refused(verifier: Any) -> None:
    record, rng = read(ROOT / "tests" / "golden" / "certificates" / "signed.json"), random.Random(1)
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


def decisions(n: int = 40) -> tacit.Trajectories:
    every = np.zeros(n, int)
    return tacit.Trajectories.from_arrays(
        observations=every,
        actions=np.arange(n) % 2,
        rewards=np.arange(n) % 3 / 2,
        next_observations=every,
        terminations=np.ones(n, bool),
        propensities=np.full(n, 0.5),
        unit_ids=np.arange(n),
        episode_ids=np.arange(n),
        spec=tacit.PublicSpec(Discrete(2), Discrete(2), Box((0.0,), (1.0,)), "declared", propensities=True),
        simulated=True,
    )


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_releases_of_two_folds_add_up_by_fold(verifier: Any, relation: Any, tmp_path: Path) -> None:
    unit, data = tacit.Unit("person", relation, 1_000), decisions()
    with tacit.Ledger(tmp_path / "ledger", unit, epsilon=2.0, delta=1e-4, composition=tacit.Composition(1.0)) as ledger:
        vault = tacit.Vault(data, ledger)
        for fold, epsilon in ((0, 1.25), (1, 1.5), (None, 0.5)):
            plan = ope.ImportanceSampling(problem=ope.Problem(gamma=1.0, horizon=1), fold=fold)
            plan = plan.calibrate(unit=unit, epsilon=epsilon, delta=1e-5)
            certificate = ope.fit(plan, vault, ope.Behaviour()).certificate
            record = certificate.to_json()
            assert verifier.verify(record)[0] == 0
            assert record["releases"][-1].get("fold") == fold
        dearer = [sum(row["epsilon"] for row in record["releases"] if row.get("fold") != other) for other in (0, 1)]
        assert record["total"]["epsilon"] == pytest.approx(max(dearer), rel=1e-5)
        assert record["total"]["delta"] == pytest.approx(2e-5 if relation == "add_or_remove" else 3e-5)
    for row, fold in ((0, 1), (0, None), (2, 0), (2, 1)):
        other = copy.deepcopy(record)
        other["releases"][row] = {k: v for k, v in other["releases"][row].items() if k != "fold"}
        other["releases"][row] |= {} if fold is None else {"fold": fold}
        with pytest.raises(verifier.Refused):
            verifier.verify(redigested(other))
        with pytest.raises(CertificateError):
            Certificate.from_json(redigested(other)).verify()


@pytest.mark.parametrize("sampled", [0.0, 1.0])
def test_diameters_are_recomputed_and_no_other_is_believed(verifier: Any, sampled: float, tmp_path: Path) -> None:
    """Of scores of the records' own policy on either fold: 2 sqrt(.65) clips, and a clip in each for who moves."""
    unit, rule = tacit.Unit("person", "replace_one", 1_000), tacit.Composition(sampled)
    with tacit.Ledger(tmp_path / "ledger", unit, epsilon=2.0, delta=1e-4, composition=rule) as ledger:
        vault = tacit.Vault(decisions(), ledger)
        for fold, epsilon in ((0, 1.25), (1, 1.5)):
            plan = ope.ImportanceSampling(problem=ope.Problem(gamma=1.0, horizon=1), fold=fold, on_policy=True)
            plan = plan.calibrate(unit=unit, epsilon=epsilon, delta=1e-5)
            record = ope.fit(plan, vault, ope.Behaviour()).certificate.to_json()
            assert verifier.verify(record)[0] == 0
    far = 2 * 0.65**0.5
    assert [row["diameter"] for row in record["releases"]] == pytest.approx([far, far], rel=1e-9)
    assert record["event"]["events"][0]["diameter"] == pytest.approx(far)
    if sampled:
        moved = (1.25 + 1.5) / far
        assert record["total"]["epsilon"] == pytest.approx(moved, rel=1e-4)
        assert record["total"]["delta"] == pytest.approx(2e-5)
    for path, value in (
        (("releases", 1, "diameter"), 1.9),
        (("releases", 1, "diameter"), 1.2),
        (("event", "events", 0, "diameter"), 1.2),
        (("event", "events", 0, "diameter"), 0.9),
        (("parts", 0, "blocks", 0, "share"), 0.5),
        (("parts", 0, "blocks", 1, "share"), 0.6),
        (("parts", 0, "blocks", 0, "kind"), "positive"),
        (("parts", 0, "blocks", 2, "of"), 1),
    ):
        other = copy.deepcopy(record)
        put(other, path, value)
        with pytest.raises(verifier.Refused):
            verifier.verify(redigested(identified(other)))
        with pytest.raises(CertificateError):
            Certificate.from_json(redigested(identified(other))).verify()
