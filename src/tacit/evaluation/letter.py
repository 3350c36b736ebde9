"""The letter for the data protection officer: what a certificate says, on one printed side, in English or German.

Certificates hold codes and numbers; the sentences here are made of them when the letter is shown, and hold nothing
else. What only the house knows (who made the release, where, for what) is a line to be filled in by hand.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Any, Literal, TypeAlias, get_args

from tacit.methods import METHODS
from tacit.plain_text import escape
from tacit.privacy import sentences
from tacit.privacy.certificate import markdown
from tacit.privacy.certificate.fields import find_balance

Language = Literal["en", "de"]
FILES: Mapping[Language, str] = {"en": "letter.html", "de": "letter.de.html"}
"""The letters of a run, beside its certificate."""
ALARMS = (0.01, 0.1, 0.5)
"""How often a conclusion would be drawn without a unit's records, where the letter says how often it is at most."""
_Words: TypeAlias = tuple[str, str]
"""What is said, in English and in German."""
_LONGEST_WORDS, _LONGEST_LIST, _MOST_GROUPS = 64, 190, 7
"""Characters of a user's own words, and of all of them in one place; and sentences there: a letter has one side."""

_DENSE = 4_000
"""Characters of a page, marks included, above which its print is small."""

_LEAVES: Mapping[str | None, _Words] = {
    "synthesize": (
        "A model, and synthetic records that are drawn from it.",
        "Ein Modell und synthetische Datensätze, die daraus gezogen werden.",
    ),
    "evaluate": ("Figures on what a policy is worth.", "Kennzahlen zum Wert einer Strategie."),
    "improve": (
        "A policy (a rule that advises decisions), and figures on what following it a little gains.",
        "Eine Strategie (eine Regel, die Entscheidungen empfiehlt) und Kennzahlen zu ihrem Nutzen.",
    ),
    "train": (
        "Policies (rules that decide), learned from what people did.",
        "Strategien (Regeln, die entscheiden), gelernt aus dem, was Menschen taten.",
    ),
    "learn": (
        "A policy (a rule that decides), learned from experts.",
        "Eine Strategie (eine Regel, die entscheidet), gelernt von Fachleuten.",
    ),
    "imitate": (
        "A simulator of movement, and invented days that are drawn from it.",
        "Ein Simulator von Bewegungen und erfundene Tage, die daraus gezogen werden.",
    ),
    "align": (
        "Numbers by which a public language model is steered.",
        "Zahlen, durch die ein öffentliches Sprachmodell gesteuert wird.",
    ),
    None: ("The values that this method releases.", "Die Werte, die dieses Verfahren ausgibt."),
}
"""What is released, by the verb of the method."""
_COPIES: _Words = (
    "Steps copied from logs are part of it. Whoever is in these logs is not protected; only the experts' policies are.",
    "Teile davon sind aus Protokollen kopiert. Wer darin vorkommt, ist nicht geschützt; nur die Strategien sind es.",
)
_TRUST: Mapping[str, _Words] = {
    "Central": (
        "Who holds them is trusted with them; nobody who sees the release has to be.",
        "Wer sie hat, dem wird vertraut; wer die Ausgabe sieht, dem muss niemand vertrauen.",
    ),
    "Federated": (
        "They stay on people's devices, or with who computes for these.",
        "Sie bleiben auf den Geräten der Menschen oder bei dem, der für diese rechnet.",
    ),
    "Local": (
        "Every answer gets its noise before it leaves the person who gives it.",
        "Jede Antwort erhält ihr Rauschen, bevor sie den Menschen verlässt, der sie gibt.",
    ),
}

_LIMITS: tuple[tuple[str, _Words], ...] = (
    (
        "shared_critic copied_starts own_noise nothing",
        ("ANYTHING: this release protects nobody", "ALLES: Diese Ausgabe schützt niemanden"),
    ),
    (
        "few_people",
        ("maps and visits by place: too few people, NOT TO BE USED", "Karten und Orte: zu wenige, NICHT VERWENDEN"),
    ),
    (
        "others_in_logs who_knows_logs logs_elsewhere",
        ("whoever is in the logs from which steps were copied", "wer in den Protokollen vorkommt, die kopiert wurden"),
    ),
    (
        "population population_actions population_value common",
        ("what is true of the population as a whole", "was für die Bevölkerung insgesamt gilt"),
    ),
    (
        "records_used public_parameters grid_parameters evaluated_policy",
        (
            "that these records were used, and every public setting",
            "dass diese Datensätze verwendet wurden, und alle öffentlichen Einstellungen",
        ),
    ),
    ("who_came", ("who came when, to whoever watches them", "wer wann kam, für alle, die dabei zusehen")),
    (
        "less_than_person several_ids several_ids_met",
        (
            "a person who owns several {unit}s, or has several ids",
            "ein Mensch, dem mehrere Einheiten gehören oder der mehrere Kennungen hat",
        ),
    ),
    (
        "others_in_rows others_in_days",
        (
            "others who appear in the records of many {unit}s",
            "Dritte, die in den Datensätzen vieler Einheiten vorkommen",
        ),
    ),
    (
        "served_with completions_seen",
        ("what one {unit} is shown of their own", "was einer Einheit selbst gezeigt wird"),
    ),
    (
        "hyperparameters bins_chosen candidates_chosen curator",
        (
            "settings chosen, and figures computed, from the records by other ways than this one",
            "Einstellungen und Zahlen, die auf anderem Weg aus den Datensätzen gewonnen wurden",
        ),
    ),
    (
        "texts_behind models_public",
        ("public models, and whose texts they were made from", "öffentliche Modelle und wessen Texte darin stecken"),
    ),
    (
        "bins_shaped pretrained declared rewards_computed anchors_public world_public grid_public box_declared "
        "starts_declared public_critic public_information first_given",
        ("what was declared public (not checked)", "was als öffentlich erklärt wurde (nicht geprüft)"),
    ),
    (
        "not_pretrained first_drawn vote_directions starts_uniform own_split",
        ("what was drawn or fixed without any record", "was ohne Datensätze gezogen oder festgelegt wurde"),
    ),
)
"""What the promise does not cover: codes, and what the letter says of them."""
_RESTS: tuple[tuple[str, _Words], ...] = (
    (
        "secret_noise floating_point side_channels runs_secret",
        (
            "the noise stays secret, and nobody times or watches the computer",
            "das Rauschen bleibt geheim, und niemand misst oder beobachtet den Rechner",
        ),
    ),
    (
        "one_id no_ids queried exact_ids",
        ("all records of one {unit} carry one id", "alle Datensätze einer Einheit tragen eine Kennung"),
    ),
    (
        "declared_public experts_known clones_simulated floor_kept features_fixed",
        (
            "the population, the bounds and all else that was declared public owe nothing to the records",
            "Bevölkerungszahl, Grenzen und alles als öffentlich Erklärte stammen nicht aus den Datensätzen",
        ),
    ),
    (
        "ledger_kept register_kept",
        (
            "the budget's ledger was not set back, and there is no second one",
            "das Budgetbuch wurde nicht zurückgesetzt, und es gibt kein zweites",
        ),
    ),
    ("ran_as_stated", ("the run took place as stated", "der Lauf fand statt wie angegeben")),
    (
        "one_curator devices_people server_noise secure_sums who_answers noise_shares ranks",
        (
            "every device is one person's and follows the protocol; the server, or who computes, is trusted",
            "jedes Gerät gehört einem Menschen und hält das Protokoll ein; dem Server oder Rechnenden wird vertraut",
        ),
    ),
    (
        "coming own_critic pool_secret meetings_apart valued_by_model valued_by_feedback",
        (
            "who comes, and what they say, depends on another {unit} only through what was released",
            "wer kommt und was er sagt, hängt von anderen Einheiten nur über das Veröffentlichte ab",
        ),
    ),
    (
        "policies_protected logs_drawn",
        ("the logs were made as declared", "die Protokolle entstanden wie erklärt"),
    ),
    (
        "kept_apart untried asks_devices served_by",
        ("code of the house's own keeps units apart", "eigener Programmcode des Hauses hält Einheiten getrennt"),
    ),
    (
        "returns_in_range evaluated candidate behaviour_known behaviour_fitted propensities_true propensities_stated "
        "no_propensities settings_chosen courses_apart advice_alone",
        (
            "for the figures alone, not for the protection: probabilities and ranges are as declared",
            "nur für die Kennzahlen, nicht für den Schutz: Wahrscheinlichkeiten und Grenzen stimmen wie erklärt",
        ),
    ),
)
"""What the promise rests on: codes, and what the letter says of them."""

_TEXT: Mapping[str, _Words] = {
    "title": ("Letter for the data protection officer", "Schreiben für die Datenschutzbeauftragten"),
    "other": ("Auf Deutsch", "In English"),
    "no_guarantee": (
        "NO GUARANTEE. Do not give this release away as protected: {reasons}.",
        "KEINE GARANTIE. Nicht als geschützt herausgeben: {reasons}.",
    ),
    "infinite": ("its epsilon is infinite", "das Epsilon ist unendlich"),
    "void": ("its ledger is void ({reason})", "das Budgetbuch ist ungültig ({reason})"),
    "simulated": (
        "Simulated records: no person is behind them.",
        "Simulierte Datensätze: Dahinter steht kein Mensch.",
    ),
    "weak": (
        "This promise is weak: its bound is close to that of no protection.",
        "Dieser Schutz ist schwach: Die Schranke liegt nahe an gar keinem Schutz.",
    ),
    "leaves": ("What leaves the house", "Was das Haus verlässt"),
    "no_record": ("No record is copied into it.", "Kein Datensatz ist hineinkopiert."),
    "method": ("Method: {method} ({source}).", "Verfahren: {method} ({source})."),
    "from": ("Made from", "Woraus"),
    "records": (
        "Records of {unit}s. There could be {population} of them, as is publicly known.",
        "Datensätze von Einheiten „{unit}“. Bekanntlich kann es {population} davon geben.",
    ),
    "fields": ("Fields: {fields}.", "Felder: {fields}."),
    "no_fields": ("Fields, which the certificate does not name:", "Felder, die das Zertifikat nicht nennt:"),
    "who": ("Who, where, when", "Wer, wo, wann"),
    "made": (
        "Made on {date} (UTC) with tacit {version}.",
        "Erstellt am {date} (UTC) mit tacit {version}.",
    ),
    "responsible": ("Responsible body, place:", "Verantwortliche Stelle, Ort:"),
    "by_hand": ("Made by, for whom:", "Erstellt von, für wen:"),
    "promise": ("The promise", "Das Versprechen"),
    "kept": (
        "({epsilon}, {delta})-differential privacy (epsilon, delta) for every {unit}, and for all that is computed "
        "from this release.",
        "({epsilon}; {delta})-Differential Privacy (Epsilon, Delta) für jede Einheit „{unit}“ und für alles, was aus "
        "dieser Ausgabe berechnet wird.",
    ),
    "broken": ("Nothing is promised.", "Nichts wird versprochen."),
    "add_or_remove": ("", "ob eine Einheit mit allen ihren Datensätzen in den Daten ist oder nicht"),
    "replace_one": ("", "welche Datensätze eine Einheit beigetragen hat (und wie viele)"),
    "logs": ("", "ob die Strategie einer Einheit unter denen ist, aus denen gelernt wurde"),
    "opinion": (
        "What Opinion 05/2014 of the Article 29 Working Party asks, and what holds for this release",
        "Wonach die Stellungnahme 05/2014 der Artikel-29-Gruppe fragt, und was hier gilt",
    ),
    "singling_out": ("Singling out", "Herausgreifen"),
    "singling_out_asks": ("Can one {unit} be isolated?", "Lässt sich eine Einheit aussondern?"),
    "singled_out": (
        "Who tests {neighbours}, with {alarms} false alarms, catches at most {caught} of true cases; blind guessing "
        "catches {alarms}.",
        "Wer prüft, {neighbours}, erkennt bei {alarms} Fehlalarmen höchstens {caught} der wahren Fälle; blindes Raten "
        "erkennt {alarms}.",
    ),
    "linkability": ("Linkability", "Verknüpfbarkeit"),
    "linkability_asks": ("Can records of one {unit} be linked?", "Lassen sich Datensätze einer Einheit verbinden?"),
    "linked": (
        "The same bound holds whatever else somebody knows{apart}. With all that was released from these records so "
        "far ({releases}), at most {caught}.",
        "Dieselbe Schranke gilt, was immer jemand sonst weiß{apart}. Mit allem, was bisher aus diesen Datensätzen "
        "veröffentlicht wurde ({releases}), sind es höchstens {caught}.",
    ),
    "apart": ("", " (außer den Protokollen)"),
    "inference": ("Inference", "Inferenz"),
    "inference_asks": (
        "Can something be concluded about one {unit}?",
        "Lässt sich etwas über eine Einheit schließen?",
    ),
    "inferred": (
        "A conclusion that is drawn in {before} of 100 cases without one {unit}'s true records is drawn in at most "
        "{after} with them. What is true of everybody is true of them, too.",
        "Ein Schluss, der ohne die wahren Datensätze einer Einheit in {before} von 100 Fällen gezogen wird, wird mit "
        "ihnen in höchstens {after} gezogen. Was für alle gilt, gilt auch für sie.",
    ),
    "or": (" or ", " oder "),
    "limits": ("Not covered", "Nicht abgedeckt"),
    "left": ("What is left to spend", "Was vom Budget bleibt"),
    "spent": (
        "Spent so far: epsilon {spent} of {budget} (at delta {delta}).",
        "Bisher verbraucht: Epsilon {spent} von {budget} (bei Delta {delta}).",
    ),
    "nothing_left": ("Nothing is left.", "Nichts bleibt."),
    "remains": (
        "A further release may cost at most epsilon {left}.",
        "Eine weitere Ausgabe darf höchstens Epsilon {left} kosten.",
    ),
    "ceiling": (
        "The budget may be raised, to {ceiling} at most.",
        "Das Budget darf erhöht werden, höchstens auf {ceiling}.",
    ),
    "erasure": ("Erasure afterwards", "Löschung danach"),
    "erased": (
        "If one {unit} is erased later, this release stays as it is: the bounds above hold for the erased, too. What "
        "is released later, from the records that are left, is made without them; what was spent stays spent.",
        "Wird eine Einheit später gelöscht, bleibt diese Ausgabe, wie sie ist: Die Schranken oben gelten auch für sie. "
        "Spätere Ausgaben, aus den Datensätzen, die bleiben, entstehen ohne sie; Verbrauchtes bleibt verbraucht.",
    ),
    "erased_open": (
        "No bound says how much of one {unit}, once erased, this release still shows.",
        "Keine Schranke sagt, wie viel diese Ausgabe von einer gelöschten Einheit noch zeigt.",
    ),
    "rests": ("What it rests on", "Worauf es beruht"),
    "check": ("How to check", "Wie man es prüft"),
    "verify": (
        "{command} recomputes the promise without the data, on any computer. That the run took place it cannot prove. "
        "Digest {digest}; {signed}.",
        "{command} rechnet das Versprechen ohne die Daten nach, auf jedem Rechner. Dass der Lauf stattfand, beweist es "
        "nicht. Prüfsumme {digest}; {signed}.",
    ),
    "signed": ("signed by the key {key}", "signiert mit dem Schlüssel {key}"),
    "unsigned": ("not signed", "nicht signiert"),
    "not": ("What this is not", "Was dies nicht ist"),
    "no_advice": (
        "No legal advice, and no finding that the release is anonymous: that is for the law and for you to judge.",
        "Keine Rechtsberatung und keine Feststellung, dass die Ausgabe anonym ist: Das zu beurteilen, ist Sache des "
        "Rechts und Ihre.",
    ),
    "more": ("{count} more in certificate.md", "{count} weitere in certificate.md"),
    "quoted": ("“{words}”", "„{words}“"),
    "others": ("and {count} more", "und {count} weitere"),
    "sign": ("Place, date, signature:", "Ort, Datum, Unterschrift:"),
}
_STYLE = """
*{box-sizing:border-box}
body{margin:0 auto;max-width:50rem;padding:1.4rem;color:#17202a;background:#fff;overflow-wrap:anywhere;
font:400 15px/1.42 system-ui,"Segoe UI",Roboto,"Liberation Sans",Arial,sans-serif}
nav{float:right;font-size:13px}h1{font-size:23px;line-height:1.2;margin:0 0 .5rem}
dl{margin:0}dl>div{display:grid;grid-template-columns:9.5rem 1fr;gap:0 .4rem;padding:.34rem 0;
border-top:1px solid #d8d6d0}
dt{font-weight:600}.list::first-letter{text-transform:uppercase}dd{margin:0}p{margin:0 0 .2rem}
.broken,.simulated,.weak{padding:.5rem .7rem;margin:0 0 .5rem;font-weight:600;border-radius:6px}
.broken{background:#a3200f;color:#fff;font-size:1.2em;print-color-adjust:exact;-webkit-print-color-adjust:exact}
.simulated,.weak{background:#fdf3dc;color:#7a4d00}
table{border-collapse:collapse;width:100%;margin:.2rem 0 .5rem;border-left:3px solid #0b62c4}
caption{text-align:left;padding:.3rem 0;font-weight:600}
th,td{text-align:left;vertical-align:top;padding:.25rem 0;border-top:1px solid #d8d6d0}
th{width:9.9rem;padding-left:.6rem;font-weight:600}i{color:#586374;font-style:normal}
.fill{display:flex;gap:.6rem;align-items:end;min-height:1.7rem}.fill::after{content:"";flex:1;
border-bottom:1px solid #17202a}
.sign{margin-top:1.1rem}code{font-size:.92em}.digest{font-size:.8em}
@media(max-width:34rem){dl>div{grid-template-columns:1fr}body{padding:1rem}}
@page{size:A4;margin:13mm 16mm 12mm}
@media print{body{font-size:9.4pt;line-height:1.27;max-width:none;padding:0}
.dense{font-size:8.3pt;line-height:1.22}
nav{display:none}h1{font-size:15pt}
dl>div{grid-template-columns:33mm 1fr;gap:0 3mm;padding:.9mm 0}th{width:36mm}.fill{min-height:6mm}.sign{margin-top:3mm}}
"""


def letter(record: Mapping[str, Any], language: Language = "en") -> str:
    """The letter as one HTML page without script or request; it prints on one side of A4.

    Args:
        record: `Certificate.to_json()`, verified by the caller.
        language: of the letter; words of a user's own stay as they are.

    Guarantee: every figure in it is the certificate's, or follows from it.
    """
    return _Writer(record, language).page()


class _Writer:
    """The sentences of one letter."""

    def __init__(self, record: Mapping[str, Any], language: Language) -> None:
        self._record, self._index = record, get_args(Language).index(language)
        self._unit, self._private = record["unit"], record["private"] is True

    def page(self) -> str:
        language, other = get_args(Language)[self._index], get_args(Language)[1 - self._index]
        title, sign = self._say("title"), self._fill("sign", "sign")
        link = f'<nav><a href="{FILES[other]}" lang="{other}" hreflang="{other}">{self._say("other")}</a></nav>'
        table = self._opinion() if self._private else ""
        first, last = (self._list(rows) for rows in (self._release_rows(), self._other_rows()))
        dense = ' class="dense"' if len(first + table + last) > _DENSE else ""
        return (
            f'<!DOCTYPE html>\n<html lang="{language}"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>'
            f"<style>{_STYLE}</style></head>\n<body{dense}>{link}<h1>{title}</h1>\n{''.join(self._banners())}"
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
            yield f'<p class="weak">{self._pick(_COPIES)}</p>\n'

    def _release_rows(self) -> Iterator[tuple[str, str]]:
        """Heading and HTML of each part before the table."""
        record, say = self._record, self._say
        tasks = {entry.certified: entry.task for entry in METHODS}
        task, logs = tasks.get(record["method"]), sentences.publishes_logs(record)
        leaves = self._pick(_LEAVES[task]) + (f" {say('no_record')}" if self._private and task and not logs else "")
        named = {name: html.escape(_trim(record[name], 2 * _LONGEST_WORDS)) for name in ("method", "source")}
        method = say("method", **named)
        yield say("leaves"), f"{leaves} {method}"
        records = say("records", population=self._number(self._unit["population"]))
        trust = self._pick(_TRUST[markdown.trust_model(record["parts"])])
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
        """Heading and HTML of each part after the table."""
        record, say = self._record, self._say
        limits = [clause for name in ("not_covered", "not_protected") for clause in record[name]]
        yield say("limits"), self._groups(_LIMITS, limits)
        if self._private:
            yield say("left"), self._budget()
        yield say("erasure"), say("erased" if self._private else "erased_open")
        if self._private:
            yield say("rests"), self._groups(_RESTS, record["assumptions"])
        signature = record["signature"]
        key = say("unsigned") if signature is None else say("signed", key=signature["public_key"])
        command = "<code>tacit certificate verify certificate.json</code>"
        digest = f'<code class="digest">{record["digest"]}</code>'
        yield say("check"), say("verify", command=command, digest=digest, signed=key)
        yield say("not"), say("no_advice")

    def _neighbours(self) -> str:
        if not self._index:
            return html.escape(sentences.describe_neighbours(self._record))
        return self._say("logs" if sentences.publishes_logs(self._record) else self._unit["relation"])

    def _opinion(self) -> str:
        """The table of the three criteria."""
        record, say = self._record, self._say
        alarms = {"alarms": self._percent(100 * markdown.FALSE_ALARMS)}
        single, total = (markdown.catch_percent(each) for each in (record, combine_releases(record)))
        apart = say("apart") if sentences.publishes_logs(record) else ""
        if not self._index:
            apart = sentences.knowledge_exception(logs=sentences.publishes_logs(record))
        before = [self._number(100 * share) for share in ALARMS]
        after = [self._number(markdown.catch_percent(record, share)) for share in ALARMS]
        joined = {"before": self._choice(before), "after": self._choice(after)}
        singled = {"neighbours": self._neighbours(), "caught": self._percent(single)}
        answers = (
            ("singling_out", say("singled_out", **singled, **alarms)),
            ("linkability", say("linked", apart=apart, caught=self._percent(total), releases=self._releases())),
            ("inference", say("inferred", **joined)),
        )
        rows = "".join(
            f'<tr><th scope="row">{say(name)}</th><td><i>{say(f"{name}_asks")}</i> {answer}</td></tr>\n'
            for name, answer in answers
        )
        return f"<table><caption>{say('opinion')}</caption><tbody>\n{rows}</tbody></table>"

    def _releases(self) -> str:
        count = len(self._record["releases"])
        english, german = ("release" if count == 1 else "releases"), ("Ausgabe" if count == 1 else "Ausgaben")
        return f"{self._number(count)} {(english, german)[self._index]}"

    def _budget(self) -> str:
        total = self._record["total"]
        budget, ceiling = float(total["budget_epsilon"]), float(total["ceiling_epsilon"])
        spent = {"spent": float(total["epsilon"]), "budget": budget, "delta": float(total["delta"])}
        lines = [self._say("spent", **{name: self._number(value) for name, value in spent.items()})]
        left = largest_left(self._record)
        lines.append(self._say("remains", left=self._number(left)) if left else self._say("nothing_left"))
        lines += [self._say("ceiling", ceiling=self._number(ceiling))] if ceiling > budget else []
        return " ".join(lines)

    def _groups(self, table: Iterable[tuple[str, _Words]], clauses: Sequence[sentences.Clause]) -> str:
        """What is said of these clauses: once for each group, then the users' own words, then how many are left."""
        codes = [clause["code"] for clause in clauses]
        groups = [(set(names.split()), words) for names, words in table]
        said = [self._pick(words) for names, words in groups if names & set(codes)]
        own = [str(clause["words"]) for clause in clauses if clause["code"] in ("own_words", "declared", "pretrained")]
        shown, left = _fit(own)
        left += len(said[_MOST_GROUPS:]) + len(set(codes).difference({"own_words"}, *(names for names, _ in groups)))
        quoted = [self._say("quoted", words=html.escape(each)) for each in shown]
        more = [self._say("more", count=self._number(left))] if left else []
        return f'<p class="list">{"; ".join([*said[:_MOST_GROUPS], *quoted, *more])}.</p>'

    def _say(self, name: str, **values: str) -> str:
        return self._pick(_TEXT[name], **values)

    def _pick(self, words: _Words, /, **values: str) -> str:
        """The words of this language, in HTML: values are, and the unit's name is made."""
        return words[self._index].format(unit=self._short(self._unit["name"]), **values)

    def _fill(self, name: str, also: str = "") -> str:
        return f'<div class="fill {also}">{self._say(name)}</div>'

    def _short(self, words: str) -> str:
        return html.escape(_trim(words))

    def _choice(self, words: Sequence[str]) -> str:
        return ", ".join(words[:-1]) + self._say("or") + words[-1]

    def _number(self, value: float) -> str:
        """A number in full, as the language writes it."""
        text = f"{value:,}" if isinstance(value, int) else f"{Decimal(f'{value:.6g}'):,f}"
        return text.translate({ord(","): ".", ord("."): ","}) if self._index else text

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
    """As many of these as a letter has room for, and how many are left."""
    lengths = accumulate(len(_trim(each)) for each in words)
    shown = [_trim(each) for each, length in zip(words, lengths, strict=True) if length <= _LONGEST_LIST]
    return shown, len(words) - len(shown)


def _column_names(plan: Any) -> Iterator[str]:
    """Names of the columns that a plan's public fields describe."""
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
