"""How policies that experts taught are written: parameters, the experts' noisy votes, and consensus prefixes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tacit.agents.policies import Policy
from tacit.errors import PlanError
from tacit.methods import experts
from tacit.methods.experts.learned import Agreement, Learned
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.above_threshold import Prefixes
from tacit.privacy.mechanisms.base import Plan

FIELDS = frozenset({"policy", "learner", "prefixes"})
_LEARNERS = ("Votes", "ReturnWeighted", "Consensus")
_COLUMNS = frozenset({"observations", "actions", "rewards", "next_observations", "terminations", "truncations"})
"""Of a prefix; whatever else logs may hold is nobody's to publish."""
_STATES, _SHARES, _LENGTHS = "agreement.states", "agreement.shares", "lengths"


def level(plan: Plan) -> Literal["logs", "policies"]:
    """What of an expert a plan's promise covers: the whole log, or only how the expert decides.

    Prefixes of experts' own trajectories are published as they are; those of clones in a public simulator are not
    anybody's records.
    """
    return "policies" if any(getattr(part, "source", None) == "logs" for part in plan.parts()) else "logs"


def pack(value: Learned) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The configuration's own fields, and the arrays."""
    fields: dict[str, Any] = {"policy": value.policy.to_json(), "learner": type(value.plan).__name__}
    arrays: dict[str, np.ndarray] = {"theta": value.theta}
    if value.agreement is not None:
        arrays |= {_STATES: value.agreement.states, _SHARES: value.agreement.shares}
    replicates = value.prefixes or ()
    for r, prefixes in enumerate(replicates):
        if set(prefixes.columns) - _COLUMNS:
            what, expected = "the prefixes have columns that are not released", f"{', '.join(sorted(_COLUMNS))}"
            raise PlanError(what, where="hub.save", expected=expected, remedy="save what `experts.fit` returned")
        named = {**prefixes.columns, _LENGTHS: prefixes.lengths}
        arrays |= {f"prefixes.{r}.{name}": np.asarray(column) for name, column in named.items()}
    return {**fields, "prefixes": None if value.prefixes is None else len(replicates)}, arrays


def unpack(config: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> Learned:
    """What `pack` was given."""
    arrays = dict(weights)
    policy, theta = Policy.from_json(config["policy"]), arrays.pop("theta")
    if config["learner"] not in _LEARNERS:
        raise ValueError("a plan of another kind")
    plan = getattr(experts, config["learner"]).from_json(config["plan"])
    shape = (len(theta), policy.parameters)
    if theta.dtype != np.float32 or theta.shape != shape or not len(theta) or not np.isfinite(theta).all():
        raise ValueError("parameters of another policy")
    agreement = _agreement(arrays, shape[0]) if _SHARES in arrays else None
    prefixes = None
    if config["prefixes"] is not None:
        prefixes = tuple(_prefixes(arrays, r) for r in range(config["prefixes"]))
    if arrays:
        raise ValueError("arrays that no policy has")
    return Learned(plan=plan, policy=policy, theta=theta, agreement=agreement, prefixes=prefixes)


def _agreement(arrays: dict[str, np.ndarray], replicates: int) -> Agreement:
    states, shares = arrays.pop(_STATES), arrays.pop(_SHARES)
    if states.shape[:2] != shares.shape[:2] or shares.ndim != 3 or len(shares) != replicates:
        raise ValueError("votes of another policy")
    if not np.isfinite(shares).all():
        raise ValueError("votes that are not finite")
    return Agreement(states, shares)


def _prefixes(arrays: dict[str, np.ndarray], r: int) -> Prefixes:
    start = f"prefixes.{r}."
    columns = {name.removeprefix(start): arrays.pop(name) for name in list(arrays) if name.startswith(start)}
    lengths = columns.pop(_LENGTHS)
    if set(columns) - _COLUMNS:
        raise ValueError("prefixes with columns that are not released")
    if lengths.ndim != 1 or (lengths < 0).any() or {len(column) for column in columns.values()} != {int(lengths.sum())}:
        raise ValueError("prefixes of other lengths")
    return Prefixes(columns, lengths)


def card(release: Release[Learned]) -> str:
    """What lies beside the parameters for people."""
    certificate, value = release.certificate, release.value
    name = certificate.unit["name"]
    protected = {
        "logs": f"What is protected: the log of every {name}, with all decisions and returns in it. A person in the "
        f"logs of\nseveral {name}s is not protected as a person.",
        "policies": f"What is protected: how every {name} decides, and nothing else. The prefixes in "
        "`model.safetensors` are states,\nactions and rewards as they were logged: people in them, patients "
        f"for instance, are NOT protected. It holds if\nall {name}s met the same environment and the logs themselves "
        "stay secret.",
    }
    votes = ", `agreement` the noisy votes at public states" if value.agreement is not None else ""
    prefixes = ", `prefixes` the consensus prefixes" if value.prefixes is not None else ""
    return f"""# Policy learned from experts

{certificate.sentence}

{protected[level(value.plan)]}

ONNX: `tacit export . policy.onnx`. Certificate: `tacit certificate verify certificate.json`.
Play: `tacit play .`, or with `--environment ID` where the policy names none and there is one.

- method: {certificate.method}
- source: {certificate.source}
- made with tacit {certificate.tacit_version}

In `model.safetensors`, `theta` holds the parameters{votes}{prefixes}. What the policy is good for: acting as most
experts would, with the best action each time. What it is not: evidence about any one {name}. The certificate lists what
is not protected.
"""
