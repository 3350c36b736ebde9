"""No warning of a step is shown, however many threads run steps; afterwards warnings are as they were."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

from tacit.privacy.vault.isolation import run_silently
from tacit.privacy.vault.removal import silence_warnings


def test_steps_of_four_threads_show_nothing() -> None:
    def step() -> None:
        warnings.warn(f"a value of a record: {np.float32(1) / np.float32(0)}", UserWarning, stacklevel=1)

    def run() -> None:
        for _ in range(400):
            run_silently("step", step)

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert shown == []


def test_a_thread_that_a_step_begins_is_silent_too() -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with silence_warnings():
            thread = threading.Thread(target=lambda: warnings.warn("a value", UserWarning, stacklevel=1))
            thread.start()
            thread.join()
    assert shown == []


def test_filters_that_are_set_within_a_step_hold_no_further() -> None:
    def step() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
        warnings.warn("a value", UserWarning, stacklevel=1)

    run_silently("step", step)
    with pytest.warns(UserWarning, match="a public one"):
        warnings.warn("a public one", UserWarning, stacklevel=1)
    with pytest.raises(RuntimeWarning):
        np.float32(1) / np.float32(0)


def test_a_step_that_fails_ends_the_silence() -> None:
    with pytest.raises(ZeroDivisionError), silence_warnings():
        raise ZeroDivisionError
    with pytest.warns(UserWarning, match="a public one"):
        warnings.warn("a public one", UserWarning, stacklevel=1)
