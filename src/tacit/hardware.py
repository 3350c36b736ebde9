"""The accelerator that a training or a sampling runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.errors import HardwareError

if TYPE_CHECKING:
    import torch


def torch_device(name: str, *, where: str) -> torch.device:
    """PyTorch's device of that name, after a look whether this machine has it.

    Args:
        name: `cpu`, `cuda` or `cuda:1`, `mps`, ...
        where: the call that asks, for the error.

    Raises:
        HardwareError: there is no such device here, or the installed PyTorch cannot use it.
    """
    import torch

    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        what, expected = f"there is no device {name!r}", "a device of this machine that the installed PyTorch can use"
        remedy = 'pass device="cpu", or install a PyTorch that was built for the accelerator'
        raise HardwareError(what, where=where, expected=expected, remedy=remedy) from error
    return device
