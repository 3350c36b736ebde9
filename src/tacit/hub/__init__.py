"""Save and load releases: safetensors, JSON, the certificate and a card; never pickle.

Two kinds of release have a folder: a synthesizer (`tacit.synthesis`) and a policy (`tacit.policy_gradient`).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from tacit.errors import CertificateError, FileError, TacitError
from tacit.privacy.certificate import Certificate
from tacit.privacy.plan import public_fields
from tacit.privacy.release import Release

__all__ = ["CARD", "CERTIFICATE", "CONFIG", "MODEL", "load", "save"]

MODEL, CONFIG, CERTIFICATE, CARD = "model.safetensors", "config.json", "certificate.json", "README.md"
_LARGEST_CONFIG = 1_000_000
_COMMON = frozenset({"kind", "plan", "sha256"})
_KINDS = {"synthesis": "Synthesizer", "policy": "Learned"}
"""Kind, which is also a module of this package -> the class of its values."""


class _Kind(Protocol):
    """A module of this package: how one kind of value becomes configuration and weights, and comes back."""

    FIELDS: frozenset[str]

    def pack(self, value: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]: ...

    def unpack(self, config: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> Any: ...

    def card(self, release: Release[Any]) -> str: ...


def save(release: Release[Any], folder: str | os.PathLike[str]) -> None:
    """Write a released synthesizer or policy: weights, configuration, certificate and card.

    The folder appears when it is complete: everything is written beside it and renamed.

    Raises:
        FileError: the folder exists already or cannot be written, or the value is of neither kind.
    """
    folder = Path(folder)
    if os.path.lexists(folder):
        raise FileError(
            "the folder exists already",
            where=str(folder),
            expected="a name that is still free",
            remedy="choose another folder or remove this one",
        )
    name = _name(release.value)
    kind = _kind(name)
    fields, weights = kind.pack(release.value)
    partial = folder.with_name(f".{folder.name}.partial-{secrets.token_hex(4)}")
    try:
        partial.mkdir(parents=True)
        save_file({name: np.ascontiguousarray(part) for name, part in weights.items()}, partial / MODEL)
        os.chmod(partial / MODEL, 0o644)
        config = {"kind": name, "plan": public_fields(release.value.plan), **fields}
        config["sha256"] = _digest(partial / MODEL, config)
        (partial / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        release.certificate.save(partial / CERTIFICATE)
        (partial / CARD).write_text(kind.card(release), encoding="utf-8")
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


def load(folder: str | os.PathLike[str]) -> Release[Any]:
    """Read what `save` wrote, a `Synthesizer` or a `Learned` policy; the certificate is verified.

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
        value = _kind(config["kind"]).unpack(config, load_file(folder / MODEL))
    except (OSError, SafetensorError, TacitError, KeyError, TypeError, ValueError) as error:
        raise _damaged(folder / MODEL) from error
    certificate.verify()
    return Release(value, certificate)


def _name(value: object) -> str:
    found = [name for name, kind in _KINDS.items() if type(value).__name__ == kind]
    if not found:
        raise FileError(
            f"a value of type {type(value).__name__} has no folder",
            where="hub.save",
            expected=" or ".join(f"a {kind}" for kind in _KINDS.values()),
            remedy="save the release that a method returned",
        )
    return found[0]


def _kind(name: str) -> _Kind:
    return cast(_Kind, import_module(f"tacit.hub.{name}"))


def _config(path: Path) -> dict[str, Any]:
    config = None
    try:
        if path.stat().st_size <= _LARGEST_CONFIG:
            config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path) from error
    if (
        not isinstance(config, dict)
        or config.get("kind") not in _KINDS
        or config.keys() != _COMMON | _kind(config["kind"]).FIELDS
    ):
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
