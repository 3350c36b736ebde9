"""What stands in for scipy while `dp_accounting` is imported: the same bits, and the real package for all else."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.signal
import scipy.stats

from tacit.privacy.accounting import peer

SOURCE = Path(peer.__file__).parents[2]


@pytest.mark.parametrize("name", ["pdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"])
@pytest.mark.parametrize("how", [{}, {"scale": 3.7}, {"loc": -0.4, "scale": 0.2}])
def test_the_normal_law_is_that_of_scipy(name, how):
    x = np.linspace(0.001, 0.999, 101) if name in ("ppf", "isf") else np.linspace(-9, 9, 181)
    ours, theirs = (getattr(law(**how), name)(x) for law in (peer._Normal(), scipy.stats.norm))
    np.testing.assert_allclose(ours, theirs, rtol=3e-15, atol=0)
    assert float(getattr(peer._Normal(), name)(0.3)) == float(getattr(scipy.stats.norm, name)(0.3))


@pytest.mark.parametrize("sizes", [(1, 1), (7, 300), (1_000, 513)])
def test_a_convolution_is_that_of_scipy(sizes):
    generator = np.random.default_rng(0)
    first, second = (generator.random(size) for size in sizes)
    np.testing.assert_array_equal(peer._convolve(first, second), scipy.signal.fftconvolve(first, second))


def test_a_command_that_prices_loads_neither_statistics_nor_signals():
    code = (
        "import sys; from tacit.privacy.accounting import certified; print([n for n in sys.modules if n in "
        "('scipy.stats', 'scipy.signal')]); from dp_accounting.pld import common; from scipy import signal; "
        "print(common.signal.__name__, common.signal.correlate is signal.correlate)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "scipy.signal True"]


def test_nothing_else_imports_it():
    importing = [path.name for path in SOURCE.rglob("*.py") if "\nfrom dp_accounting" in path.read_text("utf-8")]
    assert importing == ["peer.py"]
