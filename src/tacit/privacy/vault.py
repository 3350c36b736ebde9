"""The vault: the only file that reads private records.

Records and ledger live behind one object with three kinds of door (two of them here). A door claims its steps from the
ledger *before* it reads a record, bounds what each unit can contribute, adds secret noise and hands out a public
value. Whatever is done with what a door returned is post-processing and costs nothing.

Proof pages: `proofs/noisy_sum.md`, `proofs/ledger.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from tacit.data.trajectories import Trajectories
from tacit.errors import DataError, DoorError, LedgerError, PlanError, PlanExhausted, TacitError
from tacit.privacy import accounting, clipping, decoys, labels
from tacit.privacy import plan as plans
from tacit.privacy.ledger import Ledger, RdpOrder
from tacit.privacy.noise import SecretNoise
from tacit.privacy.plan import Once, Plan, PoissonSum
from tacit.privacy.release import Release
from tacit.privacy.sampling import poisson_sample, rows_within_units

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

LEAST_CHARGE = 1e-9
"""What a plan is charged whose delta alone covers it (certified epsilon 0)."""

Rows = Mapping[str, np.ndarray]
Value = TypeVar("Value")


class Contribution(Protocol):
    """What one unit adds to a noisy sum: a frozen dataclass whose fields are public."""

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        """Rows of U units, each column [U, L, ...] with `mask` [U, L] and `replicate` [U] -> contributions [U, d]."""


class Objective(Protocol):
    """A loss whose clipped per-unit gradients are summed: a frozen dataclass whose fields are public."""

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        """Random tensors for one step, each with leading axis `units` (secret, independent of the records)."""

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """Columns [U, L, ...], `mask` [U, L] and the draws -> one loss a unit [U]."""


@dataclass(frozen=True)
class Run:
    """A plan that a ledger has admitted, by its id, with its certified price."""

    plan: Plan
    plan_id: str
    bound: accounting.Bound

    def sum_part(self, name: str) -> PoissonSum:
        """The plan's part of this name, which must be a noisy sum."""
        for part in self.plan.parts():
            if part.name == name and isinstance(part, PoissonSum):
                return part
        raise _wrong_part(self.plan, name, [p.name for p in self.plan.parts() if isinstance(p, PoissonSum)])

    def once_part(self, name: str) -> Once:
        """The plan's part of this name, which must be a single release."""
        for part in self.plan.parts():
            if part.name == name and isinstance(part, Once):
                return part
        raise _wrong_part(self.plan, name, [p.name for p in self.plan.parts() if isinstance(p, Once)])


class Vault:
    """Private records and the ledger that pays for every touch of them.

    Args:
        data: the records; sealed on entry (simulated records stay readable).
        ledger: the budget of these records. Simulated records may have R ledgers: every door then runs R independent
            replicates in one fused pass, each paid by its own ledger.
        noise: a seeded source for tests only; it voids the ledgers.

    Guarantee: whatever leaves through the doors under plans admitted by a ledger satisfies that ledger's
    (epsilon, delta) for its unit, under the assumptions that every certificate prints.

    Raises:
        DataError: the records are in another vault, or hold more units than the declared population.
        LedgerError: several ledgers for records that are not simulated, or ledgers that differ in unit.
    """

    def __init__(
        self, data: Trajectories, ledger: Ledger | Sequence[Ledger], *, noise: SecretNoise | None = None
    ) -> None:
        ledgers = (ledger,) if isinstance(ledger, Ledger) else tuple(ledger)
        if (
            not ledgers
            or len({one.unit for one in ledgers}) != 1
            or len({one.dataset_id for one in ledgers}) != len(ledgers)
        ):
            raise _refused("the ledgers are missing, repeated or bound to different units", "one ledger a replicate")
        if len(ledgers) > 1 and not data.simulated:
            raise _refused("several ledgers for one private dataset", "one ledger a dataset: each would spend anew")
        self.ledgers = ledgers
        self.unit = ledgers[0].unit
        self.spec = data.spec
        self.simulated = data.simulated
        self._noise = noise or SecretNoise()
        order, offsets = data._unit_rows
        self._order, self._offsets = order, offsets
        self._units = len(offsets) - 1
        if self._units > self.unit.size:
            raise DataError(
                f"the data hold more {self.unit.name}s than the declared population",
                where="Vault",
                expected=f"at most {self.unit.size:,}",
                remedy="declare a population that covers everybody, in a new ledger",
            )
        data._seal()
        self._data = data
        if self._noise.seeded:
            for one in ledgers:
                one.void("seeded noise: anyone who knows the seed can subtract it")
        self._claimed: dict[tuple[str, str], range] = {}
        self._tried: set[tuple[object, ...]] = set()
        self._tried_models: WeakKeyDictionary[object, set[tuple[object, ...]]] = WeakKeyDictionary()
        self._callbacks: set[str] = set()

    @property
    def ledger(self) -> Ledger:
        """The first (for private records the only) ledger."""
        return self.ledgers[0]

    def __reduce__(self) -> tuple[object, ...]:
        raise _refused("a vault cannot be copied or pickled", "one process and one vault a dataset")

    # -- paying ---------------------------------------------------------------------------------------------------

    def reserve(self, plan: Plan) -> Run:
        """Charge the whole plan; the same plan again reopens what it has left, at no cost.

        Raises:
            PlanError: the plan is not calibrated, was edited, or names another unit than the ledger.
            BudgetExceeded: the ledger cannot pay; nothing was charged.
        """
        if plan.unit != self.unit:
            raise PlanError(
                f"the plan protects {plan.unit}, the ledger {self.unit}",
                where=f"{plan.method} plan",
                expected="the ledger's own unit, relation and population",
                remedy="calibrate the plan with unit=vault.unit",
            )
        bound = plans.bound(plan)
        assert plan.epsilon is not None
        assert plan.delta is not None
        identity = plans.plan_id(plan)
        assert plan.unit is not None
        assert plan.unit.relation is not None
        relation, described = plan.unit.relation, plans.describe(plan)
        steps = {part.name: part.steps for part in plan.parts()}
        charged = max(bound.epsilon, LEAST_CHARGE)
        for ledger in self.ledgers:
            rdp = None
            if isinstance(ledger.composition, RdpOrder):
                rdp = accounting.renyi(plans.event(plan), order=ledger.composition.order, relation=relation)
            ledger.reserve(identity, described, parts=steps, epsilon=charged, delta=plan.delta, rdp=rdp)
        return Run(plan, identity, bound)

    def steps_left(self, run: Run, part: str) -> int:
        """How many steps of this part may still run."""
        held = self._claimed.get((run.plan_id, part), range(0))
        return len(held) + self.ledger.steps(run.plan_id, part) - self.ledger.claimed(run.plan_id, part)

    def touched(self, run: Run) -> bool:
        """Whether any step of the run has been claimed, now or in an earlier process."""
        return any(self.ledger.claimed(run.plan_id, part.name) for part in run.plan.parts())

    def next_step(self, run: Run, part: str) -> int:
        """The index of the step that the next call of the door will run, claiming its block if need be.

        Raises:
            PlanExhausted: every step has been claimed.
        """
        held = self._claimed.get((run.plan_id, part), range(0))
        if not held:
            block = max(1, self.ledger.steps(run.plan_id, part) // 100)
            ranges = {ledger.claim(run.plan_id, part, block) for ledger in self.ledgers}
            if len(ranges) != 1:
                raise _refused("the replicates' ledgers are at different steps", "ledgers that began together")
            held = self._claimed[run.plan_id, part] = ranges.pop()
        return held.start

    def at_block_end(self, run: Run, part: str) -> bool:
        """Whether every claimed step has been run: the moment at which a checkpoint loses nothing."""
        return not self._claimed.get((run.plan_id, part), range(0))

    def _take(self, run: Run, part: str) -> None:
        step = self.next_step(run, part)
        held = self._claimed[run.plan_id, part]
        self._claimed[run.plan_id, part] = range(step + 1, held.stop)

    # -- the doors ------------------------------------------------------------------------------------------------

    def noisy_sum(self, run: Run, part: str, contribution: Contribution, state: Any = None) -> np.ndarray:
        """One noisy mean of clipped contributions over a fresh Poisson sample, shape [R, d], float64.

        Guarantee: each replicate is one step of the part's event. Every unit's contribution is clipped to norm
        `clip` (non-finite ones count as zero); the sum gets N(0, (noise_multiplier * clip)^2) a coordinate, an empty
        sample too; the divisor is the public constant rate * population.

        Raises:
            PlanExhausted: no step is left. DoorError: the callback couples units or has the wrong shape.
        """
        spec = run.sum_part(part)
        d = self._try_contribution(spec, contribution, state)
        self._take(run, part)

        def step() -> np.ndarray:
            rows = self._sample(spec)
            vectors = np.asarray(contribution(rows, state), np.float64)
            if vectors.shape != (len(rows["replicate"]), d):
                raise ValueError("not one vector a unit")
            total = np.zeros((len(self.ledgers), d))
            np.add.at(total, rows["replicate"], clipping.clip_rows(vectors, spec.clip))
            return total

        return self._noised(_behind(part, step), spec)

    def noisy_gradient(self, run: Run, part: str, models: Sequence[nn.Module], objective: Objective) -> Tensor:
        """One noisy mean of clipped per-unit gradients, shape [R, P], float32: one model a replicate.

        P runs over the trainable parameters in the order of `model.parameters()`; `assign_gradient` puts a row of
        the result into `p.grad`.

        Guarantee: as `noisy_sum`, with each unit's loss gradient as its contribution. The objective's random draws
        come from the vault's secret source and are independent between units.

        Raises:
            PlanExhausted: no step is left.
            DoorError: the model or the objective mixes units, or a trainable parameter got no fresh norm.
        """
        import torch

        from tacit.privacy.gradients import clipped_sum

        spec = run.sum_part(part)
        sizes = {sum(p.numel() for p in model.parameters() if p.requires_grad) for model in models}
        if len(models) != len(self.ledgers) or len(sizes) != 1:
            expected = f"{len(self.ledgers)} of one size: one a ledger"
            raise DoorError(f"{len(models)} models", where=part, expected=expected, remedy="pass [model]")
        for model in models:
            self._try_objective(spec, model, objective)
        self._take(run, part)
        size = sizes.pop()
        shape, sigma = (len(models), size), _sigma(spec) * spec.clip
        flat = torch.from_numpy(self._noise.gaussian(len(models) * size, sigma)).view(shape)
        flat = flat.to(next(models[0].parameters()).device)

        def step() -> Tensor:
            rows = self._sample(spec)
            starts = np.searchsorted(rows["replicate"], np.arange(len(models) + 1)).tolist()
            generator = torch.Generator().manual_seed(self._noise.seed64() >> 1)
            for model, noisy, start, stop in zip(models, flat, starts, starts[1:], strict=False):
                tensors = {name: torch.from_numpy(column[start:stop]) for name, column in rows.items()}
                tensors |= objective.draw(generator, stop - start, spec.rows_per_unit)
                tensors = {name: tensor.to(flat.device) for name, tensor in tensors.items()}
                clipped_sum(model, objective.loss, tensors, spec.clip, add_to=noisy)
            return flat

        return _behind(part, step).div_(spec.rate * self.unit.size)

    def release_once(self, run: Run, part: str) -> np.ndarray:
        """One mechanism of `tacit.privacy.mechanisms` over all units, shape [R, ...].

        Guarantee: the mechanism's own, on its proof page; its single step is claimed before a record is read.

        Raises:
            DoorError: the mechanism is not one of tacit's. PlanExhausted: it has been released already.
        """
        mechanism: Any = run.once_part(part).mechanism
        if not type(mechanism).__module__.startswith("tacit.privacy.mechanisms."):
            raise DoorError(
                f"{type(mechanism).__qualname__} is not a mechanism of tacit",
                where=f"release_once({part!r})",
                expected="a class of tacit.privacy.mechanisms, with its proof page",
                remedy="bring your statistic into one of the proved mechanisms",
            )
        decoys.require_pure_form(mechanism, where=part)
        decoys.try_on_decoys(mechanism.contributions, self.spec, mechanism.rows_per_unit, where=part)
        self._take(run, part)
        rows_per_unit = mechanism.rows_per_unit
        size = max(1, 4_000_000 // max(1, rows_per_unit * mechanism.size))

        def step() -> np.ndarray:
            values = []
            for _ in self.ledgers:
                starts = range(0, self._units, size)
                chunks = (self._rows(np.arange(s, min(s + size, self._units)), rows_per_unit) for s in starts)
                values.append(mechanism.release(chunks, self._noise, self.unit))
            return np.stack(values)

        return _behind(part, step)

    def release(self, run: Run, value: Value, *, label: labels.Label) -> Release[Value]:
        """Put a value that came out of the run's doors together with its certificate."""
        certificate = labels.certify(
            run.plan, run.plan_id, self.ledger, label, simulated=self.simulated, callbacks=sorted(self._callbacks)
        )
        return Release(value, certificate)

    def nonprivate(self, fn: Callable[[Rows], Value], *, reason: str, folder: Path | None = None) -> Value:
        """The curator's own look at the records: entered in the ledger, never part of a release.

        Args:
            fn: gets all columns (row-wise, [T, ...]).
            reason: why; written into the ledger.
            folder: if given, the result is also written as JSON under `folder/private/`, with a banner.
        """
        self.ledger.note("nonprivate", reason)
        result = fn(self._data._columns)
        if folder is not None:
            name = re.sub(r"[^a-z0-9]+", "-", reason.lower()).strip("-")[:60] or "look"
            path = folder / "private" / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            banner = "PRIVATE: computed from the records without noise; do not publish"
            path.write_text(
                json.dumps({"banner": banner, "reason": reason, "result": result}, indent=1, default=_plain)
            )
        return result

    # -- inside ---------------------------------------------------------------------------------------------------

    def _sample(self, spec: PoissonSum) -> dict[str, np.ndarray]:
        """A Poisson sample for all replicates at once: trial r * units + u decides about unit u in replicate r."""
        trials = poisson_sample(self._units * len(self.ledgers), spec.rate, self._noise)
        replicate, units = np.divmod(trials, max(1, self._units))
        return {**self._rows(units, spec.rows_per_unit), "replicate": replicate}

    def _rows(self, units: np.ndarray, rows_per_unit: int) -> dict[str, np.ndarray]:
        where, mask = rows_within_units(self._offsets, units, rows_per_unit, self._noise)
        positions = self._order[where]
        return {**{name: column[positions] for name, column in self._data._columns.items()}, "mask": mask}

    def _noised(self, total: np.ndarray, spec: PoissonSum) -> np.ndarray:
        noise = self._noise.gaussian(total.size, _sigma(spec) * spec.clip).reshape(total.shape)
        result: np.ndarray = (total + noise) / (spec.rate * self.unit.size)
        return result

    def _try_contribution(self, spec: PoissonSum, contribution: Contribution, state: Any) -> int:
        """Try the callback on decoys (once a run and callback) and return the width of its vectors."""
        decoys.require_pure_form(contribution, where=spec.name)
        rows = decoys.decoy_rows(self.spec, 1, spec.rows_per_unit, seed=2)
        width = np.asarray(contribution({**rows, "replicate": np.zeros(1, np.int64)}, state)).shape
        if len(width) != 2:
            raise DoorError(f"shape {width}", where=spec.name, expected="[units, d]", remedy="return a vector a unit")
        if (spec, contribution) not in self._tried:
            zeros = np.zeros(5, np.int64)
            decoys.try_on_decoys(
                lambda r: np.asarray(contribution({**r, "replicate": zeros}, state)),
                self.spec,
                spec.rows_per_unit,
                where=spec.name,
            )
            self._remember(spec, contribution)
        return int(width[1])

    def _try_objective(self, spec: PoissonSum, model: nn.Module, objective: Objective) -> None:
        """Try the objective on decoys, once a model: a full step runs, losses stay apart, no statistics are kept."""
        import torch

        from tacit.privacy.gradients import clipped_sum

        if (spec, objective) in self._tried_models.setdefault(model, set()):
            return
        decoys.require_pure_form(objective, where=spec.name)
        draws = objective.draw(torch.Generator().manual_seed(0), 5, spec.rows_per_unit)
        device = next(model.parameters()).device

        def losses(rows: Rows) -> np.ndarray:
            tensors = {name: torch.from_numpy(np.asarray(column)) for name, column in rows.items()} | draws
            with torch.no_grad():
                result: np.ndarray = objective.loss(model, {k: v.to(device) for k, v in tensors.items()}).cpu().numpy()
            return result

        before = [buffer.clone() for buffer in model.buffers()]
        decoys.try_on_decoys(losses, self.spec, spec.rows_per_unit, where=spec.name)
        if any(not torch.equal(old, new) for old, new in zip(before, model.buffers(), strict=True)):
            raise DoorError(
                "the model's buffers change when rows pass through it",
                where=spec.name,
                expected="a model without running statistics",
                remedy="use LayerNorm or GroupNorm instead of BatchNorm",
            )
        rows = decoys.decoy_rows(self.spec, 5, spec.rows_per_unit, seed=2)
        tensors = {name: torch.from_numpy(column) for name, column in rows.items()} | draws
        clipped_sum(model, objective.loss, {k: v.to(device) for k, v in tensors.items()}, spec.clip)
        self._remember(spec, objective)
        self._tried_models[model].add((spec, objective))

    def _remember(self, spec: PoissonSum, callback: object) -> None:
        self._tried.add((spec, callback))
        if not type(callback).__module__.startswith("tacit."):
            self._callbacks.add(type(callback).__qualname__)


def _behind(part: str, step: Callable[[], Value]) -> Value:
    """Run a step; nothing record-dependent is raised, not even in a traceback's frames or an error's context."""
    try:
        return step()
    except KeyboardInterrupt:
        failure: BaseException = KeyboardInterrupt()
    except SystemExit as stop:
        failure = SystemExit(stop.code if isinstance(stop.code, int) else 1)
    except BaseException as error:
        failure = error.with_traceback(None) if _of_tacit(error) else _failed(part, type(error).__name__)
    failure.__cause__ = failure.__context__ = None
    raise failure


def _failed(part: str, kind: str) -> DoorError:
    return DoorError(
        f"the step failed behind the door ({kind}); it stays claimed and nothing was released",
        where=part,
        expected="a callback that runs on any rows within the public bounds",
        remedy="try the callback on invented rows of your own, where its whole message can be seen",
    )


def _of_tacit(error: BaseException) -> bool:
    """Whether it is one of tacit's own errors, raised by tacit's own code: those name public things only."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    return isinstance(error, TacitError) and module.startswith("tacit.")


def exhausted(run: Run, part: str) -> PlanExhausted:
    """The error of a run that was begun or finished before and cannot be begun anew."""
    return PlanExhausted(
        "the plan was run before, and a claimed step is never run again",
        where=f"{run.plan.method} plan {run.plan_id}, part {part!r}",
        expected="a plan that is new to the ledger, or the run's checkpoint",
        remedy="pass resume=True with the run's folder, or calibrate a new plan within the ledger's budget",
    )


def _sigma(spec: PoissonSum) -> float:
    assert spec.noise_multiplier is not None
    return spec.noise_multiplier


def _wrong_part(plan: Plan, name: str, known: list[str]) -> PlanError:
    return PlanError(
        f"the plan has no such part {name!r} for this door",
        where=f"{plan.method} plan",
        expected=f"one of {known}",
        remedy="name a part of the plan",
    )


def _refused(what: str, expected: str) -> LedgerError:
    return LedgerError(what, where="Vault", expected=expected, remedy="open one vault over one dataset and its ledger")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
