"""The letter for the data protection officer: figures of the certificate alone, in two languages, on one side."""

from __future__ import annotations

import html
import json
import math
import re
import shutil
import subprocess
from pathlib import Path
from statistics import NormalDist
from typing import Any, get_args

import pytest

import tacit.methods
from tacit.cli import main
from tacit.evaluation import letter as letters
from tacit.evaluation.letter import FILES, Language, combine_releases, letter
from tacit.methods import METHODS
from tacit.privacy.certificate.markdown import catch_percent
from tacit.privacy.sentences import SENTENCES, STANDING

CERTIFICATES = Path(__file__).parents[1] / "golden" / "certificates"
KEPT = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(CERTIFICATES.glob("*.json"))}
LANGUAGES: tuple[Language, ...] = get_args(Language)
FIXED = {"5", "1", "10", "50", "100", "29", "05", "2014"}
"""Numbers that the sentences have themselves: 5 % false alarms, 1, 10 or 50 of 100, Opinion 05/2014, Article 29."""
NORMAL = NormalDist()


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", page, flags=re.S)))


def numbers_of(page: str) -> set[str]:
    words = re.sub(r"[0-9a-f]{64}", "", text_of(page))
    return set(re.findall(r"\d+(?:[.,]\d+)*", words))


def written(value: float, language: Language) -> str:
    """A number with at most six digits and no exponent."""
    decimals = max(0, 5 - math.floor(math.log10(value)))
    text = f"{value:,.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if decimals else text
    return text if language == "en" else text.replace(",", " ").replace(".", ",").replace(" ", ".")


def caught(record: dict[str, Any], alarms: float) -> float:
    """The most that a test catches, in per cent, where the stated mu is exact: Phi(mu - Phi^-1(1 - alarms))."""
    return 100 * NORMAL.cdf(record["mu"] - NORMAL.inv_cdf(1 - alarms))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", [name for name in KEPT if name != "void"])
def test_every_figure_is_the_certificates_and_there_is_no_other(name: str, language: Language) -> None:
    record, total = KEPT[name], KEPT[name]["total"]
    rounded = [catch_percent(each, 0.05) for each in (record, combine_releases(record))]
    rounded += [catch_percent(record, alarms) for alarms in (0.01, 0.1, 0.5)]
    if record["mu_range"] == "exact":
        exact = [caught(record, alarms) for alarms in (0.05, 0.01, 0.1, 0.5)]
        assert [rounded[0], *rounded[2:]] == pytest.approx(exact, rel=1e-3)
    figures = [*rounded, record["epsilon"], record["delta"], total["epsilon"], total["delta"], len(record["releases"])]
    figures += [total["budget_epsilon"], record["unit"]["population"]]
    figures += [total["ceiling_epsilon"]] if total["ceiling_epsilon"] > total["budget_epsilon"] else []
    figures += [left] if (left := letters.largest_left(record)) else []
    shown, page = {written(float(figure), language) for figure in figures}, letter(record, language)
    found = numbers_of(page)
    assert shown <= found
    quoted = (record["method"], record["source"], record["tacit_version"], *record["date"][:10].split("-"))
    assert found - shown - FIXED <= numbers_of(" ".join(quoted))


def test_the_figures_of_one_letter_in_both_languages() -> None:
    record = KEPT["one_gaussian"]  # four releases: mus of 0.2 and 0.15 on one half each, 0.1581..., and one by epsilon
    english, german = (text_of(letter(record, language)) for language in LANGUAGES)
    assert "(0.648106, 0.000001)-differential privacy" in english
    assert "catches at most 6.855\N{NO-BREAK SPACE}% of true cases" in english  # Phi(0.158114 - 1.644854)
    assert "in at most 1.508, 13.07 or 56.29 with them" in english
    assert "epsilon 1.21449 of 8 (at delta 0.0000076)" in english
    assert "add up by the squares of their mu, and so to less than the sum of their epsilons" in english
    assert "The spent epsilon is stated at the delta of the budget" in english
    assert "addieren sich über die Quadrate ihres mu" in german
    assert "There could be 100,000 of them" in english
    assert "(0,648106; 0,000001)-Differential Privacy" in german
    assert "höchstens 6,855\N{NO-BREAK SPACE}% der wahren Fälle" in german
    assert "in höchstens 1,508, 13,07 oder 56,29 gezogen" in german
    assert "Bekanntlich kann es 100.000 davon geben" in german


@pytest.mark.parametrize(
    ("name", "english", "german"),
    [
        ("Pat-Nr.", "Records of patients (“Pat-Nr.”).", "Datensätze von Personen („Pat-Nr.“)."),
        ("ref_no", "Records of ref_no holders. There", "Datensätze von Einheiten („ref_no“)."),
        ("patient", "Records of patients. There", "Datensätze von Personen („patient“)."),
    ],
)
def test_whom_it_is_about_has_a_noun_and_its_column_is_quoted_once(name: str, english: str, german: str) -> None:
    record = KEPT["one_gaussian"] | {"unit": KEPT["one_gaussian"]["unit"] | {"name": name}}
    pages = [text_of(letter(record, language)) for language in LANGUAGES]
    assert english in pages[0]
    assert german in pages[1]


def test_gaussian_releases_together_are_one_gaussian() -> None:
    row = {"plan_id": "a", "method": "m", "epsilon": 1.0, "delta": 1e-6, "rdp": None, "mu": 0.3, "fold": None}
    record = KEPT["one_gaussian"] | {"releases": [row, row | {"plan_id": "b", "mu": 0.4}]}
    both = combine_releases(record | {"total": record["total"] | {"composition": "one Gaussian"}})
    assert both["mu"] == pytest.approx(0.5, rel=1e-9)
    assert catch_percent(both) == pytest.approx(caught({"mu": 0.5}, 0.05), rel=1e-3) == pytest.approx(12.61, abs=0.01)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("change", [{"void_reason": "noise <from> a seed"}, {"epsilon": "inf", "mu": "inf"}])
def test_without_a_guarantee_it_says_so_loudly_and_bounds_nothing(change: dict[str, Any], language: Language) -> None:
    page = letter(KEPT["synthesis"] | change | {"private": False}, language)
    words = ("NO GUARANTEE", "Nothing is promised") if language == "en" else ("KEINE GARANTIE", "Nichts wird versproch")
    assert all(each in page for each in ('role="alert"', *words))
    assert not any(each in page for each in ("<table>", "<from>", "\N{NO-BREAK SPACE}%"))
    assert ("seed" in page) == ("void_reason" in change)


def test_hostile_names_stay_text_and_short() -> None:
    columns = [{"name": f"<script>{i}</script>\N{RIGHT-TO-LEFT OVERRIDE}"} for i in range(300)]
    unit = KEPT["synthesis"]["unit"] | {"name": "<img src=x>{epsilon}" + "a" * 200}
    page = letter(KEPT["synthesis"] | {"unit": unit, "plan": {"spec": {"columns": columns}}, "method": "<b>" * 99})
    assert not re.search(r"<(script|img|b)\b|\N{RIGHT-TO-LEFT OVERRIDE}", page)
    assert "&lt;img src=x&gt;{epsilon}aaa" in page
    assert re.search("and 29[0-9] more", page)
    assert len(page) < 9_000


def test_both_languages_say_the_same_values() -> None:
    table = letters.sentences_table()
    pairs = [
        *table["limits"],
        *table["rests"],
        *(each for name in ("leaves", "trust", "text") for each in table[name].values()),
    ]
    filled = [[set(re.findall(r"\{(\w+)\}", pair[language])) - {"unit"} for language in LANGUAGES] for pair in pairs]
    assert [pair for pair, (english, german) in zip(pairs, filled, strict=True) if english != german] == []
    assert len(pairs) > 90


def test_copied_logs_are_no_protection() -> None:
    english, german = (letter(KEPT["consensus_prefixes"], language) for language in LANGUAGES)
    assert "Whoever is in these logs is not protected" in english
    assert "Wer darin vorkommt, ist nicht geschützt" in german
    assert not re.search("No record is copied|hineinkopiert", english + german)


def test_what_is_said_of_codes_covers_all_that_is_not_covered_or_assumed() -> None:
    """What is left out says what the promise covers, and stands in the certificate alone."""
    table = letters.sentences_table()
    said = {code for name in ("limits", "rests") for group in table[name] for code in group["codes"]}
    assert said < set(SENTENCES)
    for folder, codes in method_codes().items():
        assert codes - said <= {"own_words"}, folder
    assert set(STANDING) <= said


def method_codes() -> dict[str, set[str]]:
    """Codes that the plans of each folder of methods may state beside what their promise covers."""
    covered = {code for each in KEPT.values() for clause in each["covered"] for code in [clause["code"]]}
    found = {}
    for folder in sorted(path for path in Path(tacit.methods.__file__).parent.iterdir() if path.is_dir()):
        source = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
        blocks = re.findall(r"(?:not_covered|not_protected|assumptions)\s*=(.*?)(?=\n\s+\w+=|\n\n|\Z)", source, re.S)
        named = set(re.findall(r'clause\(\s*"(\w+)"', "".join(blocks)))
        found[folder.name] = (named & set(SENTENCES)) - covered
    return found


CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (chromium or google-chrome on the PATH)")
def test_every_letter_prints_on_one_side(tmp_path: Path) -> None:
    """All letters in one document, each on a side of its own: it has as many sides as letters."""
    records = [KEPT[name] for name in ("devices_shared_and_starts", "consensus_prefixes", "policies", "void")]
    for entry in {entry.task: entry for entry in METHODS}.values():
        codes = method_codes()[entry.plan.split(".")[1]]
        limits = [
            {"code": code, "words": "of the user's own"} for code in (*codes, "curator", "population", "declared")
        ]
        rests = [{"code": code, "words": "w"} for code in (*STANDING, *codes, "kept_apart", "one_curator")]
        lists = {"not_covered": limits, "assumptions": rests}
        records.append(KEPT["synthesis"] | {"method": entry.certified} | lists)
    columns = [{"name": f"measurement number {i} of the visit"} for i in range(300)]
    own = [{"code": "own_words", "words": "what the house says in words of its own, at length " * 9}] * 9
    spec = {"plan": {"spec": {"columns": columns}}, "not_covered": own, "assumptions": own}
    records.append(KEPT["signed"] | spec | {"unit": KEPT["signed"]["unit"] | {"name": "person " * 28}})
    pages = [letter(record, language) for record in records for language in LANGUAGES]
    bodies = [re.search(r"<body([^>]*)>(.*)</body>", page, re.S) for page in pages]
    inside = "".join(f'<div style="break-before:page"{body[1]}>{body[2]}</div>' for body in bodies if body)
    style = re.search(r"<style>.*?</style>", pages[0], re.S)
    assert style is not None
    assert CHROMIUM is not None
    (tmp_path / "all.html").write_text(f"<!doctype html><meta charset=utf-8>{style[0]}<body>{inside}</body>", "utf-8")
    flags = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-pdf-header-footer"
    profile, out = f"--user-data-dir={tmp_path / 'profile'}", tmp_path / "all.pdf"
    command = [CHROMIUM, *flags.split(), profile, f"--print-to-pdf={out}", (tmp_path / "all.html").as_uri()]
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    assert len(re.findall(rb"/Type\s*/Page\b", out.read_bytes())) == len(pages) == 24


def test_the_command_writes_it_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(CERTIFICATES / "synthesis.json", tmp_path / "certificate.json")
    assert main(["letter", str(tmp_path), "--language", "de"]) == 0
    assert (tmp_path / FILES["de"]).read_text(encoding="utf-8") == letter(KEPT["synthesis"], "de")
    assert main(["letter", str(tmp_path / "certificate.json"), "--out", str(tmp_path / "mine.html")]) == 0
    assert (tmp_path / "mine.html").read_text(encoding="utf-8") == letter(KEPT["synthesis"])
    assert main(["letter", str(tmp_path), "--out", str(tmp_path / "mine.html")]) == 6
    assert "exists already" in capsys.readouterr().err


def test_no_letter_is_written_on_an_edited_certificate(tmp_path: Path) -> None:
    edited = json.dumps(KEPT["synthesis"] | {"epsilon": 0.1})
    (tmp_path / "certificate.json").write_text(edited, encoding="utf-8")
    assert main(["letter", str(tmp_path)]) == 5
    assert not (tmp_path / FILES["en"]).exists()
