"""The letter for the data protection officer: what a certificate says, on one printed side, in English or German.

Certificates hold codes and numbers; the sentences of `letter.toml` are filled with them when the letter is shown. What
only the house knows (who made the release, where, for whom) is a line to be filled in by hand.
"""

from __future__ import annotations

import html
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from importlib import resources
from itertools import accumulate
from typing import Any, Literal, TypeAlias

from tacit.methods import METHODS
from tacit.plain_text import escape
from tacit.privacy import sentences
from tacit.privacy.certificate import markdown
from tacit.privacy.certificate.fields import find_balance
from tacit.privacy.ledger.folds import Balance
from tacit.units import PERSONS, noun

Language = Literal["en", "de"]
FILES: Mapping[Language, str] = {"en": "letter.html", "de": "letter.de.html"}
"""The letters of a run, beside its certificate."""
LINKS: Mapping[str, str] = {FILES["en"]: "letter for the data protection officer", FILES["de"]: "auf Deutsch"}
"""What a report beside them says of them."""
ALARMS = (0.01, 0.1, 0.5)
"""How often a conclusion would be drawn without a unit's records, where the letter says how often it is at most."""
_Words: TypeAlias = Mapping[str, Any]
"""What is said, by language."""
_LONGEST_WORDS, _LONGEST_LIST, _MOST_GROUPS = 64, 190, 7
"""Characters of a user's own words, and of all of them in one place; and sentences there: a letter has one side."""

_DENSE = 4_000
"""Characters of a page, marks included, above which its print is small."""


def letter(record: Mapping[str, Any], language: Language = "en") -> str:
    """The letter as one HTML page without script or request; it prints on one side of A4.

    Args:
        record: `Certificate.to_json()`, verified by the caller.
        language: of the letter; words of a user's own stay as they are.

    Guarantee: every figure in it is the certificate's, or follows from it.
    """
    return _Writer(record, language).page()


@cache
def sentences_table() -> Mapping[str, Any]:
    """All that a letter says: `leaves`, `trust` and `text` by name, `limits` and `rests` by the codes of clauses."""
    return tomllib.loads(_file("letter.toml"))


def _file(name: str) -> str:
    return resources.files("tacit.evaluation").joinpath(name).read_text(encoding="utf-8")


class _Writer:
    def __init__(self, record: Mapping[str, Any], language: Language) -> None:
        self._record, self._language, self._table = record, language, sentences_table()
        self._unit, self._private = record["unit"], record["private"] is True
        called = noun(self._unit["name"])
        self._noun = self._short(called) if language == "en" else "Person" if called in PERSONS else "Einheit"

    def page(self) -> str:
        language, other = self._language, next(each for each in FILES if each != self._language)
        title, sign = self._say("title"), self._fill("sign", "sign")
        link = f'<nav><a href="{FILES[other]}" lang="{other}" hreflang="{other}">{self._say("other")}</a></nav>'
        table = self._opinion() if self._private else ""
        first, last = (self._list(rows) for rows in (self._release_rows(), self._other_rows()))
        dense = ' class="dense"' if len(first + table + last) > _DENSE else ""
        return (
            f'<!DOCTYPE html>\n<html lang="{language}"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>'
            f"<style>{_file('letter.css')}</style></head>\n<body{dense}>{link}<h1>{title}</h1>\n{''.join(self._banners())}"
            f"{first}{table}{last}{sign}</body></html>\n"
        )

    @staticmethod
    def _list(rows: Iterable[tuple[str, str]]) -> str:
        parts = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>\n" for name, text in rows)
        return f"<dl>\n{parts}</dl>\n"

    def _banners(self) -> Iterator[str]:
        if not self._private:
            why = [self._say("infinite")] if math.isinf(float(self._record["epsilon"])) else []
            void = self._record["void_reason"]
            why += [] if void is None else [self._say("void", reason=self._short(void))]
            yield f'<p class="broken" role="alert">{self._say("no_guarantee", reasons="; ".join(why))}</p>\n'
        elif markdown.catch_percent(self._record) >= markdown.WEAK:
            yield f'<p class="weak">{self._say("weak")}</p>\n'
        if self._record["simulated"]:
            yield f'<p class="simulated">{self._say("simulated")}</p>\n'
        if sentences.publishes_logs(self._record):
            yield f'<p class="weak">{self._say("copies")}</p>\n'

    def _release_rows(self) -> Iterator[tuple[str, str]]:  # heading and HTML of each part before the table
        record, say = self._record, self._say
        tasks = {entry.certified: entry.task for entry in METHODS}
        task, logs = tasks.get(record["method"]), sentences.publishes_logs(record)
        leaves = self._pick(self._table["leaves"][task or "other"]) + (
            f" {say('no_record')}" if self._private and task and not logs else ""
        )
        named = {name: html.escape(_trim(record[name], 2 * _LONGEST_WORDS)) for name in ("method", "source")}
        method = say("method", **named)
        yield say("leaves"), f"{leaves} {method}"
        name, people = str(self._unit["name"]), self._number(self._unit["population"])
        column = "" if name in self._noun else f" ({say('quoted', words=self._short(name))})"
        records = say("records", population=people, named=column)
        trust = self._pick(self._table["trust"][markdown.trust_model(record["parts"])])
        columns = list(dict.fromkeys(_column_names(record["plan"])))
        shown, left = _fit(columns)
        others = f" {say('others', count=self._number(left))}" if left else ""
        fields = say("fields", fields=html.escape(", ".join(shown)) + others) if columns else self._fill("no_fields")
        yield say("from"), f"{records} {trust} {fields}"
        made = say("made", date=record["date"][:10], version=self._short(record["tacit_version"]))
        yield say("who"), f"{made}{self._fill('responsible')}{self._fill('by_hand')}"
        kept = {name: self._number(float(record[name])) for name in ("epsilon", "delta")}
        yield say("promise"), say("kept", **kept) if self._private else say("broken")

    def _other_rows(self) -> Iterator[tuple[str, str]]:
        record, say = self._record, self._say
        limits = [clause for name in ("not_covered", "not_protected") for clause in record[name]]
        yield say("limits"), self._groups("limits", limits)
        if self._private:
            yield say("left"), self._budget()
        yield say("erasure"), say("erased" if self._private else "erased_open")
        if self._private:
            yield say("rests"), self._groups("rests", record["assumptions"])
        signature = record["signature"]
        key = say("unsigned") if signature is None else say("signed", key=signature["public_key"])
        command = "<code>tacit certificate verify certificate.json</code>"
        digest = f'<code class="digest">{record["digest"]}</code>'
        yield say("check"), say("verify", command=command, digest=digest, signed=key)
        yield say("not"), say("no_advice")

    def _neighbours(self) -> str:
        if self._language == "en":
            return html.escape(sentences.describe_neighbours(self._record))
        return self._say("logs" if sentences.publishes_logs(self._record) else self._unit["relation"])

    def _opinion(self) -> str:
        record, say = self._record, self._say
        alarms = {"alarms": self._percent(100 * markdown.FALSE_ALARMS)}
        single, total = (markdown.catch_percent(each) for each in (record, combine_releases(record)))
        apart = say("apart") if sentences.publishes_logs(record) else ""
        if self._language == "en":
            apart = sentences.knowledge_exception(logs=sentences.publishes_logs(record))
        before = [self._number(100 * share) for share in ALARMS]
        after = [self._number(markdown.catch_percent(record, share)) for share in ALARMS]
        joined = {"before": self._choice(before), "after": self._choice(after)}
        singled = {"neighbours": self._neighbours(), "caught": self._percent(single)}
        count = len(record["releases"])
        releases = say("one_release") if count == 1 else say("releases", count=self._number(count))
        answers = (
            ("singling_out", say("singled_out", **singled, **alarms)),
            ("linkability", say("linked", apart=apart, caught=self._percent(total), releases=releases)),
            ("inference", say("inferred", **joined)),
        )
        rows = "".join(
            f'<tr><th scope="row">{say(name)}</th><td><i>{say(f"{name}_asks")}</i> {answer}</td></tr>\n'
            for name, answer in answers
        )
        return f"<table><caption>{say('opinion')}</caption><tbody>\n{rows}</tbody></table>"

    def _budget(self) -> str:
        total = self._record["total"]
        budget, ceiling = float(total["budget_epsilon"]), float(total["ceiling_epsilon"])
        spent = {"spent": float(total["epsilon"]), "budget": budget, "delta": float(total["delta"])}
        lines = [self._say("spent", **{name: self._number(value) for name, value in spent.items()})]
        left = largest_left(self._record)
        lines.append(self._say("remains", left=self._number(left)) if left else self._say("nothing_left"))
        lines += [self._say("ceiling", ceiling=self._number(ceiling))] if ceiling > budget else []
        deltas = [float(release["delta"]) for release in self._record["releases"]]
        lines += [self._say(name) for name in budget_notes(find_balance(self._record), deltas, spent["delta"])]
        return " ".join(lines)

    def _groups(self, name: str, clauses: Sequence[sentences.Clause]) -> str:
        codes, groups = {clause["code"] for clause in clauses}, self._table[name]
        said = [self._pick(group) for group in groups if codes & set(group["codes"])]
        own = [str(clause["words"]) for clause in clauses if clause["code"] in ("own_words", "declared", "pretrained")]
        shown, left = _fit(own)
        left += len(said[_MOST_GROUPS:]) + len(codes.difference({"own_words"}, *(group["codes"] for group in groups)))
        quoted = [self._say("quoted", words=html.escape(each)) for each in shown]
        more = [self._say("more", count=self._number(left))] if left else []
        return f'<p class="list">{"; ".join([*said[:_MOST_GROUPS], *quoted, *more])}.</p>'

    def _say(self, name: str, **values: str) -> str:
        return self._pick(self._table["text"][name], **values)

    def _pick(self, words: _Words, /, **values: str) -> str:
        # in HTML, as the values are
        return str(words[self._language]).format(unit=self._noun, **values)

    def _fill(self, name: str, also: str = "") -> str:
        return f'<div class="fill {also}">{self._say(name)}</div>'

    def _short(self, words: str) -> str:
        return html.escape(_trim(words))

    def _choice(self, words: Sequence[str]) -> str:
        return ", ".join(words[:-1]) + self._say("or") + words[-1]

    def _number(self, value: float) -> str:
        text = f"{value:,}" if isinstance(value, int) else f"{Decimal(f'{value:.6g}'):,f}"
        return text.translate({ord(","): ".", ord("."): ","}) if self._language == "de" else text

    def _percent(self, value: float) -> str:
        return f"{self._number(value)}\N{NO-BREAK SPACE}%"


def combine_releases(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `markdown.miss_rate` asks for, of everything that was released from a certificate's ledger.

    Args:
        record: `Certificate.to_json()`, private.

    Guarantee: an upper bound, if the certificate and the charges in it hold. Releases that are one Gaussian are
    mu-GDP with the root of their added squares (Dong, Roth & Su, arXiv:1905.02383, Corollary 3.3); of others, the
    total (epsilon, delta) is taken.
    """
    if len(record["releases"]) == 1:
        return record
    totals, total = find_balance(record).totals, record["total"]
    gaussian = not any(each.others for each in totals)
    mu = math.sqrt(max(each.squared for each in totals)) * (1 + 1e-12) if gaussian else math.inf
    return {**total, "mu": mu, "mu_range": "upper_bound", "profile": []}


def budget_notes(balance: Balance, deltas: Sequence[float], delta: float) -> list[str]:
    """The names of the sentences of `letter.toml` that say why what is spent is not the sum of the epsilons.

    Args:
        balance: of the ledger.
        deltas: of its releases.
        delta: at which the spent epsilon is stated.
    """
    squares = any(total.squared > 0 for total in balance.totals)
    return ["squares"] * squares + ["wider"] * (squares and max(deltas, default=delta) < delta)


def largest_left(record: Mapping[str, Any]) -> float:
    """Epsilon of the largest release that a certificate's ledger still admits, rounded down to a thousandth."""
    balance, total = find_balance(record), record["total"]
    budget = float(total["budget_epsilon"]), float(total["budget_delta"])
    epsilon = max(balance.left(*budget, gaussian=gaussian)[0] for gaussian in (True, False))
    return math.floor(1e3 * epsilon) / 1e3


def _trim(words: str, most: int = _LONGEST_WORDS) -> str:
    plain = " ".join(escape(words).split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def _fit(words: Sequence[str]) -> tuple[list[str], int]:
    # as many of these as a letter has room for, and how many are left
    lengths = accumulate(len(_trim(each)) for each in words)
    shown = [_trim(each) for each, length in zip(words, lengths, strict=True) if length <= _LONGEST_LIST]
    return shown, len(words) - len(shown)


def _column_names(plan: Any) -> Iterator[str]:
    # names of the columns that a plan's public fields describe
    if isinstance(plan, Mapping):
        columns = plan.get("columns")
        for column in columns if isinstance(columns, Sequence) and not isinstance(columns, str) else ():
            if isinstance(column, Mapping) and isinstance(column.get("name"), str):
                yield column["name"]
        for value in plan.values():
            yield from _column_names(value)
    elif isinstance(plan, Sequence) and not isinstance(plan, str):
        for value in plan:
            yield from _column_names(value)
