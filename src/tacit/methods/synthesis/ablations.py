"""The paper's ablations of PrivORL-n (its sections VIII-B and IX-D to IX-F), each as a plan that keeps its promise.

NonPre    no public pre-training: DPDM (arXiv:2210.09929)
NonCur    pre-training without curiosity: PDP-Diffusion (arXiv:2302.13861)
Cur       curious pre-training, as the paper has it
FineCur   curiosity in fine-tuning: novel generated rows are appended, outside the private sum and its divisor
NonPriv   fine-tuning without noise and without a bound that is ever met, for equally many steps: no promise at all
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal, get_args

from tacit.errors import PlanError
from tacit.methods.synthesis.plan import Curiosity, TransitionsPlan
from tacit.units import Unit
from tacit.validation import require_valid

if TYPE_CHECKING:
    from tacit.methods.synthesis.algorithm import Synthesizer
    from tacit.methods.synthesis.pretraining import PretrainedDenoiser

Name = Literal["NonPre", "NonCur", "Cur", "FineCur", "NonPriv"]
NAMES: tuple[Name, ...] = get_args(Name)

UNBOUNDED = 1e9
"""A clip that no gradient of the default networks comes near to; an infinite one is refused by the mechanisms."""
SHARE = 0.125
"""Generated rows for each private one in a step of FineCur: the authors' 16 beside batches of 128."""


def ablation(name: Name, plan: TransitionsPlan, *, unit: Unit, epsilon: float, delta: float) -> TransitionsPlan:
    """The plan with one thing changed, calibrated for the unit.

    Args:
        name: one of `NAMES`.
        plan: which is taken apart; calibrated or not.
        unit, epsilon, delta: the promise; NonPriv is priced instead, at an infinite epsilon.

    Raises:
        PlanError: the name is unknown, or the ablation is one of pre-training and the plan has none.
    """
    require_valid("name", name, name in NAMES, f"one of {', '.join(NAMES)}")
    if name == "NonPriv":
        return dataclasses.replace(plan, clip_norm=UNBOUNDED, noise_multiplier=0.0).account(unit=unit, delta=delta)
    if name == "NonPre":
        changed = dataclasses.replace(plan, pretraining=None)
    elif name == "FineCur":
        # The paper's rate, and the authors' share of generated rows beside the expected units of a step
        appended = max(1, round(SHARE * plan.sampling_rate * unit.size))
        curiosity = Curiosity(mode="append_pool", pool=max(1_000, 4 * appended), appended=appended)
        changed = dataclasses.replace(plan, curiosity=curiosity)
    else:
        changed = with_curiosity(plan, Curiosity() if name == "Cur" else None)
    return changed.calibrate(unit=unit, epsilon=epsilon, delta=delta)


def with_curiosity(plan: TransitionsPlan, curiosity: Curiosity | None) -> TransitionsPlan:
    """The plan with this curiosity in its pre-training.

    Raises:
        PlanError: the plan has no pre-training.
    """
    if plan.pretraining is None:
        what, expected = "the plan has no pre-training to be curious in", "a plan with pretraining="
        remedy = "declare public rows: TransitionsPlan(pretraining=Pretraining(provenance=...))"
        raise PlanError(what, where="synthesis.ablations", expected=expected, remedy=remedy)
    return dataclasses.replace(plan, pretraining=dataclasses.replace(plan.pretraining, curiosity=curiosity))


def pretrained_synthesizer(plan: TransitionsPlan, start: PretrainedDenoiser) -> Synthesizer:
    """The control that has seen public rows alone: the synthesizer from which fine-tuning begins."""
    from tacit.methods.synthesis.algorithm import Synthesizer

    return Synthesizer(plan, start.encoder, start.average)
