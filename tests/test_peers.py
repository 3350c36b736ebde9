"""What benchmarks compare with computes the same thing."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from benchmarks.peers import (
    cleanrl_style,
    mbi_mechanisms,
    opacus_diffusion,
    stable_baselines_ppo,
    torch_users,
    works,
)
from torch import nn

from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.methods.policy_gradient import Policy, Scaled
from tacit.methods.policy_gradient.contributions import Advantages, RoundInputs
from tacit.methods.policy_gradient.local_updates import LocalTraining, LocalUpdates
from tacit.methods.synthesis.diffusion import Denoiser, Denoising, build_network
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import TransitionsPlan
from tacit.privacy.gradients.clipped_sums import clipped_sum
from tacit.privacy.mechanisms import marginals
from tacit_worlds.cart_pole import HORIZON, CartPole


def test_the_loop_over_people_sends_what_local_updates_send():
    generator, shape, sizes = np.random.default_rng(0), (3, 8), (2, 5, 3)
    policy = Policy(Scaled((-1.0, -1.0), (1.0, 1.0)), Mlp(sizes, gain=1.0), Categorical(3))
    theta = policy.initial_parameters(generator, 1)
    rows = {
        "observations": generator.uniform(-1.0, 1.0, (*shape, 2)).astype(np.float32),
        "actions": generator.integers(3, size=shape),
        "rewards": generator.normal(size=shape).astype(np.float32),
        "mask": np.ones(shape, bool),
        "starts": np.zeros(shape, bool),
        "replicate": np.zeros(3, np.int64),
    }
    training = LocalTraining(learning_rate=1e-3, epochs=3, minibatches=2)
    update = LocalUpdates(policy, Advantages(gamma=0.0, standardised=False), training, entropy=0.1)
    sent = torch_users.updates(
        torch_users.actor(sizes, theta[0]),
        rows["observations"],
        rows["actions"],
        rows["rewards"],
        learning_rate=1e-3,
        epochs=3,
        minibatches=2,
        entropy=0.1,
        epsilon=training.epsilon,
        keys=np.random.default_rng(0).random((3, 8)),
    )
    np.testing.assert_allclose(sent, update(rows, RoundInputs(theta, None, np.ones(1))), rtol=0, atol=1e-6)


def test_the_single_file_loop_moves_by_at_most_its_clip_and_alike_from_one_seed():
    settings = cleanrl_style.Settings(users=2, steps=16, epochs=1, clip=0.01, sigma=0.0)
    start = cleanrl_style.flat(cleanrl_style.run(0, 3, settings))
    first, again = (cleanrl_style.flat(cleanrl_style.run(1, 3, settings)) for _ in range(2))
    assert torch.equal(first, again)
    assert 0.005 < float((first - start).norm()) <= 0.01 * (1 + 1e-5)


def test_the_single_file_loop_adds_noise_of_the_scale_it_says():
    settings = cleanrl_style.Settings(users=2, steps=8, epochs=1, clip=0.01, sigma=100.0)
    moved = cleanrl_style.flat(cleanrl_style.run(1, 0, settings)) - cleanrl_style.flat(
        cleanrl_style.run(0, 0, settings)
    )
    assert len(moved) == 9155
    assert abs(float(moved.std()) / (100.0 * 0.01 / 2) - 1.0) < 0.03


def test_a_comparison_is_the_median_of_rounds_or_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = {"peer": [4.0, 9.0, 5.0], "tacit": [2.0, 3.0, 4.0]}
    monkeypatch.setattr(works.timing, "cpu_seconds", lambda sides, **settings: spent)
    work = works.Work("figure", "Somebody", "numpy", "pip install numpy", "nothing", lambda: (list, list))
    assert works.compare(work) == works.Outcome(np.__version__, 5.0, 3.0, 2.0)
    no_version = works.compare(dataclasses.replace(work, package="no-such-distribution"))
    assert isinstance(no_version, ImportError)

    def sides() -> tuple[works.Side, works.Side]:
        raise ModuleNotFoundError("No module named 'somebody'", name="somebody")

    missing = works.compare(dataclasses.replace(work, sides=sides))
    assert isinstance(missing, ImportError)
    assert missing.name == "somebody"


def test_mbi_gets_the_cells_that_the_vault_cuts() -> None:
    rows = {name: column[:300] for name, column in mbi_mechanisms.transitions().items()}
    found = mbi_mechanisms.cells(rows)
    units = {name: column[:, None] for name, column in rows.items()}
    expected = [marginals._codes(axis, units)[:, 0] for axis in mbi_mechanisms.DISCRETISATION.axes]
    np.testing.assert_array_equal(np.stack(list(found.values())), np.stack(expected))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", [opacus_diffusion.hooks, opacus_diffusion.ghost])
def test_opacus_clips_and_sums_what_tacit_does(
    method: Callable[[nn.Module], tuple[nn.Module, opacus_diffusion.Update]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opacus")
    monkeypatch.setattr(opacus_diffusion, "PLAN", TransitionsPlan(steps=50, clip_norm=0.5, noise_multiplier=0.0))
    encoder = Encoder.from_bounds(opacus_diffusion.SPEC)
    objective = Denoising(encoder, 1, -1.2, 1.2)
    rows = {name: torch.from_numpy(column[:6, None]) for name, column in opacus_diffusion.columns().items()}
    rows["mask"] = torch.ones(6, 1, dtype=torch.bool)
    rows |= objective.draw(torch.Generator().manual_seed(0), 6, 1)
    theirs, ours = (build_network(TransitionsPlan(width=16, depth=2), encoder.size) for _ in range(2))
    ours.load_state_dict(theirs.state_dict())
    expected = clipped_sum(Denoiser(encoder, ours), objective.loss, rows, 0.5)
    network, update = method(theirs)
    update(objective.loss(Denoiser(encoder, network), rows))
    found = torch.cat([p.grad.flatten() for p in network.parameters()])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_stable_baselines_meets_the_same_poles() -> None:
    pytest.importorskip("stable_baselines3")
    poles, simulator = stable_baselines_ppo.vectorised(2), CartPole()
    first = poles.reset()
    assert first.shape == (2, 4)
    state = poles.state.copy()
    poles.age[1] = HORIZON - 1
    poles.step_async(np.array([0, 1]))
    seen, paid, over, infos = poles.step_wait()
    after, *_ = simulator.step(state, np.array([0, 1]), np.random.default_rng(0))
    np.testing.assert_array_equal(seen[0], simulator.observe(after)[0])
    np.testing.assert_array_equal(infos[1]["terminal_observation"], simulator.observe(after)[1])
    assert over.tolist() == [False, True]
    assert paid.tolist() == [1.0, 1.0]
    assert infos[1]["TimeLimit.truncated"]
    assert poles.age.tolist() == [1, 0]
