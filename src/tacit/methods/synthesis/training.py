"""The trainer of synthesizers: noisy gradients from a vault, with checkpoints, and steps on public rows before them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.errors import PlanError
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import DiffusionPlan, Pretraining, Progress, scheduled_rate
from tacit.methods.synthesis.table_matching import PART as HISTOGRAMS
from tacit.methods.synthesis.table_matching import release_histograms
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.gradients.clipped_sums import assign_gradient
from tacit.privacy.ledger import checkpoint
from tacit.privacy.mechanisms.base import Objective
from tacit.privacy.vault.base import exhausted_error
from tacit.privacy.vault.plan import plan_id
from tacit.privacy.vault.vault import Vault

Observe = Callable[[int, Any, Tensor], None]
"""Called as (step of the model, model, gradient) with what a step released: the noisy mean gradient [P], in the order
of `model.parameters()`, and the weights at which it was taken, before they are updated. Both are public, and must not
be changed."""

PublicProgress = Callable[[int, int, float], None]
"""Called after each public step with (steps done, steps in all, loss of the public batch)."""

Batch = TypeVar("Batch")
Value = TypeVar("Value")


class MovingAverage:
    """Exponential moving average of a module's parameters, with the early steps weighted fairly.

    After update t (1, 2, ...) the decay used is min(decay, t / (t + 10)), so that the random start is forgotten in
    runs that are not much longer than 1 / (1 - decay).

    Args:
        module: whose parameters are averaged; copied at once.
        decay: in [0, 1); 0 keeps the latest weights.
        every: `update` acts on each `every`-th call.
    """

    def __init__(self, module: nn.Module, *, decay: float, every: int = 1) -> None:
        self.decay, self.every, self.calls = decay, every, 0
        self.names = [name for name, _ in module.named_parameters()]
        self.values = [value.detach().clone() for value in module.parameters()]

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Take in the module's present weights."""
        self.calls += 1
        if self.calls % self.every:
            return
        count = self.calls // self.every
        weight = 1 - min(self.decay, count / (count + 10))
        torch._foreach_lerp_(self.values, [value.detach() for value in module.parameters()], weight)

    def state(self) -> dict[str, Tensor]:
        """The averaged parameters by name, on the CPU."""
        return copy_to_cpu(dict(zip(self.names, self.values, strict=True)))


def copy_to_cpu(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of the tensors in the memory of the machine itself."""
    return {name: value.detach().to("cpu", copy=True) for name, value in state.items()}


@torch.no_grad()
def load_parameters(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Copy parameters by name; every parameter must be there, and nothing else."""
    parameters = dict(module.named_parameters())
    if parameters.keys() != state.keys():
        raise KeyError(f"parameters differ: {sorted(parameters.keys() ^ state.keys())}")
    for name, value in parameters.items():
        value.copy_(state[name])


class TrainingState:
    """All that the training of one network carries from step to step, all of it public."""

    def __init__(self, network: nn.Module, plan: DiffusionPlan) -> None:
        self.network = network
        self.average = MovingAverage(network, decay=plan.ema, every=plan.ema_every)
        self.parameters = list(network.parameters())
        self.adam = torch.optim.Adam(self.parameters, lr=plan.learning_rate, betas=plan.betas, fused=True)

    def update(self, gradient: Tensor, *, learning_rate: float) -> None:
        """One Adam step on a noisy gradient [P], then the moving average."""
        assign_gradient(self.network, gradient)
        self.adam.param_groups[0]["lr"] = learning_rate
        self.adam.step()
        self.average.update(self.network)

    def tensors(self) -> dict[str, Tensor]:
        """The state by name, for a checkpoint."""
        tensors = {"average.calls": torch.tensor(self.average.calls)}
        for name, p, mean in zip(self.average.names, self.parameters, self.average.values, strict=True):
            tensors |= {f"weights.{name}": p, f"average.{name}": mean}
            tensors |= {f"adam.{key}.{name}": value for key, value in self.adam.state[p].items()}
        return tensors

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take up the state that `tensors` wrote."""
        self.average.calls = int(tensors["average.calls"])
        for name, p, mean in zip(self.average.names, self.parameters, self.average.values, strict=True):
            p.copy_(tensors[f"weights.{name}"])
            mean.copy_(tensors[f"average.{name}"])
            keys = ("step", "exp_avg", "exp_avg_sq")
            self.adam.state[p] = {key: tensors[f"adam.{key}.{name}"].to(p.device, copy=True) for key in keys}


class Training:
    """A run of a plan: its networks, the noisy gradients and histograms that it takes, and its checkpoints.

    Args:
        plan: calibrated for the vault's unit.
        vault: the private rows and their ledger.
        models: by the names of the parts that train them; of each, `network` is trained.
        folder: where checkpoints go, after every block of claimed steps.
        resume: go on from the checkpoint, or from the start where a run was stopped before its first one.
        progress: called after each noisy gradient.

    Raises:
        PlanExhausted: the plan was begun or finished already, and this is not a resumption.
        BudgetExceeded: the ledger cannot pay for the plan.
    """

    def __init__(
        self,
        plan: DiffusionPlan,
        vault: Vault,
        models: Mapping[str, nn.Module],
        *,
        folder: Path | None,
        resume: bool,
        progress: Progress | None,
    ) -> None:
        self._plan, self._vault, self._models, self._progress = plan, vault, models, progress
        self._path = folder / "checkpoint.safetensors" if folder is not None else None
        saved = None
        if resume and self._path is not None and self._path.exists():  # one that is refused costs nothing
            saved = checkpoint.load(self._path, plan_id=plan_id(plan), ledger=vault.ledger)
        self._run = vault.reserve(plan)
        self._states = {part: TrainingState(model.network, plan) for part, model in models.items()}  # type: ignore[arg-type]
        self._histograms: list[NDArray[np.float64]] = []
        self.trained = tuple(part for part in plan.parts() if part.name in models)
        if saved is not None:
            self._load(saved)
        elif vault.has_started(self._run):
            needed = [part.name for part in self.trained or plan.parts()]
            if not (resume and any(vault.steps_left(self._run, part) for part in needed)):
                raise exhausted_error(self._run, needed[-1])

    def descend(
        self,
        part: str,
        objective: Objective,
        *,
        learning_rate: Callable[[int], float],
        observe: Observe | None = None,
        added: Callable[[int], Tensor] | None = None,
    ) -> None:
        """Take all noisy gradients of a part that are left, and with each a step of Adam and of the moving average."""
        # added: to the noisy gradient of a step: a public one [P]
        run, vault, model, state = self._run, self._vault, self._models[part], self._states[part]
        while vault.steps_left(run, part):
            step = vault.next_step(run, part)
            gradient = vault.noisy_gradient(run, part, [model], objective)[0]
            if observe is not None:
                observe(step, model, gradient)
            if added is not None:
                gradient = gradient + added(step)
            state.update(gradient, learning_rate=learning_rate(step))
            self._save_checkpoint(part)
            if self._progress is not None:
                total = sum(trained_part.steps for trained_part in self.trained)
                left = sum(vault.steps_left(run, trained_part.name) for trained_part in self.trained)
                self._progress(total - left, total)

    def release_histograms(self) -> None:
        """Take all noisy sums of the plan's histograms that are left, if it has any."""
        if self._plan.matching is not None:
            for histograms in release_histograms(self._vault, self._run, HISTOGRAMS, self._plan.matching.tables):
                self._histograms.append(histograms)
                self._save_checkpoint(HISTOGRAMS)

    def average(self, part: str) -> dict[str, Tensor]:
        """The averaged weights of a part's network, by name."""
        return self._states[part].average.state()

    @property
    def histograms(self) -> tuple[NDArray[np.float64] | None, int]:
        """The mean of the noisy sums of histograms that were taken (None without any), and how many these are."""
        sums = self._histograms
        return (np.asarray(np.mean(sums, axis=0)) if sums else None), len(sums)

    def release(self, value: Value) -> Release[Value]:
        """The value with its certificate."""
        return self._vault.release(self._run, value, label=self._plan.label())

    def _prefix(self, part: str) -> str:
        """What stands before the names of a part's tensors in a checkpoint."""
        return "" if len(self._states) == 1 else f"{part}."

    def _save_checkpoint(self, part: str) -> None:
        if self._path is None or not self._vault.is_block_end(self._run, part):
            return
        tensors = {
            f"{self._prefix(name)}{key}": tensor
            for name, state in self._states.items()
            if state.average.calls
            for key, tensor in state.tensors().items()
        }
        if self._histograms:
            tensors[HISTOGRAMS] = torch.from_numpy(np.stack(self._histograms))
        checkpoint.save(self._path, tensors, plan_id=self._run.plan_id, ledger=self._vault.ledger)

    def _load(self, saved: Mapping[str, Tensor]) -> None:
        self._histograms = list(saved[HISTOGRAMS].numpy()) if HISTOGRAMS in saved else []
        for part, state in self._states.items():
            prefix = self._prefix(part)
            arrays = {name.removeprefix(prefix): value for name, value in saved.items() if name.startswith(prefix)}
            if arrays.keys() - {HISTOGRAMS}:
                state.load(arrays)


class StartingPoint(Protocol):
    """A starting point that owes nothing to private data."""

    @property
    def encoder(self) -> Encoder:
        """The public constants of the encoding."""

    @property
    def provenance(self) -> str:
        """Where public rows came from; "none" when there were none."""


AnyStart = TypeVar("AnyStart", bound=StartingPoint)


def starting_point(
    plan: DiffusionPlan,
    vault: Vault,
    pretrained: AnyStart | Mapping[Pretraining, AnyStart] | None,
    random: Callable[[Encoder], AnyStart],
    *,
    where: str,
) -> AnyStart:
    """Where training begins: as the plan declares, with an encoder of the private data's own public bounds."""
    # vault: the private rows
    if plan.matching is not None:
        plan.matching.require(vault.spec)
    declared, bounds = "none" if plan.pretraining is None else plan.pretraining.provenance, vault.spec
    start: AnyStart | None
    if isinstance(pretrained, Mapping):
        start = None if plan.pretraining is None else pretrained.get(plan.pretraining)
    else:
        start = pretrained
    if start is None and plan.pretraining is None:
        start = random(Encoder.from_bounds(bounds))
    if start is None or start.provenance != declared:
        what = "the starting point is not the pre-training that the plan declares"
        expected = f"pretrained= with the provenance {declared!r}"
        remedy = f"pass the result of {where}.pretrain(plan, ...) for this very plan"
        raise PlanError(what, where=f"{where}.fit", expected=expected, remedy=remedy)
    if start.encoder.spec != bounds:
        what = "the starting point encodes rows with other public bounds than the private data declare"
        expected, remedy = "an encoder of the private data's own public spec", "build the encoder from vault.spec"
        raise PlanError(what, where=f"{where}.fit", expected=expected, remedy=remedy)
    if declared == "none" and start.encoder != Encoder.from_bounds(bounds):
        what = "the encoder's constants come from rows that no pre-training declares"
        expected = "an encoder made from the bounds alone, where the plan has no pre-training"
        remedy = "use Encoder.from_bounds(vault.spec), or declare the public rows in plan.pretraining"
        raise PlanError(what, where=f"{where}.fit", expected=expected, remedy=remedy)
    return start


def train_publicly(
    network: nn.Module,
    batches: Iterable[Batch],
    loss: Callable[[Batch], Tensor],
    config: Pretraining,
    progress: PublicProgress | None,
) -> dict[str, Tensor]:
    """AdamW on batches of public rows."""
    # returns: The averaged weights by name
    average = MovingAverage(network, decay=config.ema, every=config.ema_every)
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay, fused=True
    )
    for step, batch in zip(range(config.steps), batches, strict=False):
        rate = scheduled_rate(config.learning_rate, step, config.steps, config.warmup, config.schedule)
        optimizer.param_groups[0]["lr"] = rate
        value = loss(batch)
        optimizer.zero_grad(set_to_none=True)
        value.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), config.clip_norm)
        optimizer.step()
        average.update(network)
        if progress is not None:
            progress(step + 1, config.steps, value.item())
    return average.state()


def load_pretrained(network: nn.Module, weights: Mapping[str, Tensor], *, where: str, expected: str) -> None:
    """Copy pre-trained weights by name."""
    if {name: value.shape for name, value in network.named_parameters()} != {
        name: value.shape for name, value in weights.items()
    }:
        what = "the pre-trained weights are those of another network"
        raise PlanError(what, where=where, expected=expected, remedy="pre-train with the plan that is fine-tuned")
    load_parameters(network, weights)
