"""What each person's own gradient costs in alignment of a language model, over one unclipped batch: process CPU time.

Run `python -m benchmarks.alignment`. The last line is one JSON object. The model is a random one of SmolLM2's shape
(30 layers, width 576), which writes 8,192 tokens. `gradients_over_batch` is the time of `PersonGradient` on 32 people
with the plan's default sizes, over that of what a trainer without privacy does with the same completions and
advantages: the loss of all, and one gradient of its sum. `batch_error` is how far the sum of people's gradients is from
that gradient, over its norm. `writing_ms` is what it takes to write one person's completions.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import statistics
import time

import numpy as np
import torch
from tokenizers.pre_tokenizers import ByteLevel

from tacit.agents.language.adapters import ModelShape, Steering
from tacit.agents.language.llama import Llama
from tacit.agents.language.models import Tokenizer, Writer
from tacit.agents.language.sampling import complete, log_softmax
from tacit.methods.alignment import AlignmentPlan
from tacit.methods.alignment.people import PersonGradient, ReleasedSteering, advantages

SMOLLM2 = ModelShape(layers=30, width=576, inner=1_536, heads=9, groups=3, tokens=49_152, base=1e5)
WORDS, PEOPLE = 8_192, 32


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    tokenizer = Tokenizer.from_byte_pairs(sorted(ByteLevel.alphabet()), [], digits=False)
    writer = Writer(Llama.random(SMOLLM2).with_vocabulary(range(WORDS)), tokenizer, "Movie review:")
    plan = AlignmentPlan.of(writer, None, feedback="person", critic=0.0)
    generator = torch.Generator().manual_seed(0)
    prompts = torch.randint(256, (PEOPLE, plan.prompt_tokens), generator=generator)
    draws = torch.rand(PEOPLE, plan.completions, plan.tokens, generator=generator)
    rewards = torch.randn(PEOPLE, plan.completions, generator=generator)
    theta = torch.zeros(SMOLLM2.width)
    began = time.process_time()
    done = complete(writer.model, writer.prefix_tokens, prompts, draws, Steering(plan.adapter, theta[None]))
    writing = time.process_time() - began
    looks = torch.zeros(*rewards.shape, len(plan.reward_lengths))
    actions = torch.cat([done.written.float(), looks, done.residual.flatten(2)], dim=2).numpy()
    seen = torch.cat([prompts[:, None].expand(-1, plan.completions, -1).float(), draws], dim=2).numpy()
    rows = {
        "observations": seen,
        "actions": actions,
        "rewards": rewards.numpy(),
        "mask": np.ones(rewards.shape, bool),
    }
    weights = advantages(plan, rewards, looks) / (plan.completions * plan.tokens)

    def people() -> np.ndarray:
        return PersonGradient(plan, writer)(rows, ReleasedSteering(theta.numpy()))

    def batch() -> torch.Tensor:
        leaf = theta.clone().requires_grad_()
        chosen = log_softmax(writer.model, writer.prefix_tokens, done, Steering(plan.adapter, leaf[None]))
        loss = (chosen.gather(3, done.written[..., None])[..., 0] * weights).sum()
        (gradient,) = torch.autograd.grad(loss, leaf)
        return gradient

    whole = batch().double().numpy()
    error = float(np.linalg.norm(people().sum(axis=0) - whole) / np.linalg.norm(whole))
    seconds = timing.cpu_seconds({"people": people, "batch": batch}, repeats=arguments.repeats, warmup=1)
    for name, values in seconds.items():
        print(f"{name:8s} {1e3 * statistics.median(values) / PEOPLE:8.2f} ms a person")
    timing.report(
        {
            "benchmark": "alignment",
            "writing_ms": 1e3 * writing / PEOPLE,
            "gradients_over_batch": timing.ratio(seconds, "people", "batch"),
            "batch_error": error,
            "at_most": {"gradients_over_batch": 1.1, "batch_error": 1e-4},
        },
    )


if __name__ == "__main__":
    main()
