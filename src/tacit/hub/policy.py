"""How released policies are written: the parameters of the last and of the averaged one, and how they came about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.agents.policies import Policy
from tacit.methods.policy_gradient.state import AnyPlan, Learned
from tacit.privacy.certificate.certificate import Release
from tacit.serialization import read

FIELDS = frozenset({"policy"})
_WEIGHTS = {"last": np.float32, "average": np.float32, "norms": np.float64, "iterates": np.float32, "people": np.int64}


def pack(value: Learned) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The configuration's own fields, and the arrays."""
    return {"policy": value.policy.to_json()}, {name: getattr(value, name) for name in _WEIGHTS}


def unpack(config: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> Learned:
    """What `pack` was given."""
    plan, policy = read(AnyPlan, config["plan"]), Policy.from_json(config["policy"])
    replicates, iterates = weights["last"].shape[0], len(weights["people"])
    shapes = {
        "last": (replicates, policy.parameters),
        "average": (replicates, policy.parameters),
        "norms": (plan.rounds, replicates),
        "iterates": (iterates, replicates, policy.parameters),
        "people": (iterates,),
    }
    layout = {name: (part.shape, part.dtype) for name, part in weights.items()}
    if layout != {name: (shape, np.dtype(_WEIGHTS[name])) for name, shape in shapes.items()} or not replicates:
        raise ValueError("parameters of another policy")
    if not all(np.isfinite(part).all() for part in weights.values()):
        raise ValueError("parameters that are not finite")
    return Learned(plan=plan, policy=policy, **weights)


def card(release: Release[Learned]) -> str:
    """What lies beside the parameters for people."""
    certificate = release.certificate
    return f"""# Policy

{certificate.sentence}

Play: `tacit play .`. ONNX: `tacit export . policy.onnx`. Certificate: `tacit certificate verify certificate.json`.

- method: {certificate.method}
- source: {certificate.source}
- made with tacit {certificate.tacit_version}

In `model.safetensors`, `last` holds the parameters after the last round and `average` the mean of the later ones. What
the policy is good for: acting, and whatever is computed from it. What it is not: evidence about any one
{certificate.unit["name"]}. The certificate lists what is not protected.
"""
