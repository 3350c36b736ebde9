"""How released synthesizers of the baselines are written: words and arrays, as each of them gives and takes them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from tacit.privacy.certificate.certificate import Release

FIELDS = frozenset({"synthesizer"})
_HOME = "tacit.methods.synthesis.baselines"
_CLASSES = {"TableSynthesizer": "released", "GanSynthesizer": "pate_gan", "RakedColumns": "raking_alone"}
"""Name of a class -> its module."""


class Saved(Protocol):
    """A released synthesizer that knows how to become words and arrays."""

    def to_json(self) -> dict[str, Any]:
        """Everything but the numbers, as JSON values."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The numbers."""


def pack(value: Saved) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The configuration's own fields, and the arrays."""
    return {"synthesizer": {"class": type(value).__name__, "fields": value.to_json()}}, value.arrays()


def unpack(config: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> Any:
    """What `pack` was given.

    Raises:
        ValueError, TypeError, KeyError, TacitError: the fields and arrays are those of another synthesizer.
    """
    saved = config["synthesizer"]
    made = getattr(import_module(f"{_HOME}.{_CLASSES[saved['class']]}"), saved["class"])
    return made.from_saved(config["plan"], saved["fields"], weights)


def card(release: Release[Any]) -> str:
    """What lies beside the arrays for people."""
    certificate = release.certificate
    return f"""# Synthesizer of transitions, to compare with

{certificate.sentence}

Rows: `tacit sample --model . --count 100000 --out data`. Certificate: `tacit certificate verify certificate.json`.

- method: {certificate.method}
- source: {certificate.source}
- made with tacit {certificate.tacit_version}

A baseline: its rows keep what noisy marginals or noisy votes show, and little of how one step leads to the next. They
are no evidence about any one {certificate.unit["name"]}. The certificate lists what is not protected.
"""
