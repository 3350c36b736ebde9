"""Public bounds of an environment's numbers, from a JSON file: `--bounds`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.data.spec import Box, PublicSpec
from tacit.envs.gym_domain import GymDomain
from tacit.errors import DataError, FileError, TacitError

FORM = '{"observation": [[LOWS], [HIGHS]], "action": [[LOWS], [HIGHS]], "reward": [LOW, HIGH]}'
"""What a file of bounds says; observation and action only where the environment leaves them open."""
BOX = '{"observation": [[LOWS], [HIGHS]]}'
"""What a file with a box of observations alone says."""


def _expected(form: str) -> str:
    return f"JSON as {form}, one number of LOWS and HIGHS for each dimension"


def read(path: Path | None, *, option: str = "--bounds", form: str = FORM) -> dict[str, Any] | None:
    """The content of a file of public bounds; None without one.

    Args:
        path: the file.
        option: which names it.
        form: what it says; keys that are not in it are unknown.

    Raises:
        FileError: it does not exist, or cannot be read.
        DataError: it is no JSON, or says something else.
    """
    if path is None:
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(
            f"the file of bounds cannot be read ({error.strerror})",
            where=f"{option} {path}",
            expected=_expected(form),
            remedy="check the path",
        ) from None
    except (ValueError, RecursionError) as error:
        line = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise _mend(path, f"the file of bounds is not valid JSON{line}", option, form) from None
    if not isinstance(found, dict):
        raise _mend(path, "the file of bounds is no JSON object", option, form)
    if unknown := sorted(name for name in found if f'"{name}"' not in form):
        raise _mend(path, f"the file of bounds has the unknown key {unknown[0][:40]!r}", option, form)
    try:
        return {name: _ends(name, found[name]) for name in found}
    except DataError as error:
        raise _mend(path, error.what, option, form) from error


def public_spec(domain: GymDomain, bounds: Mapping[str, Any] | None) -> PublicSpec:
    """The environment's own bounds, and those of the file.

    Raises:
        DataError: some are missing, or of another number of dimensions.
    """
    try:
        return domain.public_spec(**(bounds or {}))
    except DataError as error:
        raise DataError(
            f"{domain.name}: {error.what}",
            where="--bounds",
            expected=f"a file with {_expected(FORM)}; the reward's are needed always: no environment declares them",
            remedy="declare bounds that are known without the data, such as physical limits",
        ) from error


def _ends(name: str, ends: Any) -> Box | tuple[float, float]:
    try:
        low, high = ends
        box = Box((float(low),), (float(high),)) if name == "reward" else Box(tuple(low), tuple(high))
    except TacitError as error:
        raise _unlike(f"{name}: {error.what}") from error
    except (TypeError, ValueError, OverflowError):
        raise _unlike(f"{name} is not of the form of bounds") from None
    return (box.low[0], box.high[0]) if name == "reward" else box


def _unlike(what: str) -> DataError:
    return DataError(what, where="bounds", expected="two ends", remedy="mend the file")


def _mend(path: Path, what: str, option: str, form: str) -> DataError:
    return DataError(what, where=f"{option} {path}", expected=_expected(form), remedy="mend the file")
