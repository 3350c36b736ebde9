"""How a released synthesizer is written: its network's weights and its encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Plan
from tacit.methods.synthesis.synthesizer import Synthesizer
from tacit.privacy.release import Release

FIELDS = frozenset({"encoder"})
HISTOGRAMS, SUMS = "raking.histograms", "raking.sums"
"""Names of the released histograms, and of how many sums they are the mean of, among the arrays."""


def pack(value: Synthesizer) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The configuration's own fields; the weights, and the histograms if there are any."""
    arrays = {name: part.numpy() for name, part in value.weights.items()}
    if value.histograms is not None:
        arrays |= {HISTOGRAMS: value.histograms, SUMS: np.array([value.sums])}
    return {"encoder": value.encoder.to_json()}, arrays


def unpack(config: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> Synthesizer:
    """What `pack` was given.

    Raises:
        ValueError: the weights are those of another network, or the histograms those of another plan.
    """
    plan, histograms = Plan.from_json(config["plan"]), weights.get(HISTOGRAMS)
    sums = int(weights.get(SUMS, np.zeros(1))[0])
    tensors = {name: torch.from_numpy(part) for name, part in weights.items() if name not in (HISTOGRAMS, SUMS)}
    value = Synthesizer(plan, Encoder.from_json(config["encoder"]), tensors, histograms, sums)
    shapes = {name: part.shape for name, part in value.network().named_parameters()}
    if shapes != {name: part.shape for name, part in tensors.items()}:
        raise ValueError("weights of another network")
    if histograms is not None:
        raking = plan.raking
        if raking is None or histograms.shape != (sum(raking.sizes),) or not 1 <= sums <= raking.steps:
            raise ValueError("histograms of another plan")
    return value


def card(release: Release[Synthesizer]) -> str:
    """What lies beside the weights for people."""
    certificate = release.certificate
    return f"""# Synthesizer of transitions

{certificate.sentence}

Rows: `tacit sample --model . --count 100000 --out data`. Certificate: `tacit certificate verify certificate.json`.

- method: {certificate.method}
- source: {certificate.source}
- made with tacit {certificate.tacit_version}

What the rows are good for: training and comparing offline agents, and looking at the population. What they are not:
evidence about any one {certificate.unit["name"]}. The certificate lists what is not protected.
"""
