"""`tacit align`: people's texts in, a steered language model with its certificate out; `tacit complete` tries it."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from tacit import hub, plain_files
from tacit.agents.language import llama
from tacit.agents.language.adapters import Bias
from tacit.agents.language.judges import TextJudge
from tacit.agents.language.models import Writer, vocabulary
from tacit.cli import options
from tacit.cli.console import progress, say
from tacit.cli.options import require_least
from tacit.cli.policy_declarations import Align, Complete
from tacit.data import unit_keys
from tacit.errors import DataError, FileError
from tacit.evaluation.report import Report, alignment
from tacit.evaluation.report.alignment import Role, Wrote
from tacit.methods.alignment import (
    AlignmentPlan,
    People,
    PreferencePlan,
    Steered,
    fit,
    fit_preferences,
    pairs_of,
    rated_pairs,
)
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.register import Register
from tacit.privacy.vault.user_vault import UserVault
from tacit.privacy.vault.vault import Vault
from tacit.study.account import Account, Words, promised
from tacit.study.folder import (
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
from tacit.units import Unit, UnitKey

Planned = AlignmentPlan | PreferencePlan

FOLDER, CHECKPOINT, PRIVATE = "model", "checkpoint", "private"
WORDS = Words(
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
MEASURED, SHOWN, SHORT = 128, 12, 8
"""Public prompts that are completed, those whose texts the report shows, and words of one on the command line."""


refused, meaningless = partial(options.refused, "align"), partial(options.meaningless, "align")


def align(command: Align) -> None:
    """Plan, promise, learn, release, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`; nothing is spent before people are met.
    """
    require_packages("gguf", "tokenizers", "safetensors")
    require_least("align", command, words=2, layer=0, seed=0)
    _require_whole(command)
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
    account = _account(command, plan)
    account.require_payable(plan, resumed=command.resume)
    with RunFolder.attempt(command.out, "align", settings, resume=command.resume) as run:
        if run.inside(FOLDER).exists():
            loaded = hub.load(run.inside(FOLDER))
            release = Release(loaded.value.using(writer.model, writer.tokenizer), loaded.certificate)
        else:
            release = _learned(command, plan, writer, reward, run)
            if command.shrink is not None:
                with progress("Shrinking on public prompts"):
                    release = Release(release.value.shrunk(public, kl=command.shrink), release.certificate)
            hub.save(release, run.inside(FOLDER))
            run.remove(CHECKPOINT)
        certify(run, release.certificate)
        with progress("Completing public prompts"):
            finish(run, report(release, reward, public, run.path.name))
    say()
    say(f"Open     {run.path / REPORT}")
    say(f"Verify   tacit certificate verify {run.path / CERTIFICATE}")
    shown = " ".join(public[0].split()[:SHORT])
    say(f'Try      tacit complete {run.path} --prompts "{shown}" --reference')
    say(f"Budget   tacit ledger show {account.path}")


def _account(command: Align, plan: Planned) -> Account:
    unit, epsilon, _ = promised(plan)
    return command.account(unit, WORDS, epsilon=epsilon)


def complete(command: Complete) -> None:
    """Verify, complete, print.

    Raises:
        FileError: the folder is damaged or holds something else, or it does not say where the base model is.
        CertificateError: the certificate was edited.
        PlanError: the base model is another one, or a prompt is empty.
    """
    release = hub.load(command.run / FOLDER)
    if not isinstance(release.value, Steered):
        what, expected = "the release is no steered language model", "the folder of a run of `tacit align`"
        raise FileError(what, where=str(command.run), expected=expected, remedy="name such a folder")
    path = command.model or Path(str(RunFolder(command.run).read()["settings"]["model"]))
    value = release.value.using(*llama.load(path))
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


def _require_whole(command: Align) -> None:
    """Refuse options that do not belong together.

    Raises:
        PlanError: columns of preferences come one by one, or an option is of the other way.
    """
    ways = {"--chosen and --rejected": (command.chosen, command.rejected)}
    ways["--completion and --feedback"] = (command.completion, command.feedback)
    begun = [name for name, columns in ways.items() if any(columns)]
    if len(begun) > 1 or not all(all(ways[name]) for name in begun):
        what = f"the preferences are {', '.join(filter(None, command.preferred))!r}"
        raise refused(what, "both columns of a pair, or both of a rating", f"give {' or '.join(ways)}")
    of, other = ("by preferences", "by a reward")[:: 1 if begun else -1]
    for name in options.offered("align", other).keys() - options.offered("align", of).keys():
        if getattr(command, name) is not None:
            raise meaningless(name, f"an option of steering {of}")
    if begun and command.population is None:
        raise refused("--population is missing", "how many people there could be, as the public knows", "give it")
    if not begun and command.reward is None:
        expected = "what values what the model writes: --reward, or columns of preferences"
        raise refused("--reward is missing", expected, "give --reward, or --chosen and --rejected")


def _opened(command: Align, public: Sequence[str]) -> tuple[Writer, TextJudge | None]:
    model, tokenizer = llama.load(command.model)
    kept = (
        tuple(token for token in range(model.shape.tokens) if token not in tokenizer.special)
        if command.public is None
        else vocabulary(tokenizer, public, command.words)
    )
    reward = None if command.reward is None else TextJudge.load(command.reward, head=command.head)
    return Writer(model.restricted(kept), tokenizer, command.prefix), reward


def _planned(command: Align, writer: Writer, reward: TextJudge | None, public: Sequence[str]) -> Planned:
    model, scale = writer.model, command.scale
    if scale is None:
        ids = [writer.before.tolist() + writer.tokenizer.encode(text)[:8] for text in public[:MEASURED]]
        shortest = min(map(len, ids))
        scale = float(f"{model.residual_norm(torch.tensor([one[:shortest] for one in ids]), command.layer):.2g}")
    given = command.settings | {"adapter": Bias(command.layer, scale)}
    plan = PreferencePlan.of(writer, **given) if command.preferred else AlignmentPlan.of(writer, reward, **given)
    population = command.population
    if population is None:
        assert isinstance(plan, AlignmentPlan)
        population = plan.people * plan.rounds
    unit = Unit(command.person, command.relation, population)
    return plan.calibrate(unit=unit, epsilon=command.epsilon, delta=command.delta)


def _learned(
    command: Align, plan: Planned, writer: Writer, reward: TextJudge | None, run: RunFolder
) -> Release[Steered]:
    """The run that is released; taken up where it was interrupted."""
    if isinstance(plan, PreferencePlan):
        return _learned_from_pairs(command, plan, writer, run)
    with progress("Reading the texts"):
        texts: dict[str, list[str]] = {}
        for person, (text,) in read_rows(command.data, command.person, [command.text], command.unit_key):
            texts.setdefault(person, []).append(text)
    people = People(plan, writer, texts, command.seed, command.simulated, unit_key=command.unit_key)
    plain_files.private_folder(run.inside(PRIVATE))
    key = command.key or Path.home() / ".tacit" / f"{command.out.resolve().name}.key"
    key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        _account(command, plan).opened(run) as ledger,
        Register(run.inside(PRIVATE) / "register", key=key) as register,
        progress("Meeting people") as advance,
    ):
        return fit(
            plan,
            UserVault(people, ledger, register, tracker=command.tracker),
            writer,
            reward=reward,
            folder=run.inside(CHECKPOINT),
            resume=command.resume,
            progress=advance,
        )


def _learned_from_pairs(command: Align, plan: PreferencePlan, writer: Writer, run: RunFolder) -> Release[Steered]:
    with progress("Reading the preferences"):
        columns = [command.text, *command.preferred]
        rows = read_rows(command.data, command.person, columns, command.unit_key)
        people = [person for person, _ in rows]
        if command.feedback is None:
            pairs = [(prompt, chosen, rejected) for _, (prompt, chosen, rejected) in rows]
        else:
            rated = [(prompt, text, _number(rating, command)) for _, (prompt, text, rating) in rows]
            people, pairs = rated_pairs(people, rated)
        data = pairs_of(plan, writer, people, pairs, unit_key=command.unit_key, simulated=command.simulated)
    with (
        _account(command, plan).opened(run) as ledger,
        progress("Learning from preferences") as advance,
    ):
        return fit_preferences(
            plan,
            Vault(data, ledger, tracker=command.tracker),
            writer,
            folder=run.inside(CHECKPOINT),
            resume=command.resume,
            progress=advance,
        )


def _number(text: str, command: Align) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        what = "a rating is no number"
        expected = "a finite number in every row, such as 1 for a thumb up and 0 for one down"
        remedy = "leave rows without a rating out, and write words as numbers"
        raise DataError(what, where=f"{command.data}, column {command.feedback}", expected=expected, remedy=remedy)
    return value


def read_rows(
    path: Path, person: str, columns: Sequence[str], unit_key: UnitKey | None = None
) -> list[tuple[str, tuple[str, ...]]]:
    """The key of each row's id (see `tacit.data.unit_keys`) and its texts, in the order of the file.

    Args:
        path: CSV file with a header.
        person, columns: that are read.
        unit_key: what ids are that differ by case or form alone.

    Raises:
        FileError: the file is missing or damaged.
        DataError: a column is missing or there twice, a row has no id, no text or another number of cells than the
            header, or two ids differ by case or form alone.
    """
    found: list[tuple[str, tuple[str, ...]]] = []
    bad: tuple[int, str] | None = None
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            header = next(rows, [])
            if any(header.count(name) != 1 for name in (person, *columns)):
                what = "a column is missing, or there twice"
                expected = f"a header with {', '.join(map(repr, (person, *columns)))}, each once"
                remedy = "name the columns as the header spells them"
                raise DataError(what, where=str(path), expected=expected, remedy=remedy)
            places = [header.index(name) for name in columns]
            for number, row in enumerate((row for row in rows if row), start=2):
                if len(row) != len(header):
                    bad = (number, "has more or fewer cells than the header")
                    break
                try:
                    key = unit_keys.key(row[header.index(person)], unit_key)
                except unit_keys.NoKey:
                    bad = (number, "has no id")
                    break
                found.append((key, tuple(row[place] for place in places)))
    except (OSError, UnicodeDecodeError, csv.Error):
        raise _unreadable(path, "a CSV file in UTF-8 with a header") from None
    if bad is not None:
        what = f"row {bad[0]} {bad[1]}"
        expected = "an id in every row, as texts of nobody are not one person's, and a cell for each column"
        raise DataError(what, where=str(path), expected=expected, remedy="correct the row, or leave it out of the file")
    unit_keys.require_no_twins((key for key, _ in found), str(path), unit_key)
    return found


def report(release: Release[Steered], reward: TextJudge | None, public: Sequence[str], title: str) -> Report:
    """The page: what the models write on public prompts, at the same draws."""
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
        paid = None if reward is None else reward(texts[role])
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
    return Steered(value.plan, np.stack([value.iterates[0], theta]), value.words, value.writer)


def _noise_alone(value: Steered) -> np.ndarray:
    """A public draw of the noise that the sum of all rounds has, times the step."""
    plan = value.plan
    deviation = plan.step * plan.clip_norm * (plan.noise_multiplier or 0.0)
    if isinstance(plan, PreferencePlan):
        assert plan.unit is not None
        deviation *= math.sqrt(plan.rounds) / (plan.sampling_rate * plan.unit.size)
    else:
        deviation /= plan.people
    drawn = deviation * np.random.default_rng(0).standard_normal(value.iterates.shape[1])
    return np.asarray(drawn, np.float32)


def _unreadable(path: Path, expected: str) -> FileError:
    return FileError("the file cannot be read", where=str(path), expected=expected, remedy="check the path")
