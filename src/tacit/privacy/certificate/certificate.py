"""The certificate of a release: a privacy label that anyone can recompute, without torch and without data.

Accountants, and SciPy with them, are imported where a certificate is built or verified; to read one takes neither.
"""

from __future__ import annotations

import functools
import itertools
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, Literal, NotRequired, TypedDict, TypeVar, get_type_hints

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit import notebook
from tacit.errors import AccountingError, CertificateError, DataError, PlanError
from tacit.plain_text import escape
from tacit.privacy import sentences
from tacit.privacy.accounting.events import Event
from tacit.privacy.accounting.filters import Composition
from tacit.privacy.certificate import canonical
from tacit.privacy.certificate.markdown import DECLARED, markdown
from tacit.privacy.sentences import Clause, MuRange, clauses
from tacit.serialization import read, schema_of
from tacit.units import Relation, Unit

_PACKAGES = ("tacit", "dp-accounting", "numpy", "scipy", "cryptography", "torch")
_SIGNED = b"tacit certificate, format 1\n"
_FORMS = {
    "digest": "[0-9a-f]{64}",
    "commit": "[0-9a-f]{7,64}",
    "date": "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z",
}


@dataclass(frozen=True)
class Verification:
    """What a verified certificate promises, as recomputed.

    Args:
        epsilon, delta: the certified promise (epsilon is inf where nothing is promised).
        check_epsilon: the independent accountant's figure.
        private: False where the certificate itself says that nothing is promised.
        digest: what a signature covers.
        signed_by: the public key (64 hex digits) whose signature was checked, or None.
        declared: what nothing else in the certificate implies, so that a signature alone protects it.
    """

    epsilon: float
    delta: float
    check_epsilon: float
    private: bool
    digest: str
    signed_by: str | None
    declared: Sequence[str] = DECLARED


class ProfilePoint(TypedDict):
    """Epsilon at a delta."""

    delta: float
    epsilon: float


class RelationEpsilon(TypedDict):
    """Epsilon under a relation."""

    relation: Relation
    epsilon: float


class ProtectedUnit(TypedDict):
    """Whom the promise is made to."""

    name: str
    relation: Relation
    population: int


class Accountant(TypedDict):
    """An accountant's figure."""

    role: Literal["upper_bound", "check"]
    name: str
    version: str
    epsilon: float


class ChargeEntry(TypedDict):
    """What a ledger was charged for a plan, by its Rényi bound or mu where it has one; to `fold` alone, likewise.

    `diameter` is that of a plan on one fold (`filters.Charge`), and stands there where it is below 2.
    """

    plan_id: str
    method: str
    epsilon: float
    delta: float
    rdp: float | None
    mu: float | None
    fold: Literal[0, 1] | None
    diameter: NotRequired[float]


class ChargeTotal(TypedDict):
    """All charges of the ledger together, its budget, and up to where that may ever be raised."""

    epsilon: float
    delta: float
    composition: str
    budget_epsilon: float
    ceiling_epsilon: float
    budget_delta: float


class AuditBound(TypedDict):
    """An empirical lower bound."""

    lower_bound: float
    confidence: float
    method: str


class Signature(TypedDict):
    """Of the digest."""

    algorithm: Literal["Ed25519"]
    public_key: str
    value: str


@dataclass(frozen=True)
class Certificate:
    """A privacy label: what was promised, to whom, how it was kept, what is not covered, and how to recompute it.

    It holds codes and numbers, of which `sentences` makes what is shown; mappings and sequences inside are read-only.
    It holds no record, no hash of records, no count of records and no count of burned steps.

    Guarantee: after `verify()` the stated epsilon, mu and profile are upper bounds for the stated event, and every
    derived field, the parts and the totals agree with it. The digest guards against accident, a signature whose key the
    reader knows against malice; neither proves that the run happened.
    """

    format: Literal[1]
    tacit_version: str
    private: bool
    void_reason: str | None
    epsilon: float
    delta: float
    target_epsilon: float | None
    mu: float
    mu_range: MuRange
    profile: tuple[ProfilePoint, ...]
    relations: tuple[RelationEpsilon, ...]
    unit: ProtectedUnit
    parts: tuple[Mapping[str, Any], ...]
    event: Mapping[str, Any]
    accountants: tuple[Accountant, ...]
    method: str
    source: str
    plan_id: str
    plan: Mapping[str, Any]
    assumptions: tuple[Mapping[str, Any], ...]
    covered: tuple[Mapping[str, Any], ...]
    not_covered: tuple[Mapping[str, Any], ...]
    not_protected: tuple[Mapping[str, Any], ...]
    releases: tuple[ChargeEntry, ...]
    total: ChargeTotal
    audit: AuditBound | None
    simulated: bool
    ledger_head: str
    dataset_id: str
    commit: str | None
    versions: Mapping[str, str]
    date: str
    digest: str
    signature: Signature | None

    @property
    def sentence(self) -> str:
        """The promise, in one sentence."""
        return sentences.promise(self.to_json())

    @property
    def reasons(self) -> list[str]:
        """Why nothing is promised; none where something is."""
        return sentences.reasons(self.to_json())

    def lines(self, name: str) -> list[str]:
        """The sentences of "covered", "not_covered", "not_protected" or "assumptions"."""
        return sentences.lines(self.to_json(), name)

    def __str__(self) -> str:
        return self.sentence

    def __hash__(self) -> int:
        return hash(self.digest)

    @classmethod
    def build(
        cls,
        *,
        method: str,
        source: str,
        unit: Unit,
        event: Event,
        parts: Sequence[Mapping[str, Any]],
        delta: float,
        plan_id: str,
        plan: Mapping[str, Any],
        ledger_head: str,
        dataset_id: str,
        simulated: bool,
        void_reason: str | None,
        releases: Sequence[Mapping[str, Any]],
        budget: tuple[float, float],
        covered: Sequence[Clause | str],
        not_covered: Sequence[Clause | str],
        assumptions: Sequence[Clause | str],
        not_protected: Sequence[Clause | str],
        composition: Composition,
        ceiling: float | None = None,
        epsilon_target: float | None = None,
        audit: Mapping[str, Any] | None = None,
        commit: str | None = None,
    ) -> Certificate:
        """Write a certificate: primary fields as given, derived fields computed, then verified.

        Args:
            method, source: the method's name and the paper it comes from (arXiv number).
            unit: whom the promise is made to.
            event: the mechanism as run; it must be the composition of the parts.
            parts: what `mechanisms.base.certified` states of them.
            delta: below 1 / population.
            plan_id, plan: the plan's identifier (`certificate_json.plan_id`) and its public fields as JSON.
            ledger_head, dataset_id: of the ledger that was charged.
            simulated: whether the records were declared simulated.
            void_reason: why the ledger is void, or None.
            releases: {plan_id, method, epsilon, delta, rdp, mu, fold, diameter} as charged, for every plan of the
                ledger; this plan's own charge is added where it is missing.
            budget: the ledger's (epsilon, delta).
            covered, not_covered: data accesses that the promise covers, and that it does not.
            assumptions: beyond the standing ones and those of single parts, which are added.
            not_protected: what a reader could wrongly believe to be protected; that of single parts is added. All four
                hold statements (`sentences.state`), or lines in a user's own words.
            composition: how the ledger adds plans up.
            ceiling: the epsilon up to which the budget may ever be raised; None where it may not.
            epsilon_target: what the plan was calibrated for, if anything.
            audit: {lower_bound, confidence, method} of an empirical audit.
            commit: the code's commit (hex), if known.

        Raises:
            CertificateError: the inputs do not fit together; the message names the field.
            AccountingError: no certified bound exists for the event.
        """
        from tacit.privacy.accounting.events import event_to_json
        from tacit.privacy.certificate import fields as derive
        from tacit.privacy.certificate.plan import standing_clauses
        from tacit.privacy.ledger.folds import plan_folds, single_fold

        versions = {name: version for name in _PACKAGES if (version := _version(name))}
        rebuilt = derive.parts_from_json(parts)
        primary = {
            "format": 1,
            "tacit_version": versions["tacit"],
            "void_reason": escape(void_reason) if void_reason else None,
            "unit": {"name": unit.name, "relation": unit.relation, "population": unit.size},
            "delta": float(delta),
            "target_epsilon": epsilon_target,
            "parts": parts,
            "event": event_to_json(event),
            "method": method,
            "source": source,
            "plan_id": plan_id,
            "plan": plan,
            "assumptions": clauses([*standing_clauses("assumptions", rebuilt), *assumptions]),
            "covered": clauses(covered),
            "not_covered": clauses(not_covered),
            "not_protected": clauses([*standing_clauses("not_protected", rebuilt), *not_protected]),
            "releases": releases,
            "total": {
                "composition": str(composition),
                "budget_epsilon": budget[0],
                "ceiling_epsilon": budget[0] if ceiling is None else ceiling,
                "budget_delta": budget[1],
            },
            "audit": audit,
            "simulated": simulated,
            "ledger_head": ledger_head,
            "dataset_id": dataset_id,
            "commit": commit,
            "versions": {**versions, "python": platform.python_version()},
            "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "signature": None,
        }
        if all(row["plan_id"] != plan_id for row in releases):
            fold = single_fold(plan_folds(parts))
            charge = asdict(derive.charge(unit, event, float(delta), composition, fold))
            charge = {name: value for name, value in charge.items() if value is not None or name != "diameter"}
            own = {"plan_id": plan_id, "method": method, **charge, "fold": fold}
            primary["releases"] = canonical.to_plain([*releases, own])
        derived = derive.numbers(unit, event, float(delta), primary)
        derived["total"] = primary["total"] | derived["total"]
        record = canonical.to_plain({**primary, **derived})
        record |= derive.derive_status(unit, event, record)
        record["digest"] = canonical.digest(record)
        certificate = cls.from_json(record)
        certificate.verify()
        return certificate

    def to_json(self) -> dict[str, Any]:
        """The certificate as plain JSON values; a loss without a finite value is the string 'inf'."""
        record: dict[str, Any] = canonical.to_plain({field.name: getattr(self, field.name) for field in fields(self)})
        return record

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Certificate:
        """The certificate that a JSON object describes, its shape checked (its truth is `verify`'s work).

        Raises:
            CertificateError: a field is missing, unknown, of the wrong type or out of range.
        """
        canonical.require_plain(value)
        if not isinstance(value, Mapping):
            raise _shape_error("certificate", "is no object")
        shaped: dict[str, Any] = {}
        for name, hint in _hints().items():
            try:
                shaped[name] = canonical.freeze(read(hint, value[name]))
            except (KeyError, TypeError, ValueError, AttributeError, PlanError):
                raise _shape_error(name, "is missing" if name not in value else "is of another type") from None
        for name in value.keys() - shaped.keys():
            raise _shape_error(name, "is unknown")
        for name in sentences.LISTS:
            for i, statement in enumerate(shaped[name]):
                if wrong := sentences.problem(statement):
                    raise _shape_error(f"{name}[{i}]", wrong)
        for name, pattern in _FORMS.items():
            if shaped[name] is not None and not re.fullmatch(pattern, shaped[name], re.ASCII):
                raise _shape_error(name, "has the wrong form")
        signature = shaped["signature"]
        hexed = None if signature is None else f"{signature['public_key']} {signature['value']}"
        if hexed is not None and not re.fullmatch("[0-9a-f]{64} [0-9a-f]{128}", hexed):
            raise _shape_error("signature", "has the wrong form")
        if len(shaped["accountants"]) != 2 or not shaped["parts"] or not 0 < shaped["delta"] < 1:
            raise _shape_error("accountants, parts or delta", "are out of range")
        audit = shaped["audit"]
        if audit is not None and not (audit["lower_bound"] >= 0 and 0 < audit["confidence"] < 1):
            raise _shape_error("audit", "is out of range")
        return cls(**shaped)

    def verify(self, public_key: str | None = None) -> Verification:
        """Recompute everything that can be recomputed, and check the digest and the signature.

        Args:
            public_key: 64 hex digits; if given, the certificate must be signed by its private key.

        Raises:
            CertificateError: something does not hold; the message names the field.
        """
        from tacit.privacy.accounting.events import event_from_json, flatten, in_balls
        from tacit.privacy.certificate import fields as derive
        from tacit.privacy.certificate import plan as planned

        record = self.to_json()
        type(self).from_json(record)
        _require(canonical.digest(record) == self.digest, "digest", "is not that of the fields")
        _require({"tacit", "dp-accounting"} <= set(record["versions"]), "versions", "lack an accountant")
        try:  # what costs little first: hostile papers are refused before anything is computed
            unit = Unit(record["unit"]["name"], record["unit"]["relation"], record["unit"]["population"])
            _require(self.delta < 1 / unit.size, "delta", "is not below 1 / population")
            event = event_from_json(record["event"])
            leaves = flatten(event)
            derive.require_few_kinds(leaves)
            composed = [flatten(derive.parts_event(record["parts"], former=former)) for former in (False, True)]
            composes = leaves in composed or leaves in map(in_balls, composed)  # as older certificates have it
            _require(composes, "parts", "do not compose to the event")
        except (AccountingError, PlanError) as error:
            raise _edit_error("event", f"cannot be accounted for ({error.what})") from error
        try:
            plan = planned.plan_from_json(self.method, record["plan"])
        except (DataError, PlanError) as error:
            raise _edit_error("plan", f"is none of the method's ({error.what})") from error
        for path in derive.differences(record, derive.derive_status(unit, event, record), ""):
            raise _edit_error(path, "does not follow from the other fields")
        for path, what in itertools.chain(derive.contradictions(record, event), planned.contradictions(record, plan)):
            raise _edit_error(path, what)
        try:
            derive.require_epsilon(unit, event, record)
            derived = derive.numbers(unit, event, self.delta, record)
        except (AccountingError, ArithmeticError, ValueError) as error:
            what = error.what if isinstance(error, AccountingError) else type(error).__name__
            raise _edit_error("event", f"cannot be accounted for ({what})") from error
        for path in derive.differences(record, derived, ""):
            raise _edit_error(path, "does not recompute")
        signed_by = self._require_signature(public_key)
        check = float(record["accountants"][1]["epsilon"])
        declared = (*DECLARED, *planned.underived_fields(plan))
        return Verification(self.epsilon, self.delta, check, self.private, self.digest, signed_by, declared)

    def sign(self, private_key: Ed25519PrivateKey) -> Certificate:
        """The same certificate with an Ed25519 signature over its digest and the public key inside."""
        key = private_key.public_key().public_bytes_raw().hex()
        value = private_key.sign(_SIGNED + bytes.fromhex(self.digest)).hex()
        return replace(self, signature=canonical.freeze({"algorithm": "Ed25519", "public_key": key, "value": value}))

    def _repr_html_(self) -> str:
        """What is promised, what is not, and on what that rests, for notebooks."""
        unit = self.unit
        rows = [
            ("promise", self.sentence),
            ("unit", f"{unit['name']} ({unit['relation']}, public population {unit['population']:,})"),
            *((name.replace("_", " "), self.lines(name)) for name in sentences.LISTS),
        ]
        return notebook.table(f"Certificate of {self.method}", rows)

    def to_markdown(self) -> str:
        """The certificate for people; a red banner comes first where nothing is promised."""
        return markdown(self.to_json())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON form, all or nothing (a temporary file in the same folder, synced, then renamed)."""
        canonical.write(Path(path), self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a certificate that `save` wrote.

        Raises:
            CertificateError: the file is larger than 4 MiB, is no JSON, repeats a field, or has the wrong shape.
        """
        return cls.from_json(canonical.read(Path(path)))

    def _require_signature(self, public_key: str | None) -> str | None:
        if self.signature is None:
            _require(public_key is None, "signature", "is missing")
            return None
        key = str(self.signature["public_key"])
        _require(public_key is None or public_key.lower() == key, "signature", "is by another key")
        try:
            signer = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
            signer.verify(bytes.fromhex(self.signature["value"]), _SIGNED + bytes.fromhex(self.digest))
        except InvalidSignature:
            raise _edit_error("signature", "is not valid") from None
        return key


@functools.cache
def _hints() -> dict[str, Any]:
    """The types of the fields of a certificate."""
    return get_type_hints(Certificate)


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a certificate, made from its classes and those of parts."""
    from tacit.privacy.mechanisms.kinds import StatedPart

    defs: dict[str, Any] = {}
    properties = {name: schema_of(hint, defs) for name, hint in _hints().items()}
    statement = {"type": "object", "properties": {"code": {"enum": list(sentences.SENTENCES)}}, "required": ["code"]}
    properties["parts"] = {"type": "array", "items": schema_of(StatedPart, defs), "minItems": 1}
    properties |= {name: {"type": "array", "items": statement} for name in sentences.LISTS}
    properties |= {
        name: properties[name] | {"pattern": f"^{form}$"} for name, form in _FORMS.items() if name != "commit"
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "tacit-certificate-1",
        "title": "tacit privacy certificate",
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        "$defs": defs,
    }


def _shape_error(field: str, what: str) -> CertificateError:
    return CertificateError(
        f"the field {escape(field[:80])!r} {what}",
        where="Certificate.from_json",
        expected="the fields of a certificate, and no others",
        remedy="use the certificate as tacit wrote it",
    )


def _require(holds: bool, field: str, what: str) -> None:
    if not holds:
        raise _edit_error(field, what)


def _edit_error(field: str, what: str) -> CertificateError:
    expected = "a certificate that recomputes from its own event"
    remedy = "do not rely on it; ask its author for the original"
    return CertificateError(f"the field {field!r} {what}", where="Certificate.verify", expected=expected, remedy=remedy)


@functools.cache
def _version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


# A release: a value that left the vault, and the certificate that says what was promised.


Value = TypeVar("Value")


@dataclass(frozen=True, repr=False)
class Release(Generic[Value]):
    """A public value with its certificate; anything computed from the value alone is free (post-processing).

    Args:
        value: what was learned.
        certificate: who was promised what, and how to recompute it.
    """

    value: Value
    certificate: Certificate

    def __repr__(self) -> str:
        return f"Release of {type(self.value).__name__}: {self.certificate.sentence}"

    def _repr_html_(self) -> str:
        """What it is, and its certificate, for notebooks; the value is not shown."""
        return notebook.table(f"Release of {type(self.value).__name__}", ()) + self.certificate._repr_html_()
