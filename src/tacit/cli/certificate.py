"""`tacit certificate` and `tacit ledger`: read, recompute and sign; needs neither PyTorch nor data."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

from tacit import plain_files
from tacit.cli.console import require_new, say, say_json
from tacit.cli.declarations import (
    CertificateLabel,
    CertificateShow,
    CertificateSign,
    CertificateVerify,
    LedgerRaise,
    LedgerShow,
    LedgerVerify,
    LetterCommand,
)
from tacit.cli.sharing import signing_key
from tacit.errors import CertificateError, LedgerError
from tacit.evaluation import audits
from tacit.evaluation import letter as letters
from tacit.privacy.certificate import markdown as certificate_label
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.folds import FOLDS, JUDGING
from tacit.privacy.ledger.ledger import Ledger, LedgerView
from tacit.privacy.sentences import neighbours
from tacit.study.folder import CERTIFICATE

PROOFS = {
    **{"poisson_sum": "noisy_sum", "noisy_histogram": "noisy_sum", "fixed_size_sum": "fixed_size_sampling"},
    **{"user_sum": "policy_gradient", "randomized_responses": "policy_gradient", "teacher_votes": "teachers"},
    **{"device_sum": "federated_sums", "laplace_sum": "federated_sums"},
}
"""Kind of a part -> its page of proofs, where that is not called as the kind."""
FOLDED = ("register", "callback", "actor", "policy")
"""Kinds of notes that are not shown one by one: their times are those of single meetings."""


def show(command: CertificateShow) -> None:
    """The certificate as Markdown, and the findings of audits that lie beside it; nothing is verified."""
    certificate = _load(command.path)
    found = [audits.sentences(audited) for audited in audits.load_for_certificate(command.path, certificate.digest)]
    if command.json:
        say_json({"sentence": certificate.sentence, "certificate": certificate.to_json(), "audits": found})
        return
    say(certificate.to_markdown().rstrip())
    for sentences in found:
        say("\n".join(["", *sentences]))


def verify(command: CertificateVerify) -> None:
    """Recompute the promise.

    Raises:
        CertificateError: the certificate does not hold.
    """
    certificate = _load(command.path)
    check = certificate.verify(command.public_key)
    if not check.private:
        what = f"the certificate is sound, and says that nothing is promised ({'; '.join(certificate.reasons)})"
        expected, remedy = "a certificate of a private release", "do not publish the release"
        raise CertificateError(what, where=str(command.path), expected=expected, remedy=remedy)
    if command.json:
        promise = {"sentence": certificate.sentence, "simulated": certificate.simulated}
        say_json({**promise, **dataclasses.asdict(check)})
        return
    say(certificate.sentence)
    say(f"Recomputed: epsilon = {check.epsilon:.6g} at delta = {check.delta:.3g}, as the certificate states.")
    say("Recomputed too: mu, profile, relations and totals, all from the stated parts, unit and charges.")
    say(f"Independent check: epsilon = {check.check_epsilon:.6g} by another accountant.")
    kinds = dict.fromkeys(part["kind"] for part in certificate.to_json()["parts"])
    say(f"Proved in: {', '.join(dict.fromkeys(f'proofs/{PROOFS.get(kind, kind)}.md' for kind in kinds))} of tacit.")
    say(
        f"Signed by {check.signed_by}."
        if check.signed_by
        else "Not signed: this shows no author, and who edits what is declared can make the digest again."
    )
    say(f"Declared, and protected by a signature alone: {', '.join(check.declared)}.")
    if certificate.simulated:
        say("The records were declared simulated.")


def letter(command: LetterCommand) -> None:
    """Write the letter on a certificate.

    Raises:
        CertificateError: the certificate does not hold.
        FileError: there is none, or the output exists.
    """
    path = command.run / CERTIFICATE if command.run.is_dir() else command.run
    certificate = Certificate.load(path)
    certificate.verify()
    out = path.parent / letters.FILES[command.language] if command.out is None else command.out
    if command.out is not None:
        require_new(out)
    plain_files.write(out, letters.letter(certificate.to_json(), command.language))
    say(f"Wrote {out}: one side to print")


def label(command: CertificateLabel) -> None:
    """The label of a certificate, as JSON, which YAML is too.

    Raises:
        CertificateError: the certificate does not hold.
    """
    certificate = _load(command.path)
    certificate.verify()
    say(json.dumps(certificate_label.label(certificate.to_json()), indent=1, ensure_ascii=False))


def sign(command: CertificateSign) -> None:
    """Write a signed copy.

    Raises:
        CertificateError: the certificate does not hold.
        FileError: the key is not a readable Ed25519 key, or the output exists.
    """
    certificate = Certificate.load(command.path)
    certificate.verify()
    key = signing_key(command.private_key)
    require_new(command.out)
    signed = certificate.sign(key)
    signed.save(command.out)
    say(f"Signed. Others verify it with: tacit certificate verify {command.out} --public-key {_key(signed)}")


def _load(path: Path) -> Certificate:
    """The certificate in a file of its own, or in the metadata of a Parquet file of synthetic rows."""
    if path.suffix.lower() != ".parquet":
        return Certificate.load(path)
    from tacit.data.sources.tables import parquet_description

    described = parquet_description(path)
    if "certificate" not in described:
        what, expected = "there is no certificate in the file", "a Parquet file of tacit's synthetic rows"
        raise CertificateError(what, where=str(path), expected=expected, remedy="name certificate.json instead")
    return Certificate.from_json(described["certificate"])


def _key(certificate: Certificate) -> str:
    assert certificate.signature is not None
    return str(certificate.signature["public_key"])


def show_ledger(command: LedgerShow) -> None:
    """The unit, the budget, what was spent, every plan, and every note; those of single meetings as a count alone."""
    view = Ledger.read(command.path)
    unit, (epsilon, delta) = view.unit, view.spent()
    if command.json:
        say_json(_summary(view))
        return
    say(f"Ledger of the dataset {view.dataset_id}")
    whom = neighbours(unit.name, unit.relation, logs=False)
    say(f"Protects: {whom} (public population {unit.size:,}, {unit.relation}).")
    say(f"Budget: ({view.epsilon:g}, {view.delta:.3g}). Spent: ({epsilon:.6g}, {delta:.3g}).")
    say(f"Added up by {view.composition}; the budget may be raised to epsilon {view.ceiling:g} at most.")
    each = [view.spent(fold) for fold in FOLDS]
    if each[0] != each[1]:
        for fold, (epsilon, delta) in zip(FOLDS, each, strict=True):
            say(f"  of fold {fold} ({'judging' if fold == JUDGING else 'learning'}): ({epsilon:.6g}, {delta:.3g})")
    for plan in view.plans():
        share = "untouched" if plan.claimed == 0 else f"{plan.claimed:,} of {plan.steps:,} steps claimed"
        say(f"  plan {plan.id}: {plan.method}, ({plan.epsilon:.6g}, {plan.delta:.3g}), {share}{plan.payer_text}")
    shown, counts = _notes(view)
    for note in shown:
        say(f"  {note['time']} {note['kind']}: {note['text']}")
    if counts:
        kinds = ", ".join(f"{count:,} of kind {kind}" for kind, count in counts.items())
        say(f"  notes that mechanisms keep for themselves: {kinds}")
    if view.void_reason is not None:
        say(f"VOID: nothing is promised any more ({view.void_reason}).")
    say(f"Head: {view.head}")


def _notes(view: LedgerView) -> tuple[list[dict[str, str]], dict[str, int]]:
    """The notes that are shown one by one, and how many there are of each kind that is not."""
    notes = [(entry.time, entry.payload) for entry in view.entries() if entry.kind == "note"]
    shown = [
        {"time": time, "kind": note["kind"], "text": note["text"]} for time, note in notes if note["kind"] not in FOLDED
    ]
    counts = Counter(note["kind"] for _, note in notes)
    return shown, {kind: counts[kind] for kind in FOLDED if counts[kind]}


def _summary(view: LedgerView) -> dict[str, Any]:
    (epsilon, delta), (notes, kept) = view.spent(), _notes(view)
    return {
        "dataset_id": view.dataset_id,
        "unit": {"name": view.unit.name, "relation": view.unit.relation, "population": view.unit.size},
        "budget": {"epsilon": view.epsilon, "ceiling": view.ceiling, "delta": view.delta},
        "composition": str(view.composition),
        "spent": {"epsilon": epsilon, "delta": delta},
        "spent_by_fold": [dict(zip(("epsilon", "delta"), view.spent(fold), strict=True)) for fold in FOLDS],
        "plans": [dataclasses.asdict(plan) for plan in view.plans()],
        "notes": notes,
        "kept_notes": kept,
        "void_reason": view.void_reason,
        "head": view.head,
    }


def raise_ledger(command: LedgerRaise) -> None:
    """Raise the budget of a ledger.

    Raises:
        LedgerError: there is no ledger, or the budget cannot be raised so.
    """
    Ledger.read(command.path)  # a ledger that is not there is not begun
    with Ledger(command.path) as ledger:
        before = ledger.epsilon
        ledger.raise_budget(command.epsilon)
        say(f"The budget was epsilon {before:g} and is {ledger.epsilon:g}, of at most {ledger.ceiling:g}.")


def verify_ledger(command: LedgerVerify) -> None:
    """Check the whole ledger.

    Raises:
        LedgerError: an entry is not valid, or the head that was asked for is not there.
    """
    view = Ledger.read(command.path)
    if command.head is not None and all(entry.hash != command.head for entry in view.entries()):
        what = "the ledger does not contain the head that was asked for"
        expected = "the ledger of that certificate or checkpoint, at least as new"
        remedy = "look for the newest copy of the ledger"
        raise LedgerError(what, where=str(command.path), expected=expected, remedy=remedy)
    if command.json:
        say_json({"entries": len(view.entries()), "void_reason": view.void_reason, "head": view.head})
        return
    say(f"Sound: {len(view.entries()):,} entries in one chain, within the budget.")
    if view.void_reason is not None:
        say(f"VOID: nothing is promised any more ({view.void_reason}).")
    say(f"Head: {view.head}")
