"""EDM against closed forms: for Gaussian data the best denoiser is known, and samplers must give the Gaussian back."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from tacit.data.spec import Box, PublicSpec
from tacit.errors import PlanError
from tacit.methods.synthesis.diffusion import (
    Denoise,
    Denoiser,
    ResidualMLP,
    denoising_loss,
    dpm_solver,
    draw,
    heun,
    noise_levels,
    preconditioning,
    row_losses,
    sample,
    sample_encoded,
)
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Sampler

SPEC = PublicSpec(
    observation=Box((0.0, 0.0), (1.0, 1.0)),
    action=Box((-1.0,), (1.0,)),
    reward=Box((0.0,), (1.0,)),
    source="physics",
    terminals=False,
    difference=(0.1, 0.1),
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small_model(seed: int = 0) -> Denoiser:
    encoder = Encoder.from_bounds(SPEC)
    torch.manual_seed(seed)
    return Denoiser(encoder, ResidualMLP(encoder.size, width=16, depth=2, harmonics=1))


def batch(model: Denoiser, units: int, length: int, draws: int, seed: int = 0) -> dict[str, Tensor]:
    uniform = generator(seed)
    rows = {
        "observations": torch.rand(units, length, 2, generator=uniform),
        "actions": 2 * torch.rand(units, length, 1, generator=uniform) - 1,
        "rewards": torch.rand(units, length, generator=uniform),
        "next_observations": torch.rand(units, length, 2, generator=uniform),
        "terminations": torch.zeros(units, length, dtype=torch.bool),
        "mask": torch.ones(units, length, dtype=torch.bool),
    }
    return rows | draw(uniform, units, length, encoder=model.encoder, noise_multiplicity=draws)


@pytest.mark.parametrize(
    ("sigma", "expected"),
    [
        (1.0, (0.5, math.sqrt(0.5), math.sqrt(0.5), 0.0)),
        (2.0, (0.2, 2 / math.sqrt(5), 1 / math.sqrt(5), math.log(2) / 4)),
        (0.75, (0.64, 0.6, 0.8, math.log(0.75) / 4)),
    ],
)
def test_preconditioning(sigma: float, expected: tuple[float, ...]) -> None:
    """EDM table 1 with sigma_data = 1."""
    values = [c.item() for c in preconditioning(torch.tensor(sigma))]
    assert values == pytest.approx(expected, abs=1e-6)


def test_denoiser_is_the_preconditioned_network() -> None:
    model = small_model()
    x, sigma = torch.randn(4, 6, generator=generator()), torch.tensor([0.1, 0.75, 2.0, 5.0])
    s = sigma[:, None]
    raw = model.network(x / (s**2 + 1).sqrt(), sigma.log() / 4)
    expected = x / (s**2 + 1) + s / (s**2 + 1).sqrt() * raw
    assert torch.allclose(model(x, sigma), expected, atol=1e-6)


def test_loss_is_edm_weighted_error_of_the_denoised_row() -> None:
    """lambda (D - y)^2 with lambda = (s^2 + 1) / s^2, averaged over columns, then over draws, then over rows."""
    model = small_model()
    rows = batch(model, units=3, length=2, draws=4)
    rows["mask"][1, 1] = False
    clean = model.encoder.encode(rows, rows["spread"])
    expected = []
    for u in range(3):
        losses = []
        for i in range(2 if u != 1 else 1):
            for k in range(4):
                s = rows["sigma"][u, i, k]
                denoised = model((clean[u, i] + s * rows["noise"][u, i, k])[None], s[None])[0]
                losses.append(((s**2 + 1) / s**2 * (denoised - clean[u, i]).square().mean()).item())
        expected.append(sum(losses) / len(losses))
    assert denoising_loss(model, rows).tolist() == pytest.approx(expected, rel=1e-3)


def test_masked_rows_count_for_nothing() -> None:
    model = small_model()
    rows = batch(model, units=2, length=3, draws=1)
    rows["mask"][0] = torch.tensor([True, False, False])
    rows["mask"][1] = False
    loss = denoising_loss(model, rows)
    rows["rewards"][0, 1:] = 0.0
    again = denoising_loss(model, rows)
    assert torch.equal(loss, again)
    assert loss[0] > 0
    assert loss[1] == 0


def test_best_possible_loss_of_gaussian_data() -> None:
    """Data N(0, 1): D* = c_skip x, so the network should say 0, and its target has variance 1 at every sigma."""
    model = small_model()
    with torch.no_grad():
        model.network.row_out.weight.zero_()
        model.network.row_out.bias.zero_()
    clean = torch.randn(4_000, 6, generator=generator())
    draws = draw(generator(1), 4_000, 1, encoder=model.encoder)
    losses = row_losses(model, clean, draws["sigma"][:, 0], draws["noise"][:, 0])
    assert losses.mean().item() == pytest.approx(1.0, abs=0.03)


def test_units_do_not_meet() -> None:
    """Another unit's rows change a unit's loss by nothing, bit for bit; so do the gradients' sums."""
    model = small_model()
    rows, others = batch(model, 5, 2, 2, seed=0), batch(model, 5, 2, 2, seed=1)
    base = denoising_loss(model, rows)
    for unit in range(5):
        changed = {name: column.clone() for name, column in rows.items()}
        for name in changed:
            changed[name][unit] = others[name][unit]
        loss = denoising_loss(model, changed)
        keep = torch.arange(5) != unit
        assert torch.equal(loss[keep], base[keep])
        assert loss[unit] != base[unit]


def test_draws_follow_their_laws() -> None:
    encoder = Encoder.from_bounds(SPEC)
    draws = draw(generator(), 4_000, 2, encoder=encoder, noise_multiplicity=3, P_mean=-1.0, P_std=0.5)
    assert draws["sigma"].shape == (4_000, 2, 3)
    assert draws["noise"].shape == (4_000, 2, 3, 6)
    assert draws["spread"].shape == (4_000, 2, 4)
    assert draws["sigma"].log().mean().item() == pytest.approx(-1.0, abs=0.01)
    assert draws["sigma"].log().std().item() == pytest.approx(0.5, abs=0.01)
    assert draws["noise"].std().item() == pytest.approx(1.0, abs=0.01)


def test_draws_of_a_row_are_spread_over_the_noise_levels() -> None:
    """Each of K = 2 draws lies in its own half of the law: below and above the median."""
    draws = draw(generator(), 500, 1, encoder=Encoder.from_bounds(SPEC), noise_multiplicity=2, P_mean=-1.2)
    assert (draws["sigma"][..., 0].log() <= -1.2).all()
    assert (draws["sigma"][..., 1].log() >= -1.2).all()


def test_schedule_literals() -> None:
    """EDM equation 5 with rho 1 is a straight line, with rho 7 the published levels."""
    line = noise_levels(Sampler(steps=5, sigma_min=1.0, sigma_max=5.0, rho=1.0))
    assert line.tolist() == pytest.approx([5, 4, 3, 2, 1, 0])
    three = noise_levels(Sampler(steps=3, sigma_min=0.002, sigma_max=80.0, rho=7.0))
    assert three.tolist() == pytest.approx([80.0, 2.5152, 0.002, 0.0], rel=1e-4)


def gaussian_denoiser(mean: float, std: float) -> Denoise:
    """E[y | y + sigma n] for y ~ N(mean, std^2)."""

    def denoise(x: Tensor, sigma: Tensor) -> Tensor:
        weight = std**2 / (std**2 + sigma[:, None] ** 2)
        return mean + weight * (x - mean)

    return denoise


def run(denoise: Denoise, x: Tensor, sampler: Sampler) -> Tensor:
    return (
        heun(denoise, x, sampler, generator(1))
        if sampler.method == "heun"
        else dpm_solver(denoise, x, sampler, generator(1))
    )


SAMPLERS = {
    "default": Sampler(),
    "flow": Sampler(eta=0.0),
    "half": Sampler(eta=0.5, steps=40),
    "heun": Sampler(method="heun", steps=20),
    "heun_wide": Sampler(method="heun", steps=32, sigma_max=80.0, sigma_min=0.002),
    "paper": Sampler.paper(),
    "churn": Sampler(method="heun", steps=32, churn=8.0, churn_noise=1.0),
}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.7, 0.5)])
def test_samplers_give_the_gaussian_back(name: str, mean: float, std: float) -> None:
    sampler = SAMPLERS[name]
    denoise = gaussian_denoiser(mean, std)
    start = math.hypot(sampler.sigma_max, std)
    x = mean + start * torch.randn(40_000, 1, generator=generator())
    drawn = run(denoise, x, sampler)
    assert drawn.mean().item() == pytest.approx(mean, abs=0.02)
    assert drawn.std().item() == pytest.approx(std, rel=0.025)


def test_deterministic_samplers_agree_row_by_row() -> None:
    """Both follow the same probability flow: with fine steps x_0 = mean + (x - mean) std / hypot(std, sigma_max)."""
    denoise = gaussian_denoiser(0.3, 0.8)
    x = 5 * torch.randn(200, 2, generator=generator())
    exact = 0.3 + (x - 0.3) * 0.8 / math.hypot(0.8, 5.0)
    fine = Sampler(method="heun", steps=200, sigma_min=0.002)
    assert torch.allclose(heun(denoise, x, fine, generator()), exact, atol=2e-3)
    assert torch.allclose(
        dpm_solver(denoise, x, Sampler(steps=200, sigma_min=0.002, eta=0.0), generator()), exact, atol=2e-3
    )


def test_second_order_beats_first_order() -> None:
    """Against Euler's method with the same steps."""
    denoise = gaussian_denoiser(0.0, 0.3)
    x = 5 * torch.randn(500, 1, generator=generator())
    exact = x * 0.3 / math.hypot(0.3, 5.0)
    levels = noise_levels(Sampler(steps=24)).tolist()
    euler = x
    for level, following in pairwise(levels):
        slope = (euler - denoise(euler, torch.full((500,), level))) / level
        euler = euler + (following - level) * slope
    error = (euler - exact).abs().mean()
    for drawn in (
        heun(denoise, x, Sampler(method="heun", steps=24), generator()),
        dpm_solver(denoise, x, Sampler(steps=24, eta=0.0), generator()),
    ):
        assert (drawn - exact).abs().mean() < error / 3


def test_the_reverse_diffusion_forgets_its_start() -> None:
    """With eta 1 two chains from one start differ as two independent draws do; with eta 0 they are equal."""
    denoise = gaussian_denoiser(0.0, 1.0)
    x = torch.full((20_000, 1), 3.0)
    one, two = (dpm_solver(denoise, x, Sampler(), generator(seed)) for seed in (1, 2))
    assert (one - two).std().item() == pytest.approx(math.sqrt(2), rel=0.05)
    flow = Sampler(eta=0.0)
    assert torch.equal(dpm_solver(denoise, x, flow, generator(1)), dpm_solver(denoise, x, flow, generator(2)))


def test_sampling_in_batches_and_in_bounds() -> None:
    model = small_model()
    drawn = sample(model, 25, Sampler(steps=4), generator(), batch=10)
    assert drawn["observations"].shape == (25, 2)
    assert drawn["rewards"].shape == (25,)
    assert drawn["actions"].abs().max() <= 1
    assert not drawn["terminations"].any()
    again = sample(model, 25, Sampler(steps=4), generator(), batch=10)
    assert all(torch.equal(drawn[name], again[name]) for name in drawn)
    assert not drawn["observations"].requires_grad


def test_start_has_the_spread_of_noisy_data() -> None:
    """With a denoiser that returns its input the chain never moves: the samples are the starts."""
    model = small_model()
    model.forward = lambda noisy, sigma: noisy  # type: ignore[method-assign]
    drawn = sample_encoded(model, 20_000, Sampler(sigma_max=2.0, eta=0.0), generator())
    assert drawn.std().item() == pytest.approx(math.sqrt(5), rel=0.02)


def test_a_diverged_model_is_an_error() -> None:
    model = small_model()
    with torch.no_grad():
        model.network.row_out.bias.fill_(float("inf"))
    with pytest.raises(PlanError, match="not finite"):
        sample(model, 4, Sampler(steps=3), generator())
