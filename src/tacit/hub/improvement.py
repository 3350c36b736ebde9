"""How improvements are written: the parameters of the advice and of the clone, the noisy moments and the statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.agents.policies import Policy
from tacit.methods.improvement.algorithm import Improvement
from tacit.methods.improvement.moments import Moments, Scales
from tacit.methods.improvement.plan import ImprovementPlan
from tacit.methods.improvement.statement import Statement
from tacit.privacy.certificate.certificate import Release

FIELDS = frozenset({"policy", "scales", "noise", "units", "statement", "sampled"})
_MOMENTS = {"products": "products", "changes of values": "changes", "rewards": "rewards"}
"""Array of the file -> field of the moments."""


def pack(value: Improvement) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The configuration's own fields, and the arrays."""
    fields = {
        "policy": value.policy.to_json(),
        "scales": value.scales.to_json(),
        "noise": list(value.moments.noise),
        "units": value.moments.units,
        "statement": value.statement.to_json(),
        "sampled": value.sampled,
    }
    arrays = {name: getattr(value.moments, field) for name, field in _MOMENTS.items()}
    return fields, {"theta": value.theta, "clone": value.clone, "changes": value.changes, **arrays}


def unpack(config: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> Improvement:
    """What `pack` was given."""
    plan, policy = ImprovementPlan.from_json(config["plan"]), Policy.from_json(config["policy"])
    actions, d = policy.head.outputs, len(plan.value_columns)
    n = 1 + (1 if plan.imitate == "linear" else 2) * len(plan.columns)
    values = 1 + d + d * (d + 1) // 2 if plan.follows else 0
    shapes = {
        "theta": (1, policy.parameters),
        "clone": (1, policy.parameters),
        "changes": (actions, actions),
        "products": (actions, n, n),
        "changes of values": (actions, n, values),
        "rewards": (actions, 0 if plan.imitates else n),
    }
    if {name: part.shape for name, part in weights.items()} != shapes:
        raise ValueError("parameters of another policy")
    if not all(np.isfinite(part).all() for part in weights.values()):
        raise ValueError("parameters that are not finite")
    if not isinstance(config["sampled"], bool):
        raise ValueError("no word on how the policy acts")
    first, second, third = (float(size) for size in config["noise"])
    return Improvement(
        plan=plan,
        policy=policy,
        theta=weights["theta"],
        clone=weights["clone"],
        changes=weights["changes"],
        scales=Scales.from_json(config["scales"]),
        moments=Moments(
            products=weights["products"],
            changes=weights["changes of values"],
            rewards=weights["rewards"],
            noise=(first, second, third),
            units=float(config["units"]),
        ),
        statement=Statement.from_json(config["statement"]),
        sampled=config["sampled"],
    )


def card(release: Release[Improvement]) -> str:
    """What lies beside the parameters for people."""
    certificate, value = release.certificate, release.value
    rates = ", ".join(f"{rate:g}" for rate in value.memory.rates)
    return f"""# Policy that improves on logged decisions

{certificate.sentence}

{value.statement}

The policy {"draws its actions" if value.sampled else "takes its best action"}. It acts on memories of the course,
column by column at the rates {rates} (1 is the newest value, 0 the mean of all so far). `tacit play .` and
`tacit evaluate --policy .` keep them; `tacit.hub.load(...).value.predict(observation, state)` carries them for your own
code; an ONNX graph takes memories.

- method: {certificate.method}
- source: {certificate.source}
- made with tacit {certificate.tacit_version}

In `model.safetensors`, `theta` holds the parameters of the advice, `clone` those of the records' own decisions, and
`products`, `changes of values` and `rewards` the noisy moments. What it is not: evidence about any one
{certificate.unit["name"]}. The certificate lists what is not protected.
"""
