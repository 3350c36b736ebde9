"""A certificate in Markdown, for people: what it states, and what follows from that. Nothing is priced or verified."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from statistics import NormalDist
from typing import Any

from tacit.privacy import sentences
from tacit.units import Unit

DECLARED = (
    "format",
    "void_reason",
    "simulated",
    "audit",
    "ledger_head",
    "dataset_id",
    "commit",
    "versions",
    "date",
    "total.composition",
    "total.budget_epsilon",
    "total.ceiling_epsilon",
    "total.budget_delta",
    "other releases: plans, methods and charges",
    "what of the plan neither parts nor lines show",
    "columns of histograms",
    "statements that a vault or a user declares",
)
"""What a certificate states and nothing else in it implies: a signature alone protects it from an edit."""
_SHOWN = (1e-4, 0.01, 0.05, 0.1, 0.2, 0.5)
FALSE_ALARMS = 0.05
"""The share of false alarms at which the promise is put into words."""
WEAK = 90.0
"""A best attack that catches so many per cent of true cases is called out as a weak promise."""
_EVERYWHERE = ("exact", "upper_bound")
_LARGEST, _MARGIN = 700.0, 1e-5
_NORMAL = NormalDist()


def markdown(record: Mapping[str, Any]) -> str:
    """The page of a certificate's JSON form; a red banner comes first where nothing is promised."""
    unit, total = record["unit"], record["total"]
    lines = ["# Privacy certificate", ""]
    if not record["private"]:
        lines += ["> 🔴 **NOT PRIVATE: do not publish this release as private.**", ""]
        lines += [f"> - {_escape(reason)}" for reason in sentences.reasons(record)] + [""]
    if record["simulated"]:
        lines += ["> The records are declared simulated: no person is behind them.", ""]
    definition = "definition" if record["private"] else "the mechanism alone"
    lines += [_escape(sentences.promise(record)), ""]
    if record["private"]:
        apart = sentences.knowledge_exception(logs=sentences.publishes_logs(record))
        lines += [f"However much else somebody knows{apart}, {attack(record)}.", ""]
    lines += ["## The promise", ""]
    lines += _table(
        ("", ""),
        [
            (definition, f"({record['epsilon']}, {record['delta']})-differential privacy"),
            ("unit", f"{unit['name']}, out of a public population of {unit['population']:,}"),
            ("neighbours", f"{unit['relation']}: {sentences.describe_neighbours(record)}"),
            *(
                ("epsilon at the same delta", f"{row['relation']}: {row['epsilon']}")
                for row in record["relations"]
                if len(record["relations"]) > 1
            ),
            ("Gaussian differential privacy", f"mu = {record['mu']} ({sentences.mu_range(record)})"),
            ("trusted", sentences.TRUSTED),
            ("method", f"{record['method']} ({record['source']})"),
        ],
    )
    lines += ["", "The same release at other values of delta:", ""]
    lines += _table(("delta", "epsilon"), [(f"{row['delta']:g}", row["epsilon"]) for row in record["profile"]])
    if record["private"]:
        lines += ["", "A test for one unit that has this share of false alarms misses at least so many true cases:", ""]
        lines += _table(
            ("false alarms", "missed at least"),
            [
                (f"{alarms:g}", _four_digits(math.floor(1e6 * miss_rate(record, alarms)) / 1e6, ROUND_FLOOR))
                for alarms in _SHOWN
            ],
        )
    lines += ["", "## How it is kept", "", *_bullets(mechanisms(record)), ""]
    columns = ("name", "kind", "steps", "sampling_rate", "clip_norm", "noise_multiplier", "rows_per_unit")
    lines += _table(columns, [[part.get(column, "") for column in columns] for part in record["parts"]])
    lines += ["", "Accountants:", ""]
    lines += _table(
        ("role", "accountant", "version", "epsilon"),
        [(sentences.ROLES[row["role"]], row["name"], row["version"], row["epsilon"]) for row in record["accountants"]],
    )
    for title, name in (
        ("What the promise covers", "covered"),
        ("What it does not cover", "not_covered"),
        ("What is not protected", "not_protected"),
        ("Assumptions outside the proof", "assumptions"),
    ):
        lines += ["", f"## {title}", "", *(_bullets(sentences.lines(record, name)) or ["Nothing is declared."])]
    lines += ["", "## Everything released from this ledger", ""]
    lines += _table(
        ("plan", "method", "epsilon", "delta", "mu", "charged to"),
        [
            (
                row["plan_id"],
                row["method"],
                row["epsilon"],
                row["delta"],
                "" if row["mu"] is None else row["mu"],
                "everybody" if row["fold"] is None else f"fold {row['fold']}",
            )
            for row in record["releases"]
        ],
    )
    lines += [
        "",
        f"Together ({total['epsilon']}, {total['delta']:g}), added up by {_escape(total['composition'])}; budget "
        f"({total['budget_epsilon']}, {total['budget_delta']:g}).",
        *(
            [
                "",
                f"The budget may be raised, at most to epsilon {total['ceiling_epsilon']}: that number is what "
                f"everything released from these records, ever, is promised to stay within.",
            ]
            if total["ceiling_epsilon"] != total["budget_epsilon"]
            else []
        ),
    ]
    if record["audit"] is not None:
        audit = record["audit"]
        lines += ["", "## Empirical audit", ""]
        method = _escape(audit["method"])
        lines += [f"epsilon >= {audit['lower_bound']} at confidence {audit['confidence']} ({method})."]
    lines += ["", "## To recompute", "", "`tacit certificate verify certificate.json`", ""]
    lines += [f"Declared, and protected by a signature alone: {', '.join(DECLARED)}.", ""]
    codes = {clause["code"] for name in sentences.LISTS for clause in record[name]}
    if codes & {"own_words", *sentences.USER_PIECES}:
        also = ", ".join(sentences.UNDERIVED_FIELDS)
        lines += [f"Where the method, or a piece that its plan is read by, is a user's own, also: {also}.", ""]
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


def miss_rate(record: Mapping[str, Any], false_alarms: float) -> float:
    """The least share of true cases that any test misses, by what a certificate's JSON form states.

    Of every stated pair (e, d) follow two lines below the trade-off curve, 1 - d - exp(e) a and exp(-e) (1 - d - a)
    (Kairouz, Oh & Viswanath, arXiv:1311.0776). The stated mu is an upper bound for every e up to epsilon, or for every
    e. The line of e touches the curve Phi(Phi^-1(1 - a) - mu) where exp(e), or exp(-e), is its slope, so the curve
    holds at each a whose e is in that range (Dong, Roth & Su, arXiv:1905.02383, Proposition 2.12).

    Args:
        record: `Certificate.to_json()`, private, or `fields.figures` of a plan.
        false_alarms: a, in (0, 1).

    Guarantee: a lower bound of the trade-off function, if the certificate holds. It is at most that of
    `trade_off.rows`, which asks the accountants for more pairs; both are the same where mu is exact.
    """
    epsilon, mu = float(record["epsilon"]), float(record["mu"])
    pairs = [(epsilon, record["delta"]), *((float(row["epsilon"]), row["delta"]) for row in record["profile"])]
    bounds = [0.0]
    for e, delta in pairs:
        if e < _LARGEST:
            bounds += [1 - delta - math.exp(e) * false_alarms, math.exp(-e) * (1 - delta - false_alarms)]
    if math.isfinite(mu):
        threshold = _NORMAL.inv_cdf(1 - false_alarms)
        reach = math.inf if record["mu_range"] in _EVERYWHERE else epsilon * (1 - _MARGIN)
        if abs(mu * threshold - mu * mu / 2) <= reach:
            bounds.append(_NORMAL.cdf(threshold - mu))
    return max(bounds)


def catch_percent(record: Mapping[str, Any], false_alarms: float = FALSE_ALARMS) -> float:
    """The most that any test catches with 5 % false alarms, in per cent, rounded up; the one figure to be printed."""
    return float(_four_digits(100 * (1 - miss_rate(record, false_alarms)), ROUND_CEILING))


def attack(record: Mapping[str, Any]) -> str:
    """`catch_percent` as a clause, for people."""
    caught = f"{catch_percent(record):g} %"
    return f"any test with {100 * FALSE_ALARMS:g} % false alarms catches at most {caught} of true cases"


def _four_digits(value: float, rounding: str) -> str:
    return f"{float(Context(4, rounding).create_decimal_from_float(value)):g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(_escape(cell) for cell in row) + " |" for row in rows]


def _bullets(items: Sequence[str]) -> list[str]:
    return [f"- {_escape(item)}" for item in items]


def _escape(value: Any) -> str:
    """Text that cannot break out of its place: no markup, no new lines."""
    text = " ".join(str(value).split())
    for mark, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "\\|"), ("[", "\\["), ("`", "\\`")):
        text = text.replace(mark, safe)
    return text


# A certificate in the words of others: the questions of NIST SP 800-226, and an entry of a registry of deployments.
#
# Everything is derived from the certificate, so that certificates of any age have it. What only the publisher knows
# (who they are, what the release is for, why these numbers) is None: to be filled in before an entry is sent in.


Fields = Mapping[str, Any]


def label(record: Fields) -> dict[str, Any]:
    """The label of a verified certificate, as JSON values.

    Args:
        record: `Certificate.to_json()`.

    Returns:
        `promise` (the sentence, epsilon, delta, mu, profile), `trade_off` (see `trade_off.rows`), `nist_sp_800_226` and
        `registry`, with the certificate's digest.
    """
    from tacit.privacy.accounting import tradeoff as trade_off

    promise = {name: record[name] for name in ("private", "epsilon", "delta", "mu", "mu_range", "profile")}
    return {
        "label": 1,
        "certificate": {"format": record["format"], "digest": record["digest"]},
        "promise": {"sentence": sentences.promise(record), **promise},
        "trade_off": trade_off.rows(record),
        "nist_sp_800_226": guarantees(record),
        "registry": registry_entry(record),
    }


def guarantees(record: Fields) -> dict[str, Any]:
    """What NIST SP 800-226 (*Guidelines for Evaluating Differential Privacy Guarantees*, 2025) asks of a guarantee."""
    # In the order of its pyramid, from the parameter at the top down to the collection of the data.
    unit = record["unit"]
    return {
        "privacy_parameters": {"definition": variant(record), "epsilon": record["epsilon"], "delta": record["delta"]},
        "unit_of_privacy": {
            "unit": unit["name"],
            "neighbouring": f"{unit['relation']}: {sentences.describe_neighbours(record)}",
            "population": unit["population"],
            "contribution": mechanisms(record),
        },
        "algorithms_and_correctness": {
            "method": record["method"],
            "source": record["source"],
            "mechanisms": [f"{part['name']} ({part['kind']})" for part in record["parts"]],
            "accountants": [{**row, "role": sentences.ROLES[row["role"]]} for row in record["accountants"]],
            "audit": None if record["audit"] is None else dict(record["audit"]),
        },
        "utility_and_bias": None,
        "trust_model": {"model": trust_model(record["parts"]), "trusted": sentences.TRUSTED},
        "queries": {"access": "non-interactive", "releases": len(record["releases"]), "total": dict(record["total"])},
        "side_channels": [sentences.say({"code": code}, unit["name"]) for code in sentences.SIDE_CHANNELS],
        "security_and_access_control": None,
        "data_collection": {
            name: sentences.lines(record, name) for name in ("covered", "not_covered", "not_protected")
        },
    }


def registry_entry(record: Fields) -> dict[str, Any]:
    """A draft for the Differential Privacy Deployments Registry, in the fields of its data."""
    # The registry keeps YAML, of which JSON is a part.
    unit, total = record["unit"], record["total"]
    accessed = [
        f"{kind.replace('_', ' ')}: {access}"
        for kind in ("covered", "not_covered")
        for access in sentences.lines(record, kind)
    ]
    return {
        "url_slug": None,
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": None,
                "data_curators": None,
                "intended_use": None,
                "data_product_type": None,
                "data_product_region": None,
                "data_product_sector": None,
                "description": sentences.promise(record),
                "publication_date": record["date"][:10],
            },
            "dp_variant": {
                "variant_name": variant(record),
                "data_domain": f"records of {unit['name']}s, out of a public population of {unit['population']:,}",
                "unprotected_quantities": _bullet_text(sentences.lines(record, "not_protected")),
            },
            "privacy_loss": {
                "privacy_unit": f"{unit['name']}-level",
                "privacy_unit_details": f"{unit['relation']}: {sentences.describe_neighbours(record)}",
                "privacy_parameters": {"epsilon": record["epsilon"], "delta": record["delta"]}
                if record["private"]
                else {},
                "privacy_parameters_details": f"mu-GDP: mu = {record['mu']} ({sentences.mu_range(record)}); of all "
                f"that was released from this data set: epsilon {total['epsilon']}, delta {total['delta']:g}",
            },
            "deployment_model": {
                "model_name": trust_model(record["parts"]),
                "model_name_details": sentences.TRUSTED,
                "actors": None,
                "release_type": "One release" if len(record["releases"]) == 1 else "Many releases",
                "release_type_details": f"{len(record['releases'])} release(s), by one ledger with a budget of "
                f"epsilon {total['budget_epsilon']} (never above {total['ceiling_epsilon']}) and delta "
                f"{total['budget_delta']:g}",
                "data_source_type": None,
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "whatever is computed from the released values alone",
                "composition": f"within the release by {record['accountants'][0]['name']}; over releases by "
                f"{total['composition']}",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _bullet_text(accessed),
                "mechanisms": _bullet_text(
                    [*mechanisms(record), *sentences.lines(record, "assumptions"), f"tacit {record['tacit_version']}"]
                ),
                "justification": None,
            },
            "administrative": {"sources": f"{record['method']} ({record['source']})", "registry_authors": None},
        },
    }


def variant(record: Fields) -> str:
    """The definition that epsilon and delta belong to, in the registry's words."""
    return "Approximate DP" if record["private"] else "none: nothing is promised"


def trust_model(parts: Sequence[Fields]) -> str:
    """Who has to be trusted with records: Central, Local (each answer is private by itself) or Federated."""
    from tacit.privacy.mechanisms.kinds import part_from_json

    models = {part_from_json(part).trust for part in parts}
    return models.pop() if len(models) == 1 else "Central"


def mechanisms(record: Fields) -> list[str]:
    """Each part in a sentence: what is released, and what one unit adds."""
    from tacit.privacy.mechanisms.kinds import part_from_json

    unit = Unit(*(record["unit"][name] for name in ("name", "relation", "population")))
    parts = map(part_from_json, record["parts"])
    return [f"{part.name} ({part.kind}): {part.describe(unit)}" for part in parts]


def _bullet_text(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items) or "none"
