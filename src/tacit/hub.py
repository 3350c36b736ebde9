"""Save and load releases: safetensors, JSON, the certificate and a card; never pickle."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from tacit.errors import CertificateError, FileError, TacitError
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Plan
from tacit.methods.synthesis.synthesizer import Synthesizer
from tacit.privacy.certificate import Certificate
from tacit.privacy.plan import public_fields
from tacit.privacy.release import Release

MODEL, CONFIG, CERTIFICATE, CARD = "model.safetensors", "config.json", "certificate.json", "README.md"
_LARGEST_CONFIG = 1_000_000


def save(release: Release[Synthesizer], folder: str | os.PathLike[str]) -> None:
    """Write a released synthesizer: weights, configuration, certificate and card.

    The folder appears when it is complete: everything is written beside it and renamed.

    Raises:
        FileError: the folder exists already or cannot be written.
    """
    folder = Path(folder)
    if os.path.lexists(folder):
        raise FileError(
            "the folder exists already",
            where=str(folder),
            expected="a name that is still free",
            remedy="choose another folder or remove this one",
        )
    value = release.value
    partial = folder.with_name(f".{folder.name}.partial-{secrets.token_hex(4)}")
    try:
        partial.mkdir(parents=True)
        save_file({name: tensor.contiguous() for name, tensor in value.weights.items()}, partial / MODEL)
        os.chmod(partial / MODEL, 0o644)
        config = {"kind": "synthesis", "plan": public_fields(value.plan), "encoder": value.encoder.to_json()}
        config["sha256"] = _digest(partial / MODEL, config)
        (partial / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        release.certificate.save(partial / CERTIFICATE)
        (partial / CARD).write_text(_card(release), encoding="utf-8")
        os.rename(partial, folder)
    except (OSError, SafetensorError) as error:
        raise FileError(
            "the release could not be written",
            where=str(folder),
            expected="a writable folder with free space",
            remedy="free some space and save again",
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def load(folder: str | os.PathLike[str]) -> Release[Synthesizer]:
    """Read what `save` wrote; the certificate is verified.

    Raises:
        FileError: a file is missing, truncated, edited, of another kind, or a link to outside the folder.
        CertificateError: the certificate does not recompute, or is that of another plan.
    """
    folder = Path(folder)
    for name in (MODEL, CONFIG, CERTIFICATE):
        if not (folder / name).is_file() or (folder / name).resolve().parent != folder.resolve():
            raise _damaged(folder / name)
    certificate = Certificate.load(folder / CERTIFICATE)
    config = _config(folder / CONFIG)
    if config["plan"] != certificate.to_json()["plan"]:
        raise CertificateError(
            "the certificate is that of another plan",
            where=str(folder),
            expected="the certificate of this very model",
            remedy="fetch or write the release again",
        )
    if config["sha256"] != _digest(folder / MODEL, config):
        raise _damaged(folder / MODEL)
    try:
        weights = load_file(folder / MODEL)
        value = Synthesizer(Plan.from_json(config["plan"]), Encoder.from_json(config["encoder"]), weights)
        own = {name: tensor.shape for name, tensor in value.network().named_parameters()}
    except (OSError, SafetensorError, TacitError, KeyError, TypeError, ValueError) as error:
        raise _damaged(folder / MODEL) from error
    if own != {name: tensor.shape for name, tensor in weights.items()}:
        raise _damaged(folder / MODEL)
    certificate.verify()
    return Release(value, certificate)


def _config(path: Path) -> dict[str, Any]:
    config = None
    try:
        if path.stat().st_size <= _LARGEST_CONFIG:
            config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path) from error
    known = {"kind", "plan", "encoder", "sha256"}
    if not isinstance(config, dict) or config.keys() != known or config["kind"] != "synthesis":
        raise _damaged(path)
    return config


def _digest(model: Path, config: Mapping[str, Any]) -> str:
    """SHA-256 of the weights and of the configuration: against accidents, not against malice."""
    with model.open("rb") as file:
        weights = hashlib.file_digest(file, "sha256").hexdigest()
    rest = {name: value for name, value in config.items() if name != "sha256"}
    text = json.dumps({"weights": weights, **rest}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _damaged(path: Path) -> FileError:
    return FileError(
        "the file is missing, truncated, edited or of another kind",
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
