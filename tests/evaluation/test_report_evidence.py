"""Sections of the report on copies, attacks, several agents and costs: what they say, and when they may be shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from test_report import CERTIFICATE, HOSTILE, LONG_WORD, NEEDS_CHROMIUM, Page, full_fields, private_report, require_fit

from tacit.data.columns import Column
from tacit.data.spec import Box, PublicSpec, space_of
from tacit.errors import DataError
from tacit.evaluation.lower_bounds import Rate
from tacit.evaluation.membership import Hits
from tacit.evaluation.neighbours import NearestRecords
from tacit.evaluation.one_run import OneRunBound
from tacit.evaluation.report import Report, render, tables
from tacit.evaluation.report.evidence import (
    AttackHits,
    Cost,
    PlantedAudit,
    Points,
    Score,
    distribution_charts,
    whole_bins,
)
from tacit.evaluation.report.synthesis import Curve, Return


def fields(text: str = "Synthetic rows") -> dict[str, Any]:
    """Every section that there is."""
    generator = np.random.default_rng(1)
    near = np.sort(generator.gamma(2.0, 0.1, 5_000))
    steps = np.arange(5.0)
    tables = (("Real", "reference"), (text, "synthetic"), ("Noise only", "control"))
    hits = tuple(
        Hits(fpr, Rate(*caught), Rate(fpr, fpr / 2, 2 * fpr))
        for fpr, caught in ((0.1, (0.112, 0.092, 0.135)), (0.01, (0.012, 0.006, 0.021)))
    )
    full = full_fields(text)
    return (
        full
        | {
            "scores": (
                *full["scores"],
                Score("Next position", text, 0.012, True, None, (("Noise only", 1.8),), (("AIM", 0.4),)),
            ),
            "embedding": (
                Points("Real", "reference", generator.normal(0, 20, (60, 2))),
                Points(text, "synthetic", generator.normal(0, 20, (60, 2))),
            ),
            "nearest": NearestRecords(near, 1.02 * near, Rate(0.503, 0.491, 0.515), 0),
            "returns": tuple(
                Return(label, kind, starts, 50.0, 40.0, 70.0, 5)  # type: ignore[arg-type]
                for starts in ("all starts", "far starts")
                for label, kind in tables
            ),
            "curves": (Curve(text, "synthetic", steps, steps, steps - 1, steps + 1),),
            "audits": (
                PlantedAudit(text, "synthetic", OneRunBound(0.41, 500, "both", 500, 265, 1e-5, 0.95), 4.37718),
                PlantedAudit(
                    "a twin without clipping", "control", OneRunBound(5.03, 500, "both", 500, 499, 1e-5, 0.95), 4.37718
                ),
            ),
            "attacks": (
                AttackHits(text, "denoising loss at fixed noise levels", hits),
                AttackHits("other", "", hits[:1]),
            ),
            "synthesizers": (
                Cost(text, "synthetic", (("Training", 65.0), ("Sampling", 2.04)), 1.2e9),
                Cost("AIM", "control", (("Training", 1_800.0),), None),
            ),
        }
    )


def evidence(text: str = "Synthetic rows", **changes: Any) -> Report:
    return private_report(**fields(text) | changes)


def numbers(text: str, heading: str) -> list[str]:
    """The cells of the table row with this heading."""
    row = re.search(rf"<th scope=\"row\">{re.escape(heading)}.*?</tr>", text, flags=re.S)
    assert row is not None, heading
    return re.findall(r"<td[^>]*>(.*?)</td>", row[0])


def test_sections_stand_in_their_order() -> None:
    assert Page(render(evidence())).sections() == [
        *("meaning", "map", "closeness", "world", "columns", "together", "picture", "usefulness", "copies", "attacks"),
        *("synthesizers", "verify", "costs", "certificate"),
    ]


@pytest.mark.parametrize("section", ["embedding", "nearest", "audits", "attacks", "synthesizers"])
def test_figures_from_real_rows_need_a_declared_source(section: str) -> None:
    value = fields()[section]
    with pytest.raises(DataError, match="reference rows are shown"):
        private_report(**{section: value})
    private_report(reference="public", **{section: value})


def test_a_picture_of_synthetic_rows_alone_needs_none() -> None:
    own = tuple(points for points in fields()["embedding"] if points.kind == "synthetic")
    page = Page(render(private_report(embedding=own)))
    assert "picture" in page.sections()


def test_an_audit_stands_beside_what_is_promised() -> None:
    text = render(evidence())
    assert numbers(text, "Synthetic rows<small>the promise stands") == ["265 of 500", "0.41", "4.585", "4.378"]
    assert numbers(text, "a twin without clipping<small>the promise is refuted") == [
        "499 of 500",
        "5.03",
        "4.585",
        "4.378",
    ]
    titles = re.findall(r'aria-label="(Privacy loss of [^"]*)"', text)
    assert titles == [
        "Privacy loss of Synthetic rows: Promised: at most 4.378. Shown by the attack: at least 0.41",
        "Privacy loss of a twin without clipping: Promised in vain: at most 4.378. Shown by the attack: at least 5.03",
    ]


def test_attacks_and_costs_are_told_with_their_intervals() -> None:
    text = render(evidence("Synthetic"))
    assert numbers(text, "Synthetic<small>denoising loss") == ["11.2 % (9.2 % to 13.5 %)", "1.2 % (0.6 % to 2.1 %)"]
    assert numbers(text, "other") == ["11.2 % (9.2 % to 13.5 %)", "–"]
    assert numbers(text, "AIM") == ["30.0 min", "–", "–"]
    assert re.findall(r"65 s|2\.0 s|1\.2 GB", text) == ["65 s", "2.0 s", "1.2 GB"]


def test_other_synthesizers_are_no_controls() -> None:
    text = render(evidence())
    assert numbers(text, "Next position") == ["0.0120", "0.4000", "1.8000"]
    assert "AIM: other synthesizers, on the same rows under the same promise." in Page(text).text
    assert "other synthesizers" not in Page(render(private_report())).text


def test_distances_are_told_with_their_share() -> None:
    page = Page(render(evidence()))
    assert "50.3 % of the rows are nearer to a record that was learned from." in page.text
    assert "The 95 % interval is 49.1 % to 51.5 %" in page.text
    assert "Rows that equal a record: none of 5,000." in page.text
    nothing = np.zeros(3)
    copied = evidence(nearest=NearestRecords(nothing, nothing, Rate(0.5, 0.4, 0.6), 1))
    assert "nan" not in re.sub(r"<style>.*?</style>", "", render(copied), flags=re.S).lower()


def test_the_stored_report_gives_the_same_page() -> None:
    report = evidence()
    written: dict[str, Any] = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert render(Report.from_json(written, report.certificate)) == render(report)
    assert report.certificate["epsilon"] == CERTIFICATE["epsilon"]


def test_hostile_text_stays_text_in_the_new_sections() -> None:
    page = Page(render(evidence(HOSTILE)))
    assert not {tag for tag, _ in page.tags} & {"script", "img", "iframe", "object", "link", "a", "form"}


def test_every_new_chart_has_a_text_alternative_and_finite_numbers() -> None:
    charts = re.findall(r"<svg [^>]*role=\"img\".*?</svg>", render(evidence()), flags=re.S)
    assert len(charts) == 2 + 2 + 1 + 3 + 3 + 2 + 1 + 1 + 2
    for chart in charts:
        tree = ElementTree.fromstring(chart)
        assert len(tree.get("aria-label") or "") > 15
        assert not re.search(r"nan|inf", " ".join(v for e in tree.iter() for k, v in e.items() if k != "aria-label"))


@NEEDS_CHROMIUM
def test_the_grown_page_fits_in_a_browser(tmp_path: Path) -> None:
    require_fit(tmp_path, *(render(evidence(text)) for text in ("Synthetic rows", LONG_WORD)))


def test_whole_numbers_share_bins_evenly() -> None:
    assert whole_bins(18.0, 110.0) == ((17.5, 110.5), 31)  # 93 years, three a bin
    assert whole_bins(0.0, 3.0) == ((-0.5, 3.5), 4)
    assert whole_bins(1.0, 64.0) == ((0.5, 64.5), 32)


def test_declared_columns_are_shown_once_without_missing_cells_and_by_name() -> None:
    drugs = Column("drug", "category", labels=("none", "ACE inhibitor", "beta blocker"))
    observation = space_of(Column("pressure", low=60.0, high=250.0, missing="flag", step=10.0))
    spec = PublicSpec(observation, space_of(drugs), Box((0.0,), (1.0,)), "declared", difference=(10.0, 1.0))
    states = np.array([[60.0, 1.0], [120.0, 0.0], [130.0, 0.0], [140.0, 0.0]], np.float32)
    rows = {
        "observations": states,
        "actions": np.array([0, 1, 1, 2]),
        "rewards": np.zeros(4),
        "next_observations": states,
    }
    shown = {item.column: item for item in tables.marginals(spec, rows, None)}
    assert set(shown) == {"pressure", "drug", "reward"}
    assert shown["pressure"].note == "25.0 % of the cells are missing"
    assert shown["pressure"].synthetic[0] == 0.0  # the lowest value stood for the cell that is missing
    assert shown["pressure"].synthetic.sum() == pytest.approx(1.0)
    (chart, *_), _ = distribution_charts([shown["drug"]], "Others")
    assert all(f">{name}</text>" in chart.drawing for name in ("none", "ACE inhibitor", "beta blocker"))
