"""Save and load releases: safetensors, JSON, the certificate and a card; never pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from tacit.errors import FileError
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Plan
from tacit.methods.synthesis.synthesizer import Synthesizer
from tacit.privacy.certificate import Certificate
from tacit.privacy.plan import public_fields
from tacit.privacy.release import Release

if TYPE_CHECKING:
    from torch import Tensor

MODEL, CONFIG, CERTIFICATE, CARD = "model.safetensors", "config.json", "certificate.json", "README.md"
_LARGEST_CONFIG = 1_000_000


def save(release: Release[Synthesizer], folder: Path) -> None:
    """Write a released synthesizer: weights, configuration, certificate and card.

    Raises:
        FileError: the folder cannot be written.
    """
    value = release.value
    config = {"kind": "synthesis", "plan": public_fields(value.plan), "encoder": value.encoder.to_json()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: tensor.contiguous() for name, tensor in value.weights.items()}, folder / MODEL)
        (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n")
        release.certificate.save(folder / CERTIFICATE)
        (folder / CARD).write_text(_card(release))
    except (OSError, SafetensorError) as error:
        raise FileError(
            "the release could not be written",
            where=str(folder),
            expected="a writable folder with free space",
            remedy="free some space and save again",
        ) from error


def load(folder: Path) -> Release[Synthesizer]:
    """Read what `save` wrote.

    Raises:
        FileError: a file is missing, truncated or of another kind.
        CertificateError: the certificate was edited.
    """
    certificate = Certificate.load(folder / CERTIFICATE)
    config = _config(folder / CONFIG)
    try:
        weights: dict[str, Tensor] = load_file(folder / MODEL)
    except (OSError, SafetensorError) as error:
        raise _damaged(folder / MODEL) from error
    value = Synthesizer(Plan.from_json(config["plan"]), Encoder.from_json(config["encoder"]), weights)
    own = {name: tensor.shape for name, tensor in value.network().named_parameters()}
    if own != {name: tensor.shape for name, tensor in weights.items()}:
        raise _damaged(folder / MODEL)
    return Release(value, certificate)


def _config(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST_CONFIG:
            raise _damaged(path)
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise _damaged(path) from error
    if not isinstance(config, dict) or config.get("kind") != "synthesis" or not {"plan", "encoder"} <= config.keys():
        raise _damaged(path)
    return config


def _damaged(path: Path) -> FileError:
    return FileError(
        "the file is missing, truncated or of another kind",
        where=str(path),
        expected="a release written by tacit",
        remedy="fetch or write the release again",
    )


def _card(release: Release[Synthesizer]) -> str:
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
