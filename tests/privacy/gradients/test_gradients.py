import gc
import math
import weakref
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import torch
from gradient_cases import (
    Convolution,
    Loss,
    Mlp,
    Tokens,
    mask_shares,
    masked_loss,
    middle_clip,
    reference,
    relative,
    shared_loss,
    squared_loss,
    token_loss,
    unit_gradients,
    vectors,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tacit.errors import MechanismError
from tacit.privacy.gradients import clipped_sums as gradients
from tacit.privacy.gradients.accumulator import GradientSum
from tacit.privacy.gradients.clipped_sums import add_clipped, assign_gradient, clipped_sum, trainable_parameters

Case = tuple[nn.Module, Loss, dict[str, Tensor]]


def tokens(units: int) -> dict[str, Tensor]:
    return {"tokens": torch.randint(11, (units, 2, 6), generator=torch.Generator().manual_seed(1))}


def case(name: str) -> Case:
    torch.manual_seed(0)
    if name == "tokens":
        return Tokens(), token_loss, tokens(9)
    if name == "fallback":
        draw = torch.Generator().manual_seed(2)
        rows = {"x": torch.randn(9, 4, 10, generator=draw), "y": 5 * torch.randn(9, 3, generator=draw)}
        return Convolution(), squared_loss, rows
    if name == "masked":
        rows = vectors(9, 5)
        rows["mask"] = torch.rand(9, 5, generator=torch.Generator().manual_seed(3)) < 0.6
        rows["mask"][4] = False
        return Mlp(), masked_loss, rows
    return Mlp(), squared_loss, vectors(9, *{"row": (), "gram": (4,), "stream": (60,), "nested": (2, 3)}[name])


CASES = ("row", "gram", "stream", "nested", "masked", "tokens", "fallback")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("clipped", ["all", "half", "none"])
def test_every_path_equals_the_float64_reference(name: str, clipped: str) -> None:
    model, loss, rows = case(name)
    clip = {"all": 1e-3, "half": middle_clip(model, loss, rows), "none": 1e6}[clipped]
    assert relative(clipped_sum(model, loss, rows, clip), reference(model, loss, rows, clip)) <= 5e-6


@pytest.mark.parametrize("name", CASES)
def test_chunks_and_order_and_scale_do_not_change_the_sum(name: str) -> None:
    model, loss, rows = case(name)
    clip = middle_clip(model, loss, rows)
    whole = clipped_sum(model, loss, rows, clip).double()
    assert relative(clipped_sum(model, loss, rows, clip, memory_bytes=1), whole) <= 5e-6
    order = torch.randperm(9)
    permuted = {key: tensor[order] for key, tensor in rows.items()}
    assert relative(clipped_sum(model, loss, permuted, clip), whole) <= 5e-6
    assert relative(4 * clipped_sum(model, loss, rows, clip, scale=0.25), whole) <= 5e-6


@pytest.mark.parametrize("name", CASES)
def test_sums_of_disjoint_batches_add_up(name: str) -> None:
    model, loss, rows = case(name)
    clip = middle_clip(model, loss, rows)
    first, second = ({key: tensor[part] for key, tensor in rows.items()} for part in (slice(0, 2), slice(2, 9)))
    sums = GradientSum(trainable_parameters(model))
    for piece in (first, second):
        add_clipped(sums, model, loss, piece, clip)
    assert relative(sums.to_vector(), clipped_sum(model, loss, rows, clip).double()) <= 5e-6


@pytest.mark.parametrize("memory_bytes", [1, 1 << 30])
@pytest.mark.parametrize("name", CASES)
def test_chunks_of_a_pass_are_summed_apart_and_what_lies_between_is_left_out(name: str, memory_bytes: int) -> None:
    model, loss, rows = case(name)
    clip, chunks = middle_clip(model, loss, rows), [(0, 2), (3, 3), (4, 8)]
    sums = GradientSum(trainable_parameters(model))
    add_clipped(sums, model, loss, rows, clip, memory_bytes=memory_bytes, chunks=chunks)
    inside = {key: tensor[[0, 1, 4, 5, 6, 7]] for key, tensor in rows.items()}
    assert relative(sums.to_vector(), reference(model, loss, inside, clip)) <= 5e-6


@pytest.mark.parametrize("name", CASES)
def test_the_bits_of_a_chunk_do_not_depend_on_another_that_shares_its_pass(name: str) -> None:
    model, loss, rows = case(name)
    found = []
    for stop in (4, 3):
        others = {key: tensor.clone() for key, tensor in rows.items()}
        for tensor in others.values():
            tensor[stop:5] = 0
        sums = GradientSum(trainable_parameters(model))
        add_clipped(sums, model, loss, others, 1.0, chunks=[(0, stop), (5, 9)])
        found.append(sums._chunk.numpy().tobytes())
    assert found[0] == found[1]


def test_chunks_follow_the_memory() -> None:
    model, _, rows = case("gram")
    sizes: list[int] = []

    def loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        sizes.append(len(rows["x"]))
        return squared_loss(model, rows)

    def largest(memory_bytes: int) -> int:
        sizes.clear()
        clipped_sum(model, loss, rows, 1.0, memory_bytes=memory_bytes)
        assert sum(sizes[1:]) == 9  # after the probe
        return max(sizes[1:])

    # 4 rows of 48 floats: input's output, LayerNorm's output, residual sum, and the gradients at three of them at least
    assert largest(1) == 1
    assert largest(1 << 30) == 9
    assert 1 <= largest(9 * 4 * 48 * 4 * 4) <= 6


def fragments(units: int = 6, count: int = 8) -> dict[str, Tensor]:
    """Fragments of four rows, some of which do not count; one unit has none that does."""
    rows = vectors(units, count, 4)
    rows["mask"] = torch.rand(units, count, 4, generator=torch.Generator().manual_seed(3)) < 0.6
    rows["mask"][2] = False
    return rows | {"unit": torch.arange(units)}


@pytest.mark.parametrize("model", [Mlp(), nn.Sequential(Mlp(), nn.PReLU())], ids=["book-keeping", "fallback"])
def test_units_above_the_memory_go_through_part_by_part(model: nn.Module) -> None:
    rows, lengths = fragments(), list[int]()

    def loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        lengths.append(rows["x"].shape[1])
        return shared_loss(model, rows)

    clip = middle_clip(model, shared_loss, rows | mask_shares(rows))
    expected = reference(model, shared_loss, rows | mask_shares(rows), clip)
    for memory_bytes, longest in ((1, 1), (1 << 30, 8)):
        lengths.clear()
        found = clipped_sum(model, loss, rows, clip, shares=mask_shares, memory_bytes=memory_bytes)
        assert relative(found, expected) <= 5e-6
        assert max(lengths) == max(longest, 2)  # the probe sees two at most
        assert lengths.count(longest) >= (6 * 8 if longest == 1 else 1)
    assert not clipped_sum(model, shared_loss, rows, 0.0, shares=mask_shares, memory_bytes=1).any()


@pytest.mark.parametrize("hostile", [math.nan, math.inf, 1e30])
def test_a_hostile_part_costs_its_unit_at_most_the_clip(hostile: float) -> None:
    model, rows, clip = Mlp(), fragments(), 0.3
    rows["x"][1, 5, 0, 0] = hostile
    rows["mask"][1] = True
    others = torch.arange(6) != 1
    whole = clipped_sum(model, shared_loss, rows, clip, shares=mask_shares, memory_bytes=1)
    kept = {name: tensor[others] for name, tensor in rows.items()}
    without = clipped_sum(model, shared_loss, kept, clip, shares=mask_shares, memory_bytes=1)
    assert whole.isfinite().all()
    assert float((whole.double() - without.double()).norm()) <= clip


def test_what_cannot_be_divided_alike_is_refused() -> None:
    rows = fragments()
    rows["draws"] = torch.zeros(6, 3)
    with pytest.raises(MechanismError, match="no common second axis"):
        clipped_sum(Mlp(), shared_loss, rows, 1.0, shares=mask_shares)


def test_no_unit_adds_nothing_and_runs_nothing() -> None:
    model, _, rows = case("row")

    def loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        raise AssertionError

    none = {key: tensor[:0] for key, tensor in rows.items()}
    assert not clipped_sum(model, loss, none, 1.0).any()


def test_clip_zero_gives_zero() -> None:
    for name in CASES:
        assert not clipped_sum(*case(name), 0.0).any()


def test_frozen_parameters_are_left_out() -> None:
    model, loss, rows = case("gram")
    assert isinstance(model, Mlp)
    model.hidden.requires_grad_(False)
    model.input.weight.requires_grad_(False)
    model.norm.bias.requires_grad_(False)
    model.output.bias.requires_grad_(False)
    clip = middle_clip(model, loss, rows)
    flat = clipped_sum(model, loss, rows, clip)
    assert flat.shape == (48 + 48 + 3 * 48,)
    assert relative(flat, reference(model, loss, rows, clip)) <= 5e-6


def test_opacus_agrees() -> None:
    opacus = pytest.importorskip("opacus")
    model, loss, rows = case("row")
    assert isinstance(model, Mlp)
    model.relu.inplace = False  # its backward hooks refuse it
    clip = middle_clip(model, loss, rows)
    ours = clipped_sum(model, loss, rows, clip)
    wrapped = opacus.GradSampleModule(model, loss_reduction="sum")
    loss(wrapped, {key: tensor.requires_grad_() for key, tensor in rows.items()}).sum().backward()
    samples = torch.cat([p.grad_sample.flatten(1) for p in wrapped.parameters()], 1).double()  # type: ignore[attr-defined]
    factors = (clip * (1 - 1e-4) / samples.norm(dim=1)).clamp(max=1.0)
    assert relative(ours, factors @ samples) <= 2e-5  # its norms are summed in float32


HOSTILE = (math.nan, math.inf, -math.inf, 3e38, -1e30, 1e19, 1e5, 1e-20, 1e-45, 0.0)


@pytest.mark.parametrize("name", ["row", "gram", "stream"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_one_unit_moves_the_sum_by_at_most_the_clip(name: str, data: st.DataObject) -> None:
    model, loss, rows = case(name)
    clip = data.draw(st.sampled_from([1e-6, 1.0, 100.0]))
    unit = data.draw(st.integers(0, 8))
    for key in ("x", "y"):
        if data.draw(st.booleans()):
            values = data.draw(st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=4))
            flat = rows[key][unit].flatten()
            rows[key][unit] = (
                torch.tensor(values).repeat(flat.numel() // len(values) + 1)[: flat.numel()].view_as(rows[key][unit])
            )
    if data.draw(st.booleans()):
        rows = {
            key: torch.cat([tensor, tensor[unit : unit + 1].expand(3, *tensor.shape[1:])])
            for key, tensor in rows.items()
        }
    others = torch.arange(len(rows["x"])) != unit
    with_unit = clipped_sum(model, loss, rows, clip)
    without = clipped_sum(model, loss, {key: tensor[others] for key, tensor in rows.items()}, clip)
    assert with_unit.isfinite().all()
    assert float((with_unit.double() - without.double()).norm()) <= clip


@pytest.mark.parametrize("name", ["row", "gram", "stream", "nested", "fallback"])
@pytest.mark.parametrize("hostile", [math.nan, math.inf])
def test_a_unit_that_is_not_finite_counts_as_zero_and_touches_nobody(name: str, hostile: float) -> None:
    model, loss, rows = case(name)
    clip = middle_clip(model, loss, rows)
    rows["x"][3, ..., 0] = hostile
    others = torch.arange(9) != 3
    expected = reference(model, loss, {key: tensor[others] for key, tensor in rows.items()}, clip)
    assert relative(clipped_sum(model, loss, rows, clip), expected) <= 5e-6


def test_squares_that_underflow_are_clipped_all_the_same() -> None:
    """|a|^2 |g|^2 is (6e-4)^2, but |g|^2 alone is below the smallest float32."""
    model = nn.Linear(64, 64)

    def loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        return 1e-23 * model(rows["x"]).sum(1)

    flat = clipped_sum(model, loss, {"x": torch.full((2, 64), 1e18)}, 1e-6)
    assert 0 < float(flat.double().norm()) <= 2e-6


def test_autocast_keeps_norm_and_product_in_float32() -> None:
    model, _, rows = case("row")

    def loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return squared_loss(model, rows)

    flat = clipped_sum(model, loss, {key: tensor[:1] for key, tensor in rows.items()}, 1e-3)
    assert flat.dtype == torch.float32
    assert float(flat.double().norm()) == pytest.approx(1e-3 * (1 - 1e-4), rel=1e-6)


def test_the_model_is_left_as_it_was() -> None:
    model, loss, rows = case("tokens")
    before = [p.clone() for p in model.parameters()]
    clipped_sum(model, loss, rows, 1.0)
    assert all(
        torch.equal(p, old) and p.requires_grad and p.grad is None
        for p, old in zip(model.parameters(), before, strict=True)
    )
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_the_result_needs_no_gradient_mode() -> None:
    model, loss, rows = case("row")
    expected = clipped_sum(model, loss, rows, 1.0)
    with torch.no_grad():
        assert torch.equal(clipped_sum(model, loss, rows, 1.0), expected)


def test_assigned_gradients_are_views_in_the_order_of_the_parameters() -> None:
    model = Mlp()
    model.norm.requires_grad_(False)
    flat = torch.arange(sum(p.numel() for p in model.parameters() if p.requires_grad), dtype=torch.float32)
    assign_gradient(model, flat)
    assert model.norm.weight.grad is None
    assert torch.equal(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]), flat)
    flat.zero_()
    assert not any(p.grad.any() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("flat", [torch.zeros(3), torch.zeros(3, dtype=torch.float64), torch.zeros(51)[::1]])
def test_a_flat_vector_that_does_not_fit_is_refused(flat: Tensor) -> None:
    with pytest.raises(MechanismError, match="flat gradient"):
        assign_gradient(nn.Linear(16, 4), flat)


@dataclass(frozen=True)
class Objective:
    power: float
    widths: tuple[int, ...] | list[int] = ()

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        CALLS.append(len(rows["x"]))
        return squared_loss(model, rows) * self.power


CALLS: list[int] = []


def test_a_frozen_objective_is_probed_once_and_a_closure_at_every_step() -> None:
    model, _, rows = case("row")
    CALLS.clear()
    for _ in range(3):
        clipped_sum(model, Objective(2.0).loss, rows, 1.0)
    assert CALLS == [4, 9, 9, 9]
    CALLS.clear()
    for _ in range(2):
        clipped_sum(model, lambda m, r: Objective(2.0).loss(m, r) * rows["x"].shape[0], rows, 1.0)
    clipped_sum(model, Objective(2.0, [1]).loss, rows, 1.0)
    assert CALLS == [4, 9, 4, 9, 4, 9]


def test_the_probe_holds_no_model_alive() -> None:
    model, loss, rows = case("row")
    clipped_sum(model, loss, rows, 1.0)
    assert model in gradients._probed
    watch = weakref.ref(model)
    del model
    gc.collect()
    assert watch() is None


def test_units_whose_losses_are_constant_count_as_zero() -> None:
    model, loss, rows = case("masked")
    rows["mask"][:] = False
    assert not clipped_sum(model, loss, rows, 1.0).any()
    rows["mask"][5] = True
    clip = 1e-2
    assert float(unit_gradients(model, loss, rows)[5].norm()) > clip
    assert float(clipped_sum(model, loss, rows, clip).double().norm()) == pytest.approx(clip * (1 - 1e-4), rel=1e-6)
