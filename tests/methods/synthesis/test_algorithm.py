"""The whole of `fit` on a small simulated maze: it learns, it is paid for, it resumes, it cannot be run twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import HardwareError, LedgerError, PlanError, PlanExhausted
from tacit.evaluation.fidelity import fidelity
from tacit.methods import synthesis
from tacit.methods.synthesis import diffusion, pretraining
from tacit.methods.synthesis.training import starting_point
from tacit.privacy.ledger import checkpoint
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.plan import public_fields
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS

LAYOUT = LAYOUTS["open"]
UNIT = Unit("transition", "add_or_remove", 20_000)
COLUMNS = maze.collect(LAYOUT, 20_000, agents=100, seed=3)
FIELDS = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations")


def vault_in(folder: Path, name: str = "run", noise: SecretNoise | None = None) -> Vault:
    data = Trajectories.from_arrays(
        **{field: COLUMNS[field] for field in FIELDS},
        unit_ids=":transition",
        spec=maze.spec(LAYOUT),
        simulated=True,
    )
    path = folder / f"{name}.ledger"
    ledger = Ledger(path) if path.exists() else Ledger(path, UNIT, epsilon=20.0, delta=2e-5, composition=SUM)
    return Vault(data, ledger, noise=noise)


def plan_of(**fields: object) -> synthesis.TransitionsPlan:
    small = {"steps": 40, "sampling_rate": 0.01, "width": 32, "depth": 2, "warmup": 5, "ema": 0.9}
    return synthesis.TransitionsPlan(**{**small, **fields}).calibrate(unit=UNIT, epsilon=8.0, delta=1e-5)  # type: ignore[arg-type]


def test_it_learns_within_its_promise_and_depends_on_the_data(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    release = synthesis.fit(plan_of(steps=150, learning_rate=2e-2, sampling_rate=0.05), vault)
    start = synthesis.pretrain(plan_of(), synthesis.Encoder.from_bounds(vault.spec), None, seed=0)
    untrained = synthesis.Synthesizer(plan_of(), start.encoder, start.average)
    learned = fidelity(COLUMNS, release.value.sample_columns(5_000, seed=0))
    before = fidelity(COLUMNS, untrained.sample_columns(5_000, seed=0))
    assert learned.marginal > before.marginal + 0.05
    assert learned.marginal > 0.85
    verified = release.certificate.verify()
    assert verified.epsilon <= 8.0
    assert release.certificate.epsilon == pytest.approx(8.0, rel=5e-3)


def test_a_second_fit_of_the_same_plan_is_refused_and_another_one_is_paid(tmp_path: Path) -> None:
    vault, plan = vault_in(tmp_path), plan_of()
    synthesis.fit(plan, vault)
    with pytest.raises(PlanExhausted):
        synthesis.fit(plan, vault)
    with pytest.raises(PlanExhausted):
        synthesis.fit(plan, vault, folder=tmp_path, resume=True)
    synthesis.fit(plan_of(steps=41), vault)
    assert vault.ledger.spent()[0] == pytest.approx(16.0, rel=1e-2)


class Stop(Exception):
    """Stops a run from its progress callback."""


def test_an_interrupted_run_goes_on_with_the_steps_that_are_left(tmp_path: Path) -> None:
    vault, plan = vault_in(tmp_path), plan_of()

    def stop_at(limit: int) -> Callable[[int, int], None]:
        def progress(done: int, total: int) -> None:
            if done == limit:
                raise Stop

        return progress

    with pytest.raises(Stop):
        synthesis.fit(plan, vault, folder=tmp_path, progress=stop_at(17))
    vault.ledger.close()
    again = vault_in(tmp_path)
    steps: list[int] = []
    release = synthesis.fit(plan, again, folder=tmp_path, resume=True, progress=lambda done, total: steps.append(done))
    assert steps == list(range(18, 41))
    assert all(torch.isfinite(value).all() for value in release.value.weights.values())
    finished = synthesis.fit(plan, again, folder=tmp_path, resume=True)
    for name, value in release.value.weights.items():
        torch.testing.assert_close(finished.value.weights[name], value)


def test_a_run_stopped_before_its_first_checkpoint_can_be_resumed(tmp_path: Path) -> None:
    vault, plan = vault_in(tmp_path), plan_of()
    vault.next_step(vault.reserve(plan), "denoiser")
    vault.ledger.close()
    again, steps = vault_in(tmp_path), []
    synthesis.fit(plan, again, folder=tmp_path, resume=True, progress=lambda done, total: steps.append(done))
    assert steps == list(range(2, 41))


def test_a_ledger_older_than_the_checkpoint_is_refused(tmp_path: Path) -> None:
    vault, plan = vault_in(tmp_path), plan_of()
    synthesis.fit(plan, vault, folder=tmp_path)
    vault.ledger.close()
    other = vault_in(tmp_path, "other")
    with pytest.raises(LedgerError, match="another plan or another dataset"):
        synthesis.fit(plan, other, folder=tmp_path, resume=True)
    with pytest.raises(LedgerError):
        checkpoint.load(tmp_path / "checkpoint.safetensors", plan_id="0" * 16, ledger=other.ledger)


def test_the_declared_pretraining_is_the_one_used(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    declared = plan_of(pretraining=synthesis.Pretraining(provenance="simulated", steps=25, batch=64))
    with pytest.raises(PlanError, match="not the pre-training"):
        synthesis.fit(declared, vault)
    columns = {name: COLUMNS[name] for name in FIELDS}
    start = synthesis.pretrain(declared, synthesis.Encoder.from_bounds(vault.spec), columns, seed=0)
    release = synthesis.fit(declared, vault, pretrained=start)
    assert any("simulated" in line for line in release.certificate.lines("not_covered"))
    assert not vault.ledger.spent()[0] > 8.0


def test_of_several_starting_points_that_of_the_plans_own_pretraining_is_taken(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    plain, curious, other = (
        plan_of(pretraining=synthesis.Pretraining(provenance="simulated", steps=21, batch=64, curiosity=one))
        for one in (None, synthesis.Curiosity(rate=0.3), synthesis.Curiosity(rate=0.1))
    )
    columns = {name: COLUMNS[name] for name in FIELDS}
    encoder = synthesis.Encoder.from_bounds(vault.spec)
    starts = {one.pretraining: synthesis.pretrain(one, encoder, columns, seed=0) for one in (plain, curious)}
    with pytest.raises(PlanError, match="not the pre-training"):
        synthesis.fit(other, vault, pretrained=starts)
    with pytest.raises(PlanError, match="not the pre-training"):
        synthesis.fit(plan_of(), vault, pretrained=starts[plain.pretraining])
    begun = [
        starting_point(one, vault, starts, lambda _: starts[plain.pretraining], where="synthesis")
        for one in (plain, curious)
    ]
    assert begun == [starts[plain.pretraining], starts[curious.pretraining]]
    assert vault.ledger.spent()[0] == 0


def test_samples_are_inside_the_public_bounds_and_seeded(tmp_path: Path) -> None:
    value = synthesis.fit(plan_of(), vault_in(tmp_path)).value
    first, second = (value.sample_columns(500, seed=1) for _ in range(2))
    low, high = maze.spec(LAYOUT).observation.low, maze.spec(LAYOUT).observation.high  # type: ignore[union-attr]
    assert (first["observations"] >= np.float32(low)).all()
    assert (first["observations"] <= np.float32(high)).all()
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert value.sample(50).simulated


def test_records_with_propensities_are_synthesised_without_them() -> None:
    spec = PublicSpec(
        Box((-1.0,), (1.0,)), Discrete(3), Box((0.0,), (1.0,)), "declared", propensities=True, difference=(0.1,)
    )
    start = synthesis.pretrain(plan_of(), synthesis.Encoder.from_bounds(spec), None, seed=0)
    sampled = synthesis.Synthesizer(plan_of(), start.encoder, start.average).sample(20)
    assert not sampled.spec.propensities
    assert "propensities" not in sampled.columns


def test_an_observer_sees_what_each_step_released_and_can_replay_the_run(tmp_path: Path) -> None:
    """The noisy gradients alone give the released weights: nothing else went into them."""
    vault, plan = vault_in(tmp_path), plan_of(steps=6)
    seen: list[tuple[int, torch.Tensor, torch.Tensor]] = []

    def observe(step: int, model: torch.nn.Module, gradient: torch.Tensor) -> None:
        seen.append((step, torch.nn.utils.parameters_to_vector(model.parameters()).detach(), gradient.clone()))

    released = synthesis.fit(plan, vault, observe=observe).value
    assert [step for step, _, _ in seen] == list(range(6))
    network = synthesis.pretrain(plan, released.encoder, None, seed=0).model(plan).network
    adam = torch.optim.Adam(network.parameters(), betas=plan.betas)
    for step, weights, gradient in seen:
        torch.testing.assert_close(torch.nn.utils.parameters_to_vector(network.parameters()).detach(), weights)
        torch.nn.utils.vector_to_parameters(gradient, [p.grad for p in zeroed(network)])
        adam.param_groups[0]["lr"] = plan.learning_rate_at(step)
        adam.step()
    assert seen[0][2].numel() == sum(value.numel() for value in released.weights.values())


def zeroed(network: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters, each with a gradient to write into."""
    parameters = list(network.parameters())
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    return parameters


def test_curiosity_in_fine_tuning_is_added_to_what_left_the_vault(tmp_path: Path) -> None:
    """FineCur: same noise, sample and price; the update adds the clipped gradients over the public divisor."""
    settings = synthesis.Curiosity(mode="append_pool", rate=0.5, pool=60, appended=20, sampler_steps=2)
    plain, curious = plan_of(steps=2, warmup=1), plan_of(steps=2, warmup=1, curiosity=settings)
    assert plain.noise_multiplier == curious.noise_multiplier
    assert synthesis.TransitionsPlan.from_json(public_fields(curious)) == curious
    gradients: dict[str, list[torch.Tensor]] = {"plain": [], "curious": []}
    weights: dict[str, list[torch.Tensor]] = {"plain": [], "curious": []}
    costs = {}
    for name, plan in (("plain", plain), ("curious", curious)):

        def observe(step: int, model: torch.nn.Module, gradient: torch.Tensor, name: str = name) -> None:
            gradients[name].append(gradient.clone())
            weights[name].append(torch.nn.utils.parameters_to_vector(model.parameters()).detach())

        release = synthesis.fit(plan, vault_in(tmp_path, name, SecretNoise.for_tests(3)), observe=observe)
        costs[name] = (release.certificate.epsilon, release.certificate.parts)
    assert costs["plain"] == costs["curious"]
    assert torch.equal(gradients["plain"][0], gradients["curious"][0])
    assert not torch.equal(weights["plain"][1], weights["curious"][1])


def test_what_generated_rows_add_is_bounded_by_their_number() -> None:
    """20 rows, clipped to 1 each, over the 1,000 units that a step expects."""
    settings = synthesis.Curiosity(mode="append_pool", rate=0.5, pool=60, appended=20, sampler_steps=2)
    plan = plan_of(curiosity=settings, sampling_rate=0.05)
    model = synthesis.pretrain(plan, synthesis.Encoder.from_bounds(maze.spec(LAYOUT)), None, seed=0).model(plan)
    objective = diffusion.Denoising(model.encoder, plan.noise_multiplicity, plan.P_mean, plan.P_std)
    added = pretraining.GeneratedGradient(model, objective, plan, settings).gradient(0)
    assert 0 < added.norm() <= 20 / 1_000
    assert added.norm() > 0.2 * 20 / 1_000


@pytest.mark.parametrize("call", ["fit", "pretrain", "sample"])
def test_a_device_that_is_not_there_costs_nothing(call: str, tmp_path: Path) -> None:
    vault, plan = vault_in(tmp_path), plan_of()
    encoder = synthesis.Encoder.from_bounds(vault.spec)
    start = synthesis.pretrain(plan, encoder, None, seed=0)
    calls: dict[str, Callable[[], object]] = {
        "fit": lambda: synthesis.fit(plan, vault, device="cuda:99"),
        "pretrain": lambda: synthesis.pretrain(plan, encoder, None, seed=0, device="cuda:99"),
        "sample": lambda: synthesis.Synthesizer(plan, encoder, start.average).sample(5, device="cuda:99"),
    }
    with pytest.raises(HardwareError, match="cuda:99"):
        calls[call]()
    assert vault.ledger.spent() == (0.0, 0.0)


def test_constants_of_rows_that_nobody_declared_are_refused(tmp_path: Path) -> None:
    vault, plan = vault_in(tmp_path), plan_of()
    encoder = synthesis.Encoder.from_public(vault.spec, COLUMNS)
    start = synthesis.pretrain(plan, encoder, None, seed=0)
    if encoder == synthesis.Encoder.from_bounds(vault.spec):
        pytest.fail("public rows make no difference here, so that this test would show nothing")
    with pytest.raises(PlanError, match="no pre-training declares"):
        synthesis.fit(plan, vault, pretrained=start)
    assert vault.ledger.spent()[0] == 0
