"""Random network distillation and its two ways into a batch."""

from __future__ import annotations

import pytest
import torch

from tacit.methods.synthesis import pretraining
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Curiosity, TransitionsPlan
from tacit.methods.synthesis.pretraining import NoveltyScore, Pool, initial_model, most_novel, replace_rows
from tacit_worlds import maze


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(count: int, at: float, seed: int) -> torch.Tensor:
    return at + 0.3 * torch.randn(count, 4, generator=generator(seed))


@pytest.fixture
def seen() -> NoveltyScore:
    """Has learned what rows around +1 look like."""
    novelty = NoveltyScore(4, learning_rate=3e-3, generator=generator())
    for step in range(300):
        novelty.update(rows(128, 1.0, step))
    return novelty


def test_unseen_rows_score_higher(seen: NoveltyScore) -> None:
    familiar, novel = seen.score(rows(500, 1.0, 900)), seen.score(rows(500, -2.0, 901))
    assert novel.median() > 10 * familiar.median()


def test_what_is_seen_becomes_familiar(seen: NoveltyScore) -> None:
    before = seen.score(rows(200, -2.0, 1)).mean()
    for step in range(300):
        seen.update(rows(128, -2.0, step))
    assert seen.score(rows(200, -2.0, 1)).mean() < before / 5


def test_score_is_the_paper_equation(seen: NoveltyScore) -> None:
    batch = rows(3, 0.0, 5)
    by_hand = [((seen.predictor(row) - seen.target(row)) ** 2).sum().item() / 32 for row in batch]
    assert seen.score(batch).tolist() == pytest.approx(by_hand, rel=1e-4)


def test_scoring_changes_nothing_and_the_order_does_not_matter(seen: NoveltyScore) -> None:
    batch = rows(50, 0.0, 3)
    order = torch.randperm(50, generator=generator(1))
    first, shuffled, again = seen.score(batch), seen.score(batch[order]), seen.score(batch)
    assert torch.equal(first, again)
    assert torch.allclose(first[order], shuffled, atol=1e-7)


def test_the_target_never_moves() -> None:
    novelty = NoveltyScore(4, learning_rate=1e-2, generator=generator())
    before = [value.clone() for value in novelty.target.parameters()]
    novelty.update(rows(32, 0.0, 0))
    assert all(torch.equal(old, new) for old, new in zip(before, novelty.target.parameters(), strict=True))
    assert [value.abs().max().item() for value in before[1::2]] == [0.0, 0.0, 0.0]
    assert before[0].std().item() == pytest.approx(0.1, rel=0.1)


def test_replace_gives_way_to_the_most_novel(seen: NoveltyScore) -> None:
    real, generated = torch.zeros(10, 4), torch.cat([rows(7, 1.0, 1), rows(3, -2.0, 2)])
    mixed = replace_rows(real, generated, seen, Curiosity(mode="replace", rate=0.39))
    assert mixed.shape == (10, 4)
    assert torch.equal(mixed[:7], real[:7])
    assert {tuple(row) for row in mixed[7:].tolist()} == {tuple(row) for row in generated[7:].tolist()}


def test_the_predictor_learns_after_it_has_scored() -> None:
    novelty = NoveltyScore(4, learning_rate=3e-3, generator=generator())
    generated = rows(64, 0.5, 4)
    before = novelty.score(generated)
    chosen = most_novel(novelty, generated, 5)
    assert torch.equal(chosen, generated[before.topk(5).indices])
    assert novelty.score(generated).mean() < before.mean()


def test_rate_zero_keeps_the_real_batch(seen: NoveltyScore) -> None:
    real = rows(8, 0.0, 6)
    assert torch.equal(replace_rows(real, rows(8, -2.0, 7), seen, Curiosity(rate=0.0)), real)


def test_a_pool_is_drawn_once_an_epoch_and_gives_distinct_novel_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = TransitionsPlan(width=16, depth=1)
    model = initial_model(plan, Encoder.from_bounds(maze.spec(maze.LAYOUTS["ring"])), seed=0)
    settings = Curiosity(mode="append_pool", rate=0.5, pool=40, appended=16, sampler_steps=2)
    kept: list[torch.Tensor] = []

    def spy(novelty: NoveltyScore, rows: torch.Tensor, count: int) -> torch.Tensor:
        best = novelty.score(rows).topk(20).indices
        kept.append(most_novel(novelty, rows, count))
        assert torch.equal(kept[-1], rows[best])
        return kept[-1]

    monkeypatch.setattr(pretraining, "most_novel", spy)
    pool = Pool(model, settings, plan.sampler, epoch=3, generator=generator())
    drawn = [pool.draw(step) for step in range(2, 7)]  # begun in the middle of an epoch, as after an interruption
    assert len(kept) == 3
    for rows_of_step, source in zip(drawn, (kept[0], *[kept[1]] * 3, kept[2]), strict=True):
        chosen = {tuple(row) for row in rows_of_step.tolist()}
        assert len(chosen) == 16
        assert chosen <= {tuple(row) for row in source.tolist()}
    assert not torch.equal(drawn[1], drawn[2])
