"""What the benchmark of the policy gradient compares with computes the same thing."""

import numpy as np
import torch
from benchmarks.peers import cleanrl_style, torch_users

from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.methods.policy_gradient import Policy, Scaled
from tacit.methods.policy_gradient.advantages import Advantages
from tacit.methods.policy_gradient.contributions import Released
from tacit.methods.policy_gradient.local_updates import LocalUpdates, Training


def test_the_loop_over_people_sends_what_local_updates_send():
    generator, shape, sizes = np.random.default_rng(0), (3, 8), (2, 5, 3)
    policy = Policy(Scaled((-1.0, -1.0), (1.0, 1.0)), Mlp(sizes, gain=1.0), Categorical(3))
    theta = policy.initial(generator, 1)
    rows = {
        "observations": generator.uniform(-1.0, 1.0, (*shape, 2)).astype(np.float32),
        "actions": generator.integers(3, size=shape),
        "rewards": generator.normal(size=shape).astype(np.float32),
        "mask": np.ones(shape, bool),
        "starts": np.zeros(shape, bool),
        "replicate": np.zeros(3, np.int64),
    }
    training = Training(learning_rate=1e-3, epochs=3, minibatches=2)
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
    np.testing.assert_allclose(sent, update(rows, Released(theta, None, np.ones(1))), rtol=0, atol=1e-6)


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
