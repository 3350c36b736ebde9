"""The accelerator that was asked for is there, or one sentence says that it is not."""

from __future__ import annotations

import pytest
import torch

from tacit.errors import HardwareError
from tacit.hardware import torch_device


def test_a_device_that_is_there() -> None:
    assert torch_device("cpu", where="fit") == torch.device("cpu")


@pytest.mark.parametrize("name", ["cuda:99", "abacus", "cuda:x"])
def test_a_device_that_is_not(name: str) -> None:
    with pytest.raises(HardwareError, match=f"^fit: there is no device '{name}'"):
        torch_device(name, where="fit")
