"""From a report of any kind to one self-contained HTML page: the promise, what the report says, and how to check it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import resources
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tacit.errors import CertificateError
from tacit.evaluation.audits.findings import WAYS, Audited
from tacit.evaluation.report import charts
from tacit.evaluation.report.blocks import Banner, Block, Chart, Facts, Notes, Report, Row, Section, Text, grid, tabled
from tacit.evaluation.report.charts import Axis, Line, number, upward
from tacit.privacy import sentences
from tacit.privacy.certificate import markdown
from tacit.privacy.mechanisms.kinds import Selection, part_of

WEAK = 90.0
"""A best attack that catches so many per cent of true cases is called out as a weak promise."""
_FOLDER = "tacit.evaluation.report"


def render(report: Report, audits: Sequence[Audited] = ()) -> str:
    """The report as one HTML page: no script, no request, the same bytes for the same report.

    Args:
        report: of any kind.
        audits: what audits of its certificate found.

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
    environment.filters.update(kind=lambda block: type(block).__name__, exact=_exact)
    environment.filters["compact"] = partial(json.dumps, ensure_ascii=False, separators=(", ", ": "))
    certificate, contents = report.certificate, report.sections
    private = _field(certificate, "private") is True
    sections = [
        *(section for section in contents if section.before),
        *(_promise(certificate) if private else _broken(certificate)),
        *(section for section in contents if not section.before),
        _audited(audits),
    ]
    return environment.get_template("page.html").render(
        title=report.title,
        # The style sheet is a file of this package, not input.
        style=Markup(resources.files(_FOLDER).joinpath("style.css").read_text(encoding="utf-8")),
        banners=_banners(report, private),
        sections=[section for section in sections if section.blocks or section.hero],
        verify=report.verify,
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
    """The promise in one sentence and its figures, and what it means."""
    unit = _field(certificate, "unit")
    name, words, population = str(unit["name"]), sentences.who(certificate), int(unit["population"])
    epsilon, delta, total = (_field(certificate, name) for name in ("epsilon", "delta", "total"))
    epsilon, delta = float(epsilon), float(delta)
    apart = sentences.besides(logs=sentences.publishes_logs(certificate))
    suffix = "'s policy" if apart else ""
    stated = {name: _field(certificate, name) for name in ("epsilon", "delta", "mu", "mu_range", "profile")}
    share, alarms = markdown.caught(stated), f"{100 * markdown.FALSE_ALARMS:g}"
    caught = number(share)
    meaning = [
        f"Take someone who knows everything else{apart}{',' if apart else ''} and tests {words}. If the test raises a "
        f"false alarm in {alarms} of 100 cases, it is right in at most {caught} of 100 true ones, whatever the "
        f"test, the computer or the side knowledge. Blind guessing gets {alarms}."
    ]
    if share >= WEAK:
        meaning.append(
            f"So close to 100, the promise hardly bounds the worst case. Ask for a smaller ε where being found out "
            f"could harm the one behind a {name}."
        )
    knowledge = f"However much else somebody knows{apart}, {markdown.attack(stated)}."
    spent = f"{upward(float(total['epsilon']))} of {number(float(total['budget_epsilon']))}"
    figures = [
        ("Privacy loss ε", upward(epsilon), "at most, for all of this release"),
        ("Slack δ", number(delta), f"{number(1 / (delta * population))} times below 1 / population"),
        ("Best attack", f"{caught} %", f"of true cases caught, with {alarms} % false alarms"),
        ("Protected", f"every {name}{suffix}", f"of a public population of {population:,}"),
        ("Budget used", spent, "ε of everything released from these records so far"),
    ]
    rates = np.unique(np.concatenate([np.linspace(0.0, 1.0, 101), np.linspace(0.0, 0.1, 41)]))
    best = [1 - markdown.missed(stated, rate) for rate in np.clip(rates, 1e-9, 1 - 1e-9).tolist()]
    curves = ("control-1", rates), ("synthetic", np.array(best))
    trade = charts.lines(
        [Line(style, 100 * rates, 100 * y) for style, y in curves],
        title=f"Trade-off of any attack: with {alarms} % false alarms at most {caught} % of true cases are caught.",
        x=Axis("false alarms, %", 0.0, 100.0),
        y=Axis("true cases caught, %", 0.0, 100.0),
    )
    gain = Chart("What an attacker can gain", "the most that any test catches; dotted: blind guessing", trade)
    method, weakly = certificate.get("method", ""), ", but only weakly," if share >= WEAK else ""
    hero: list[Block] = [Text([method], "method")] if method else []
    hero += [Text([knowledge, sentences.promise(certificate)], "details"), Facts(figures)]
    title = f"This release limits{weakly} how well anyone can tell {words}."
    return (
        Section(title, hero, hero="The promise", eyebrow="The promise"),
        _meaning(certificate, meaning, [gain, *_profile(certificate)]),
    )


def _broken(certificate: Mapping[str, Any]) -> tuple[Section, Section]:
    """A promise that does not hold has neither figures nor charts."""
    title = f"This release limits how well anyone can tell {sentences.who(certificate)}."
    method, eyebrow = certificate.get("method", ""), "What was claimed, and does not hold"
    hero = [Text([method], "method")] if method else []
    words = "Nothing can be promised: a condition of the proof was broken, and the certificate below says which."
    return (Section(title, hero, hero="The promise", eyebrow=eyebrow, broken=True), _meaning(certificate, [words], []))


def _meaning(certificate: Mapping[str, Any], words: Sequence[str], drawings: Sequence[Block]) -> Section:
    unprotected = sentences.lines(certificate, "not_protected") if _field(certificate, "not_protected") else []
    limits = [Notes("Not protected", unprotected)] if unprotected else []
    return Section("What that means", (Text(words), *grid([*drawings, *limits])), id="meaning")


def _profile(certificate: Mapping[str, Any]) -> tuple[Chart, ...]:
    """The stated profile; none with fewer than two finite points."""
    rows = [(float(row["epsilon"]), float(row["delta"])) for row in _field(certificate, "profile")]
    rows = sorted(row for row in rows if math.isfinite(row[0]))
    if len(rows) < 2:
        return ()
    epsilons, deltas = (np.array(part) for part in zip(*rows, strict=True))
    drawn = charts.lines(
        [Line("synthetic", epsilons, deltas)],
        title="Privacy profile: " + "; ".join(f"ε {upward(e)} at δ {number(d)}" for e, d in rows),
        x=Axis("privacy loss ε", 0.0, max(float(epsilons.max()), 1e-6)),
        y=Axis("slack δ", float(deltas.min()), float(deltas.max()), log=True),
    )
    return (Chart("One promise, many readings", "every pair on the line holds at once", drawn),)


def _audited(audits: Sequence[Audited]) -> Section:
    """What audits found of the certificate's promise."""
    drawings, rows, left = [], [], []
    for audit in audits:
        verdict = (
            f"{'the promise stands' if audit.stands else 'the promise is refuted'}, at {100 * audit.confidence:g} %"
        )
        style = "synthetic" if audit.stands else "control-0"
        drawn = charts.bounds(audit.words, audit.lower, audit.epsilon, by="audit", style=style)
        drawings.append(Chart("Between what is shown and what is promised", verdict, drawn))
        left += [f"Not audited: {', '.join(audit.left_out)}."] if audit.left_out else []
        for finding in audit.findings:
            cells = {
                "ε at least, whatever the mechanism": number(finding.epsilon),
                "ε at least, if the noise has its stated law": number(
                    math.nan if finding.by_law is None else finding.by_law
                ),
                "ε promised": upward(audit.epsilon),
            }
            rows.append(Row(WAYS[finding.way], cells, finding.shape, "synthetic"))
    return Section(
        "Audited, to see whether the promise stands",
        (*grid(drawings), *tabled("Attack", rows), Text(left)) if audits else (),
        "Canaries that are as loud as the plan lets anybody be went through the same mechanisms and noise; no "
        "record was read for it. An audit can refute a promise, and never prove one: what ε really is lies between "
        "what is shown and what is promised.",
        "audited",
    )


def _steps(certificate: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """How often each part of the mechanism read the records, where that is no secret."""
    parts = certificate.get("parts", ())
    selections = [part_of(part) for part in parts if part["kind"] == "selection"]
    if selections:
        return tuple(("Private runs", part.how_often) for part in selections if isinstance(part, Selection))
    asked = [part for part in parts if "steps" in part]
    return tuple(
        (f"Private steps, {part['name']}" if len(asked) > 1 else "Private steps", f"{part['steps']:,}")
        for part in asked
    )


def _field(certificate: Mapping[str, Any], name: str) -> Any:
    if name not in certificate:
        expected, remedy = "a complete certificate as tacit writes it", "pass the certificate of the release, unedited"
        raise CertificateError(f"the field {name!r} is missing", where="report", expected=expected, remedy=remedy)
    return certificate[name]


def _exact(value: float) -> str:
    """A certificate's number as it stands: no digit is lost."""
    return f"{value:,}" if isinstance(value, int) else repr(value)
