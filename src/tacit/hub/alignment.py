"""How steered language models are written: the adapter's parameters and the public vocabulary, never the base model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.methods.alignment.plan import AlignmentPlan
from tacit.methods.alignment.preferences import PreferencePlan
from tacit.methods.alignment.steered import Steered
from tacit.privacy.certificate.certificate import Release

FIELDS = frozenset({"share"})
_WEIGHTS = {"iterates": np.float32, "words": np.int64}


def pack(value: Steered) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The configuration's own fields, and the arrays."""
    return {"share": value.share}, {name: getattr(value, name) for name in _WEIGHTS}


def unpack(config: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> Steered:
    """What `pack` was given, without the base model."""
    kind = PreferencePlan if "pairs" in config["plan"] else AlignmentPlan
    plan, share = kind.from_json(config["plan"]), config["share"]
    iterates, words = weights["iterates"], weights["words"]
    layout = {name: (part.ndim, part.dtype) for name, part in weights.items()}
    if layout != {"iterates": (2, np.dtype(np.float32)), "words": (1, np.dtype(np.int64))}:
        raise ValueError("parameters of another adapter")
    if len(iterates) != plan.rounds + 1 or not np.isfinite(iterates).all() or (words < 0).any():
        raise ValueError("parameters of another run, or numbers that are not finite")
    if not isinstance(share, float) or not 0 <= share <= 1:
        raise ValueError("no share")
    return Steered(plan, iterates, words, share=share)


def card(release: Release[Steered]) -> str:
    """What lies beside the parameters for people."""
    certificate, plan = release.certificate, release.value.plan
    return f"""# Steered language model

{certificate.sentence}

Complete, from the folder of the run: `tacit complete . --prompts "Once"`. Certificate: `tacit certificate verify
certificate.json`.

- method: {certificate.method}
- source: {certificate.source}
- base model: the file with the SHA-256 `{plan.base}`, which is not in this folder
- made with tacit {certificate.tacit_version}

In `model.safetensors`, `iterates` holds the adapter's parameters at the start and after each round, and `words` the
public vocabulary. What they are not: evidence about any one {certificate.unit["name"]}. The certificate lists what is
not protected.
"""
