"""Detectors of folds: what either of them pays, and whether those who taught a policy judge it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from vault_cases import GivenParts, Rewards, open_vault, unit_of

from tacit import off_policy_evaluation as ope
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import BudgetExceeded, PlanError
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.origins import assess_standing
from tacit.privacy.vault.vault import Vault
from tacit.units import Relation

RELATIONS: tuple[Relation, ...] = ("add_or_remove", "replace_one")
HALF = PoissonSum(name="half", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=1.0)
ONE: dict[str, Any] = {"problem": ope.Problem(gamma=1.0, horizon=1)}
PLAN = ope.ImportanceSampling(**ONE)


class Quiet(ope.ImportanceSampling):
    """An evaluation by a class of a user's own, which says that it is none."""

    evaluates: ClassVar[bool] = False


def budget_of_folds(folder: Path) -> None:
    """On either fold no more plans are admitted than the budget of its people covers, deltas of movers included."""
    for relation in RELATIONS:
        for fold, delta in ((0, 1e-4), (1, 1e-4), (None, 4e-4)):
            name = f"{relation} {fold}"
            vault = open_vault(folder, [[0.5]], unit=unit_of(1_000, relation), epsilon=25.0, name=name)
            admitted = []
            for i in range(12):
                clip, at = 1.0 + 0.1 * i, i % 2 if fold is None else fold
                own = (dataclasses.replace(HALF, clip_norm=clip, fold=at),)  # type: ignore[arg-type]
                plan = plans.account(GivenParts(own), unit=vault.unit, delta=delta)
                try:
                    vault.reserve(plan)
                except BudgetExceeded:
                    break
                admitted.append((at, plan))
            for at in (0, 1):
                own_cost = sum(plan.epsilon or 0.0 for where, plan in admitted if where == at)
                assert own_cost <= 25.0, f"fold {at} was charged for {own_cost:.3g} of 25"
            deltas = [plan.delta or 0.0 for where, plan in admitted if relation == "replace_one" or where == 0]
            assert sum(deltas) <= 5e-4 * (1 + 1e-9), f"the deltas add up to {sum(deltas):.2g}"


def judged_by_others(folder: Path) -> None:
    """A policy that everybody taught has no interval, and one that came after evaluations a wider one."""
    spec = PublicSpec(Discrete(2), Discrete(2), Box((0.0,), (1.0,)), "declared", propensities=True)
    generator, n = np.random.default_rng(0), 60
    context = generator.integers(2, size=n)
    columns: dict[str, Any] = {
        "observations": context,
        "actions": generator.integers(2, size=n),
        "rewards": generator.integers(2, size=n).astype(np.float32),
        "next_observations": context,
        "terminations": np.ones(n, bool),
        "propensities": np.full(n, 0.5, np.float32),
    }
    data = Trajectories.from_arrays(
        **columns, unit_ids=np.arange(n), episode_ids=np.arange(n), spec=spec, simulated=True
    )
    unit = unit_of(100)
    with Ledger(folder / "judges.ledger", unit, epsilon=1e6, delta=5e-3, composition=SUM) as ledger:
        vault = Vault(data, ledger)
        policies = iter([ope.Tabular(np.array([[0.5, 0.5], [p, 1 - p]])) for p in np.linspace(0.1, 0.9, 9)])

        def released(policy: Any, plan: Any) -> Any:
            run = vault.reserve(plan)
            plan.estimate(vault, run, ope.Behaviour(), None)
            return vault.release(run, policy, label=plan.label())

        def evaluated(policy: Any, epsilon: float = 1.0, plan: Any = PLAN, **origin: Any) -> Any:
            return ope.fit(plan.calibrate(unit=unit, epsilon=epsilon, delta=1e-5), vault, policy, **origin)

        early = dataclasses.replace(PLAN, fold=0).calibrate(unit=unit, epsilon=1.25, delta=1e-5)
        early = early.with_target(ope.Behaviour())
        vault.reserve(early)
        plans_of = {fold: dataclasses.replace(PLAN, fold=fold) for fold in (None, 0)}
        taught = {
            fold: released(
                next(policies), plan.calibrate(unit=unit, epsilon=1.5, delta=1e-5).with_target(ope.Behaviour())
            )
            for fold, plan in plans_of.items()
        }
        own = evaluated(taught[0]).value.interval
        assert own is not None, "a policy that fold 0 taught cannot be judged by fold 1"
        assert evaluated(taught[None]).value.interval is None, "who taught it judges it"
        little: dict[str, Any] = {**ONE, "following": ope.Following()}
        asked = evaluated(taught[None], plan=ope.ImportanceSampling(**little))
        assert asked.value.difference.interval is None, "who taught it judges the difference"
        parts = ope.DoublyRobust(**little, features=ope.OneHot(2)).parts()
        judges = {part.fold for part in parts if part.name in ("scores", "difference")}
        assert judges == {1}, "others judge the difference than the value"
        made = ope.Origin.made_from(taught[None])
        assert evaluated(next(policies), origin=made).value.interval is None, "who taught it judges it"
        assert evaluated(next(policies)).value.interval is None, "a policy of unknown origin has an interval"
        public: dict[str, Any] = {"origin": ope.Origin.public()}
        first, second = (evaluated(next(policies), **public).value.interval for _ in range(2))
        assert 0.95 < first.level < second.level, "evaluations that came before are not counted"
        quiet, after = (evaluated(next(policies), plan=plan, **public).value.interval for plan in (Quiet(**ONE), PLAN))
        assert second.level < quiet.level < after.level, "an evaluation that calls itself none is not counted"
        late = evaluated(released(next(policies), early)).value.interval
        assert late.level > 0.95, "a plan that was run last counts as the first"
        own = [evaluated(_own(share), 1 + share, origin=ope.Origin.public()).value.interval for share in (0.2, 0.3)]
        assert second.level < own[0].level < own[1].level, "a policy changed behind its name"


def teachers_of_both_folds(folder: Path) -> None:
    """A policy for which both folds were read has no interval, and neither has one that only borrows a certificate."""
    vault = open_vault(folder, [[0.1 * i] for i in range(20)], unit=unit_of(100), epsilon=1e3)
    first, second = (dataclasses.replace(HALF, name=f"on {fold}", fold=fold) for fold in (0, 1))
    run = vault.reserve(plans.account(GivenParts((first, second)), unit=vault.unit, delta=1e-5))
    early, late, other = (ope.Tabular(np.array([[p, 1 - p]])) for p in (0.2, 0.4, 0.6))
    vault.noisy_sum(run, "on 0", Rewards())
    vault.record_policy(run, early)
    vault.noisy_sum(run, "on 1", Rewards())
    releases = [vault.release(run, one, label=Label(("sums",), (), ())) for one in (early, late)]
    free = [assess_standing(vault.ledger, [ope.Origin.of(one)], level=0.95).free for one in releases]
    assert free[0] == {1}, "a policy from before fold 1 was read cannot be judged by it"
    assert free[1] == frozenset(), "who taught it judges it"
    try:
        assess_standing(vault.ledger, [ope.Origin.of(Release(other, releases[0].certificate))], level=0.95)
    except PlanError:
        return
    raise AssertionError("a certificate counts for a policy that it was not released with")


def _own(share: float) -> Any:
    """A policy of a user's own class, whose fields do not show what it does."""

    class Own(ope.Uniform):
        def probabilities(self, observations: Any) -> Any:
            return np.tile([share, 1 - share], (len(observations), 1))

    return Own(2)


FOLD_DETECTORS = (budget_of_folds, judged_by_others, teachers_of_both_folds)
