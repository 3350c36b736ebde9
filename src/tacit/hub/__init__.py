"""Save and load releases: safetensors, JSON, the certificate and a card; never pickle. Which values have a folder, and
of which of eight kinds, says `tacit.methods.METHODS`. Beside releases there are folders of the experts' own policies,
one file each (`save_experts`, `load_experts`), which are no release."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from tacit import plain_files
from tacit.errors import CertificateError, FileError, PlanError
from tacit.hub.manifest import MANIFEST, Manifest
from tacit.methods import UnknownMethod, list_kinds
from tacit.privacy.certificate.certificate import Certificate, Release
from tacit.privacy.mechanisms.kinds import PrivateSelection
from tacit.privacy.vault.plan import public_fields

if TYPE_CHECKING:
    from tacit.agents.stacked import StackedPolicies
    from tacit.data.spec import PublicSpec
    from tacit.hub.values import Kind

__all__ = ["CARD", "CERTIFICATE", "CONFIG", "MANIFEST", "MODEL", "load", "load_experts", "notes", "read", "save"]
__all__ += ["save_experts", "to_onnx"]

MODEL, CONFIG, CERTIFICATE, CARD = "model.safetensors", "config.json", "certificate.json", "README.md"
_MAX_CONFIG_BYTES = 1_000_000
_COMMON = frozenset({"kind", "plan", "sha256"})
_POLICIES = ("policy", "experts", "improvement")


def save(release: Release[Any], folder: str | os.PathLike[str], *, notes: Mapping[str, Any] | None = None) -> None:
    """Write a released synthesizer, policy or simulator: weights, configuration, certificate and card.

    The folder appears when it is complete: everything is written beside it and renamed.

    Args:
        release: what a method returned.
        folder: a name that is still free.
        notes: public JSON values to be kept with it, such as the environment that a policy is for.

    Raises:
        FileError: the folder exists already or cannot be written, or the value is of no such kind.
    """
    folder = Path(folder)
    plain_files.require_free(folder, "folder")
    name = _kind_name(release.value)
    if name is None:
        names = dict.fromkeys(place.rpartition(":")[2] for place in list_kinds())
        what = f"a value of type {type(release.value).__name__} has no folder"
        expected, remedy = " or ".join(f"a {name}" for name in names), "save the release that a method returned"
        raise FileError(what, where="hub.save", expected=expected, remedy=remedy)
    kind = _kinds()[name]
    fields, weights = kind.pack(release.value)
    partial = folder.with_name(f".{folder.name}.partial-{secrets.token_hex(4)}")
    try:
        partial.mkdir(parents=True)
        save_file({name: np.ascontiguousarray(part) for name, part in weights.items()}, partial / MODEL)
        os.chmod(partial / MODEL, 0o644)
        plan = getattr(release.value, "plan", None)  # a simulator of movement has none: its certificate says it
        record = release.certificate.to_json()["plan"] if plan is None else public_fields(plan)
        config = {"kind": name, "plan": record, **fields}
        if notes is not None:
            config["notes"] = dict(notes)
        config["sha256"] = _digest(partial / MODEL, config)
        (partial / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        release.certificate.save(partial / CERTIFICATE)
        written = {name: partial / name for name in (MODEL, CONFIG, CERTIFICATE)}
        (partial / MANIFEST).write_text(Manifest.of(written, release.certificate.digest).text(), encoding="utf-8")
        (partial / CARD).write_text(kind.card(release), encoding="utf-8")
        os.rename(partial, folder)
    except (OSError, SafetensorError) as error:
        what, expected = "the release could not be written", "a writable folder with free space"
        raise FileError(what, where=str(folder), expected=expected, remedy="free some space and save again") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def load(folder: str | os.PathLike[str], *, public_key: str | None = None) -> Release[Any]:
    """Read what `save` wrote: a synthesizer, `TrainedPolicies` or a `Simulator`; the certificate is verified.

    Args:
        folder: of a release.
        public_key: 64 hex digits; if given, certificate and manifest must be signed by its private key.

    Raises:
        FileError: a file is missing, truncated, edited, not in the manifest, of another kind, or a link to outside the
            folder; or the manifest is not signed by the key.
        CertificateError: the certificate does not recompute, is that of another plan, or is not signed by the key.
    """
    folder = Path(folder)
    _require_inside(folder, (MODEL, CONFIG, CERTIFICATE))
    certificate = Certificate.load(folder / CERTIFICATE)
    config = _read_config(folder / CONFIG)
    record = certificate.to_json()
    selected = any(part["kind"] == PrivateSelection.kind for part in record["parts"])
    chosen = [each["plan"] for each in record["plan"]["candidates"]] if selected else []  # it may be a run of one
    if config["plan"] not in (record["plan"], *chosen):
        what, expected = "the certificate is that of another plan", "the certificate of this very model"
        raise CertificateError(what, where=str(folder), expected=expected, remedy="fetch or write the release again")
    value = read(folder)
    certificate.verify(public_key)
    if public_key is not None or (folder / MANIFEST).exists():
        _require_inside(folder, (MANIFEST,))
        files = {name: folder / name for name in (MODEL, CONFIG, CERTIFICATE)}
        Manifest.read(folder / MANIFEST).require(folder, files, certificate.digest, public_key=public_key)
    return Release(value, certificate)


def read(folder: str | os.PathLike[str]) -> Any:
    """The value that `save` wrote, whatever its certificate says: for policies that are input, not a release. Raises
    FileError as `load`."""
    folder = Path(folder)
    _require_inside(folder, (MODEL, CONFIG))
    config = _read_config(folder / CONFIG)
    try:
        if config["sha256"] != _digest(folder / MODEL, config):
            raise ValueError("another content than was written")
        return _kinds()[config["kind"]].unpack(config, load_file(folder / MODEL))
    except UnknownMethod as error:
        raise _unknown_error(folder / CONFIG, "method", str(error)) from None
    except Exception as error:  # whatever edited numbers lead to: no list of it would be whole
        raise _damaged_error(folder / MODEL) from error


def notes(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The notes that `save` was given; call `load` first, which checks them."""
    return dict(_read_config(Path(folder) / CONFIG).get("notes", {}))


def to_onnx(release: Release[Any], path: str | os.PathLike[str], *, average: bool = False) -> None:
    """Write a released policy as an ONNX model (see `tacit.hub.onnx_graph.write` for its inputs and outputs).

    The graph of an `Improvement` takes memories; its metadata say at which rates (`tacit.data.memory`), and
    whether the policy draws its actions.

    Args:
        release: of `TrainedPolicies` of one replicate, or of an `Improvement`.
        path: a name that is still free.
        average: the averaged policy instead of the last one, which only `tacit.policy_gradient` has.

    Raises:
        PlanError: the value is no policy, or there are several, it has no average, or its network is not an `Mlp`.
        FileError: the file exists already or cannot be written.
    """
    from tacit.hub import onnx_graph

    value, certificate = release.value, release.certificate
    kind = _kind_name(value)
    if kind not in _POLICIES or value.replicates != 1:
        what = "the value is no policy, or there are policies of several replicates"
        remedy = "pass what a method's `fit` or `hub.load` returned, with `.replicate(r)` of its value"
        raise PlanError(what, where="hub.to_onnx", expected="the release of one policy", remedy=remedy)
    if average and kind != "policy":
        what, expected = "the policy has no average", "average=False"
        raise PlanError(what, where="hub.to_onnx", expected=expected, remedy="leave average out")
    theta = (value.average if average else value.last) if kind == "policy" else value.theta
    metadata = {
        "promise": certificate.sentence,
        "method": certificate.method,
        "plan_id": certificate.to_json()["plan_id"],
    }
    if kind == "improvement":
        metadata["memory"] = json.dumps(value.memory.to_json())
        metadata["acts"] = "draws its actions" if value.sampled else "takes its best action"
    onnx_graph.write(value.policy, theta[0], path, tuple(metadata.items()))


def _kind_name(value: object) -> str | None:
    return list_kinds().get(f"{type(value).__module__}:{type(value).__qualname__}")


def save_experts(experts: StackedPolicies, folder: str | os.PathLike[str]) -> None:
    """Write policies of experts, one safetensors file each (see `tacit.hub.expert_files`), into a new folder; they are
    no release."""
    from tacit.hub import expert_files

    expert_files.save(experts, Path(folder))


def load_experts(
    folder: str | os.PathLike[str],
    spec: PublicSpec,
    *,
    activation: Literal["relu", "tanh"] = "relu",
    floor: float = 0.0,
    least: float = 0.0,
) -> StackedPolicies:
    """Read a folder of experts' policies, safetensors or ONNX (see `tacit.hub.expert_files`).

    Args:
        folder: one file, or one folder that `save` wrote, for each expert; their names decide the order.
        spec: public bounds of the observations, within which the policies act, and the discrete actions.
        activation: of state dicts, which do not say it.
        floor, least: how the policies act (see `tacit.agents.stacked.StackedPolicies`).

    Raises:
        FileError: a file is missing, damaged, of another kind (a pickle, for one), or a link to outside the folder.
        DataError: the policies are not of one shape or for other observations or actions, two are the same, or the
            actions are continuous.
    """
    from tacit.hub import expert_files

    return expert_files.load(Path(folder), spec, read, activation=activation, floor=floor, least=least)


def _kinds() -> Mapping[str, Kind]:
    """How values are written; imported where one is, since that takes a while."""
    from tacit.hub.values import KINDS

    return KINDS


def _require_inside(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        path = folder / name
        plain = plain_files.is_plain_file(path) and plain_files.is_inside(folder, name)
        if not plain or plain_files.is_sparse_file(path):
            raise _damaged_error(path)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(plain_files.read_text(path, _MAX_CONFIG_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged_error(path) from error
    if (
        not isinstance(config, dict)
        or not isinstance(config.get("kind"), str)
        or not isinstance(config.get("notes", {}), dict)
    ):
        raise _damaged_error(path)
    if config["kind"] not in list_kinds().values():
        raise _unknown_error(path, "kind", config["kind"])
    if config.keys() - {"notes"} != _COMMON | _kinds()[config["kind"]].fields:
        raise _damaged_error(path)
    return config


def _digest(model: Path, config: Mapping[str, Any]) -> str:
    """SHA-256 of the weights and of the configuration: against accidents, not against malice."""
    with model.open("rb") as file:
        weights = hashlib.file_digest(file, "sha256").hexdigest()
    rest = {name: value for name, value in config.items() if name != "sha256"}
    text = json.dumps({"weights": weights, **rest}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _unknown_error(path: Path, what: str, name: str) -> FileError:
    return FileError(
        f"the release is of the {what} {name[:40]!r}, which this tacit does not have",
        where=str(path),
        expected="a release of one of the methods in tacit.methods",
        remedy="read it with the tacit that wrote it",
    )


def _damaged_error(path: Path) -> FileError:
    what, expected = "the file is missing, truncated, edited or of another kind", "a release written by tacit"
    return FileError(what, where=str(path), expected=expected, remedy="fetch or write the release again")
