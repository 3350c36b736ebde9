"""What the engine cannot vouch for, it refuses by the parameter's name."""

import os
from collections.abc import Callable, Iterator, Mapping

import pytest
import torch
from gradient_cases import Mlp, relative, squared_loss, unit_gradients, vectors
from torch import Tensor, nn
from torch.nn import functional as F

from tacit.errors import MechanismError
from tacit.privacy.gradients.clipped_sums import clipped_sum, require_separate_units


class Odd(nn.Module):
    """A model with two named layers and a forward of one's own."""

    def __init__(self, forward: Callable[["Odd", Tensor], Tensor], **layers: nn.Module) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 8), nn.Linear(8, 3)
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.run = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


def overwrite(model: Odd, x: Tensor) -> Tensor:
    hidden = torch.tanh(model.first(x))
    out = model.second(hidden)
    hidden.mul_(2.0)
    return out


def functional_use(model: Odd, x: Tensor) -> Tensor:
    hidden = model.first(x)
    return model.second(hidden) + F.linear(hidden, model.second.weight)  # type: ignore[arg-type]


def only_functional(model: Odd, x: Tensor) -> Tensor:
    return F.linear(model.first(x), model.second.weight)  # type: ignore[arg-type]


def tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 3))
    model[1].weight = model[0].weight
    return model


def odd(forward: Callable[[Odd, Tensor], Tensor], **layers: nn.Module) -> Callable[[], nn.Module]:
    return lambda: Odd(forward, **layers)


def time_first(model: Odd, x: Tensor) -> Tensor:
    return model.second(model.first(x.transpose(0, 1))).transpose(0, 1)


def folded_time_first(model: Odd, x: Tensor) -> Tensor:
    return model.second(model.first(x.transpose(0, 1).flatten(0, 1))).unflatten(0, (4, -1)).transpose(0, 1)


def centred(model: Odd, x: Tensor) -> Tensor:
    hidden = model.first(x)
    return model.second(hidden - hidden.mean(0))


REFUSED: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "unused": (odd(lambda m, x: m.second(m.first(x)), spare=nn.Linear(2, 2)), "spare.weight", "no gradient"),
    "output unused": (
        odd(lambda m, x: (m.spare(x), m.second(m.first(x)))[1], spare=nn.Linear(16, 2)),
        "spare.weight",
        "no gradient",
    ),
    "detached": (odd(lambda m, x: m.second(m.first(x).detach())), "first.weight", "no gradient"),
    "called twice": (
        odd(lambda m, x: m.second(m.square(m.square(m.first(x)))), square=nn.Linear(8, 8)),
        "square.weight",
        "more than one call",
    ),
    "tied": (tied, "0.weight", "tied"),
    "also used functionally": (odd(functional_use), "second.weight", "outside"),
    "only used functionally": (odd(only_functional), "second.weight", "outside"),
    "input overwritten": (odd(overwrite), "second.weight", "overwritten"),
    "centred over the batch": (odd(centred), "first.weight", "several units"),
    "time first": (odd(time_first), "weight", "several units"),
    "time first, folded": (odd(folded_time_first), "weight", "several units"),
    "rows shared": (
        odd(lambda m, x: m.second(m.first(x) + m.place(torch.arange(4))), place=nn.Embedding(4, 8)),
        "place.weight",
        "several units",
    ),
    "rows shared, indivisible": (
        odd(lambda m, x: m.second(m.first(x) + m.place(torch.arange(3)).mean(0)), place=nn.Embedding(3, 8)),
        "place.weight",
        "multiple of the units",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_single_fresh_norm_is_refused_by_name(name: str) -> None:
    make, parameter, message = REFUSED[name]
    torch.manual_seed(0)
    model = make()
    with pytest.raises(MechanismError, match=f"{parameter}: .*{message}"):
        clipped_sum(model, squared_loss, vectors(6, 4), 1.0)
    assert all(p.requires_grad for p in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_mixing_is_seen_through_an_output_layer_of_zeros() -> None:
    model = Odd(centred)
    nn.init.zeros_(model.second.weight)
    with pytest.raises(MechanismError, match=r"first\.weight: .*several units"):
        clipped_sum(model, squared_loss, vectors(6), 1.0)


def test_mixing_is_seen_although_the_first_units_are_masked() -> None:
    def loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        return squared_loss(model, rows) * rows["valid"]

    model = Odd(time_first)
    rows = vectors(12, 12) | {"valid": (torch.arange(12) > 5).float()}
    with pytest.raises(MechanismError, match="several units"):
        clipped_sum(model, loss, rows, 1.0)


def test_a_hostile_unit_does_not_make_the_probe_refuse() -> None:
    rows = vectors(6)
    rows["x"][1], rows["y"][2] = torch.nan, torch.inf
    assert clipped_sum(Mlp(), squared_loss, rows, 1.0).isfinite().all()


def test_a_precision_of_a_backend_alone_is_refused_in_our_words() -> None:
    back, out = os.pipe()
    if not os.fork():  # the setting cannot be taken back
        try:
            torch.backends.mkldnn.matmul.fp32_precision = "bf16"
            require_separate_units(nn.Linear(1, 1))
        except MechanismError as error:
            os.write(out, str(error).encode())
        finally:
            os._exit(0)
    os.close(out)
    with os.fdopen(back) as told:
        assert "float32 matrix products are set to a lower precision" in told.read()
    os.wait()


@pytest.fixture
def lower_precision() -> Iterator[None]:
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.mark.usefixtures("lower_precision")
def test_products_below_float32_are_refused() -> None:
    with pytest.raises(MechanismError, match="float32_matmul_precision"):
        clipped_sum(Mlp(), squared_loss, vectors(3), 1.0)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (nn.BatchNorm1d(8), "BatchNorm1d"),
        (nn.BatchNorm1d(8, affine=False), "BatchNorm1d"),
        (nn.BatchNorm1d(8, track_running_stats=False).eval(), "BatchNorm1d"),
        (nn.SyncBatchNorm(8), "SyncBatchNorm"),
        (nn.InstanceNorm1d(8, track_running_stats=True), "InstanceNorm1d"),
        (nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)), "spectral"),
        (nn.utils.spectral_norm(nn.Linear(8, 8)), "spectral"),
        (nn.Embedding(8, 8, max_norm=1.0), "max_norm"),
        (nn.Embedding(8, 8, scale_grad_by_freq=True), "scale_grad_by_freq"),
        (nn.Linear(8, 8).bfloat16(), "bfloat16"),
        (nn.LazyLinear(8), "not initialised"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*weight_norm|.*spectral_norm:FutureWarning")
@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_layers_that_mix_units_or_keep_something_are_refused(layer: nn.Module, message: str) -> None:
    model = nn.Sequential(nn.Linear(16, 8), layer, nn.Linear(8, 3))
    with pytest.raises(MechanismError, match=f"1.*{message}"):
        clipped_sum(model, squared_loss, vectors(6), 1.0)


def test_a_buffer_that_changes_is_refused() -> None:
    class Counting(nn.Module):
        total: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(16))

        def forward(self, x: Tensor) -> Tensor:
            self.total += x.detach().sum(0)
            return x

    with pytest.raises(MechanismError, match=r"0\.total: .*buffer"):
        clipped_sum(nn.Sequential(Counting(), nn.Linear(16, 3)), squared_loss, vectors(6), 1.0)


@pytest.mark.parametrize(
    "loss",
    [
        lambda model, rows: squared_loss(model, rows).mean(),
        lambda model, rows: (model(rows["x"]) - rows["y"]).square(),
        lambda model, rows: squared_loss(model, rows).detach(),
        lambda model, rows: squared_loss(model, rows)[:-1],
    ],
)
def test_the_loss_is_one_differentiable_number_a_unit(
    loss: Callable[[nn.Module, Mapping[str, Tensor]], Tensor],
) -> None:
    with pytest.raises(MechanismError, match="one differentiable loss a unit"):
        clipped_sum(Mlp(), loss, vectors(6), 1.0)


@pytest.mark.parametrize("rows", [{}, {"x": torch.ones(2, 16), "y": torch.ones(3, 3)}, {"x": torch.tensor(1.0)}])
def test_rows_share_their_leading_axis(rows: dict[str, Tensor]) -> None:
    with pytest.raises(MechanismError, match="leading axis"):
        clipped_sum(Mlp(), squared_loss, rows, 1.0)


def test_nothing_to_train_is_refused() -> None:
    with pytest.raises(MechanismError, match="no parameter"):
        clipped_sum(Mlp().requires_grad_(False), squared_loss, vectors(2), 1.0)


def test_a_refused_step_leaves_no_norm_behind() -> None:
    """A layer that is skipped after an ordinary step is an error, not last step's norm."""
    model = Odd(lambda m, x: m.second(m.first(x)))
    rows = vectors(6)
    clipped_sum(model, squared_loss, rows, 1.0)
    model.run = lambda m, x: m.first(x)[..., :3]
    with pytest.raises(MechanismError, match=r"second\.weight"):
        clipped_sum(model, squared_loss, rows, 1.0)
    model.run = lambda m, x: m.second(m.first(x))
    expected = unit_gradients(model, squared_loss, rows).sum(0)
    assert relative(clipped_sum(model, squared_loss, rows, 1e9), expected) <= 5e-6


def test_a_layer_may_also_run_without_gradients() -> None:
    """Such as for a target computed by the same network."""

    def run(model: Odd, x: Tensor) -> Tensor:
        with torch.no_grad():
            target = model.second(model.first(x))
        return model.second(model.first(x)) - 0.5 * target

    model, rows = Odd(run), vectors(6)
    expected = unit_gradients(model, squared_loss, rows).sum(0)
    assert relative(clipped_sum(model, squared_loss, rows, 1e9), expected) <= 5e-6


def test_an_error_in_the_loss_leaves_the_model_usable() -> None:
    def loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        model(rows["x"][..., :5])
        raise AssertionError

    model = Mlp()
    with pytest.raises(RuntimeError):
        clipped_sum(model, loss, vectors(6), 1.0)
    assert all(p.requires_grad for p in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_dropout_is_drawn_row_by_row() -> None:
    model = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    assert clipped_sum(model, squared_loss, vectors(6), 1.0).isfinite().all()
