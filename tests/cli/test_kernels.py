"""Which of OpenBLAS's kernels the command line asks for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.cli import choose_kernels, keep_freed_memory

AVX512 = "flags\t\t: fpu avx2 avx512f avx512dq avx512cd avx512bw avx512vl vaes\n"


def page(folder: Path, vendor: str, flags: str) -> Path:
    path = folder / "cpuinfo"
    path.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n{flags}")
    return path


@pytest.mark.parametrize(
    ("vendor", "flags", "given", "chosen"),
    [
        ("AuthenticAMD", AVX512, None, "SkylakeX"),
        ("AuthenticAMD", AVX512, "Zen", "Zen"),
        ("AuthenticAMD", "flags\t\t: fpu avx2\n", None, None),
        ("GenuineIntel", AVX512, None, None),
    ],
)
def test_amd_with_avx512_gets_kernels_for_it_unless_somebody_chose(
    vendor: str, flags: str, given: str | None, chosen: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    if given:
        monkeypatch.setenv("OPENBLAS_CORETYPE", given)
    choose_kernels(page(tmp_path, vendor, flags))
    assert os.environ.get("OPENBLAS_CORETYPE") == chosen
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)


def test_without_linux_s_page_nothing_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    choose_kernels(tmp_path / "none")
    assert "OPENBLAS_CORETYPE" not in os.environ


@pytest.mark.parametrize("kernels", ["Haswell", "SkylakeX"])
def test_decisions_have_the_same_bits_whatever_kernels_there_are(kernels: str) -> None:
    code = """
import hashlib
import numpy as np
from tacit import rowwise
rowwise._compiled = None
rng, digest = np.random.default_rng(0), hashlib.blake2b()
for n, k, m in ((1, 3, 2), (7, 64, 64), (200, 37, 5)):
    digest.update(rowwise.product(rng.normal(size=(n, k)), rng.normal(size=(k, m))).tobytes())
print(digest.hexdigest())
"""
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **chosen}, capture_output=True, text=True, check=True
        ).stdout
        for chosen in ({}, {"OPENBLAS_CORETYPE": kernels})
    }
    assert len(digests) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's own way")
def test_what_large_arrays_leave_is_kept_by_commands() -> None:
    """Once they have been freed, 16 MB in pieces of 1 MB are taken again without a page fault for each page."""
    code = """
import resource
from tacit.cli import keep_freed_memory
keep_freed_memory()
take = lambda: [bytearray(2**20) for _ in range(16)]
take()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
take()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    faults = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert int(faults) < 400  # of 4,096 pages


def test_another_c_library_keeps_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    keep_freed_memory()
