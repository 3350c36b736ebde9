"""How a released synthesizer of trajectories is written: both networks' weights, the encoder and the histograms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.hub.synthesis import arrays_of, raked, require_shapes, tensors_of, unraked
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.trajectories.objective import fragment_model, start_model
from tacit.methods.synthesis.trajectories.plan import FRAGMENTS, STARTS, Plan
from tacit.methods.synthesis.trajectories.synthesizer import Synthesizer
from tacit.privacy.certificate.certificate import Release

FIELDS = frozenset({"encoder"})
_PARTS = (f"{STARTS}.", f"{FRAGMENTS}.")
"""Before the names of each network's weights."""


def pack(value: Synthesizer) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The configuration's own fields; the weights, and the histograms if there are any."""
    weights = zip((value.starts, value.fragments), _PARTS, strict=True)
    arrays = {name: array for own, part in weights for name, array in arrays_of(own, part).items()}
    return {"encoder": value.encoder.to_json()}, arrays | raked(value.histograms, value.sums)


def unpack(config: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> Synthesizer:
    """What `pack` was given.

    Raises:
        ValueError: the weights are those of other networks, or the histograms those of another plan.
    """
    plan, encoder = Plan.from_json(config["plan"]), Encoder.from_json(config["encoder"])
    starts, fragments = (tensors_of(weights, part) for part in _PARTS)
    require_shapes(start_model(plan, encoder).network, starts)
    require_shapes(fragment_model(plan, encoder).network, fragments)
    return Synthesizer(plan, encoder, starts, fragments, *unraked(plan.raking, weights))


def card(release: Release[Synthesizer]) -> str:
    """What lies beside the weights for people."""
    certificate = release.certificate
    return f"""# Synthesizer of trajectories

{certificate.sentence}

Trajectories: `tacit sample --model . --count 1000 --out data`.
Certificate: `tacit certificate verify certificate.json`.

- method: {certificate.method}
- source: {certificate.source}
- made with tacit {certificate.tacit_version}

What the trajectories are good for: training and comparing offline agents, and looking at how things go in the
population. What they are not: evidence about any one {certificate.unit["name"]}. They are stitched from fragments of
{release.value.plan.horizon} steps, and what lies further apart is known less well. The certificate lists what is not
protected.
"""
