"""A model, people and a reward that take milliseconds: two layers of width 32, and bytes as tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers.pre_tokenizers import ByteLevel

from tacit import Ledger, Register, Unit, UserVault
from tacit.agents.language.adapters import Bias, ModelShape
from tacit.agents.language.llama import Llama
from tacit.agents.language.models import Tokenizer, Writer
from tacit.methods.alignment import AlignmentPlan, People
from tacit.privacy.ledger.ledger import SUM

SHAPE = ModelShape(layers=2, width=32, inner=48, heads=4, groups=2, tokens=256)
UNIT = Unit("author", "add_or_remove", population=1_000)
TOKENIZER = Tokenizer.from_byte_pairs(sorted(ByteLevel.alphabet()), [], digits=False)
WORDS = tuple(TOKENIZER.encode("abcdefghijklmnopqrstuvwxyz .,!?'"))
WRITER = Writer(Llama.random(SHAPE, seed=3).with_vocabulary(WORDS), TOKENIZER, "so: ")


@dataclass(frozen=True)
class Letters:
    """Texts are worth the share of their letters that are vowels, times 10."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(b"vowels").hexdigest()

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        return np.array([10 * sum(letter in "aeiou" for letter in text) / max(1, len(text)) for text in texts])


def plan_of(**options: object) -> AlignmentPlan:
    """A small plan; `options` replace its fields."""
    small = {
        "people": 8,
        "prompts": 2,
        "prompt_tokens": 4,
        "completions": 3,
        "tokens": 6,
        "segment": 4,
        "adapter": Bias(layer=0, scale=1.0),
        "clip_norm": 1.0,
        "step": 1.0,
    }
    return AlignmentPlan.of(WRITER, Letters(), **(small | options))


def texts_of(count: int) -> dict[str, list[str]]:
    """Two texts for each of so many people."""
    generator = np.random.default_rng(5)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz "))
    return {f"p{i}": ["".join(generator.choice(letters, 9)) for _ in range(2)] for i in range(count)}


def people_of(plan: AlignmentPlan, ids: Sequence[str], **options: object) -> People:
    """Simulated people with these ids."""
    texts = {person: own for person, own in texts_of(200).items() if person in ids}
    return People(plan, WRITER, texts, **({"simulated": True} | options))


def vault_of(people: People, folder: Path, epsilon: float = 8.0) -> UserVault:
    """A vault with a new ledger and register in a folder."""
    (folder / "keys").mkdir()
    (folder / "study").mkdir()
    ledger = Ledger(folder / "study" / "ledger", UNIT, epsilon=epsilon, delta=1e-5, composition=SUM)
    return UserVault(people, ledger, Register(folder / "study" / "register", key=folder / "keys" / "key"))
