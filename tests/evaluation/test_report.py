"""The report: structure, escaping, no requests, no private rows by mistake, and a look through a real browser."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import CertificateError, DataError, FileError
from tacit.evaluation.report import Report, render
from tacit.evaluation.report.blocks import Chart
from tacit.evaluation.report.charts import ChartAxis, format_bound, heat_map, nice_step, number, shorten
from tacit.evaluation.report.evidence import Histogram, Points, Score, histogram
from tacit.evaluation.report.synthesis import Correlation, Curve, PlaneMap, Return, sections
from tacit.evaluation.report.tables import correlation
from tacit.evaluation.report.whole_trajectories import make_plane
from tacit.privacy.accounting.events import ComposedEvent, GaussianEvent, SelfComposedEvent
from tacit.privacy.accounting.filters import SUM
from tacit.privacy.certificate import canonical as certificate_json
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.mechanisms.base import certificate_parts
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.units import Unit

HOSTILE = "</title></svg><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{ 7 * 7 }}"

CERTIFICATE = {
    "private": True,
    "epsilon": 4.37718,
    "delta": 1e-5,
    "mu": 1.0,
    "mu_range": "exact",
    "profile": [{"delta": 1e-3, "epsilon": 3.19}, {"delta": 1e-5, "epsilon": 4.37718}],
    "unit": {
        "name": "patient",
        "relation": "add_or_remove",
        "population": 50_000,
    },
    "not_protected": [
        {"code": "own_words", "words": "What all patients have in common."},
        {"code": "own_words", "words": "The declared population."},
    ],
    "total": {
        "epsilon": 5.5,
        "delta": 1.2e-5,
        "composition": "sum",
        "budget_epsilon": 8.0,
        "ceiling_epsilon": 8.0,
        "budget_delta": 2e-5,
    },
    "simulated": False,
    "void_reason": None,
    "ledger_head": "9f" * 32,
}


def private_fields() -> dict[str, Any]:
    """What the page on private people's records may show: the promise and the synthetic rows."""
    generator = np.random.default_rng(0)
    return {
        "marginals": (histogram("heart rate", "1/min", (0.0, 200.0), generator.normal(80, 20, 1000)),),
        "correlation": Correlation(("a", "b"), np.array([[1.0, -0.5], [-0.5, 1.0]])),
        "scores": (Score("Next position error", "lower is better", 0.02, public=True),),
    }


def private_report(
    *, title: str = "ICU stays", certificate: Any = CERTIFICATE, costs: Any = (), verify: Any = None, **changes: Any
) -> Report:
    return Report(
        title=title,
        certificate=certificate,
        sections=sections(certificate, **private_fields() | changes),
        verify=("tacit certificate verify certificate.json",) if verify is None else verify,
        costs=costs,
        shows_records=changes.get("reference") == "simulated",
    )


def full_fields(text: str = "Synthetic") -> dict[str, Any]:
    generator = np.random.default_rng(0)
    rows = generator.normal(80, 20, (2, 1000))
    steps = np.arange(5.0)
    names = (f"{text} a", "b")
    return {
        "title": f"{text} title",
        "reference": "simulated",
        "verify": (f"verify {text}",),
        "map": PlaneMap(
            make_plane(("####", "#OO#", "####"), 0.7, (1.0, 2.0)),
            (
                Points("Real", "reference", generator.uniform(0.4, 1.2, (50, 2))),
                Points(text, "synthetic", generator.uniform(0.4, 1.2, (50, 2))),
            ),
        ),
        "scores": (Score(text, f"{text} meaning", 0.96, False, 0.99, (("Noise only", 0.7), (text, 0.5))),),
        "marginals": (histogram(text, text, (0.0, 200.0), rows[0], rows[1]),),
        "correlation": Correlation(names, np.eye(2), np.array([[1.0, 0.25], [0.25, 1.0]])),
        "returns": tuple(
            Return(f"{label}", kind, starts, 50.0, 40.0, 61.0, 3)
            for starts in ("all starts", text)
            for label, kind in (("Real", "reference"), (text, "synthetic"), ("Noise only", "control"))
        ),
        "curves": (Curve(text, "synthetic", steps, steps, steps - 1, steps + 1),),
        "unit": text,
        "costs": ((text, text),),
        "certificate": {
            **CERTIFICATE,
            "simulated": True,
            "unit": {**CERTIFICATE["unit"], "name": text},
            "not_protected": [{"code": "own_words", "words": text}],
            "note": {"deep": {"deeper": {text: text}}},
            text: [{text: text}],
        },
    }


def full_report(text: str = "Synthetic", **changes: Any) -> Report:
    return private_report(**full_fields(text) | changes)


class Page(HTMLParser):
    """Tags, attributes and the visible text of a page; an unclosed or stray tag is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.stack: list[str] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.stack:
            self.text += data

    def sections(self) -> list[str | None]:
        """Ids of the sections in their order, of a page that begins with its only first heading."""
        heads = [tag for tag, _ in self.tags if tag in ("h1", "h2")]
        assert heads[0] == "h1"
        assert heads.count("h1") == 1
        return [attributes["id"] for tag, attributes in self.tags if tag == "section" and attributes.get("id")]


def test_the_promise_comes_first_and_every_section_is_there() -> None:
    page = Page(render(full_report()))
    assert page.sections() == [
        "meaning",
        "map",
        "closeness",
        "columns",
        "together",
        "usefulness",
        "verify",
        "costs",
        "certificate",
    ]
    metas = {attributes.get("name"): attributes.get("content") for tag, attributes in page.tags if tag == "meta"}
    assert metas["viewport"] == "width=device-width, initial-scale=1"
    for words in ("4.378", "10⁻⁵", "every Synthetic", "50,000", "Not protected", "Simulated data.", "5.5 of 8"):
        assert words in page.text
    assert "can tell whether any one Synthetic, with all their records, is in the data or not." in page.text
    assert page.text.count("25.96 %") >= 3  # Phi(Phi^-1(0.05) + mu) = 0.259511 at mu = 1, rounded up; one figure


@pytest.mark.parametrize(("ceiling", "said"), [(8.0, False), (12.0, True)])
def test_a_budget_that_may_be_raised_says_how_far(ceiling: float, said: bool) -> None:
    total = {**CERTIFICATE["total"], "ceiling_epsilon": ceiling}  # type: ignore[dict-item]
    page = Page(render(private_report(certificate=CERTIFICATE | {"total": total})))
    assert ("it may be raised, to 12 at most" in page.text) == said


def test_the_method_stands_at_the_top_and_its_steps_among_the_costs() -> None:
    parts = [{"kind": "poisson_sum", "name": "denoiser", "steps": 1_500}, {"kind": "once", "name": "choice"}]
    method = {"method": "synthesis of transitions (PrivORL-n)", "parts": parts}
    page = render(private_report(certificate=CERTIFICATE | method, costs=(("Parameters", "9"),)))
    assert page.index("synthesis of transitions (PrivORL-n)") < page.index("Privacy loss")
    assert "<dt>Private steps</dt><dd>1,500</dd>" in page
    assert "Time and memory could depend on the records" in page
    assert '<dd class="words">every patient</dd>' in page
    assert "could depend" not in render(
        private_report(certificate=CERTIFICATE | method | {"simulated": True}, costs=(("a", "b"),))
    )


def test_columns_have_the_names_of_files_and_stay_apart_where_they_are_cut() -> None:
    rows = {"observations": np.zeros((3, 2), np.float32), "actions": np.zeros(3, np.int64)}
    table = rows | {"rewards": np.zeros(3, np.float32), "next_observations": np.zeros((3, 2), np.float32)}
    spec = PublicSpec(Box((0.0, 0.0), (1.0, 1.0)), Discrete(2), Box((0.0,), (1.0,)), "declared")
    found = correlation(spec, table, None)
    assert found is not None
    expected = ("observation_0", "observation_1", "reward", "next_observation_0", "next_observation_1")
    assert found.labels == expected
    chart = heat_map(np.eye(5), found.labels, title="t")
    assert all(chart.count(f">{label}<") == 2 for label in expected)
    assert shorten("oxygen saturation before the visit 12", 20, ending=6) == "oxygen satura…sit 12"


def test_a_glance_says_what_went_in_came_out_is_promised_and_is_worth() -> None:
    private = private_report(drawn="2,000 synthetic rows")
    glance = Page(render(private)).text.split("The promise")[0]
    assert "records, which stay sealed" in glance
    assert "of a public population of 50,000 patients" in glance
    assert "2,000 synthetic rows" in glance
    assert "ε = 4.378" in glance  # rounded up
    assert "not measured here" in glance
    assert "Every person counts alike, however many rows they have: a share of synthetic rows is a mean over" in glance
    simulated = full_report(drawn="2,000 synthetic rows")
    glance = Page(render(simulated)).text.split("The promise")[0]
    assert "simulated records" in glance
    assert "50: Real; 50: Noise only" in glance
    without = full_report(drawn="2,000 synthetic rows", returns=())
    assert "0.99 between halves of the records" in Page(render(without)).text.split("The promise")[0]


def test_a_glance_counts_the_rows_that_differ_where_rows_repeat() -> None:
    repeated = private_report(drawn="2,000 synthetic rows", distinct=1_240)
    assert "of which 1,240 differ, since rows are drawn by weights; and a model" in Page(render(repeated)).text
    assert "differ, since" not in Page(render(private_report(drawn="2,000 synthetic rows"))).text
    assert all(section["blocks"] for section in repeated.to_json()["sections"])  # nothing else is stored


def test_a_private_report_shows_no_real_data_and_says_so() -> None:
    page = Page(render(private_report()))
    ids = {attributes["id"] for tag, attributes in page.tags if tag == "section" and attributes.get("id")}
    assert ids == {"meaning", "world", "columns", "together", "verify", "certificate"}
    assert "There is no real data in this report." in page.text
    assert "Simulated data." not in page.text
    assert "What all patients have in common." in page.text
    classes = [(attributes.get("class") or "") for _, attributes in page.tags]
    assert not any("reference" in name for name in classes)


@pytest.mark.parametrize("section", ["map", "scores", "marginals", "correlation", "returns", "curves"])
def test_values_from_real_rows_need_a_declared_public_source(section: str) -> None:
    full = full_fields()
    value = {**full, "curves": (dataclasses.replace(full["curves"][0], kind="reference"),)}[section]
    with pytest.raises(DataError, match=f"reference rows are shown .{section}"):
        private_report(**{section: value})
    private_report(reference="public", **{section: value})


def test_rows_are_called_simulated_only_if_the_certificate_says_so() -> None:
    with pytest.raises(DataError, match="called simulated"):
        full_report(certificate=CERTIFICATE)


def test_a_broken_promise_has_a_banner_and_no_figures() -> None:
    broken = {**CERTIFICATE, "private": False, "epsilon": "inf", "void_reason": "seed <b>"}
    text = render(private_report(certificate=broken))
    page = Page(text)
    assert "the ledger is void: seed <b>." in page.text
    assert "<b>" not in text
    assert "Privacy loss" not in page.text
    assert "What an attacker can gain" not in page.text
    assert any(tag == "s" for tag, _ in page.tags)
    assert "Not private." not in Page(render(private_report())).text
    for doubtful in ("true", 1, None):  # only a literal true is a promise
        doubted = {**CERTIFICATE, "private": doubtful}
        assert "Not private." in Page(render(private_report(certificate=doubted))).text


def test_a_weak_promise_is_called_weak() -> None:
    weak = {**CERTIFICATE, "mu": 5.0, "epsilon": 30.0, "profile": []}
    page = Page(render(private_report(certificate=weak)))
    assert "limits, but only weakly" in page.text
    assert "This release limits how well" not in page.text
    assert "only weakly" not in Page(render(private_report())).text


def test_the_page_reads_the_certificates_that_tacit_writes() -> None:
    parts = certificate_parts(
        [PoissonSum(name="denoiser", steps=4, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=2.0)]
    )
    certificate = Certificate.build(
        method="synthesis",
        source="PrivORL (arXiv 2512.07342)",
        unit=Unit("patient", relation="add_or_remove", population=10_000),
        event=ComposedEvent([SelfComposedEvent(GaussianEvent(2.0), 4)]),
        parts=parts,
        delta=1e-5,
        plan_id=certificate_json.plan_id("synthesis", {"steps": 4}, parts),
        plan={"steps": 4},
        ledger_head="9f" * 32,
        dataset_id="d3" * 16,
        simulated=False,
        void_reason=None,
        releases=[],
        composition=SUM,
        budget=(8.0, 1e-5),
        covered=["every gradient"],
        not_covered=["pre-training"],
        assumptions=[],
        not_protected=["What all patients have in common."],
    )
    page = Page(render(private_report(certificate=certificate.to_json())))
    assert "4.378" in page.text  # the golden epsilon of mu = 1 at 1e-5
    assert certificate.sentence in page.text
    assert certificate.digest in page.text
    assert "catches at most 25.96 % of true cases" in page.text
    assert "catches at most 25.96 % of true cases" in certificate.to_markdown()


@pytest.mark.parametrize(
    "field", ["private", "epsilon", "delta", "mu", "mu_range", "profile", "unit", "total", "not_protected"]
)
def test_an_incomplete_certificate_is_refused(field: str) -> None:
    certificate = {name: value for name, value in CERTIFICATE.items() if name != field}
    with pytest.raises(CertificateError, match=field):
        render(private_report(certificate=certificate))


def test_hostile_text_stays_text() -> None:
    page = Page(render(full_report(HOSTILE)))  # raises on unbalanced tags
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "img", "iframe", "object", "link", "a", "form"}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert page.text.count("{{ 7 * 7 }}") > 5
    assert "49" not in page.text


def test_the_page_requests_nothing() -> None:
    text = render(full_report())
    assert not re.search(r"https?:|//|url\(|@import|src=|href=|data:", text)
    assert "default-src 'none'" in text


def test_the_same_report_gives_the_same_bytes() -> None:
    assert render(full_report()) == render(full_report())


def test_every_chart_has_a_text_alternative_and_finite_numbers() -> None:
    text = render(full_report())
    charts = re.findall(r"<svg [^>]*role=\"img\".*?</svg>", text, flags=re.S)
    assert len(charts) == 2 + 2 + 1 + 3 + 2 + 1
    for chart in charts:
        tree = ElementTree.fromstring(chart)
        assert tree[0].tag == "title"
        assert len(tree[0].text or "") > 15
        assert tree.get("aria-label") == tree[0].text
        assert not re.search(r"nan|inf", " ".join(v for e in tree.iter() for k, v in e.items() if k != "aria-label"))


@pytest.mark.parametrize(
    "drawing",
    ["<svg><script>alert(1)</script></svg>", '<svg onload="x"><title>t</title></svg>', '<svg><a href="x">t</a></svg>'],
)
def test_a_drawing_holds_plain_shapes_alone(drawing: str) -> None:
    with pytest.raises(DataError, match="holds something else"):
        Chart("label", "note", drawing)
    stored = full_report().to_json()
    (chart,) = next(section for section in stored["sections"] if section["id"] == "map")["blocks"][0]["blocks"][:1]
    chart["drawing"] = drawing
    with pytest.raises(FileError, match="damaged or of another version"):
        Report.from_json(stored, CERTIFICATE)


def test_the_pages_palette_is_defined_for_both_schemes() -> None:
    style = re.search(r"<style>(.*?)</style>", render(private_report()), flags=re.S)
    assert style is not None
    light, dark = re.findall(r":root \{(.*?)\}", style[1], flags=re.S)[:2]
    used = set(re.findall(r"var\((--[\w-]+)", style[1])) - {"--c", "--dash"}
    assert used <= set(re.findall(r"(--[\w-]+):", light))
    assert set(re.findall(r"(--[\w-]+):", dark)) == set(re.findall(r"(--[\w-]+):", light))
    assert "@media print" in style[1]


@pytest.mark.parametrize(
    ("value", "text"), [(4.37718, "4.378"), (4.0, "4"), (0.10001, "0.1001"), (99.9999, "100"), (float("inf"), "∞")]
)
def test_printed_bounds_are_rounded_up(value: float, text: str) -> None:
    assert format_bound(value) == text


def test_numbers_and_ticks_for_people() -> None:
    assert [number(v) for v in (1e-7, 5e-7, -0.25, 1234.5, 2e9)] == ["10⁻⁷", "5 × 10⁻⁷", "−0.25", "1,234", "2 × 10⁹"]
    assert [nice_step(v) for v in (0.11, 2.4, 7.0)] == [0.2, 2.5, 10.0]
    assert ChartAxis("", 0.0, 1.0).ticks() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert ChartAxis("", 1e-9, 1.0, log=True).ticks() == pytest.approx([1, 1e-2, 1e-4, 1e-6, 1e-8])


def test_histogram_shares_sum_to_one_and_clip_to_the_bounds() -> None:
    result = histogram("x", "m", (0.0, 1.0), np.array([-5.0, 0.1, 0.1, 9.0]), np.array([0.1, 0.1]), bins=4)
    np.testing.assert_array_equal(result.synthetic, [0.75, 0.0, 0.0, 0.25])
    np.testing.assert_array_equal(result.reference, [1.0, 0.0, 0.0, 0.0])
    assert result.similarity == pytest.approx(0.75)
    assert isinstance(result, Histogram)


def test_extreme_inputs_still_draw() -> None:
    long = "a very long name " * 20
    flat = np.zeros(3)
    report = full_report(
        long,
        marginals=(Histogram(long, "", np.array([0.0, 1.0]), np.zeros(1)),),
        curves=(Curve("flat", "control", flat, flat, flat, flat),),
        correlation=Correlation((long,) * 60, np.full((60, 60), -1.0)),
    )
    assert "nan" not in re.sub(r"<style>.*?</style>", "", render(report), flags=re.S).lower().replace("finance", "")
    assert 'width="-' not in render(report)


CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)

WIDTHS, LONG_WORD = (390, 1280), "unbreakable" * 30
MEASURE = """
window.onload = () => {
  document.body.dataset.found = JSON.stringify([...document.querySelectorAll('iframe')].map(frame => {
    const inner = frame.contentDocument;
    const wide = [...inner.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > frame.width + 0.5);
    const wraps = [...inner.querySelectorAll('figure')].map(e => e.getBoundingClientRect().width);
    return {
      width: frame.width, scroll: inner.documentElement.scrollWidth, client: inner.documentElement.clientWidth,
      wide: wide.map(e => e.tagName + '.' + (e.getAttribute('class') || '')),
      figures: wraps, height: inner.documentElement.scrollHeight,
      heading: parseFloat(inner.defaultView.getComputedStyle(inner.querySelector('h1')).fontSize)};
  }));
};
"""


NEEDS_CHROMIUM = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium (chromium, chromium-browser or google-chrome on the PATH)"
)


def require_fit(folder: Path, *pages: str) -> None:
    """Fail unless each page, shown in windows of a phone's and a desk's width, fits it without complaints."""
    wrapper = folder / "wrapper.html"
    frames = "".join(
        f"<iframe width={width} height=900 style='border:0' srcdoc=\"{html.escape(page)}\"></iframe>"
        for page in pages
        for width in WIDTHS
    )
    wrapper.write_text(
        f"<!doctype html><meta charset=utf-8><body>{frames}<script>{MEASURE}</script></body>", encoding="utf-8"
    )
    (folder / "profile").mkdir()
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars "
        "--enable-logging=stderr --v=0 --dump-dom"
    )
    assert CHROMIUM is not None
    done = subprocess.run(
        [CHROMIUM, *flags.split(), f"--user-data-dir={folder / 'profile'}", wrapper.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    attribute = re.search(r'data-found="([^"]*)"', done.stdout)
    assert attribute is not None, done.stderr[-2000:]
    assert "CONSOLE" not in done.stderr, done.stderr[-2000:]
    shown = json.loads(html.unescape(attribute[1]))
    assert [int(found["width"]) for found in shown] == [*WIDTHS] * len(pages)
    for found in shown:
        width = int(found["width"])
        assert found["scroll"] <= found["client"] <= width
        assert found["wide"] == []
        assert all(200 <= figure <= width for figure in found["figures"])
        assert found["heading"] >= 28
        assert found["height"] > 2000


@NEEDS_CHROMIUM
def test_the_page_fits_in_a_browser_without_complaints(tmp_path: Path) -> None:
    require_fit(tmp_path, *(render(full_report(text)) for text in ("Synthetic", LONG_WORD)))


def test_importing_the_measures_loads_no_torch() -> None:
    names = "tacit.evaluation.report, tacit.evaluation.fidelity, tacit.evaluation.dynamics, tacit.evaluation.fidelity"
    code = f"import sys, {names}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
