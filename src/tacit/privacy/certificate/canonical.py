"""The JSON of a certificate: plain and read-only values, the canonical digest, and files that are whole or absent."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tacit.errors import CertificateError

MAX_BYTES = 4 * 2**20


def digest(record: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of everything but digest and signature; 1.0 and 1 are the same number."""
    content = {name: value for name, value in record.items() if name not in ("digest", "signature")}
    text = json.dumps(_whole_numbers(content), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def plan_id(method: str, fields: Mapping[str, Any]) -> str:
    """A short identifier of everything in a plan (SHA-256 of its canonical JSON, 16 hex digits); 1.0 and 1 are one."""
    text = json.dumps(_whole_numbers(plain({"method": method, **fields})), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _whole_numbers(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def plain(value: Any) -> Any:
    """Mappings, sequences and numbers as JSON knows them; infinities as 'inf' and '-inf'."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    return value


def freeze(value: Any) -> Any:
    """The value with mappings and sequences made read-only."""
    if isinstance(value, Mapping):
        return MappingProxyType({name: freeze(item) for name, item in value.items()})
    return tuple(freeze(item) for item in value) if isinstance(value, list | tuple) else value


def write(path: Path, record: Mapping[str, Any]) -> None:
    """Write JSON, all or nothing: a temporary file in the same folder, synced, then renamed."""
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read(path: Path) -> Any:
    """Read JSON of at most 4 MiB, strictly: no repeated names, no NaN, no infinity.

    Raises:
        CertificateError: the file is missing, too large or not such JSON.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise ValueError("larger than 4 MiB")
        return json.loads(raw.decode("utf-8"), object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except (OSError, ValueError, RecursionError) as error:
        problem = error.strerror if isinstance(error, OSError) else type(error).__name__
        here = path.is_file()
        raise CertificateError(
            f"the file cannot be read as a certificate ({problem or error})",
            where=str(path),
            expected="a certificate's JSON file of at most 4 MiB as tacit writes it",
            remedy="ask for the original file"
            if here
            else "check the path: a run has its certificate.json in its folder",
        ) from None


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a field is repeated")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
