"""The section of the report on audits of its certificate: there where something was found, and not elsewhere."""

from __future__ import annotations

import pytest
from test_report import full_report

from tacit.evaluation.audits.findings import AuditResult, Finding
from tacit.evaluation.report import render


def found(epsilon: float) -> AuditResult:
    return AuditResult(
        name="doors",
        words="<the sums>",
        unit="person",
        relation="add_or_remove",
        epsilon=epsilon,
        delta=1e-5,
        confidence=0.95,
        findings=(
            Finding(way="canary", epsilon=1.25, by_law=2.5, confidence=0.975, runs=400, canaries=1, seconds=3.0),
            Finding(way="one run", epsilon=0.75, by_law=None, confidence=0.975, runs=1, canaries=64, seconds=1.0),
        ),
        left_out=("votes",),
        certificate="ab",
    )


def test_without_findings_there_is_no_section() -> None:
    report = full_report("Synthetic rows")
    assert render(report) == render(report, ())
    assert 'id="audited"' not in render(report)


@pytest.mark.parametrize(("epsilon", "verdict"), [(4.0, "the promise stands"), (2.0, "the promise is refuted")])
def test_findings_are_shown_with_their_verdict(epsilon: float, verdict: str) -> None:
    page = render(full_report("Synthetic rows"), (found(epsilon),))
    section = page.partition('id="audited"')[2].partition("</section>")[0]
    assert verdict in section
    for words in ("1.25", "2.5", "0.75", "64 canaries in each of 1 run(s)", "400 runs", "Not audited: votes."):
        assert words in section
    assert "<the sums>" not in page
