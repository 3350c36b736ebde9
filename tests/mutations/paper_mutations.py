"""Mistakes with what leaves beside a release: warnings, the curator's files, planted as those of `mutations.py`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tacit import plain_files
from tacit.privacy.vault import isolation

Plant = Callable[[pytest.MonkeyPatch], None]


def warnings_that_are_caught(patch: pytest.MonkeyPatch) -> None:
    """`warnings.catch_warnings` around each step, as if a thread had filters of its own."""

    @contextlib.contextmanager
    def caught() -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield

    patch.setattr(isolation, "quiet", caught)


def files_that_all_may_read(patch: pytest.MonkeyPatch) -> None:
    """The curator's files are written as any others."""
    real = plain_files.write

    def made(path: Path) -> Path:
        path.mkdir(parents=True, exist_ok=True)
        return path

    patch.setattr(plain_files, "private_folder", made)
    patch.setattr(plain_files, "write", lambda path, content, mode=0o644: real(path, content))


PAPERS: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("warnings of one thread are let out by another", warnings_that_are_caught, ("warnings_stay_inside",)),
    ("the curator's files are readable by all", files_that_all_may_read, ("files_are_the_curators",)),
)
