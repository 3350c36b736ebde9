"""Generator and student: generated rows look like real ones, labels may be noisy, slopes are held back."""

from __future__ import annotations

import math

import torch

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.methods.synthesis.baselines import pate_gan as networks
from tacit.methods.synthesis.baselines.pate_gan_plan import PateGanPlan
from tacit.methods.synthesis.encoding import Encoder

SPEC = PublicSpec(Box((-1.0, 0.0), (1.0, 4.0)), Discrete(3), Box((0.0,), (1.0,)), "declared", difference=(0.1, 0.2))
ENCODER = Encoder.from_bounds(SPEC)
PLAN = PateGanPlan(width=16, depth=1, student_width=16, harmonics=1)


def test_waves_of_literal_rows() -> None:
    rows = torch.tensor([[0.0, 2.0]])
    # Angles: 0 and 0 of the first column, pi / 2 and pi of the second; the sines of all come before the cosines.
    expected = torch.tensor([[0.0, 2.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, -1.0]])
    torch.testing.assert_close(networks.waves(rows, 2), expected, atol=1e-6, rtol=0)
    assert networks.waves(rows, 0).equal(rows)


def test_generated_rows_are_encodings_of_rows_inside_the_bounds() -> None:
    generator, _ = networks.build(PLAN, ENCODER, seed=0)
    rows = generator(3 * torch.randn(200, ENCODER.size, generator=torch.Generator().manual_seed(1)))
    again = ENCODER.encode(ENCODER.decode(rows), torch.zeros(200, ENCODER.bounded_size))
    torch.testing.assert_close(rows, again, atol=1e-4, rtol=0)
    actions = rows[:, 2:5]
    torch.testing.assert_close(actions.sort(1).values, torch.tensor([-1.0, -1.0, 1.0]).expand(200, 3))
    assert rows[:, :2].abs().max() <= math.sqrt(3) + 1e-5
    assert set(rows[:, -1].round(decimals=5).tolist()) == {0.0, 1.0}


def test_gradients_pass_the_projection_as_if_it_were_not_there() -> None:
    generator, _ = networks.build(PLAN, ENCODER, seed=0)
    noise = 9 * torch.ones(4, ENCODER.size)
    direct, passed = noise.clone().requires_grad_(), noise.clone().requires_grad_()
    (direct + generator.network(direct)).sum().backward()
    generator(passed).sum().backward()
    assert direct.grad is not None
    assert passed.grad is not None
    torch.testing.assert_close(direct.grad, passed.grad)


def test_noise_of_the_labels_leaves_the_expected_loss() -> None:
    _, student = networks.build(PLAN, ENCODER, seed=0)
    rows, labels = torch.randn(30, ENCODER.size), torch.rand(30)
    noise = 5 * torch.randn(30)
    up, down = (networks.student_loss(student, rows, labels + sign * noise, penalty=0.0) for sign in (1, -1))
    plain = networks.student_loss(student, rows, labels, penalty=0.0)
    torch.testing.assert_close((up + down) / 2, plain)
    logits = student(rows)
    torch.testing.assert_close(plain, torch.nn.functional.binary_cross_entropy_with_logits(logits, labels))


def test_the_penalty_is_the_squared_slope() -> None:
    class Linear(networks.Student):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return rows @ torch.tensor([3.0, -4.0])

    student = Linear(2, width=1, harmonics=0)
    rows, labels = torch.randn(6, 2), torch.rand(6)
    with_it, without = (networks.student_loss(student, rows, labels, penalty=weight) for weight in (0.1, 0.0))
    torch.testing.assert_close(with_it - without, torch.tensor(2.5))


def test_weights_depend_on_the_seed_alone() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (networks.build(PLAN, ENCODER, seed=seed)[1].network[0].weight for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(before, torch.random.get_rng_state())
