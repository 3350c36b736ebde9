"""From a `Report` to one self-contained HTML page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from importlib import resources
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from tacit.errors import CertificateError
from tacit.measure.report.charts import Line, line_chart
from tacit.measure.report.content import Array, Report
from tacit.measure.report.sections import likeness, usefulness
from tacit.measure.report.svg import Axis, number
from tacit.units import Unit

FALSE_ALARMS = 0.05
"""The rate of false alarms at which the promise is put into words."""
WEAK = 0.9
"""A best attack that catches this share of true cases is called out as a weak promise."""


def render(report: Report) -> str:
    """The report as one HTML page: no script, no request, the same bytes for the same report.

    Raises:
        CertificateError: the certificate lacks a field that the page must show.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    folder = resources.files("tacit.measure.report")
    template = environment.from_string(folder.joinpath("report.html").read_text(encoding="utf-8"))
    # The style sheet is a file of this package, not input.
    style = Markup(folder.joinpath("style.css").read_text(encoding="utf-8"))
    context = {**_promise(report), **likeness(report), **usefulness(report)}
    return template.render(
        **context,
        style=style,
        title=report.title,
        verify=report.verify,
        costs=report.costs,
        certificate=report.certificate,
        reference=report.reference,
        exact=_exact,
        compact=_compact,
    )


def power(profile: tuple[tuple[float, float], ...], false_alarms: Array) -> Array:
    """The largest share of true cases that any test catches, [N], given its share of false alarms [N].

    For every (epsilon, delta) a test's power is at most min(1, e^epsilon a + delta) and at most
    1 - e^-epsilon (1 - delta - a) (Kairouz, Oh & Viswanath 2015, arXiv 1311.0776, Theorem 2.1); all pairs hold at once.
    """
    bound = np.ones_like(false_alarms)
    for epsilon, delta in profile:
        if math.isfinite(epsilon) and epsilon < 700:
            grown = math.exp(epsilon) * false_alarms + delta
            shrunk = 1.0 - math.exp(-epsilon) * (1.0 - delta - false_alarms)
            bound = np.minimum(bound, np.minimum(grown, shrunk))
    return np.maximum(bound, false_alarms)


def upward(value: float, *, digits: int = 4) -> str:
    """A bound for people: `digits` significant ones, rounded up, so that the printed bound holds too."""
    if not math.isfinite(value):
        return "∞"
    exact = Decimal(repr(value))
    if exact == 0:
        return "0"
    rounded = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=ROUND_CEILING)
    return number(float(rounded))


def _promise(report: Report) -> dict[str, Any]:
    """The hero and the meaning for the template; a broken promise has neither figures nor charts."""
    certificate = report.certificate
    lines = [line.strip() for line in report.promise.strip().splitlines() if line.strip()]
    private = _field(certificate, "private") is True
    context = {
        "private": private,
        "banners": _banners(report, private),
        "headline": lines[0] if lines else "",
        "details": lines[1:] if private else [],
        "not_protected": list(certificate.get("not_protected", ())),
    }
    if not private:
        broken = "Nothing can be promised: a condition of the proof was broken, and the certificate below says which."
        return context | {"figures": [], "meaning": [broken], "power_chart": None, "profile_chart": None}
    stated = _field(certificate, "unit")
    unit = Unit(stated["name"], relation=stated["relation"], population=stated["population"])
    epsilon, delta = float(_field(certificate, "epsilon")), float(_field(certificate, "delta"))
    profile = tuple(sorted({*(report.profile or ()), (epsilon, delta)}))
    share = float(power(profile, np.array([FALSE_ALARMS]))[0])
    caught, alarms = upward(100 * share, digits=3), f"{100 * FALSE_ALARMS:.0f}"
    meaning = [
        f"Take someone who knows everything else and tests {unit.words()}. If the test raises a false alarm in "
        f"{alarms} of 100 cases, it is right in at most {caught} of 100 true ones, whatever the test, the computer or "
        f"the side knowledge. Blind guessing gets {alarms}."
    ]
    if share >= WEAK:
        meaning.append(
            f"So close to 100, the promise hardly bounds the worst case. Ask for a smaller ε where being found out "
            f"could harm the one behind a {unit.name}."
        )
    return context | {
        "figures": [
            ("Privacy loss ε", upward(epsilon), "at most, for all of this release"),
            ("Slack δ", number(delta), f"{number(1 / (delta * unit.size))} times below 1 / population"),
            ("Protected", f"every {unit.name}", f"of a public population of {unit.size:,}"),
            ("Best attack", f"{caught} %", f"of true cases caught, with {alarms} % false alarms"),
        ],
        "meaning": meaning,
        "power_chart": _power_chart(profile, caught, alarms),
        "profile_chart": _profile_chart(profile) if len(profile) > 1 else None,
    }


def _banners(report: Report, private: bool) -> list[dict[str, str]]:
    banners = []
    if not private:
        text = str(report.certificate.get("void_reason") or "A condition of the proof was broken.")
        banners.append(
            {"kind": "broken", "heading": "Not private.", "text": f"Do not publish this release. Reason: {text}"}
        )
    if report.reference == "simulated":
        text = "The protected rows come from a simulator and no person is in them, so this report may show them."
        banners.append({"kind": "simulated", "heading": "Simulated data.", "text": text})
    return banners


def _power_chart(profile: tuple[tuple[float, float], ...], caught: str, alarms: str) -> Markup:
    grid = np.unique(np.concatenate([np.linspace(0.0, 1.0, 101), np.linspace(0.0, 0.1, 41)]))
    lines = [Line("control-1", grid, grid), Line("synthetic", grid, power(profile, grid))]
    title = f"Trade-off of any attack: with {alarms} % false alarms at most {caught} % of true cases are caught."
    x, y = Axis("false alarms, %", 0.0, 100.0), Axis("true cases caught, %", 0.0, 100.0)
    return line_chart([Line(line.style, 100 * line.x, 100 * line.y) for line in lines], title=title, x=x, y=y)


def _profile_chart(profile: tuple[tuple[float, float], ...]) -> Markup:
    epsilons, deltas = (np.array(part) for part in zip(*profile, strict=True))
    keep = np.isfinite(epsilons) & (deltas > 0)
    epsilons, deltas = epsilons[keep], deltas[keep]
    low = 10.0 ** math.floor(math.log10(deltas.min()) + 1e-9)
    high = 10.0 ** math.ceil(math.log10(deltas.max()) - 1e-9)
    told = "; ".join(f"ε {number(e)} at δ {number(d)}" for e, d in profile[:: max(1, len(profile) // 4)])
    x = Axis("privacy loss ε", 0.0, float(epsilons.max()))
    y = Axis("slack δ", low, high if high > low else 10 * low, log=True)
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
