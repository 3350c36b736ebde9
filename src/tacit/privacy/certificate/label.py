"""A certificate in the words of others: the questions of NIST SP 800-226, and an entry of a registry of deployments.

Everything is derived from the certificate, so that certificates of any age have it. What only the publisher knows (who
they are, what the release is for, why these numbers) is None: to be filled in before an entry is sent in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Fields = Mapping[str, Any]

_LOCAL = ("laplace_sum",)
_ABOUT_SIDES = ("timing", "floating point", "cipher")


def label(record: Fields) -> dict[str, Any]:
    """The label of a verified certificate, as JSON values.

    Args:
        record: `Certificate.to_json()`.

    Returns:
        `promise` (the sentence, epsilon, delta, mu, profile), `trade_off` (see `trade_off.rows`), `nist_sp_800_226` and
        `registry`, with the certificate's digest.
    """
    from tacit.privacy.accounting import tradeoff as trade_off

    promise = {name: record[name] for name in ("sentence", "private", "epsilon", "delta", "mu", "mu_range", "profile")}
    return {
        "label": 1,
        "certificate": {"format": record["format"], "digest": record["digest"]},
        "promise": promise,
        "trade_off": trade_off.rows(record),
        "nist_sp_800_226": guarantees(record),
        "registry": entry(record),
    }


def guarantees(record: Fields) -> dict[str, Any]:
    """What NIST SP 800-226 (*Guidelines for Evaluating Differential Privacy Guarantees*, 2025) asks of a guarantee.

    In the order of its pyramid, from the parameter at the top down to the collection of the data.
    """
    unit, sides = record["unit"], [one for one in record["assumptions"] if any(word in one for word in _ABOUT_SIDES)]
    return {
        "privacy_parameters": {"definition": variant(record), "epsilon": record["epsilon"], "delta": record["delta"]},
        "unit_of_privacy": {
            "unit": unit["name"],
            "neighbouring": f"{unit['relation']}: {unit['words']}",
            "population": unit["population"],
            "contribution": list(record["contribution"]),
        },
        "algorithms_and_correctness": {
            "method": record["method"],
            "source": record["source"],
            "mechanisms": mechanisms(record["parts"]),
            "accountants": [dict(row) for row in record["accountants"]],
            "audit": None if record["audit"] is None else dict(record["audit"]),
        },
        "utility_and_bias": None,
        "trust_model": {"model": model(record["parts"]), "trusted": record["deployment"]["trusted"]},
        "queries": {"access": "non-interactive", "releases": len(record["releases"]), "total": dict(record["total"])},
        "side_channels": sides,
        "security_and_access_control": None,
        "data_collection": {
            "covered": list(record["covered"]),
            "not_covered": list(record["not_covered"]),
            "not_protected": list(record["not_protected"]),
        },
    }


def entry(record: Fields) -> dict[str, Any]:
    """A draft for the Differential Privacy Deployments Registry, in the fields of its data.

    The registry keeps YAML, of which JSON is a part.
    """
    unit, total = record["unit"], record["total"]
    accessed = [f"{kind.replace('_', ' ')}: {one}" for kind in ("covered", "not_covered") for one in record[kind]]
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
                "description": record["sentence"],
                "publication_date": record["date"][:10],
            },
            "dp_variant": {
                "variant_name": variant(record),
                "data_domain": f"records of {unit['name']}s, out of a public population of {unit['population']:,}",
                "unprotected_quantities": _listed(record["not_protected"]),
            },
            "privacy_loss": {
                "privacy_unit": f"{unit['name']}-level",
                "privacy_unit_details": f"{unit['relation']}: {unit['words']}",
                "privacy_parameters": {"epsilon": record["epsilon"], "delta": record["delta"]}
                if record["private"]
                else {},
                "privacy_parameters_details": f"mu-GDP: mu = {record['mu']} ({record['mu_range']}); of everything that "
                f"was released from this data set: epsilon {total['epsilon']}, delta {total['delta']:g}",
            },
            "deployment_model": {
                "model_name": model(record["parts"]),
                "model_name_details": record["deployment"]["trusted"],
                "actors": None,
                "release_type": "One release" if len(record["releases"]) == 1 else "Many releases",
                "release_type_details": f"{len(record['releases'])} release(s), by one ledger with a budget of "
                f"epsilon {total['budget_epsilon']} and delta {total['budget_delta']:g}",
                "data_source_type": None,
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "whatever is computed from the released values alone",
                "composition": f"within the release by {record['accountants'][0]['name']}; over releases by "
                f"{total['composition']}",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _listed(accessed),
                "mechanisms": _listed(
                    [*mechanisms(record["parts"]), *record["assumptions"], f"tacit {record['tacit_version']}"]
                ),
                "justification": None,
            },
            "administrative": {"sources": f"{record['method']} ({record['source']})", "registry_authors": None},
        },
    }


def variant(record: Fields) -> str:
    """The definition that epsilon and delta belong to, in the registry's words."""
    return "Approximate DP" if record["private"] else "none: nothing is promised"


def model(parts: Sequence[Fields]) -> str:
    """Who has to be trusted with records: Central, Local (each answer is private by itself) or Federated."""
    kinds = {_model(part) for part in parts}
    return kinds.pop() if len(kinds) == 1 else "Central"


def mechanisms(parts: Sequence[Fields]) -> list[str]:
    """Each part in a line: kind, how often, how the units are drawn, and the noise."""
    lines = []
    for part in parts:
        noise = part.get("noise_multiplier")
        told = "" if noise is None else f", noise multiplier {noise:.6g}"
        lines.append(f"{part['name']} ({part['kind']}): {part.get('steps', 1):,} time(s), {part['sampler']}{told}")
    return lines


def _model(part: Fields) -> str:
    if part["kind"] in _LOCAL or (part["kind"] == "device_sum" and part["noise"] == "device"):
        return "Local"
    return "Federated" if part["kind"] == "device_sum" else "Central"


def _listed(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items) or "none"
