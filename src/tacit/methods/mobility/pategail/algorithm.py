"""PateGAIL++: a policy of movement from the noisy rewards of critics that never leave their people's devices.

Input: devices behind a vault; a calibrated plan (T, N, kind, critics, PPO, sigma)
1. release where days begin and how far people go                                  (mobility.places)
2. for k = 1 .. T:
3.     play public days with the policy; states hold no places                     (training.Learner.play)
4.     every device trains its critic against them on its own days, and answers:
       rewards calibrated to [-1/2, 1/2], times public weights         (rewards.py, critics.py, asking.py)
5.     R <- (sum of clipped answers + noise) / N, over the weights                 (vault.noisy_sum)
6.     PPO on the public days with R; the weights' moving average follows          (training.Learner.learn)
7. release the averaged policy, the starts and the jumps: whatever is generated is post-processing
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.mobility.grids import Grid
from tacit.envs import movement
from tacit.errors import PlanError
from tacit.methods.mobility.pategail.asking import RewardServer, weights
from tacit.methods.mobility.pategail.critics import ACTIONS, DECISIONS
from tacit.methods.mobility.pategail.plan import CRITICS, Allocate, PateGailPlan
from tacit.methods.mobility.pategail.training import PpoLearner
from tacit.methods.mobility.places import JUMPS, STARTS, HomeSums, JumpSums
from tacit.methods.mobility.simulator import Simulator
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.base import Contribution, Work
from tacit.privacy.vault.base import Run, exhausted_error
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.invented import try_public
from tacit.privacy.vault.plan import plan_id

Array = NDArray[Any]

Progress = Callable[[int, int], None]
"""Called after each round with (rounds done, rounds in all): both are public."""


def fit(
    plan: PateGailPlan,
    vault: FederatedVault,
    *,
    grid: Grid,
    starts: movement.StartSampler | None = None,
    space: movement.Space | None = None,
    allocate: Allocate | None = None,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Release[Simulator]:
    """Learn a simulator of movement from people's critics, under the plan's promise.

    Args:
        plan: calibrated (or priced) for the vault's unit.
        vault: the devices and the ledger.
        grid: the public grid of the records' cells.
        starts, space: where days begin and exploring leads, public, for a plan with starts "given" alone.
        allocate: the caller's split of a round's budget, for a plan with the allocation "own" alone.
        seed: of the public rollouts and first weights; a checkpoint has the generator's state.
        folder: where checkpoints go (released and public values only): after starts and jumps, and after every block of
            claimed rounds (1 % of them, one at least).
        resume: go on from `folder`'s checkpoint, or from the start where nothing was lost before its first one. Rounds
            that were claimed and not kept are lost. Critics are never written: they begin again in one process, and
            devices of their own keep theirs.
        progress: called after each round.

    Raises:
        PlanError: the arguments do not fit the plan, the grid not the records or the checkpoint.
        FileError, LedgerError: the checkpoint is damaged, or another plan's or ledger's.
        PlanExhausted: the plan was begun or finished already, and this is no resumption; or the run was cut while its
            starts or jumps were asked for, which are asked for once. BudgetExceeded: the ledger cannot pay.
    """
    _require_fit(plan, vault, grid, starts, space, allocate)
    rng = np.random.default_rng(seed)
    learner = PpoLearner(plan.ppo, plan.embedding, last=plan.last, seed=seed)
    _try_given(plan, Simulator(grid, learner.table(), starts, space) if starts and space else None, allocate)
    server = RewardServer(plan, learner, allocate, rng)
    state, path = RunState(plan, grid, learner, server, rng), _checkpoint(folder, resume)
    if resume and path is not None and path.exists():  # one that is refused costs nothing
        state.load(path, vault)
    run = vault.reserve(plan)
    _require_left(plan, vault, run, state, resume)
    contributions = build_contributions(plan, grid)
    if starts is None or space is None:
        if not state.means:
            state.means.update({part: vault.noisy_sum(run, part, contributions[part])[0] for part in (STARTS, JUMPS)})
            state.save(path, run, vault)
        homes, jumps = contributions[STARTS], contributions[JUMPS]
        assert isinstance(homes, HomeSums)
        assert isinstance(jumps, JumpSums)
        starts = homes.read(state.means[STARTS], plan.noise_std(STARTS))
        space = jumps.read(state.means[JUMPS], plan.noise_std(JUMPS))
    for k in range(plan.rounds - vault.steps_left(run, CRITICS), plan.rounds):
        rollouts = learner.play(plan.days, rng)
        public = server.make_query(rollouts)
        server.take_answer(vault.noisy_sum(run, CRITICS, contributions[CRITICS], public)[0], rollouts)
        for update in range(plan.updates):
            server.learn(learner.play(plan.days, rng) if update else rollouts)
        if vault.is_block_end(run, CRITICS):
            state.save(path, run, vault)
        if progress is not None:
            progress(k + 1, plan.rounds)
    simulator = Simulator(grid=grid, policy=learner.table(averaged=True), starts=starts, space=space)
    return vault.release(run, simulator, label=plan.label())


def build_contributions(plan: PateGailPlan, grid: Grid) -> dict[str, Work | Contribution]:
    """What every device computes for each part of a calibrated plan: what devices and server agree on before."""
    contributions: dict[str, Work | Contribution] = {CRITICS: plan.work()}
    if plan.starts != "given":
        contributions[STARTS] = HomeSums.for_people(grid, plan.people, plan.noise_std(STARTS))
        contributions[JUMPS] = JumpSums.from_grid(grid)
    return contributions


def _require_fit(
    plan: PateGailPlan,
    vault: FederatedVault,
    grid: Grid,
    starts: movement.StartSampler | None,
    space: movement.Space | None,
    allocate: Allocate | None,
) -> None:
    given = (starts is not None, space is not None)
    if given != ((True, True) if plan.starts == "given" else (False, False)):
        raise _fit_error(
            "the plan and starts=, space= do not fit each other",
            'both with a plan of starts="given", and neither with another',
        )
    if (plan.allocation == "own") != (allocate is not None):
        raise _fit_error("the plan and allocate= do not fit each other", 'allocate= with allocation="own" alone')
    size = getattr(vault.spec.observation, "n", None)
    if size != grid.size or getattr(vault.spec.action, "n", None) != ACTIONS:
        raise _fit_error("the records are not days on this grid", f"cells 0 .. {grid.size - 1} and {ACTIONS} actions")
    if plan.rows_per_unit < DECISIONS:
        raise _fit_error("a person's rows are fewer than a day's", f"rows_per_unit of at least {DECISIONS}")


def _try_given(plan: PateGailPlan, simulator: Simulator | None, allocate: Allocate | None) -> None:
    # draws days from the given starts and space, and splits a round's budget: either may be the caller's own
    even = np.full(plan.rewards_per_round, 1 / plan.rewards_per_round)
    tried: list[tuple[str, Callable[[], object], str]] = []
    if simulator is not None:
        tried.append(("starts= or space=", lambda: simulator.generate(8), "places on the grid of the records"))
    if allocate is not None:
        words = "positive numbers, one for each thing that is asked"
        tried.append(("allocate=", lambda: weights("own", 0 * even, even, allocate), words))
    for name, call, expected in tried:
        remedy = "try it by itself"
        try_public(call, lambda _: True, f"{name} fails", where="pategail.fit", expected=expected, remedy=remedy)


def _checkpoint(folder: str | os.PathLike[str] | None, resume: bool) -> Path | None:
    if resume and folder is None:
        raise _fit_error("a run cannot be resumed without the folder of its checkpoints", "folder= with resume=True")
    if folder is None:
        return None
    import tacit.privacy.ledger.checkpoint  # noqa: F401  (without torch it fails here, before anything is paid for)

    return Path(folder) / "checkpoint.safetensors"


def _require_left(plan: PateGailPlan, vault: FederatedVault, run: Run, state: RunState, resume: bool) -> None:
    """Refuse a run that was begun and is not resumed, or has nothing to go on from."""
    if not resume and vault.has_started(run):
        raise exhausted_error(run, CRITICS)
    for part in plan.parts():
        saved = part.name in state.means or (part.name == CRITICS and state.server.rounds_answered > 0)
        if not saved and not vault.steps_left(run, part.name):
            raise exhausted_error(run, part.name)


def _fit_error(what: str, expected: str) -> PlanError:
    return PlanError(what, where="pategail.fit", expected=expected, remedy="change the plan or the arguments")


_MEAN = "mean."
"""What the names of released sums begin with."""


@dataclass(frozen=True, eq=False)
class RunState:
    """Everything a run carries from round to round."""

    plan: PateGailPlan  # plan, grid: what is run
    grid: Grid
    learner: PpoLearner  # the policy
    server: RewardServer  # what was heard
    rng: np.random.Generator  # the public generator of both
    means: dict[str, NDArray[np.float64]] = field(default_factory=dict)  # released sums, by part

    def save(self, path: Path | None, run: Run, vault: FederatedVault) -> None:
        """Write a checkpoint, if there is a place for it."""
        if path is None:
            return
        import torch

        from tacit.privacy.ledger import checkpoint

        tensors = {name: torch.from_numpy(np.array(value, order="C")) for name, value in self._arrays().items()}
        checkpoint.save(path, tensors, plan_id=run.plan_id, ledger=vault.ledger)

    def load(self, path: Path, vault: FederatedVault) -> None:
        """Take up what `save` wrote."""
        from tacit.privacy.ledger import checkpoint

        tensors = checkpoint.load(path, plan_id=plan_id(self.plan), ledger=vault.ledger)
        arrays: dict[str, Array] = {name: tensor.numpy().copy() for name, tensor in tensors.items()}
        try:
            self._restore(arrays)
        except (KeyError, TypeError, ValueError):
            what = "the checkpoint is of another grid, or of another version of the method"
            expected, remedy = "what the run was begun with", "resume with the same grid and version of tacit"
            raise PlanError(what, where=str(path), expected=expected, remedy=remedy) from None

    def _arrays(self) -> dict[str, Array]:
        return {
            **self.learner.arrays(),
            **self.server.arrays(),
            **{_MEAN + name: mean for name, mean in self.means.items()},
            "grid": _bytes(self.grid.to_json()),
            "generator": _bytes(self.rng.bit_generator.state),
        }

    def _restore(self, arrays: Mapping[str, Array]) -> None:
        same_grid = np.array_equal(arrays["grid"], _bytes(self.grid.to_json()))
        if not same_grid or any(arrays[name].shape != array.shape for name, array in self.learner.arrays().items()):
            raise ValueError("another grid, or other networks")
        self.learner.restore(arrays)
        self.server.restore(arrays)
        self.means.update({name.removeprefix(_MEAN): value for name, value in arrays.items() if name.startswith(_MEAN)})
        self.rng.bit_generator.state = json.loads(arrays["generator"].tobytes())


def _bytes(values: Mapping[str, Any]) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(values, sort_keys=True).encode(), np.uint8)
