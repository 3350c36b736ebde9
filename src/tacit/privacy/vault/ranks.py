"""The processes that hold the shards of a vault: what they tell each other, over `torch.distributed`.

Rank 0 speaks, the others listen; sums are of whole numbers, so that neither the order of additions nor the number of
ranks changes a digit. `torchrun` starts the processes and restarts them.
"""

from __future__ import annotations

import os
import secrets
from datetime import timedelta
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Backend = Literal["gloo", "nccl"]

KEY_BYTES = 32
PATIENCE = 600.0
"""Seconds after which a rank that does not answer counts as lost."""
_BETWEEN_STEPS = timedelta(days=7)
"""How long rank 0 may be silent: it trains on public records, draws and writes meanwhile."""


class Ranks:
    """All processes that one `torchrun` started, seen from one of them.

    Args:
        backend: what carries the sums: "gloo" from memory, or "nccl" between accelerators, one a process.
        patience: seconds that a rank may take for a step.

    Attributes:
        rank: this one, 0 .. count - 1.
        count: K, how many there are.

    Guarantee: what one rank says reaches the others and nobody else, if the network between them is nobody else's:
    neither gloo nor nccl encrypts. The messages of rank 0 are pickled, so all ranks trust it.

    Raises:
        RuntimeError (of PyTorch): a rank is gone, or out of patience; the group is then of no use any more.
    """

    def __init__(self, backend: Backend = "gloo", *, patience: float = PATIENCE) -> None:
        import torch
        import torch.distributed as dist
        from torch.distributed.rendezvous import rendezvous

        if not dist.is_initialized():
            waiting = timedelta(seconds=patience)
            store, rank, count = next(rendezvous("env://", timeout=waiting))
            # torchrun keeps one store over restarts, in which ranks of an earlier life left their addresses.
            life = dist.distributed_c10d.PrefixStore(f"life {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
            dist.init_process_group(backend, store=life, rank=rank, world_size=count, timeout=waiting)
        self._dist = dist
        self._orders = dist.new_group(backend=backend, timeout=_BETWEEN_STEPS)
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        local = int(os.environ.get("LOCAL_RANK", "0"))
        self._device = torch.device("cuda", local) if backend == "nccl" else torch.device("cpu")

    def tell(self, message: Any = None) -> Any:
        """What rank 0 says, on every rank; the others wait for it."""
        said = [message]
        self._dist.broadcast_object_list(said, src=0, group=self._orders, device=self._device)
        return said[0]

    def share_key(self) -> bytes:
        """A new secret key, which rank 0 draws: under it the units of shards are compared (`digest_key`)."""
        return bytes(self.tell(secrets.token_bytes(KEY_BYTES)))

    def add(self, numbers: Int64) -> Int64:
        """The sum of all ranks' numbers, [n] on every rank, modulo 2^64."""
        import torch

        tensor = torch.from_numpy(numbers).to(self._device)
        self._dist.all_reduce(tensor)
        return np.asarray(tensor.cpu().numpy())

    def gather(self, numbers: Int64) -> list[Int64]:
        """Everybody's numbers [n, d], in the order of the ranks; n may differ."""
        import torch

        lengths = self._gather_tensors(torch.tensor([len(numbers)]))
        longest = max(int(length) for length in lengths)
        padded = np.zeros((longest, *numbers.shape[1:]), np.int64)
        padded[: len(numbers)] = numbers
        return [
            part.numpy()[: int(length)]
            for part, length in zip(self._gather_tensors(torch.from_numpy(padded)), lengths, strict=True)
        ]

    def close(self) -> None:
        """Leave the group."""
        if self._dist.is_initialized():
            self._dist.destroy_process_group()

    def _gather_tensors(self, tensor: Any) -> list[Any]:
        import torch

        mine = tensor.to(self._device)
        parts = [torch.empty_like(mine) for _ in range(self.count)]
        self._dist.all_gather(parts, mine)
        return [part.cpu() for part in parts]
