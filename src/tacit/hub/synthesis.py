"""How a released synthesizer of transitions is written: its network's weights, its encoder, its histograms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Plan
from tacit.methods.synthesis.raking import Raking
from tacit.methods.synthesis.synthesizer import Synthesizer
from tacit.privacy.certificate.certificate import Release

FIELDS = frozenset({"encoder"})
HISTOGRAMS, SUMS = "raking.histograms", "raking.sums"
"""Names of the released histograms, and of how many sums they are the mean of, among the arrays."""


def pack(value: Synthesizer) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The configuration's own fields; the weights, and the histograms if there are any."""
    return {"encoder": value.encoder.to_json()}, arrays_of(value.weights) | raked(value.histograms, value.sums)


def unpack(config: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> Synthesizer:
    """What `pack` was given.

    Raises:
        ValueError: the weights are those of another network, or the histograms those of another plan.
    """
    plan = Plan.from_json(config["plan"])
    tensors = tensors_of({name: part for name, part in weights.items() if name not in (HISTOGRAMS, SUMS)})
    value = Synthesizer(plan, Encoder.from_json(config["encoder"]), tensors, *unraked(plan.raking, weights))
    require_shapes(value.network(), tensors)
    return value


def arrays_of(tensors: Mapping[str, Tensor], part: str = "") -> dict[str, np.ndarray]:
    """Weights by name, with the name of the part that they belong to before it."""
    return {f"{part}{name}": tensor.numpy() for name, tensor in tensors.items()}


def tensors_of(arrays: Mapping[str, np.ndarray], part: str = "") -> dict[str, Tensor]:
    """The weights of one part, as `arrays_of` names them."""
    own = {name: array for name, array in arrays.items() if name.startswith(part)}
    return {name.removeprefix(part): torch.from_numpy(array) for name, array in own.items()}


def require_shapes(network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Raise a ValueError unless these are the weights of such a network."""
    if {name: part.shape for name, part in network.named_parameters()} != {
        k: part.shape for k, part in tensors.items()
    }:
        raise ValueError("weights of another network")


def raked(histograms: np.ndarray | None, sums: int) -> dict[str, np.ndarray]:
    """Released histograms as arrays, if there are any."""
    return {} if histograms is None else {HISTOGRAMS: histograms, SUMS: np.array([sums])}


def unraked(raking: Raking | None, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray | None, int]:
    """The histograms that `raked` wrote, and of how many sums they are the mean.

    Raises:
        ValueError: they are those of another plan.
    """
    histograms, sums = arrays.get(HISTOGRAMS), int(arrays.get(SUMS, np.zeros(1))[0])
    if histograms is not None and (
        raking is None or histograms.shape != (sum(raking.sizes),) or not 1 <= sums <= raking.steps
    ):
        raise ValueError("histograms of another plan")
    return histograms, sums


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
