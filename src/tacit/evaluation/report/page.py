"""From a report of any kind to one self-contained HTML page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
from dp_accounting.dp_event import DpEvent
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tacit.errors import CertificateError
from tacit.evaluation.audits.findings import Audited
from tacit.evaluation.report import audit_sections
from tacit.evaluation.report.charts import Line, line_chart
from tacit.evaluation.report.content import Report
from tacit.evaluation.report.courses_sections import courses
from tacit.evaluation.report.evaluation import EvaluationReport
from tacit.evaluation.report.evaluation_sections import answer
from tacit.evaluation.report.evidence_sections import tried
from tacit.evaluation.report.experts import ExpertsReport
from tacit.evaluation.report.experts_sections import taught
from tacit.evaluation.report.learning import PolicyReport
from tacit.evaluation.report.learning_sections import learned
from tacit.evaluation.report.movement import MovementReport
from tacit.evaluation.report.movement_sections import moved
from tacit.evaluation.report.sections import NAMES, likeness, usefulness
from tacit.evaluation.report.svg import Axis, number, upward
from tacit.privacy.accounting import tradeoff
from tacit.privacy.accounting.events import event_from_json
from tacit.privacy.certificate.markdown import besides
from tacit.privacy.mechanisms.kinds import Selection
from tacit.units import Relation

WEAK = 90.0
"""A best attack that catches so many per cent of true cases is called out as a weak promise."""


def render(
    report: Report | EvaluationReport | PolicyReport | ExpertsReport | MovementReport,
    audits: Sequence[Audited] = (),
) -> str:
    """The report as one HTML page: no script, no request, the same bytes for the same report.

    Args:
        report: of any kind.
        audits: what audits of its certificate found.

    Raises:
        CertificateError: the certificate lacks a field that the page must show.
    """
    folder = "tacit.evaluation.report"
    environment = Environment(
        loader=PackageLoader(folder, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"exact": _exact, "compact": _compact}
    # The style sheet is a file of this package, not input.
    style = Markup(resources.files(folder).joinpath("style.css").read_text(encoding="utf-8"))
    shown = isinstance(report, Report) and report.reference == "simulated"
    promise = _promise(report.certificate, shown=shown)
    if isinstance(report, EvaluationReport):
        template, own = "evaluation.html", {"heading": "h2", **answer(report)}
    elif isinstance(report, PolicyReport):
        template, own = "learning.html", {"heading": "h2", **learned(report)}
    elif isinstance(report, ExpertsReport):
        template, own = "experts.html", {"heading": "h2", **taught(report)}
    elif isinstance(report, MovementReport):
        template, own = "movement.html", {"heading": "h2", **moved(report)}
    else:
        template, own = "report.html", {"heading": "h1", **likeness(report), **usefulness(report), **tried(report)}
        own |= {"reference": report.reference, **courses(report.courses, NAMES[report.reference])}
    return environment.get_template(template).render(
        **promise,
        **own,
        style=style,
        title=report.title,
        verify=report.verify,
        method=report.certificate.get("method", ""),
        costs=(*_steps(report.certificate), *report.costs) if report.costs else (),
        audited=audit_sections.audited(audits),
        timeless=report.certificate.get("simulated") is not True,
        certificate=report.certificate,
    )


def _promise(certificate: Mapping[str, Any], *, shown: bool) -> dict[str, Any]:
    """The hero and the meaning for the template; a broken promise has neither figures nor charts.

    `shown` says whether the page shows protected rows.
    """
    private = _field(certificate, "private") is True
    unit = _field(certificate, "unit")
    name, words, population = str(unit["name"]), str(unit["words"]), int(unit["population"])
    context = {
        "private": private,
        "banners": _banners(certificate, private, shown=shown),
        "headline": f"This release limits how well anyone can tell {words}.",
        "details": [],
        "not_protected": list(_field(certificate, "not_protected")),
    }
    if not private:
        broken = "Nothing can be promised: a condition of the proof was broken, and the certificate below says which."
        return context | {"figures": [], "meaning": [broken], "power_chart": None, "profile_chart": None}
    epsilon, delta, total = (_field(certificate, name) for name in ("epsilon", "delta", "total"))
    epsilon, delta = float(epsilon), float(delta)
    mechanism = event_from_json(_field(certificate, "event")), unit["relation"], epsilon, delta
    apart = besides(certificate)
    whose = "'s policy" if apart else ""
    share, alarms = tradeoff.caught(*mechanism), f"{100 * tradeoff.FALSE_ALARMS:g}"
    caught = number(share)
    meaning = [
        f"Take someone who knows everything else{apart}{',' if apart else ''} and tests {words}. If the test raises a "
        f"false alarm in {alarms} of 100 cases, it is right in at most {caught} of 100 true ones, whatever the "
        f"test, the computer or the side knowledge. Blind guessing gets {alarms}."
    ]
    if share >= WEAK:
        context["headline"] = f"This release limits, but only weakly, how well anyone can tell {words}."
        meaning.append(
            f"So close to 100, the promise hardly bounds the worst case. Ask for a smaller ε where being found out "
            f"could harm the one behind a {name}."
        )
    known = f"However much else somebody knows{apart}, {tradeoff.words(*mechanism)}."
    spent = f"{upward(float(total['epsilon']))} of {number(float(total['budget_epsilon']))}"
    return context | {
        "details": [known, _field(certificate, "sentence")],
        "figures": [
            ("Privacy loss ε", upward(epsilon), "at most, for all of this release"),
            ("Slack δ", number(delta), f"{number(1 / (delta * population))} times below 1 / population"),
            ("Best attack", f"{caught} %", f"of true cases caught, with {alarms} % false alarms"),
            ("Protected", f"every {name}{whose}", f"of a public population of {population:,}"),
            ("Budget used", spent, "ε of everything released from these records so far"),
        ],
        "meaning": meaning,
        "power_chart": _power_chart(mechanism, caught, alarms),
        "profile_chart": _profile_chart(certificate),
    }


def _steps(certificate: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """How often each part of the mechanism read the records, where that is no secret."""
    parts = [part for part in certificate.get("parts", ()) if "steps" in part]
    if any(part["kind"] == Selection.kind for part in parts):
        return tuple(("Private runs", Selection.from_certified(part).how_often) for part in parts)
    return tuple(
        (f"Private steps, {part['name']}" if len(parts) > 1 else "Private steps", f"{part['steps']:,}")
        for part in parts
    )


def _banners(certificate: Mapping[str, Any], private: bool, *, shown: bool) -> list[dict[str, str]]:
    banners = []
    if not private:
        text = "Do not publish this release: " + "; ".join(str(reason) for reason in _field(certificate, "reasons"))
        banners.append({"kind": "broken", "heading": "Not private.", "text": text + "."})
    if certificate.get("simulated") is True:
        text = "The protected rows come from a simulator and no person is in them"
        text += ", so this report may show them." if shown else "."
        banners.append({"kind": "simulated", "heading": "Simulated data.", "text": text})
    return banners


def _power_chart(mechanism: tuple[DpEvent, Relation, float, float], caught: str, alarms: str) -> Markup:
    grid = np.unique(np.concatenate([np.linspace(0.0, 1.0, 101), np.linspace(0.0, 0.1, 41)]))
    lines = [Line("control-1", grid, grid), Line("synthetic", grid, tradeoff.power(*mechanism, grid))]
    title = f"Trade-off of any attack: with {alarms} % false alarms at most {caught} % of true cases are caught."
    x, y = Axis("false alarms, %", 0.0, 100.0), Axis("true cases caught, %", 0.0, 100.0)
    return line_chart([Line(line.style, 100 * line.x, 100 * line.y) for line in lines], title=title, x=x, y=y)


def _profile_chart(certificate: Mapping[str, Any]) -> Markup | None:
    """The stated profile; None with fewer than two finite points."""
    rows = [(float(row["epsilon"]), float(row["delta"])) for row in _field(certificate, "profile")]
    rows = sorted(row for row in rows if math.isfinite(row[0]))
    if len(rows) < 2:
        return None
    epsilons, deltas = (np.array(part) for part in zip(*rows, strict=True))
    told = "; ".join(f"ε {upward(e)} at δ {number(d)}" for e, d in rows)
    x = Axis("privacy loss ε", 0.0, max(float(epsilons.max()), 1e-6))
    y = Axis("slack δ", float(deltas.min()), float(deltas.max()), log=True)
    return line_chart([Line("synthetic", epsilons, deltas)], title=f"Privacy profile: {told}", x=x, y=y)


def _field(certificate: Mapping[str, Any], name: str) -> Any:
    if name not in certificate:
        raise CertificateError(
            f"the field {name!r} is missing",
            where="report",
            expected="a complete certificate as tacit writes it",
            remedy="pass the certificate of the release, unedited",
        )
    return certificate[name]


def _exact(value: float) -> str:
    """A certificate's number as it stands: no digit is lost."""
    return f"{value:,}" if isinstance(value, int) else repr(value)


def _compact(value: Mapping[str, Any]) -> str:
    """A deep part of a certificate on one line of JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
