"""A certificate in Markdown, for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tacit.privacy import certificate_consensus, power, trade_off
from tacit.privacy.event_json import event_from_json

_SHOWN = (1e-4, 0.01, 0.05, 0.1, 0.2, 0.5)


def markdown(record: Mapping[str, Any]) -> str:
    """The page of a certificate's JSON form; a red banner comes first where nothing is promised."""
    unit, total = record["unit"], record["total"]
    lines = ["# Privacy certificate", ""]
    if not record["private"]:
        lines += ["> 🔴 **NOT PRIVATE: do not publish this release as private.**", ""]
        lines += [f"> - {_text(reason)}" for reason in record["reasons"]] + [""]
    if record["simulated"]:
        lines += ["> The records are declared simulated: no person is behind them.", ""]
    definition = "definition" if record["private"] else "the mechanism alone"
    lines += [_text(record["sentence"]), ""]
    if record["private"]:
        promise = unit["relation"], float(record["epsilon"]), record["delta"]
        attack = power.words(event_from_json(record["event"]), *promise)
        apart = certificate_consensus.apart(record["parts"])
        lines += [f"However much else somebody knows{apart}, {attack}.", ""]
    lines += ["## The promise", ""]
    lines += _table(
        ("", ""),
        [
            (
                definition,
                f"({record['epsilon']}, {record['delta']})-differential privacy",
            ),
            ("unit", f"{unit['name']}, out of a public population of {unit['population']:,}"),
            ("neighbours", f"{unit['relation']}: {unit['words']}"),
            *(
                ("epsilon at the same delta", f"{row['relation']}: {row['epsilon']}")
                for row in record["relations"]
                if len(record["relations"]) > 1
            ),
            ("Gaussian differential privacy", f"mu = {record['mu']} ({record['mu_range']})"),
            ("deployment", f"{record['deployment']['model']}; trusted: {record['deployment']['trusted']}"),
            ("method", f"{record['method']} ({record['source']})"),
        ],
    )
    lines += ["", "The same release at other values of delta:", ""]
    lines += _table(("delta", "epsilon"), [(f"{row['delta']:g}", row["epsilon"]) for row in record["profile"]])
    if record["private"]:
        lines += ["", "A test for one unit that has this share of false alarms misses at least so many true cases:", ""]
        curve = [row for row in trade_off.rows(record) if row["false_alarms"] in _SHOWN]
        lines += _table(
            ("false alarms", "missed at least"),
            [(f"{row['false_alarms']:g}", f"{row['missed_at_least']:.4g}") for row in curve],
        )
    lines += ["", "## How it is kept", "", *_bullets(record["contribution"]), ""]
    columns = ("name", "kind", "steps", "rate", "clip", "noise_multiplier", "rows_per_unit", "sampler")
    lines += _table(columns, [[part.get(column, "") for column in columns] for part in record["parts"]])
    lines += ["", "Accountants:", ""]
    lines += _table(
        ("role", "accountant", "version", "epsilon"),
        [(row["role"], row["name"], row["version"], row["epsilon"]) for row in record["accountants"]],
    )
    for title, name in (
        ("What the promise covers", "covered"),
        ("What it does not cover", "not_covered"),
        ("What is not protected", "not_protected"),
        ("Assumptions outside the proof", "assumptions"),
    ):
        lines += ["", f"## {title}", "", *(_bullets(record[name]) or ["Nothing is declared."])]
    lines += ["", "## Everything released from this ledger", ""]
    lines += _table(
        ("plan", "method", "epsilon", "delta"),
        [(row["plan_id"], row["method"], row["epsilon"], row["delta"]) for row in record["releases"]],
    )
    lines += [
        "",
        f"Together ({total['epsilon']}, {total['delta']:g}) by plain addition; budget ({total['budget_epsilon']}, "
        f"{total['budget_delta']:g}), admitted by: {_text(total['composition'])}.",
    ]
    if record["audit"] is not None:
        audit = record["audit"]
        lines += ["", "## Empirical audit", ""]
        lines += [f"epsilon >= {audit['lower_bound']} at confidence {audit['confidence']} ({_text(audit['method'])})."]
    lines += ["", "## To recompute", "", "`tacit certificate verify certificate.json`", ""]
    signer = record["signature"]["public_key"] if record["signature"] else "nobody"
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    lines += _table(
        ("", ""),
        [
            ("event", json.dumps(record["event"], separators=(", ", ": "))),
            ("plan", f"{record['plan_id']}: {json.dumps(record['plan'], ensure_ascii=False)}"),
            ("data set (random id)", record["dataset_id"]),
            ("ledger head", record["ledger_head"]),
            ("commit", record["commit"] or "not recorded"),
            ("versions", versions),
            ("date", record["date"]),
            ("digest", record["digest"]),
            ("signed by", signer),
        ],
    )
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(_text(cell) for cell in row) + " |" for row in rows]


def _bullets(items: Sequence[str]) -> list[str]:
    return [f"- {_text(item)}" for item in items]


def _text(value: Any) -> str:
    """Text that cannot break out of its place: no markup, no new lines."""
    text = " ".join(str(value).split())
    for mark, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "\\|"), ("[", "\\["), ("`", "\\`")):
        text = text.replace(mark, safe)
    return text
