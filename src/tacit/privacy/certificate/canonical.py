"""The JSON of a certificate: plain and read-only values, the canonical digest, and files that are whole or absent."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tacit import plain_files, plain_text
from tacit.errors import CertificateError

MAX_BYTES = 4 * 2**20
MAX_VALUES = 100_000
"""Bytes and JSON values that a certificate may have: reading more would cost more than any honest one does."""


def digest(record: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of everything but digest and signature; 1.0 and 1 are the same number."""
    content = {name: value for name, value in record.items() if name not in ("digest", "signature")}
    text = json.dumps(_whole_numbers(content), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def plan_id(method: str, fields: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> str:
    """A short identifier of everything in a plan, its parts included: SHA-256 of canonical JSON, 16 hex digits."""
    named = _whole_numbers(to_plain({"method": method, "plan": fields, "parts": parts}))
    text = json.dumps(named, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, str | int):  # nearly all, so before the slower questions
        return value
    if isinstance(value, Mapping):
        return {name: _whole_numbers(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def to_plain(value: Any) -> Any:
    """Mappings, sequences and numbers as JSON knows them; infinities as 'inf' and '-inf'."""
    if isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(name): to_plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    return value


def freeze(value: Any) -> Any:
    """The value with mappings and sequences made read-only."""
    if isinstance(value, Mapping):
        return MappingProxyType({name: freeze(item) for name, item in value.items()})
    return tuple(freeze(item) for item in value) if isinstance(value, list | tuple) else value


def text(record: Mapping[str, Any]) -> str:
    """The content of a certificate's file."""
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write(path: Path, record: Mapping[str, Any]) -> None:
    """Write JSON, all or nothing (see `plain_files.write`)."""
    plain_files.write(path, text(record))


def read(path: Path) -> Any:
    """Read JSON of at most 4 MiB, strictly: no repeated names, no NaN, no infinity.

    Raises:
        CertificateError: the file is missing, too large or not such JSON.
    """
    try:
        return parse(plain_files.read_text(path, MAX_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        problem = error.strerror if isinstance(error, OSError) else type(error).__name__
        exists = path.is_file()
        raise CertificateError(
            f"the file cannot be read as a certificate ({problem or error})",
            where=str(path),
            expected="a certificate's JSON file of at most 4 MiB as tacit writes it",
            remedy="ask for the original file"
            if exists
            else "check the path: a run has its certificate.json in its folder",
        ) from None


def parse(text: str) -> Any:
    """The value of a JSON text, read as `read` does.

    Raises:
        ValueError: it is no JSON, is too large, repeats a name, or has a number that is not finite.
        RecursionError: it is nested too deeply.
    """
    if len(text) > MAX_BYTES or sum(map(text.count, ",[{")) > MAX_VALUES:
        raise ValueError("too many values")
    return json.loads(text, object_pairs_hook=_reject_repeats, parse_constant=_reject_constant)


def _reject_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a field is repeated")
    return dict(pairs)


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


_MAX_DEPTH, _LONGEST = 24, 4_000
"""How deeply values are nested at most, and how long a text is outside a plan."""


def require_plain(value: object) -> None:
    """Only finite JSON values and plain texts, and no nesting bombs; a text inside a plan may have lines."""
    _require_plain(value, 0, [MAX_VALUES], lines=False)


def _require_plain(value: object, depth: int, left: list[int], *, lines: bool) -> None:
    left[0] -= 1
    good = depth <= _MAX_DEPTH and left[0] >= 0
    items: list[tuple[object, bool]] = []
    if isinstance(value, str):
        if not plain_text.is_printable(value, lines=lines) or (len(value) > _LONGEST and not lines):
            what = f"the text {plain_text.escape(value[:80])!r} is not plain"
            expected = "characters that are seen as they are: no control or format characters, no half surrogates"
            remedy = "use the certificate as tacit wrote it"
            raise CertificateError(what, where="Certificate.from_json", expected=expected, remedy=remedy)
    elif isinstance(value, bool) or value is None:
        pass
    elif isinstance(value, float):
        good = good and math.isfinite(value)
    elif isinstance(value, int):
        good = good and abs(value) < 10**300  # what a float holds
    elif isinstance(value, Mapping):
        items = [(name, False) for name in value]
        items += [(item, lines or name == "plan") for name, item in value.items()]
        good = good and all(isinstance(name, str) for name in value)
    elif isinstance(value, list | tuple):
        items = [(item, lines) for item in value]
    else:
        good = False
    if not good:
        what = "a value is no finite JSON value, is nested too deeply, or there are too many"
        expected = f"{MAX_VALUES:,} values of JSON at depth {_MAX_DEPTH} at most, no NaN, no infinity (write 'inf')"
        remedy = "use the certificate as tacit wrote it"
        raise CertificateError(what, where="Certificate.from_json", expected=expected, remedy=remedy)
    for item, in_lines in items:
        _require_plain(item, depth + 1, left, lines=in_lines)
