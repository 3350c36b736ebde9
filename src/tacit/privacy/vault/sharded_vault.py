"""A vault whose records lie in shards, one a rank: no process holds them all, and none holds a sum without noise.

Every rank draws who takes part among its own units, begins its sum with its share of the noise, adds its clipped
contributions, and sends whole numbers. What leaves is the sum over all ranks, on the lattice, over the public divisor.
Rank 0 holds the ledger and runs the method; the others `serve` it.

Proof page: `proofs/sharded_sums.md`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from tacit.data.trajectories import Trajectories
from tacit.errors import DataError, LedgerError, MechanismError, PlanError
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.mechanisms.base import Part, Plan, Rows
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.lattice import Float64, combine_shares, count_in_units, share_unit
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.sentences import Clause, clause
from tacit.privacy.vault.base import Label, Run
from tacit.privacy.vault.isolation import Value, run_silently
from tacit.privacy.vault.records import SealedRecords
from tacit.privacy.vault.steps import GradientStep, VectorStep
from tacit.privacy.vault.vault import Vault
from tacit.tracking import Tracker
from tacit.units import Unit

Int64 = npt.NDArray[np.int64]
Backend = Literal["gloo", "nccl"]

KEY_BYTES = 32
PATIENCE = 600.0
"""Seconds after which a rank that does not answer counts as lost."""
_BETWEEN_STEPS = timedelta(days=7)
"""How long rank 0 may be silent: it trains on public records, draws and writes meanwhile."""


class Ranks:
    """All processes that one `torchrun` started, and restarts, seen from one of them.

    Rank 0 speaks, the others listen; sums are of whole numbers, so that neither the order of additions nor the number
    of ranks changes a digit.

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


MAX_SUM = 2.0**61
"""Bound of a sum in the units that shares are counted in: whole numbers of 64 bits hold it, noise and all."""


@dataclass(frozen=True)
class Opening:
    """What rank 0 says first: whom the ledger protects, and the ledger's dataset id."""

    unit: Unit
    dataset_id: str


@dataclass(frozen=True)
class Order:
    """One step, which rank 0 has claimed."""

    scale: float  # standard deviation of the whole noise
    divisor: float  # the public one
    token: int  # of this step alone, 0 < token < 2^62; a rank that answers sends it with its numbers
    # what is added up, its models on the CPU; None is that of the order before, with other weights
    step: VectorStep | GradientStep | None
    device: str = "cpu"  # kind of the device on which gradients are made
    weights: npt.NDArray[np.float32] | None = None  # of the models, for the step of the order before


CHECK = "check"
"""The order to compare the digests of all shards' units."""


@dataclass(frozen=True)
class Shard:
    """One rank's part of the records, and what it does when rank 0 orders it.

    Args:
        records: sealed, of whole units.
        noise: this rank's own secret source.
        ranks: all of them.
    """

    records: SealedRecords
    noise: SecretNoise
    ranks: Ranks

    def require_consistent(self, spec: dict[str, Any], unit: Unit) -> bool:
        """Refuse shards that are not of one set of records, on every rank; whether any rank's noise is seeded."""
        digests = self.records.digests
        public = hashlib.sha256(json.dumps([spec, self.records.simulated], sort_keys=True).encode()).digest()
        said = np.array([[self.records.reader().units, self.noise.seeded, _word(public), _word(self.noise.bytes(8))]])
        key = np.zeros((1, 2), np.int64) if digests is None else digests[:1]
        everybody = np.concatenate(self.ranks.gather(np.concatenate([said, key], axis=1)))
        counts, seeded, publics, draws, *keys = everybody.T
        if len(set(publics.tolist())) > 1 or any(len(set(key.tolist())) > 1 for key in keys) or not keys[0].all():
            what = "the shards are not of one set of records, or nobody can compare their units"
            expected = "shards of the same public bounds, read with the digest key that rank 0 sent"
            remedy = "read every shard with Trajectories.from_parquet(..., digest_key=key)"
            raise DataError(what, where="ShardedVault", expected=expected, remedy=remedy)
        if int(counts.sum()) > unit.size:
            what = f"the shards hold more {unit.noun}s together than the declared population"
            expected, remedy = f"at most {unit.size:,}", "declare a population that covers everybody, in a new ledger"
            raise DataError(what, where="ShardedVault", expected=expected, remedy=remedy)
        if len(set(draws.tolist())) < len(draws):
            what = "two ranks draw the same secret numbers"
            expected = "a source of its own for every rank, which the operating system seeds"
            remedy = "give each rank its own SecretNoise()"
            raise MechanismError(what, where="ShardedVault", expected=expected, remedy=remedy)
        return bool(seeded.any())

    def require_disjoint(self, unit: Unit) -> None:
        """Refuse, on every rank, a unit that lies in two shards."""
        # Digests go round in as many parts as there are ranks, so that no rank ever holds those of all units.
        assert self.records.digests is not None
        digests, duplicated = self.records.digests[1:], False
        for part in range(self.ranks.count):
            mine = digests[digests[:, 0] % self.ranks.count == part]
            everybody = np.concatenate(self.ranks.gather(mine))
            ordered = everybody[np.lexsort(everybody.T)]
            duplicated |= bool((ordered[1:] == ordered[:-1]).all(axis=1).any())
        if duplicated:
            expected = f"all rows of a {unit.noun} in one shard: noise is for what one shard adds"
            remedy = "write the shards again with `tacit data shard`, or by a hash of the unit's id"
            raise DataError(f"a {unit.noun} lies in two shards", where="ShardedVault", expected=expected, remedy=remedy)

    def mean(self, order: Order, step: VectorStep | GradientStep) -> Any:
        """This rank's share and sum, added to those of all others: the noisy mean of the step."""
        ranks, size = self.ranks, step.size
        unit = share_unit(order.scale, step.part.clip_norm)
        answer = np.zeros(size + ranks.count, np.int64)

        def share() -> Float64:
            return self.noise.gaussian(size, share_std(order.scale, ranks.count)).astype(np.float64)

        def summed() -> Float64:
            total = step.add_samples(self.records, self.noise, share()[None], order.divisor / ranks.count)
            return np.asarray(total[0])

        try:
            total = run_silently(step.part.name, summed)
            answer[size + ranks.rank] = order.token
        except MechanismError:
            total = share()
        count_in_units(total, unit, answer[:size])
        everybody = run_silently(step.part.name, lambda: ranks.add(answer), _rank_error)
        require_answers(step.part.name, everybody[size:], order.token)
        mean = combine_shares(everybody[:size], order.scale, step.part.clip_norm)
        mean /= order.divisor
        return step.to_caller(mean[None])


class ShardedVault(Vault):
    """Rank 0's vault over records that lie in shards, with the ledger that pays for every touch of them.

    Args:
        data: this rank's shard, read with the digest key that all ranks share; sealed on entry.
        ledger: the budget of all shards together.
        ranks: all processes; the others `serve` their shards.
        noise: a seeded source for tests only; it voids the ledger.
        tracker: as for `Vault`.

    Guarantee: that of `Vault` for `PoissonSum` parts, with the same event, if every rank does as the code says and the
    network between them is nobody else's. A rank that dies, lags, fails or answers another step burns the step:
    nothing of it is released, it stays claimed, and this vault serves no other.

    Edge cases:
        | case | what happens |
        |---|---|
        | a unit in two shards | DataError when the first plan is reserved, before it is charged |
        | a rank without units in the sample | it sends its share of the noise |
        | two ranks with one seed | MechanismError when the vault is opened |
        | seeded noise on any rank | the ledger is void |
        | one rank | a `Vault` with noise counted in whole numbers |

    Raises:
        DataError: the shards are not of one set, or hold more units than the population.
        LedgerError: several ledgers.
        MechanismError: two ranks draw the same numbers.
    """

    def __init__(
        self,
        data: Trajectories,
        ledger: Ledger | Sequence[Ledger],
        *,
        ranks: Ranks,
        noise: SecretNoise | None = None,
        tracker: Tracker | None = None,
    ) -> None:
        super().__init__(data, ledger, noise=noise, tracker=tracker)
        self._kinds = (PoissonSum,)
        self._shard = Shard(self._records, self._noise, ranks)
        self._rank_lost = self._units_disjoint = False
        self._sent: tuple[GradientStep, tuple[object, ...]] | None = None
        self._require_one_ledger("ShardedVault")
        with self._joint_action():
            ranks.tell(Opening(self.unit, self.ledger.dataset_id))
            seeded = self._shard.require_consistent(self.spec.to_json(), self.unit)
        if seeded:
            self.ledger.void("a rank's noise is seeded: anyone who can draw it again can subtract it")

    def nonprivate(self, fn: Callable[[Rows], Value], *, reason: str, folder: Path | None = None) -> Value:
        """Refused: no rank holds all records.

        Raises:
            MechanismError: always.
        """
        what = "no rank holds all records"
        expected, remedy = "a Vault over all of them, in one process", "look at the shards apart from this run"
        raise MechanismError(what, where="ShardedVault.nonprivate", expected=expected, remedy=remedy)

    def close(self) -> None:
        """Send the other ranks home; closing twice does nothing."""
        if not self._rank_lost:
            with self._joint_action():
                self._shard.ranks.tell(None)
            self._rank_lost = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _require_fit(self, plan: Plan) -> None:
        """Whole numbers hold every sum, and no unit lies in two shards."""
        super()._require_fit(plan)
        for part in plan.parts():
            require_room(part, self.unit)
        if not self._units_disjoint:
            with self._joint_action():
                self._shard.ranks.tell(CHECK)
                self._shard.require_disjoint(self.unit)
            self._units_disjoint = True

    def _certify(self, run: Run, value: Value, label: Label, assumptions: Sequence[Clause]) -> Release[Value]:
        return super()._certify(run, value, label, [*assumptions, clause("ranks", ranks=self._shard.ranks.count)])

    def _take(self, run: Run, part: Part, steps: int = 1) -> None:
        self._require_all_ranks()
        super()._take(run, part, steps)

    def _mean(self, step: VectorStep | GradientStep, scale: float) -> Any:
        order = Order(scale, step.part.divisor(self.unit), 1 + secrets.randbelow(2**62 - 1), step)
        if isinstance(step, GradientStep):
            order = replace(order, device=step.device.type, **self._news(step))
        with self._joint_action():
            self._shard.ranks.tell(order)
            return self._shard.mean(order, step)

    def _news(self, step: GradientStep) -> dict[str, Any]:
        """What the other ranks do not know of a step yet: the whole, or the weights alone."""
        setting = step.setting
        if self._sent is not None and self._sent[1] == setting:
            return {"step": None, "weights": step.weights()}
        self._sent = step, setting
        return {"step": step if step.device.type == "cpu" else step.to_device("cpu", 0)}

    @contextlib.contextmanager
    def _joint_action(self) -> Iterator[None]:
        """What all ranks do at once: if it fails in any way, they no longer are at the same place."""
        self._require_all_ranks()
        self._rank_lost, gone = True, False
        try:
            yield
        except RuntimeError:
            gone = True  # its text names addresses
        if gone:
            raise _rank_error("ShardedVault", "no answer")
        self._rank_lost = False

    def _require_all_ranks(self) -> None:
        if self._rank_lost:
            what, expected = "a rank was lost, or the vault is closed", "all ranks at the same step"
            remedy = "start the ranks again: what was claimed stays claimed, and the run goes on with what is left"
            raise LedgerError(what, where="ShardedVault", expected=expected, remedy=remedy)


def serve(data: Trajectories, ranks: Ranks, *, noise: SecretNoise | None = None) -> None:
    """What every rank but 0 does: hold its shard and answer rank 0's orders, until it closes.

    Args:
        data: this rank's shard, read with the digest key that all ranks share; sealed on entry.
        ranks: all processes.
        noise: a seeded source for tests only; it voids the ledger.

    Raises:
        DataError, MechanismError: as for `ShardedVault`.
        RuntimeError (of PyTorch): rank 0 is gone.
    """
    opening = ranks.tell()
    if opening is None:
        return
    noise = SecretNoise() if noise is None else noise
    records = SealedRecords(data, None, unit=opening.unit, keys=[opening.dataset_id], noise=noise)
    shard = Shard(records, noise, ranks)
    shard.require_consistent(data.spec.to_json(), opening.unit)
    step: Any = None
    while (order := ranks.tell()) is not None:
        if order == CHECK:
            shard.require_disjoint(opening.unit)
            continue
        if order.step is None:
            step.load_weights(order.weights)
        else:
            step = order.step if order.device == "cpu" else order.step.to_device(order.device, ranks.rank)
        shard.mean(order, step)


def share_std(scale: float, ranks: int) -> float:
    """Standard deviation of one rank's share: together they have the variance scale^2."""
    return scale / math.sqrt(ranks)


def require_answers(part: str, slots: Int64, token: int) -> None:
    """Refuse a sum to which not every rank added once, and for this step."""
    # slots: [K], what arrived in the place of each rank
    if (slots != token).any():
        raise _rank_error(part, "no answer, or another than to this step")


def require_room(part: Part, unit: Unit) -> None:
    """Refuse a part whose sums over the whole population are beyond `MOST`."""
    assert isinstance(part, PoissonSum)
    assert part.noise_multiplier is not None
    if unit.size * part.clip_norm / share_unit(part.noise_multiplier * part.clip_norm, part.clip_norm) > MAX_SUM:
        what = "sums over the population do not fit the whole numbers that ranks send"
        expected = f"a population of at most 2^33 times the noise multiplier, {part.noise_multiplier:g}"
        remedy = "add more noise, or open a Vault in one process"
        raise PlanError(what, where=f"part {part.name!r}", expected=expected, remedy=remedy)


def _rank_error(part: str, kind: str) -> MechanismError:
    what = f"a rank failed in the step ({kind}); the step is burnt, and nothing was released"
    remedy = "see what that rank wrote, and start the ranks again: the run goes on with the steps that are left"
    return MechanismError(what, where=part, expected="every rank's answer to this step, once", remedy=remedy)


def _word(digest: bytes) -> int:
    """A whole number of 62 bits, never 0."""
    return int.from_bytes(digest[:8], "little") % (2**62 - 1) + 1
