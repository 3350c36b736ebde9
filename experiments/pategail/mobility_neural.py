"""A neural rival without privacy: a small MoveSim (Feng et al., KDD 2020), judged as all simulators of movement are.

What it shares with MoveSim: a generator of cells with causal self-attention over the day so far, which knows the
transition matrix and distances of places (its "urban structure"); likelihood first, then a discriminator and policy
gradients of its scores (SeqGAN). What is smaller: one layer of width 64, 3,000 days, whole days instead of roll-outs of
every prefix, and no losses for distance and period. Places, first cells and transitions are those of the people
themselves, so that nothing is private: epsilon is infinite.

A row is one (people, phase, seed): `likelihood` is the generator after its first phase, `adversarial` after both. Every
tenth day is held out of training; `held_out` says its loss in nats a step, after each pass over the others, and
`chance` that of the transition matrix alone. The last weights are judged, none picked.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, describe, store_of
from experiments.pategail.mobility_runs import GEOLIFE, World, described, generated, world
from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import haversine_km

SEEDS = {GEOLIFE: (0,)}
PHASES = ("likelihood", "adversarial")
LEARNS = 0.2  # by how many nats a step the generator has to be better than the transition matrix


@dataclass(frozen=True)
class Settings:
    """Of the rival: fixed before any row was made, but for the passes, which are as many as the time allows."""

    width: int = 64  # of embeddings and of the attention
    heads: int = 4  # of the attention
    rate: float = 3e-3  # of Adam in the first phase
    batch: int = 64  # days a step
    days: int = 3_000  # most days that are trained on, drawn at random
    passes: int = 3  # over them, in the first phase
    # of the second phase: one batch of generated days, some steps of the discriminator, one of the generator
    rounds: int = 20
    discriminations: int = 2  # of the discriminator before each of them
    mixed: float = 1.0  # weight of the likelihood in the second phase


def configuration(key: str) -> Json:
    people, phase, _ = key.split("/")
    return {"data": described(int(people)), "phase": phase, "rival": describe(Settings()), "epsilon": "inf"}


store = store_of(__file__, configuration, "set once, before the first row; not chosen by any result")


def rows() -> list[str]:
    return [f"{people}/{phase}/{seed}" for people, seeds in SEEDS.items() for seed in seeds for phase in PHASES]


class Places:
    """The people's own places, as whole numbers, with what the generator knows of them.

    Attributes:
        cells: [L] of the grid, rising.
        prior: [L, L, 2], logarithms of the smoothed transition matrix, and of distances (km + 1), negative.
        start: [L], how often days begin where.
    """

    def __init__(self, days: Days) -> None:
        self.grid = days.grid
        self.cells, places = np.unique(days.cells, return_inverse=True)
        self.days = torch.from_numpy(places.reshape(days.cells.shape))
        size = len(self.cells)
        counts = np.full((size, size), 0.01 / size)
        pairs = self.days[:, :-1].ravel().numpy(), self.days[:, 1:].ravel().numpy()
        np.add.at(counts, pairs, 1.0)
        centres = np.asarray(self.grid.centres(self.cells), np.float64)
        far = np.stack([haversine_km(np.broadcast_to(one, centres.shape), centres) for one in centres])
        prior = np.stack([np.log(counts / counts.sum(axis=1, keepdims=True)), -np.log1p(far)], axis=-1)
        self.prior = torch.from_numpy(prior.astype(np.float32))
        self.start = torch.bincount(self.days[:, 0], minlength=size).float()


class Generator(nn.Module):
    """Logits of the next place: attention over the day so far, and the weighted prior of the present place."""

    def __init__(self, places: Places, settings: Settings) -> None:
        super().__init__()
        width = settings.width
        self.prior = places.prior
        self.place = nn.Embedding(len(places.cells), width)
        self.slot = nn.Embedding(SLOTS, width)
        self.attention = nn.TransformerEncoderLayer(width, settings.heads, 2 * width, dropout=0.0, batch_first=True)
        self.weights = nn.Linear(width, 2)
        self.new = nn.Linear(width, 3)
        nn.init.normal_(self.place.weight, std=0.02)
        nn.init.constant_(self.weights.bias, 0.5)

    def forward(self, places: Tensor, last: int = SLOTS) -> Tensor:
        """[D, T] places from the beginning of a day -> logits [D, .., L] of the place after each of the `last`."""
        length = places.shape[1]
        x = self.place(places) + self.slot(torch.arange(length))
        seen = torch.tril(torch.ones(length, length))
        x = self.attention(x, src_mask=torch.log(seen), is_causal=True)
        home, moved = places[:, :1].expand_as(places), torch.cat([places[:, :1], places[:, :-1]], dim=1)
        x, places, home, moved = (one[:, -last:] for one in (x, places, home, moved))
        logits = x @ self.place.weight.T + torch.einsum("dtlk,dtk->dtl", self.prior[places], self.weights(x))
        for place, weight in zip((places, home, moved), self.new(x).split(1, dim=-1), strict=True):
            logits = logits.scatter_add(2, place[..., None], weight)
        return logits

    @torch.no_grad()
    def sample(self, start: Tensor, count: int, source: torch.Generator) -> Tensor:
        """[count, 48] days."""
        days = torch.multinomial(start, count, replacement=True, generator=source)[:, None]
        while days.shape[1] < SLOTS:
            odds = torch.softmax(self(days, last=1)[:, 0], dim=-1)
            days = torch.cat([days, torch.multinomial(odds, 1, generator=source)], dim=1)
        return days


class Discriminator(nn.Module):
    """A convolution over the days' places and slots, as SeqGAN's: [D, 48] -> logits [D] of being real."""

    def __init__(self, places: Places, settings: Settings) -> None:
        super().__init__()
        self.place = nn.Embedding(len(places.cells), settings.width)
        self.filters = nn.ModuleList(nn.Conv1d(settings.width + 1, 32, size) for size in (2, 4, 8))
        self.last = nn.Linear(96, 1)

    def forward(self, days: Tensor) -> Tensor:
        moved = functional.pad((days[:, 1:] != days[:, :-1]).float(), (1, 0))
        x = torch.cat([self.place(days), moved[..., None]], dim=-1).transpose(1, 2)
        scores: Tensor = self.last(torch.cat([one(x).relu().amax(dim=2) for one in self.filters], dim=1))
        return scores[:, 0]


@dataclass(frozen=True, eq=False)
class Simulator:
    """A trained generator, with the interface of tacit's simulators."""

    generator: Generator
    places: Places

    def generate(self, count: int, seed: int = 0) -> Days:
        source = torch.Generator().manual_seed(seed)
        parts = [min(256, count - done) for done in range(0, count, 256)]
        days = torch.cat([self.generator.sample(self.places.start, part, source) for part in parts])
        return Days(self.places.cells[days.numpy()], np.arange(count), self.places.grid)


def loss_of(generator: Generator, days: Tensor) -> Tensor:
    """The mean loss in nats of a step."""
    logits = generator(days[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), days[:, 1:].flatten())


@torch.no_grad()
def held_out_loss(generator: Generator, days: Tensor) -> float:
    return float(np.mean([loss_of(generator, part).item() for part in days.split(50)]))


def by_likelihood(generator: Generator, places: Places, settings: Settings, seed: int) -> list[float]:
    train, held_out = split(places, settings, seed)
    optimiser = torch.optim.Adam(generator.parameters(), settings.rate)
    steps = settings.passes * -(-len(train) // settings.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.rate, total_steps=steps)
    order, losses = torch.Generator().manual_seed(seed), []
    for _ in range(settings.passes):
        for part in train[torch.randperm(len(train), generator=order)].split(settings.batch):
            optimiser.zero_grad()
            loss_of(generator, part).backward()
            nn.utils.clip_grad_norm_(generator.parameters(), 1.0)
            optimiser.step()
            schedule.step()
        losses.append(round(held_out_loss(generator, held_out), 4))
    return losses


def by_scores(generator: Generator, places: Places, settings: Settings, seed: int) -> list[float]:
    """The second phase; how often the discriminator is right before each of its rounds."""
    train, _ = split(places, settings, seed)
    judge, source = Discriminator(places, settings), torch.Generator().manual_seed(seed + 1)
    follow = torch.optim.Adam(generator.parameters(), settings.rate / 10)
    improve = torch.optim.Adam(judge.parameters(), settings.rate)
    right = []
    for _ in range(settings.rounds):
        made = generator.sample(places.start, settings.batch, source)
        for _ in range(settings.discriminations):
            real = train[torch.randint(len(train), (settings.batch,), generator=source)]
            scores = judge(torch.cat([real, made]))
            truth = torch.cat([torch.ones(len(real)), torch.zeros(len(made))])
            right.append(round(((scores > 0) == (truth > 0)).float().mean().item(), 3))
            improve.zero_grad()
            functional.binary_cross_entropy_with_logits(scores, truth).backward()
            improve.step()
        with torch.no_grad():
            score = torch.sigmoid(judge(made))
        advantage = (score - score.mean()) / (score.std() + 1e-6)
        logs = torch.log_softmax(generator(made[:, :-1]), dim=-1).gather(2, made[:, 1:, None])[..., 0]
        follow.zero_grad()
        (settings.mixed * loss_of(generator, real) - (advantage[:, None] * logs).mean()).backward()
        nn.utils.clip_grad_norm_(generator.parameters(), 1.0)
        follow.step()
    return right


def split(places: Places, settings: Settings, seed: int) -> tuple[Tensor, Tensor]:
    """Days to train on, and every tenth of the people's (at most 500), which are not."""
    at = torch.arange(len(places.days))
    train, held_out = places.days[at % 10 != 0], places.days[at % 10 == 0][:500]
    chosen = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))[: settings.days]
    return train[chosen], held_out


def chance(places: Places, held_out: Tensor) -> float:
    """The loss of the transition matrix alone, which has seen the held-out days too."""
    logs = torch.log_softmax(places.prior[..., 0], dim=1)
    return round(-logs[held_out[:, :-1], held_out[:, 1:]].mean().item(), 4)


def made(here: World, seed: int, settings: Settings) -> dict[str, dict[str, Any]]:
    began, places = time.process_time(), Places(here.days)
    torch.manual_seed(seed)
    generator, values = Generator(places, settings), {}
    sides = {"places": len(places.cells), "chance": chance(places, split(places, settings, seed)[1])}
    losses = by_likelihood(generator, places, settings, seed)
    for phase in PHASES:
        right = by_scores(generator, places, settings, seed) if phase == "adversarial" else []
        (measured,) = here.measured([generated(Simulator(generator, places), here, seed)])
        noted = {"certified": "inf", **sides, "held_out": losses, "discriminator": right}
        values[phase] = {**noted, **measured, "seconds": round(time.process_time() - began, 1)}
    return values


def run_row(key: str, results: Store, settings: Settings = Settings()) -> None:
    """Make a row, and with it that of the other phase."""
    people, _, seed = key.split("/")
    here = world(int(people))
    for phase, values in made(here, int(seed), settings).items():
        results.put(f"{people}/{phase}/{seed}", dataset=here.words, seed=int(seed), values=values)


def figures() -> Figures:
    results = store()
    for people, seeds in SEEDS.items():
        each = [results.values(f"{people}/likelihood/{seed}") for seed in seeds]
        gain = min(row["chance"] - row["held_out"][-1] for row in each)
        yield at_least(f"{people} people: nats a step better than the transition matrix, worst seed", gain, LEARNS)


if __name__ == "__main__":
    command_line(__file__)
