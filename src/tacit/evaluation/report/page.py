"""From a report of any kind to one self-contained HTML page: the promise, what the report says, and how to check it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import resources
from types import MappingProxyType
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tacit.errors import CertificateError
from tacit.evaluation.audits.findings import WAYS, AuditResult
from tacit.evaluation.report import blocks, charts
from tacit.evaluation.report.blocks import Banner, Block, Chart, Facts, Notes, Paragraphs, Report, Section, TableRow
from tacit.evaluation.report.charts import ChartAxis, ChartLine, format_bound, number
from tacit.privacy import sentences
from tacit.privacy.certificate import markdown
from tacit.privacy.mechanisms.kinds import PrivateSelection, part_from_json
from tacit.units import noun

_FOLDER = "tacit.evaluation.report"


def render(
    report: Report, audits: Sequence[AuditResult] = (), letters: Mapping[str, str] = MappingProxyType({})
) -> str:
    """The report as one HTML page: no script, no request, the same bytes for the same report.

    Args:
        report: of any kind.
        audits: what audits of its certificate found.
        letters: files beside the page that it links to -> what a link says.

    Raises:
        CertificateError: the certificate lacks a field that the page must show.
    """
    environment = Environment(
        loader=PackageLoader(_FOLDER, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(kind=lambda block: type(block).__name__)
    environment.filters["exact"] = lambda value: f"{value:,}" if isinstance(value, int) else repr(value)
    environment.filters["compact"] = partial(json.dumps, ensure_ascii=False, separators=(", ", ": "))
    certificate, contents = report.certificate, report.sections
    private = _require_field(certificate, "private") is True
    sections = [
        *(section for section in contents if section.before),
        *(_promise(certificate) if private else _broken_promise(certificate)),
        *(section for section in contents if not section.before),
        _audit_section(audits),
    ]
    return environment.get_template("page.html").render(
        title=report.title,
        # The style sheet is a file of this package, not input.
        style=Markup(resources.files(_FOLDER).joinpath("style.css").read_text(encoding="utf-8")),
        banners=_banners(report, private),
        sections=[section for section in sections if section.blocks or section.hero],
        verify=report.verify,
        letters=letters,
        costs=[*_steps(certificate), *report.costs] if report.costs else [],
        simulated=report.simulated,
        certificate=certificate,
    )


def _banners(report: Report, private: bool) -> list[Banner]:
    banners = []
    if not private:
        reasons = "; ".join(sentences.reasons(report.certificate))
        banners.append(Banner("Not private.", f"Do not publish this release: {reasons}.", "broken"))
    if report.simulated:
        text = "The protected rows come from a simulator and no person is in them"
        text += ", so this report may show them." if report.shows_records else "."
        banners.append(Banner("Simulated data.", text, "simulated"))
    return banners


def _promise(certificate: Mapping[str, Any]) -> tuple[Section, Section]:
    unit = _require_field(certificate, "unit")
    name, words, population = noun(unit["name"]), sentences.describe_neighbours(certificate), int(unit["population"])
    epsilon, delta, total = (_require_field(certificate, name) for name in ("epsilon", "delta", "total"))
    epsilon, delta = float(epsilon), float(delta)
    apart = sentences.knowledge_exception(logs=sentences.publishes_logs(certificate))
    suffix = "'s policy" if apart else ""
    stated = {name: _require_field(certificate, name) for name in ("epsilon", "delta", "mu", "mu_range", "profile")}
    share, alarms = markdown.catch_percent(stated), f"{100 * markdown.FALSE_ALARMS:g}"
    caught = number(share)
    meaning = [
        f"Take someone who knows everything else{apart}{',' if apart else ''} and tests {words}. If the test raises a "
        f"false alarm in {alarms} of 100 cases, it is right in at most {caught} of 100 true ones, whatever the "
        f"test, the computer or the side knowledge. Blind guessing gets {alarms}."
    ]
    if share >= markdown.WEAK:
        meaning.append(
            f"So close to 100, the promise hardly bounds the worst case. Ask for a smaller ε where being found out "
            f"could harm the one behind a {name}."
        )
    knowledge = f"However much else somebody knows{apart}, {markdown.attack(stated)}."
    whole, ceiling = float(total["budget_epsilon"]), float(total["ceiling_epsilon"])
    spent = f"{format_bound(float(total['epsilon']))} of {number(whole)}"
    raised = f"; it may be raised, to {number(ceiling)} at most" if ceiling > whole else ""
    figures = [
        ("Privacy loss ε", format_bound(epsilon), "at most, for all of this release"),
        ("Slack δ", number(delta), f"{number(1 / (delta * population))} times below 1 / population"),
        ("Best attack", f"{caught} %", f"of true cases caught, with {alarms} % false alarms"),
        ("Protected", f"every {name}{suffix}", f"of a public population of {population:,}"),
        ("Budget used", spent, f"ε of everything released from these records so far{raised}"),
    ]
    rates = np.unique(np.concatenate([np.linspace(0.0, 1.0, 101), np.linspace(0.0, 0.1, 41)]))
    best = [1 - markdown.miss_rate(stated, rate) for rate in np.clip(rates, 1e-9, 1 - 1e-9).tolist()]
    curves = ("control-1", rates), ("synthetic", np.array(best))
    trade = charts.line_chart(
        [ChartLine(style, 100 * rates, 100 * y) for style, y in curves],
        title=f"Trade-off of any attack: with {alarms} % false alarms at most {caught} % of true cases are caught.",
        x=ChartAxis("false alarms, %", 0.0, 100.0),
        y=ChartAxis("true cases caught, %", 0.0, 100.0),
    )
    gain = Chart("What an attacker can gain", "the most that any test catches; dotted: blind guessing", trade)
    method, weakly = certificate.get("method", ""), ", but only weakly," if share >= markdown.WEAK else ""
    hero: list[Block] = [Paragraphs([method], "method")] if method else []
    hero += [Paragraphs([knowledge, sentences.promise(certificate)], "details"), Facts(figures)]
    title = f"This release limits{weakly} how well anyone can tell {words}."
    return (
        Section(title, hero, hero="The promise", eyebrow="The promise"),
        _meaning_section(certificate, meaning, [gain, *_profile(certificate)]),
    )


def _broken_promise(certificate: Mapping[str, Any]) -> tuple[Section, Section]:
    title = f"This release limits how well anyone can tell {sentences.describe_neighbours(certificate)}."
    method, eyebrow = certificate.get("method", ""), "What was claimed, and does not hold"
    hero = [Paragraphs([method], "method")] if method else []
    words = "Nothing can be promised: a condition of the proof was broken, and the certificate below says which."
    section = Section(title, hero, hero="The promise", eyebrow=eyebrow, broken=True)
    return section, _meaning_section(certificate, [words], [])


def _meaning_section(certificate: Mapping[str, Any], words: Sequence[str], drawings: Sequence[Block]) -> Section:
    unprotected = sentences.lines(certificate, "not_protected") if _require_field(certificate, "not_protected") else []
    limits = [Notes("Not protected", unprotected)] if unprotected else []
    return Section("What that means", (Paragraphs(words), *blocks.make_grid([*drawings, *limits])), id="meaning")


def _profile(certificate: Mapping[str, Any]) -> tuple[Chart, ...]:
    rows = [(float(row["epsilon"]), float(row["delta"])) for row in _require_field(certificate, "profile")]
    rows = sorted(row for row in rows if math.isfinite(row[0]))
    if len(rows) < 2:
        return ()
    epsilons, deltas = (np.array(part) for part in zip(*rows, strict=True))
    drawn = charts.line_chart(
        [ChartLine("synthetic", epsilons, deltas)],
        title="Privacy profile: " + "; ".join(f"ε {format_bound(e)} at δ {number(d)}" for e, d in rows),
        x=ChartAxis("privacy loss ε", 0.0, max(float(epsilons.max()), 1e-6)),
        y=ChartAxis("slack δ", float(deltas.min()), float(deltas.max()), log=True),
    )
    return (Chart("One promise, many readings", "every pair on the line holds at once", drawn),)


def _audit_section(audits: Sequence[AuditResult]) -> Section:
    drawings, rows, left = [], [], []
    for audit in audits:
        verdict = (
            f"{'the promise stands' if audit.is_upheld else 'the promise is refuted'}, at {100 * audit.confidence:g} %"
        )
        style = "synthetic" if audit.is_upheld else "control-0"
        drawn = charts.bounds_chart(audit.words, audit.lower_bound, audit.epsilon, by="audit", style=style)
        drawings.append(Chart("Between what is shown and what is promised", verdict, drawn))
        left += [f"Not audited: {', '.join(audit.left_out)}."] if audit.left_out else []
        for finding in audit.findings:
            cells = {
                "ε at least, whatever the mechanism": number(finding.epsilon),
                "ε at least, if the noise has its stated law": number(
                    math.nan if finding.by_law is None else finding.by_law
                ),
                "ε promised": format_bound(audit.epsilon),
            }
            rows.append(TableRow(WAYS[finding.way], cells, finding.shape, "synthetic"))
    return Section(
        "Audited, to see whether the promise stands",
        (*blocks.make_grid(drawings), *blocks.make_table("Attack", rows), Paragraphs(left)) if audits else (),
        "Canaries that are as loud as the plan lets anybody be went through the same mechanisms and noise; no "
        "record was read for it. An audit can refute a promise, and never prove one: what ε really is lies between "
        "what is shown and what is promised.",
        "audited",
    )


def _steps(certificate: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """How often each part of the mechanism read the records, where that is no secret."""
    parts = certificate.get("parts", ())
    selections = [part_from_json(part) for part in parts if part["kind"] == "selection"]
    if selections:
        return tuple(("Private runs", part.run_count_text) for part in selections if isinstance(part, PrivateSelection))
    asked = [part for part in parts if "steps" in part]
    return tuple(
        (f"Private steps, {part['name']}" if len(asked) > 1 else "Private steps", f"{part['steps']:,}")
        for part in asked
    )


def _require_field(certificate: Mapping[str, Any], name: str) -> Any:
    if name not in certificate:
        expected, remedy = "a complete certificate as tacit writes it", "pass the certificate of the release, unedited"
        raise CertificateError(f"the field {name!r} is missing", where="report", expected=expected, remedy=remedy)
    return certificate[name]
