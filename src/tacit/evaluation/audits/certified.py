"""The plan of a certificate as a case: its own parts through the real mechanisms, with the loudest canary that there
is.

Each noisy sum is rebuilt from what the certificate says of it, with the same steps, samples, clip and noise. A canary's
contribution has the full norm and one direction in all sums; nobody else adds anything. Over Poisson samples of many
units there is a crowd of canaries that share nothing (`audits.mechanisms`). What a method makes of the sums is left
out: `audits.library` audits the methods themselves.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import CertificateError
from tacit.evaluation.audits import mechanisms
from tacit.evaluation.audits.cases import Case, Columns, Floats, Present, device_runner, vault_runner, visitor_runner
from tacit.evaluation.audits.mechanisms import Mechanisms, resize_part, with_noise
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.mechanisms.base import Sum
from tacit.privacy.mechanisms.contribution_sets import least_width
from tacit.privacy.mechanisms.kinds import part_from_json
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.units import Unit

CROWD = 200
"""How many canaries one run tells apart, at most."""
RUNS_PER_PASS = 50
"""Runs that are made in one pass."""
NAMES = PublicSpec(observation=Discrete(CROWD + 1), action=Discrete(2), reward=Box((-1.0,), (1.0,)), source="declared")
"""A row says who somebody is, and with which sign she contributes."""


@dataclass(frozen=True)
class CanaryContribution:
    """What a unit adds: far more than the clip, at the coordinate of its name (in all of them, of Laplace sums). Where
    -1 is no number of the part's first block, who has the sign -1 adds 1 at the next coordinate."""

    size: int
    clip_norm: float
    everywhere: bool = False
    signed: bool = True

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: Any) -> Floats:
        """[U, size]."""
        units = len(rows["mask"])
        name, sign = (rows[column][:, 0] for column in ("observations", "rewards"))
        if not self.signed:
            name, sign = name + (sign < 0), np.abs(sign)
        where = np.ones((units, self.size)) if self.everywhere else np.eye(self.size)[name % self.size]
        return np.asarray(1e3 * self.clip_norm * sign.astype(np.float64)[:, None] * where)


def certificate_case(record: Mapping[str, Any]) -> tuple[Case, tuple[str, ...]]:
    """The case of a certificate, and the parts that it leaves out."""
    certificate = Certificate.from_json(record)
    unit = Unit(certificate.unit["name"], certificate.unit["relation"], certificate.unit["population"])
    parts = [part_from_json(stated) for stated in certificate.parts]
    sums = tuple(part for part in parts if isinstance(part, Sum))
    left = tuple(part.name for part in parts if part not in sums)
    if not certificate.private or not sums:
        what = "it promises nothing" if not certificate.private else "none of its parts is a noisy sum"
        expected = "a private release of a method of noisy sums"
        remedy = "audit the methods themselves with `tacit audit --all`"
        raise CertificateError(what, where="audit", expected=expected, remedy=remedy)
    return case(sums, unit, words=f"{certificate.method}: the certificate's own sums"), left


def case(sums: Sequence[Sum], unit: Unit, *, words: str) -> Case:
    """Noisy sums as a case; its plan is priced at the noise that the sums have."""
    if unit.relation == "add_or_remove":  # to which blocks mean nothing, and canaries need coordinates of their own
        sums = [dataclasses.replace(part, blocks=None) if part.blocks else part for part in sums]  # type: ignore[type-var]

    def plan(epsilon: float, delta: float, canaries: int) -> Mechanisms:
        return Mechanisms(queries=tuple(sums)).account(unit=unit, delta=delta)

    sampled = any(part.participation < 1 for part in sums)
    poisson = unit.relation == "add_or_remove" and all(isinstance(part, PoissonSum) for part in sums)
    if sampled and poisson and unit.size > mechanisms.CROWD:
        small_plan = Mechanisms(queries=tuple(resize_part(part, mechanisms.CROWD) for part in sums))
        return Case(
            name="doors",
            words=words,
            unit=unit,
            plan=lambda epsilon, delta, canaries: small_plan.account(unit=unit, delta=delta),
            run=functools.partial(mechanisms.run_crowd, unit, frozenset()),
            crowd=mechanisms.CROWD,
            published=False,
            independent_canaries=True,
            with_noise=with_noise,
        )
    episodes = 1 + max((part.held_out for part in sums), default=0)

    def records(present: Present) -> Trajectories:
        return _canary_records(present, unit, episodes)

    def known(canaries: int) -> Trajectories:
        return _canary_records(np.ones(canaries, np.bool_), unit, episodes, both=True)

    replace = unit.relation == "replace_one"
    crowd = 0 if replace else max(0, min(CROWD, unit.size - 1))
    together = RUNS_PER_PASS
    places = {part.held_by for part in sums}
    if "visitors" in places:
        crowd = min(crowd, *(math.floor(part.divisor(unit)) for part in sums))
        run = visitor_runner(unit, NAMES, _visit_rows, _run_meetings)
    elif "devices" in places:
        run, together = device_runner(unit, records, _run_sums, known), 1
    else:
        run = vault_runner(unit, records, _run_sums, known)
    if any(part.laplace for part in sums):
        crowd = 0
    linear = not sampled and not any(part.laplace for part in sums)
    return Case(
        name="doors",
        words=words,
        unit=unit,
        plan=plan,
        run=run,
        runs_per_pass=together,
        crowd=crowd,
        published=False,
        with_noise=None if linear else with_noise,
    )


def _canary_contribution(part: Sum, canaries: int) -> CanaryContribution:
    size = getattr(part, "size", least_width(part.blocks, max(2, canaries)))
    signed = part.blocks is None or part.blocks[0].kind == "signed"
    return CanaryContribution(size, part.clip_norm, part.laplace, signed)


def _run_sums(plan: Mechanisms, vault: Any) -> Floats:
    run = vault.reserve(plan)
    for part in plan.queries:
        aim = _canary_contribution(part, vault.scorer.canaries)
        for _ in range(part.steps):
            vault.noisy_sum(run, part.name, aim)
    return np.zeros((len(vault.ledgers), 0))


def _run_meetings(plan: Mechanisms, vault: Any) -> Floats:
    run = vault.reserve(plan)
    for _ in range(plan.queries[0].steps):
        vault.enroll(run, _idle_actor)
        for part in plan.queries:
            vault.noisy_sum(run, part.name, _canary_contribution(part, vault.scorer.canaries))
    return np.zeros((len(vault.ledgers), 0))


def _idle_actor(observations: NDArray[Any], replicate: NDArray[np.int64], generator: np.random.Generator) -> Any:
    """The actor of people whose rows are written down beforehand."""
    return np.zeros(len(observations), np.int64)


def _canary_records(present: Present, unit: Unit, episodes: int, *, both: bool = False) -> Trajectories:
    """A unit that adds nothing and the canaries, of `episodes` rows each."""
    # Under replacement the canary, who adds +1, stands in the place of one who adds -1; `both` are there, one behind
    # the other, in the auditor's copy.
    name, sign = np.append(CROWD, np.arange(len(present))), np.append(0.0, np.ones(len(present)))
    members = np.append(True, present)
    if unit.relation == "replace_one":
        name, sign = np.insert(name, 1, 0), np.insert(sign, 1, -1.0)
        members = np.insert(members, 1, both or not present[0])
    name, sign, ids = (np.repeat(column[members], episodes) for column in (name, sign, np.arange(len(name))))
    rows = len(name)
    return Trajectories.from_arrays(
        observations=name,
        actions=np.zeros(rows, np.int64),
        rewards=sign.astype(np.float32),
        next_observations=name,
        terminations=np.ones(rows, np.bool_),
        unit_ids=ids,
        episode_ids=np.arange(rows),
        spec=NAMES,
        simulated=True,
    )


def _visit_rows(canaries: int) -> Columns:
    shape = (canaries, 1)
    return {
        "observations": np.arange(canaries)[:, None],
        "actions": np.zeros(shape, np.int64),
        "rewards": np.ones(shape, np.float32),
        "next_observations": np.arange(canaries)[:, None],
        "terminations": np.ones(shape, np.bool_),
        "truncations": np.zeros(shape, np.bool_),
        "mask": np.ones(shape, np.bool_),
    }
