"""`tacit align`: people's texts in, a steered language model with its certificate out; `tacit complete` tries it."""

from __future__ import annotations

import csv
import hashlib
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from tacit import hub, plain_files
from tacit.agents.language import gguf_files
from tacit.agents.language.adapters import Bias
from tacit.agents.language.judges import Judge
from tacit.agents.language.texts import Writer, vocabulary
from tacit.cli import budget
from tacit.cli.console import progress, say
from tacit.cli.options import require_least
from tacit.cli.policy_declarations import Align, Complete
from tacit.cli.run_folder import (
    CERTIFICATE,
    REPORT,
    SIMULATED,
    VERIFY,
    RunFolder,
    certify,
    finish,
    require_free,
    require_packages,
    settings_of,
)
from tacit.errors import DataError, FileError
from tacit.evaluation.report import AlignmentReport, Sample, Wrote
from tacit.evaluation.report.alignment import Role
from tacit.methods.alignment import AlignmentPlan, People, Steered, fit
from tacit.methods.alignment.plan import PART
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.register import Register
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.user_vault import UserVault
from tacit.units import Unit

FOLDER, CHECKPOINT, PRIVATE = "model", "checkpoint", "private"
WORDS = budget.Words(
    people="people",
    doing="alignment",
    done="learned from",
    do="align",
    retry="give another --seed, or slightly less --epsilon",
)
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
MEASURED, SHOWN = 128, 12
"""Public prompts that are completed, and those whose texts the report shows."""


def align(command: Align) -> None:
    """Plan, promise, learn, release, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`; nothing is spent before people are met.
    """
    require_packages("gguf", "tokenizers", "safetensors")
    require_least("align", command, words=2, layer=0, seed=0)
    settings = settings_of(command)
    if not command.dry_run:
        require_free(command.out, resume=command.resume)
    public = _lines(command.public)
    with progress("Opening the model and the reward"):
        writer, reward = _opened(command, public)
        plan = _planned(command, writer, reward, public)
    say(str(plan))
    if command.simulated:
        say(f"The people {SIMULATED}")
    if command.dry_run:
        say("Dry run: no text of a person was read and nothing was spent.")
        return
    budget.require_payable(command, plan, WORDS, resumed=command.resume)
    with RunFolder.attempt(command.out, "align", settings, resume=command.resume) as run:
        if run.inside(FOLDER).exists():
            loaded = hub.load(run.inside(FOLDER))
            release = Release(loaded.value.using(writer.model, writer.tokenizer), loaded.certificate)
        else:
            release = _learned(command, plan, writer, reward, run)
            if command.shrink is not None:
                with progress("Shrinking on public prompts"):
                    release = Release(release.value.shrunk(public, kl=command.shrink), release.certificate)
            hub.save(release, run.inside(FOLDER), notes={"model": str(command.model)})
            run.remove(CHECKPOINT)
        certify(run, release.certificate)
        with progress("Completing public prompts"):
            finish(run, report(release, reward, public, run.path.name))
    say()
    say(f"Open     {run.path / REPORT}")
    say(f"Verify   tacit certificate verify {run.path / CERTIFICATE}")
    say(f'Try      tacit complete {run.path} --prompts "{public[0]}" --reference')
    say(f"Budget   tacit ledger show {budget.ledger_path(command)}")


def complete(command: Complete) -> None:
    """Verify, complete, print.

    Raises:
        FileError: the folder is damaged or holds something else.
        CertificateError: the certificate was edited.
        PlanError: the base model is another one, or a prompt is empty.
    """
    release = hub.load(command.run / FOLDER)
    if not isinstance(release.value, Steered):
        raise FileError(
            "the release is no steered language model",
            where=str(command.run),
            expected="the folder of a run of `tacit align`",
            remedy="name such a folder",
        )
    path = command.model or Path(str(hub.notes(command.run / FOLDER).get("model", "")))
    value = release.value.using(*gguf_files.load(path))
    say(f"Verified: {release.certificate.sentence}")
    for reference in (True, False) if command.reference else (False,):
        say()
        say("Base model" if reference else "Steered")
        texts = value.complete(command.prompts, tokens=command.tokens, seed=command.seed, reference=reference)
        for text in texts:
            say(f"  {text}")


def _lines(path: Path | None) -> list[str]:
    """Public texts, one a line; the general prompts without a file.

    Raises:
        FileError: the file is missing, empty or no text.
    """
    if path is None:
        return list(GENERAL)
    try:
        lines = [line.strip() for line in plain_files.text(path).splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, "a file of public texts in UTF-8, one a line") from error
    if not lines:
        raise _unreadable(path, "at least one public text")
    return lines


def _opened(command: Align, public: Sequence[str]) -> tuple[Writer, Judge]:
    model, tokenizer = gguf_files.load(command.model)
    kept = (
        tuple(token for token in range(model.shape.tokens) if token not in tokenizer.special)
        if command.public is None
        else vocabulary(tokenizer, public, command.words)
    )
    return Writer(model.restricted(kept), tokenizer, command.prefix), Judge.load(command.reward, head=command.head)


def _planned(command: Align, writer: Writer, reward: Judge, public: Sequence[str]) -> AlignmentPlan:
    model, scale = writer.model, command.scale
    if scale is None:
        ids = [writer.before.tolist() + writer.tokenizer.encode(text)[:8] for text in public[:MEASURED]]
        shortest = min(map(len, ids))
        scale = float(f"{model.residual_norm(torch.tensor([one[:shortest] for one in ids]), command.layer):.2g}")
    plan = AlignmentPlan.of(writer, reward, adapter=Bias(command.layer, scale), **command.settings)
    unit = Unit(command.person, command.relation, command.population or plan.people * plan.rounds)
    return plan.calibrate(unit=unit, epsilon=command.epsilon, delta=command.delta)


def _learned(command: Align, plan: AlignmentPlan, writer: Writer, reward: Judge, run: RunFolder) -> Release[Steered]:
    """The run that is released; taken up where it was interrupted."""
    with progress("Reading the texts"):
        texts = read_texts(command.data, command.person, command.text)
    slots = sorted(texts, key=lambda person: hashlib.sha256(person.encode("utf-8", "surrogatepass")).digest())
    people = People(plan, writer, slots, texts, seed=command.seed, simulated=command.simulated)
    run.inside(PRIVATE).mkdir(exist_ok=True)
    key = command.key or Path.home() / ".tacit" / f"{command.out.resolve().name}.key"
    key.parent.mkdir(parents=True, exist_ok=True)
    with (
        budget.opened(command, plan, run) as ledger,
        Register(run.inside(PRIVATE) / "register", key=key) as register,
        budget.spending(ledger, WORDS),
        progress("Meeting people") as advance,
    ):
        identity = plans.plan_id(plan)
        if any(summary.id == identity for summary in ledger.plans()):
            people.skip(ledger.claimed(identity, PART))
        return fit(
            plan,
            UserVault(people, ledger, register, tracker=command.tracker),
            writer,
            reward=reward,
            folder=run.inside(CHECKPOINT),
            resume=command.resume,
            progress=advance,
        )


def read_texts(path: Path, person: str, text: str) -> dict[str, list[str]]:
    """Each person's texts by id, in the order of the file.

    Args:
        path: CSV file with a header.
        person, text: columns.

    Raises:
        FileError: the file is missing or damaged.
        DataError: a column is missing, or a row has no id.
    """
    found: dict[str, list[str]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            if not {person, text} <= set(rows.fieldnames or ()):
                raise DataError(
                    "a column is missing",
                    where=str(path),
                    expected=f"a header with {person!r} and {text!r}",
                    remedy="give --person and --text as the header spells them",
                )
            for number, row in enumerate(rows, start=2):
                if not row[person] or row[text] is None:
                    raise DataError(
                        f"row {number} has no id or no text",
                        where=str(path),
                        expected="an id in every row: texts of nobody cannot be counted as one person's",
                        remedy="leave such rows out of the file",
                    )
                found.setdefault(row[person], []).append(row[text])
    except (OSError, UnicodeDecodeError, csv.Error):
        raise _unreadable(path, "a CSV file in UTF-8 with a header") from None
    return found


def report(release: Release[Steered], reward: Judge, public: Sequence[str], title: str) -> AlignmentReport:
    """The page's inputs: what the models write on public prompts, at the same draws."""
    value = release.value
    assert value.writer is not None
    n, tokenizer = value.plan.prompt_tokens, value.writer.tokenizer
    ids = [tokens[:n] for tokens in map(tokenizer.encode, public) if len(tokens) >= n][:MEASURED]
    prompts = torch.tensor(ids)
    draws = torch.from_numpy(np.random.default_rng(0).random((len(ids), 1, value.plan.tokens), np.float32))
    start, *steps = value.iterates
    noise = _noise_alone(value)
    models: list[tuple[str, Role, Steered]] = [("base model", "reference", _at(value, start))]
    models += [(f"after round {k}", "round", _at(value, step)) for k, step in enumerate(steps[:-1], start=1)]
    models += [("released", "released", value), ("noise alone", "floor", _at(value, start + noise))]
    outcomes, texts = [], {}
    for label, role, model in models:
        done = model.written(prompts, draws)
        texts[role] = value.writer.texts(prompts, done.written[:, 0])
        paid = reward(texts[role])
        pairs = [pair for row in done.written[:, 0].tolist() for pair in itertools.pairwise(row)]
        error = float(paid.std(ddof=1) / np.sqrt(len(paid))) if len(paid) > 1 else 0.0
        kl = 0.0 if role == "reference" else model.kl(prompts, draws)
        outcomes.append(Wrote(label, role, float(paid.mean()), error, kl, len(set(pairs)) / max(1, len(pairs))))
    shown = zip(texts["reference"][:SHOWN], texts["released"][:SHOWN], strict=True)
    return AlignmentReport(
        title=title,
        certificate=release.certificate.to_json(),
        verify=VERIFY,
        prompts=len(ids),
        outcomes=tuple(outcomes),
        samples=tuple(Sample(before, after) for before, after in shown),
    )


def _at(value: Steered, theta: np.ndarray) -> Steered:
    """The model with other parameters [P], whole."""
    return Steered(value.plan, np.stack([value.iterates[0], theta]), value.words, value.writer)


def _noise_alone(value: Steered) -> np.ndarray:
    """A public draw of the noise that the sum of all rounds has, times the step."""
    plan = value.plan
    deviation = plan.step * plan.clip_norm * (plan.noise_multiplier or 0.0) / plan.people
    drawn = deviation * np.random.default_rng(0).standard_normal(value.iterates.shape[1])
    return np.asarray(drawn, np.float32)


def _unreadable(path: Path, expected: str) -> FileError:
    return FileError("the file cannot be read", where=str(path), expected=expected, remedy="check the path")
