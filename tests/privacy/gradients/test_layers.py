import pytest
import torch
from torch import Tensor, nn

from tacit.privacy.gradients.layers import (
    DenseGradients,
    LearnedTable,
    OuterProduct,
    Segments,
    contribution,
    is_supported,
    row_squares,
)

BOTH = frozenset({"weight", "bias"})


def rows(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("count", "kind"),
    [(1, OuterProduct), (2, OuterProduct), (8, OuterProduct), (9, DenseGradients), (40, DenseGradients)],
)  # 9 * 9 * (20 + 20) > 8 * 20 * 20
def test_linear_takes_the_cheapest_form_and_all_agree(count: int, kind: type) -> None:
    a, g = rows(5, count, 20), rows(5, count, 20, seed=1)
    result = contribution(nn.Linear(20, 20), a.flatten(0, 1), g.flatten(0, 1), 5, BOTH)
    assert isinstance(result, kind)
    weight, bias = g.double().transpose(1, 2) @ a.double(), g.double().sum(1)
    torch.testing.assert_close(result.squares, weight.square().sum((1, 2)) + bias.square().sum(1), rtol=1e-5, atol=0)
    into = {"weight": torch.ones(20, 20), "bias": torch.ones(20)}
    factors = torch.tensor([0.5, 0.0, 2.0])
    result.add(into, factors, torch.tensor([0, 2, 3]), beta=1.0)
    expected = (factors.double() @ weight[[0, 2, 3]].flatten(1)).view(20, 20)
    torch.testing.assert_close(into["weight"].double() - 1, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(into["bias"].double() - 1, factors.double() @ bias[[0, 2, 3]], rtol=1e-5, atol=1e-5)
    nothing = {name: torch.full_like(tensor, torch.nan) for name, tensor in into.items()}
    result.add(nothing, factors, torch.tensor([0, 2, 3]), beta=0.0)
    torch.testing.assert_close(nothing["weight"].double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(nothing["bias"].double(), factors.double() @ bias[[0, 2, 3]], rtol=1e-5, atol=1e-5)


def test_the_gram_form_never_understates_rows_that_cancel() -> None:
    """g_1 = -g_2 and a_1 close to a_2: in float32 the Gram sum would be rounding error alone."""
    a, g = rows(6, 1, 64).repeat(1, 2, 1), rows(6, 1, 64, seed=1).repeat(1, 2, 1)
    a[:, 1] *= 1 + 10.0 ** -torch.arange(1.0, 7.0)[:, None]
    g[:, 1] *= -1
    result = contribution(nn.Linear(64, 64), a.flatten(0, 1), g.flatten(0, 1), 6, BOTH)
    exact = (g.double().transpose(1, 2) @ a.double()).square().sum((1, 2)) + g.double().sum(1).square().sum(1)
    spread = 2 * (a[:, 0].double().norm(dim=1) ** 2 + 1).sqrt() * g[:, 0].double().norm(dim=1)
    assert isinstance(result, OuterProduct)
    assert (result.squares >= exact * (1 - 1e-5)).all()
    torch.testing.assert_close(result.squares[:2], exact[:2], rtol=1e-5, atol=0)  # cancelled to 5 % and 0.5 %
    torch.testing.assert_close(result.squares[4:].sqrt(), 1e-3 * spread[4:], rtol=1e-3, atol=0)


def test_row_squares_count_what_underflows() -> None:
    assert row_squares(torch.tensor([[3.0, 4.0]])).tolist() == [25.0]
    assert float(row_squares(torch.full((1, 4), 1e-23))) >= 4e-46
    assert row_squares(torch.full((1, 4), 1e20)).isinf().all()
    assert row_squares(torch.tensor([[torch.nan, 1.0]])).isnan().all()


def test_layer_norm_by_hand() -> None:
    """Rows (1, 3) and (0, 4) normalise to (-1, 1); gradients weigh them."""
    module = nn.LayerNorm(2, eps=0.0)
    a = torch.tensor([[1.0, 3.0], [0.0, 4.0]])
    g = torch.tensor([[2.0, 5.0], [1.0, 1.0]])
    result = contribution(module, a, g, 1, BOTH)
    assert isinstance(result, DenseGradients)
    torch.testing.assert_close(result.gradients["weight"], torch.tensor([[-3.0, 6.0]]))
    torch.testing.assert_close(result.gradients["bias"], torch.tensor([[3.0, 6.0]]))
    assert result.squares.tolist() == pytest.approx([9 + 36 + 9 + 36])


def test_embedding_by_hand() -> None:
    """Unit 0 reads row 2 twice and row 1 once; unit 1 reads the padding row 0 and row 2."""
    module = nn.Embedding(3, 2, padding_idx=0)
    a = torch.tensor([[2, 1, 2], [0, 2, 0]])
    g = torch.tensor([[[1.0, 0.0], [0.0, 5.0], [2.0, 4.0]], [[9.0, 9.0], [1.0, 1.0], [9.0, 9.0]]])
    result = contribution(module, a, g, 2, frozenset({"weight"}))
    assert isinstance(result, Segments)
    assert result.squares.tolist() == pytest.approx([9 + 16 + 25, 2])
    into = {"weight": torch.full((3, 2), torch.nan)}
    result.add(into, torch.tensor([1.0, 0.5]), None, beta=0.0)
    assert into["weight"].tolist() == [[0, 0], [0, 5], [3.5, 4.5]]
    result.add(into, torch.tensor([2.0]), torch.tensor([1]), beta=1.0)
    assert into["weight"].tolist() == [[0, 0], [0, 5], [5.5, 6.5]]


def test_table_adds_and_sums_its_gradient_over_the_unit() -> None:
    table = LearnedTable(3, 2)
    x = rows(4, 3, 2)
    torch.testing.assert_close(table(x), x + table.weight)
    result = contribution(table, x, x, 2, frozenset({"weight"}))
    assert isinstance(result, DenseGradients)
    torch.testing.assert_close(result.gradients["weight"], torch.stack([x[0] + x[1], x[2] + x[3]]))
    with pytest.raises(ValueError, match="does not end in"):
        table(rows(4, 3, 1))


def test_only_exact_classes_with_their_own_parameters_are_supported() -> None:
    class Scaled(nn.Linear):
        pass

    assert is_supported(nn.Linear(2, 2))
    assert is_supported(LearnedTable(2))
    assert not is_supported(Scaled(2, 2))
    assert not is_supported(nn.Conv1d(2, 2, 1))
    assert not is_supported(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)))
