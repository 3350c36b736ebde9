"""The paper's settings as plans: what they claim, what they honestly cost, and that one of them runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pole_experts import DELTA, FEATURES, HIGH, POLICY, UNIT, columns, gains

from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.agents.stacked import StackedPolicies
from tacit.data.trajectories import Trajectories
from tacit.errors import PlanError
from tacit.methods import experts
from tacit.methods.experts.consensus import Consensus
from tacit.methods.experts.published import NOISELESS_STEPS, SETTINGS, MixedTraining
from tacit.privacy.accounting import table as accounting_checks
from tacit.privacy.accounting.events import flatten
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.thresholds import PMin
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds.cart_pole import spec

ACTIONS = {"acrobot": 3, "lunar_lander": 4, "cart_pole": 2, "hiv": 4}
GRID = Unit("expert", relation="add_or_remove", population=3_000)
CLOSE_TO_ONE_IN_ALL = 0.999 / 3_000
"""The paper's delta is 1 / 3,000, which a plan has to stay below."""


def plan(task: str, epsilon: float, steps: int | None = None, delta: float = CLOSE_TO_ONE_IN_ALL) -> Consensus:
    """A setting for the paper's 3,000 experts, with inputs of one number."""
    setting = experts.published_setting(task, epsilon)
    policy = Policy(FEATURES, Mlp((4, *setting.hidden, ACTIONS[task])), Categorical(ACTIONS[task]))
    return experts.published_plan(
        setting, policy=policy, unit=GRID, experts=3_000, horizon=200, delta=delta, steps=steps
    )


# Steps that the published accounting allows, noisy ones among them, and what they honestly cost.
CLAIMS = [
    ("lunar_lander", 10.0, 20_645_158, 4_129_032, 14.17),
    ("lunar_lander", 7.5, 3_649_708, 1_824_854, 6.08),
    ("cart_pole", 10.0, 57_279_595, 5_727_959, 23.19),
    ("cart_pole", 7.5, 12_826_428, 2_565_286, 11.02),
]


@pytest.mark.parametrize(("task", "epsilon", "steps", "noisy", "honest"), CLAIMS[::2])
def test_the_settings_claim_what_the_paper_does(
    task: str, epsilon: float, steps: int, noisy: int, honest: float
) -> None:
    """The certified price of so many steps takes a minute; here the accountant's check stands for it."""
    whole = replace(plan(task, epsilon, 1_000), steps=steps)
    assert whole.private_steps == noisy
    assert experts.compare_claims(whole).published == pytest.approx(epsilon, abs=1e-4)
    found = accounting_checks.mixed_epsilon(flatten(plans.event(whole)), "add_or_remove", CLOSE_TO_ONE_IN_ALL)
    assert found == pytest.approx(honest, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "epsilon", "steps", "noisy", "honest"), CLAIMS)
def test_their_certified_price(task: str, epsilon: float, steps: int, noisy: int, honest: float) -> None:
    whole = plan(task, epsilon)
    assert (whole.steps, whole.private_steps) == pytest.approx((steps, noisy), rel=1e-6)
    assert whole.epsilon == pytest.approx(honest, abs=0.02)
    assert plans.certified_bound(whole).epsilon == whole.epsilon
    claim = experts.compare_claims(whole)
    assert str(claim).startswith(f"The published accounting claims epsilon {epsilon:g}; what holds")
    assert f"is {whole.epsilon:.4g}" in str(claim)


@pytest.mark.parametrize("task", ["acrobot", "hiv"])
@pytest.mark.parametrize(("epsilon", "trajectories", "honest"), [(10.0, 25, 9.084), (7.5, 20, 7.269), (5.0, 20, 4.484)])
def test_prefixes_alone_cost_less_than_their_sum(task: str, epsilon: float, trajectories: int, honest: float) -> None:
    found = plan(task, epsilon)
    assert (found.steps, found.private_steps, found.trajectories) == (NOISELESS_STEPS, 0, trajectories)
    claim = experts.compare_claims(found)
    assert claim.published == pytest.approx(epsilon)
    assert claim.honest == found.epsilon == pytest.approx(honest, abs=2e-3)
    assert len(found.parts()) == 1


@pytest.mark.parametrize("task", ["lunar_lander", "cart_pole"])
def test_noise_alone_costs_what_is_claimed(task: str) -> None:
    found = plan(task, 5.0, 2_000)
    assert found.private_steps == 2_000
    assert not found.releases_prefixes
    claim = experts.compare_claims(found)
    assert claim.published == pytest.approx(claim.honest, rel=5e-3)


def test_a_plan_has_the_numbers_of_its_setting() -> None:
    found = plan("lunar_lander", 7.5, 100, delta=2e-4)
    assert (found.trajectories, found.stable_fraction, found.noise_multiplier) == (62, 0.5, 80.0)
    assert (found.rate, found.stable_rate, found.expected_batch_size, found.stable_batch) == (0.005, 0.005, 256, 256)
    assert (found.clip_norm, found.rows_per_expert, found.floor, found.clone) == (1.0, 1, PMin(0.02), None)
    assert found.trajectory_epsilon == pytest.approx(3.75 / 62)
    assert found.trajectory_delta == pytest.approx(1e-4 / 1.02 / 62)
    assert found.parts()[1].held_out == found.parts()[0].held_out > 0
    assert experts.published_setting("hiv", 5.0).hidden == (512,)
    assert len(SETTINGS) == 12


def test_as_many_steps_as_the_published_accounting_allows() -> None:
    setting = replace(experts.published_setting("cart_pole", 10.0), noise_multiplier=2.0)
    found = experts.published_plan(setting, policy=POLICY, unit=GRID, experts=3_000, horizon=200, delta=2e-4)
    published = MixedTraining(experts=3_000, batch=256, noisy_share=0.1, noise_multiplier=2.0)
    assert published.published_epsilon(found.steps, 1e-4) <= 5.0 < published.published_epsilon(found.steps + 1, 1e-4)
    claim = experts.compare_claims(found)
    assert claim.published == pytest.approx(10.0, abs=0.01)
    assert claim.honest > 15.0


def test_out_of_reach() -> None:
    with pytest.raises(PlanError, match="unreachable threshold"):
        plan("lunar_lander", 10.0, 100, delta=1e-5)
    with pytest.raises(PlanError, match="no setting for 'cart_pole' at epsilon 3"):
        experts.published_setting("cart_pole", 3.0)
    with pytest.raises(PlanError, match="priced"):
        experts.compare_claims(Consensus(policy=POLICY, experts=100))


def test_one_runs_and_its_certificate_states_the_honest_epsilon(tmp_path: Path) -> None:
    setting = replace(
        experts.published_setting("cart_pole", 10.0), trajectories=6, noise_multiplier=3.0, batch=60, floor=0.05
    )
    ready = experts.published_plan(
        setting, policy=POLICY, unit=UNIT, experts=200, horizon=40, delta=DELTA * 0.99, steps=300
    )
    controllers = gains(200, spread=0.1)
    theta = np.zeros((200, 5, 2), np.float32)
    theta[:, :4, 1] = controllers * HIGH
    asked = StackedPolicies.from_mlp(FEATURES, Mlp((4, 2)), theta.reshape(200, -1), 0.05)
    data = Trajectories.from_arrays(**columns(controllers, 6), spec=spec(), simulated=True)
    ledger = Ledger(tmp_path / "one.ledger", UNIT, epsilon=100.0, delta=DELTA, composition=SUM)
    release = experts.fit(ready, Vault(data, ledger, experts=asked, noise=SecretNoise.for_tests(0)))
    claim = experts.compare_claims(ready)
    assert claim.published != pytest.approx(claim.honest, rel=0.05)
    assert release.certificate.epsilon == pytest.approx(claim.honest, rel=1e-3)
    release.certificate.verify()
    assert Consensus.from_json(plans.public_fields(ready)) == ready
    assert release.value.prefixes is not None
    assert release.value.theta.shape == (1, POLICY.parameters)
    assert release.value.prefixes[0].lengths.sum() > 0
