"""What certificates say, made when they are shown: they hold codes and numbers, and this module alone has the words.

A clause is a code with its numbers, `{"code": "rounds_of_policies", "rounds": 30}`. Whose words are a user's own, such
as an assumption about a callback, has them under "words". A plan of a user's own may say lines in words of its own
(`underived_fields`); tacit's methods say codes alone.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

from tacit.plain_text import escape
from tacit.units import noun

Record: TypeAlias = Mapping[str, Any]
"""The JSON form of a certificate."""
Value: TypeAlias = str | int | float
MuRange = Literal["exact", "upper_bound", "up_to_epsilon", "none"]
"""mu holds for every epsilon, where it is exact or an upper bound; up to the certified epsilon; for none."""
Clause: TypeAlias = Mapping[str, Value]
"""A code and its numbers, or words of a user's own."""

_PUBLIC = "(declared public by the user, not checked here)"
_USER = "(declared by the user, not checked here)"
_BILLBOARD = (
    "joint privacy: what all other people were served with, taken together, tells no more of a {unit} than the released"
)
_STATEMENT = "(for the clause, not for the promise of privacy)"

SENTENCES: Mapping[str, str] = {
    "own_words": "{words}",
    # what every certificate takes for granted
    "secret_noise": "noise and sampling come from a keyed stream cipher (AES-256-CTR) seeded by the operating system; "
    "they are secret and never replayed",
    "floating_point": "arithmetic is in floating point: contributions are clipped to a ten-thousandth less than the "
    "clip that is priced, which pays for rounding; what is released lies on a public lattice; "
    "proofs/floating_point.md says what no proof covers",
    "side_channels": "timing, memory and power are not observed by the adversary",
    "one_id": "each unit's records carry that unit's id and no other; one person under two ids counts as two units",
    "declared_public": "the declared public population and bounds, pre-training data, and the clip, steps, rate and "
    "all other parameters of the plan were chosen without looking at the private records, this ledger's releases apart",
    "ledger_kept": "the ledger file was not rolled back together with every checkpoint and certificate, and the same "
    "records were not registered in a second ledger",
    "ran_as_stated": "the run happened as stated: neither a digest nor a signature proves that",
    # what a vault knows of the records, of callbacks and of who is trusted
    "kept_apart": "the user's {words} keeps units apart and keeps nothing: it was checked on invented rows, not proved",
    "untried": "the user's {words} keeps nothing of the runs that are not released: that was not tried",
    "failure_shows": "the user's {words} runs on any rows within the public bounds: that a step failed is shown, and "
    "may depend on the records of one {unit}",
    "asks_devices": "the user's {words} asks devices as tacit's own would: not checked",
    "served_by": "the user's {words}, with which people were served, keeps nothing of them",
    "no_ids": "each {kind} counts as one {unit}: the records were imported without unit ids",
    "queried": "each {unit} is one of a query's result: that the query mixes no two of them was not checked",
    "exact_ids": "ids that differ by case, width, Unicode form, spaces or invisible characters alone are different "
    "{unit}s, as the user says",
    "ranks": "the user's {ranks:,} rank(s), on which the records lay in shards, are trusted: each adds its share of "
    "the noise and keeps it secret, and nobody else reads what they send each other; that was not checked",
    "one_curator": "the records of all devices lie with one curator, who computes for them",
    "devices_people": "one device is one person; every device runs tacit's client app and keeps her ledger",
    "server_noise": "where the server adds the noise, it sees every device's answer and is trusted with it",
    "secure_sums": "where devices share the noise, the server follows the protocol of secure aggregation and runs no "
    "devices of its own; at least the part's floor of the devices whose answers are summed are honest and keep their "
    "shares secret",
    "who_answers": "whether a device takes part and answers in time depends on nobody's records, and is not hidden",
    "noise_shares": "every device that answers adds its share of the noise as agreed and keeps it secret; of colluding "
    "devices, those beyond the answers above the floor take their share away",
    "coming": "who else comes, when and in which place, and what they do, depends on a {unit} only through what was "
    "released",
    "register_kept": "the register of contributions was not rolled back together with the ledger and its lock",
    "pool_secret": "who was drawn from the pool for a round stays secret",
    "logs_elsewhere": "logs, from the release of plan {plan}, which the total of this ledger counts: it protects "
    "policies alone",
    "runs_secret": "how many runs a selection made stays secret: nobody timed it, or saw its machine's load or "
    "temporary files",
    "experts_known": "that there are at least {experts:,} experts is public knowledge",
    "clones_simulated": "the simulator in which the clones were played is public, and keeps nothing of them",
    "policies_protected": "what is protected is which policies the experts follow, against anyone who does not know "
    "the other experts' logs: the released steps are copied from logs, which stay secret",
    "logs_drawn": "trajectories were drawn by the policies that are counted, which act on observations as they are "
    "recorded (float32, within the declared bounds), independently, in one environment that is the same for all "
    "experts, first states included, and which alone, or a public horizon, ends an episode",
    "floor_kept": "no expert gives any action a probability below {floor:.6g}, as was declared",
    "others_in_logs": "patients and all others in the experts' logs: the states, actions, rewards and transitions of "
    "the released steps are published as they were recorded",
    "who_knows_logs": "an expert, from somebody who knows the logs that the released steps were copied from",
    # what most methods say
    "looks": "{looks:,} look(s) of the curator at the records without noise, which the ledger noted before this "
    "release: nothing that was seen may have influenced it",
    "curator": "whatever the curator computes from the records outside the vault (see the ledger's notes)",
    "hyperparameters": "the choice of hyper-parameters: it must have been made without looking at the private records",
    "population": "what is true of the population rather than of one {unit}",
    "records_used": "that these records were used at all, by whom, and every public parameter of the plan",
    "less_than_person": "several units that belong to one person, where the declared unit is less than a person",
    "several_ids": "several {unit}s that belong to one person, where ids do not show it",
    "public_parameters": "every public parameter of the plan",
    "common": "what most {unit}s have in common: it is what is released",
    "nothing": "nothing: the parts below are stated, and no part of them is a guarantee",
    "declared": "{words} " + _PUBLIC,
    # synthesis, and the selection of one of several plans
    "bins_chosen": "the bins and all other settings: they must have been chosen without looking at the private records",
    "bins_shaped": "public rows that shaped the bins: {words} " + _USER,
    "pretrained": "public pre-training: {words} " + _USER,
    "not_pretrained": "public pre-training: none, the networks began with random weights " + _USER,
    "gradients": "all {steps:,} noisy gradients of fine-tuning, whether or not a run was interrupted",
    "whole_unit": "everything that one {unit} owns, however many episodes and rows that is",
    "votes": "all {steps:,} batches of noisy votes, whatever the votes are",
    "marginals": "all noisy marginals, within {quanta:,} quanta",
    "chosen_marginals": "all noisy marginals and choices between them, within {quanta:,} quanta",
    "visit_sums": "noisy sums over every {unit} ({parts}), and everything computed from them",
    "rewards_computed": "the expression by which rewards are computed of the sampled rows, and never learned: {words} "
    + _PUBLIC,
    "histograms": "the noisy histograms in {tables:,} tables, with which sampled rows are weighted to agree unless "
    "they were lost in an interruption",
    "sampled_rows": "everything sampled from the released model, and everything trained or computed on the samples",
    "all_runs": "all runs of the {candidates:,} candidates, their judgement, and the choice of the best",
    "which_candidate": "which candidate that was, and its score",
    "from_value": "everything sampled, trained or computed from the released value",
    "candidates_chosen": "the candidates themselves: they must have been chosen without looking at the private records",
    # experts
    "prefixes_of_logs": "the released beginnings of {trajectories:,} trajectories, each copied from the log of one "
    "{unit} drawn by chance, and everything computed from them",
    "prefixes_of_clones": "the released beginnings of {trajectories:,} trajectories, each played in a public simulator "
    "by the clone of one {unit} drawn by chance, and everything computed from them",
    "mean_gradients": "the noisy mean gradients of all {steps:,} noisy steps, and everything computed from them",
    "second_moments": "the noisy second moments of what the experts saw, and everything computed from them",
    "expert_votes": "the noisy votes of all clones at {states:,} public states, and everything computed from them",
    "expert_cloned": "everything of one {unit}: its rows make one clone, which may be drawn, and counts for at most "
    "one wherever a prefix is cut",
    "expert_summed": "everything of one {unit}: what is read of its rows enters each noisy sum as one bounded "
    "contribution, so that its decisions, what it met with and its returns are all covered",
    "expert_policy": "which policy each {unit} follows, and whether it is one of them",
    "others_in_rows": "others who are in the rows of many {unit}s, such as a patient who saw several of them",
    "anchors_public": "the anchors " + _PUBLIC,
    "world_public": "the world in which later anchors were found " + _PUBLIC,
    # simulators of movement
    "sums_over_all": "one noisy sum each over every {unit} ({parts}), the simulator that is fitted to them, and every "
    "day that is generated with it",
    "days_of_one": "everything of one {unit}: all days that are read enter each sum as one bounded contribution",
    "first_days": "everything of one {unit}: the first {days:,} days, homes and first cells of days included, enter "
    "each sum as one bounded contribution",
    "noisy_rewards": "all {rounds:,} noisy rewards, the policy, and everything generated with it",
    "critic_unseen": "everything of one {unit}: all days that are read enter each sum as one bounded answer, and the "
    "critic, which is trained on them, is seen by nobody",
    "own_critic": "a {unit}'s critic is trained on that {unit}'s own days and on public values alone",
    "grid_public": "the public grid, and the rules by which days were made of points",
    "grid_parameters": "every public parameter of the plan, and the grid",
    "box_declared": "the box {box}, which is declared to hold nearly all homes " + _PUBLIC,
    "starts_uniform": "where days begin: uniform in the declared box or grid, nothing of it is released",
    "starts_declared": "where days begin and exploring leads " + _PUBLIC,
    "own_split": "the split of a round's budget (the user's function of released values, at no cost)",
    "others_in_days": "others who are in the days of many {unit}s, such as a place that all of them visit",
    "few_people": "NOT TO BE USED: maps, origin-destination tables and visits by time of day. {people:,} {unit}s at "
    "this noise tell how people move, not where: starts and trips are spread over blocks by the noise",
    "copied_starts": "anything: epsilon is infinite. Where days begin and how far people go is taken without noise",
    "own_noise": "anything: epsilon is infinite. Every device draws the noise of its own answer, which tacit does not "
    "vouch for",
    # evaluation of policies, and advice
    "scores_sum": "one noisy sum of clipped returns, of their squares and of the number of units",
    "difference_sum": "one noisy sum of clipped differences that following the policy {extent} makes, of their squares "
    "and of the number of units",
    "overlap_sum": "one noisy sum of binned and clipped weights",
    "smooth_release": "one release of {words} with noise of smooth sensitivity",
    "lstd_sum": "one noisy sum of clipped LSTD statistics",
    "half_sums": "{first:,} noisy sums over one fixed half of the units and one over the other",
    "fitted_q_sums": "{sums:,} noisy sums: mean returns, a Gram matrix, Bellman residuals, scores",
    "gtd_sums": "{steps:,} noisy sums of clipped GTD2 directions",
    "residual_sums": "noisy sums over all units: the returns, one Gram matrix and {rounds:,} rounds of residual "
    "returns",
    "level_sums": "two noisy sums over all units for the level of the values, before and after the rounds",
    "behaviour_sums": "{sums:,} noisy sums for the model of the behaviour policy: a Gram matrix, gradients of logits",
    "one_choice": "one choice among {candidates:,} candidates by their summed clipped returns",
    "from_evaluation": "everything computed from the evaluation: its value, interval, value function and report",
    "population_value": "what is true of the population rather than of one unit, such as how good the policy is",
    "evaluated_policy": "the evaluated policy, that these records were used at all, and every public parameter of the "
    "plan",
    "returns_in_range": "no episode's discounted return lies outside the public range (for the value and the interval, "
    "not for the promise of privacy)",
    "evaluated": "evaluated: {policy}",
    "candidate": "candidate {words}: {policy}",
    "behaviour_known": "the behaviour policy is {policy}, and made the records",
    "behaviour_fitted": "the behaviour policy is the private model's, fitted to these same records with {share:.3g} % "
    "of the budget (1 / sigma^2), no action's probability below {floor:.3g} / actions: the interval is about the mean "
    "of the clipped returns as the model weighs them, and counts neither the model's error nor what the clip takes "
    "(for the value and the interval, not for the promise of privacy)",
    "propensities_true": "the logged propensities are the true probabilities of the logged actions",
    "no_propensities": "the records have no propensities: no ratios were used, and the value has no interval",
    "features_fixed": "the features {words} were fixed without these records",
    "teaching_sums": "two noisy sums over one half of the units, which teaches: means and spreads of columns and "
    "rewards, and products of features with changes and rewards",
    "judging_sum": "one noisy sum over the other half, which judges: clipped weighted returns",
    "from_sums": "everything computed from them: the policy, the clone, the clause and the report",
    "population_actions": "what is true of the population rather than of one unit, such as which action suits which "
    "patient",
    "propensities_stated": "the logged propensities are the true probabilities of the logged actions " + _STATEMENT,
    "settings_chosen": "columns, memory and settings were chosen without anything that the judging half taught (for "
    "the clause)",
    "courses_apart": "how many courses a unit has, and how its later ones begin, does not depend on what was decided "
    "in its earlier ones (for the clause, which weighs each course by its own decisions alone)",
    "advice_alone": "the value of the policy when it decides every visit is not proven: the clause is about following "
    "it in up to {share:.3g} % of the visits",
    # people who are met
    "rounds_of_policies": "all {rounds:,} policies, whether or not the run was interrupted, and everything computed "
    "from them",
    "meeting": "everything of one {unit}: all rows of a meeting, at most {decisions:,} decisions, enter as one "
    "contribution, and a {unit} contributes at most {participations:,} time(s)",
    "joint_privacy": f"{_BILLBOARD} policies do, because it is a function of these and of their own records (the "
    "billboard lemma)",
    "counters": "all {rounds:,} releases of the counters, and everything computed from them: every policy and model",
    "episode": "everything of one {unit}: a whole episode of at most {horizon:,} steps, once",
    "joint_privacy_counters": f"{_BILLBOARD} counters do (the billboard lemma)",
    "first_given": "the first parameters: given by the user",
    "first_drawn": "the first parameters: drawn with the public seed {seed}",
    "served_with": "what a {unit} is served with: it is a function of own records, and seen by anyone who sees their "
    "actions",
    "vote_directions": "the directions of the votes: drawn with the public seed {seed}, for a round and a place",
    "public_critic": "the critic: the user's own " + _PUBLIC,
    "public_information": "the Fisher information of the trust region: the user's own " + _PUBLIC,
    "shared_critic": "anything: epsilon is infinite. The critic is taught by everybody without noise, and every later "
    "person's contribution depends on it, so that one person's records reach all later policies",
    "who_came": "who came when, to anyone who serves or watches them, and every public parameter of the plan",
    "several_ids_met": "several {unit}s that belong to one person, where ids do not show it; somebody without an id "
    "adds nothing",
    "meetings_apart": "a meeting's people do not act on each other, and the actor knows nothing of a person but what "
    "was released and their own observations",
    # texts
    "adapter": "the parameters of the adapter after all {rounds:,} round(s), and all that is computed from them",
    "prompts": "everything of one {unit}: at most {prompts:,} prompt(s), their {completions:,} completions each and "
    "what these are worth enter as one contribution under one clip",
    "pairs": "everything of one {unit}: at most {pairs:,} pair(s) enter every sum under one clip",
    "judged": "one noisy sum over {unit}s who judge what was released and taught nothing: each adds one vector of norm "
    "at most 1, made of how much better or worse than the base model's it is to them",
    "models_public": "what is public, by its SHA-256 or as it stands: base model {base}, reward model {reward}, "
    "vocabulary {vocabulary}, and the words {prefix!r}",
    "completions_seen": "the completions that a {unit} sees: they are a function of own prompts and of the adapter",
    "texts_behind": "everybody whose texts the base model, the reward model or the vocabulary were made from",
    "valued_by_model": "completions are valued by a public reward model, by its SHA-256; a {unit}'s feedback depends "
    "on no other {unit}'s",
    "valued_by_feedback": "completions are valued by each {unit}'s own feedback, clipped to public bounds; a {unit}'s "
    "feedback depends on no other {unit}'s",
}
"""What each code says of a certificate's `{unit}`."""

POLICIES: Mapping[str, str] = {
    "released": "a policy released under this ledger",
    "taught": "a policy released under this ledger, taught by {teacher}",
    "of_the_records": "the policy that made the records",
    "function": "the user's function {function}, fixed without these records (declared by the user)",
    "function_made": "the user's function {function}, made from the release {plans} of this ledger (declared by the "
    "user)",
    "fixed": "a public {form} policy over {actions:,} actions, fixed without these records",
    "fixed_declared": "a public {form} policy over {actions:,} actions, fixed without these records (declared by the "
    "user)",
    "made": "a {form} policy over {actions:,} actions, made from the release {plans} of this ledger (declared by the "
    "user)",
}
"""What the `policy` of a clause is, by its code."""

STANDING = ("secret_noise", "floating_point", "side_channels", "one_id", "declared_public", "ledger_kept")
STANDARD_ASSUMPTIONS: tuple[Clause, ...] = tuple({"code": code} for code in (*STANDING, "ran_as_stated"))
SIDE_CHANNELS = ("secret_noise", "floating_point", "side_channels")
"""Those of the standing assumptions that are about more than who is in the records."""

DECLARED: Mapping[str, frozenset[str]] = {
    "covered": frozenset(),
    "not_covered": frozenset(
        {"declared", "looks", "first_given", "first_drawn", "public_critic", "public_information"}
    ),
    "not_protected": frozenset({"logs_elsewhere"}),
    "assumptions": frozenset(
        (
            *(
                "kept_apart",
                "untried",
                "failure_shows",
                "asks_devices",
                "served_by",
                "no_ids",
                "queried",
                "exact_ids",
                "ranks",
            ),
            *("one_curator", "devices_people", "server_noise", "secure_sums", "who_answers", "coming", "register_kept"),
            *("pool_secret", "evaluated", "candidate", "behaviour_known", "propensities_true", "no_propensities"),
            "features_fixed",
        )
    ),
}
"""Codes that a vault or a user declares, beside the clauses that follow from the plan."""

LISTS = tuple(DECLARED)
"""The fields of a certificate that hold clauses."""
USER_PIECES = ("kept_apart", "untried", "asks_devices", "served_by", "candidate")
"""Assumptions that may name a piece of a user's own."""
UNDERIVED_FIELDS = ("method", "plan", "source", "target_epsilon", "unit", "names, clips and rows of the parts", *LISTS)
"""What nothing implies where no plan can be rebuilt, because it, or a piece of it, is a user's own."""

TRUSTED = "the curator who holds the records and runs the vault; nobody who sees a release has to be trusted"
ROWS_OF_PEOPLE = (
    "Every person counts alike, however many rows they have: a share of synthetic rows is a mean over people, and "
    "differs from the share of rows in the records where some people have many more than others. Where one row is "
    "protected, and not a person, the two are the same."
)
WHOLE_PEOPLE = (
    "Whole people were drawn, each with as many rows as people have, up to a public number: a share of synthetic rows "
    "stands for a share of rows, in which who has many rows counts for more."
)
ROWS_OF_ROWS = (
    "Every row of the records counts alike, up to a public number of rows of one person: a share of synthetic rows is "
    "a share of rows, in which who has many rows counts for more."
)


def describe_weights(plan: Mapping[str, Any]) -> str:
    """Of whom or what a share of synthetic rows is a share, by the public fields of their plan."""
    if "most" in plan:
        return WHOLE_PEOPLE
    return ROWS_OF_ROWS if plan.get("weigh") == "rows" else ROWS_OF_PEOPLE


ROLES = {"upper_bound": "certified upper bound", "check": "independent check"}
"""What the two accountants of a certificate are for."""


@dataclass(frozen=True)
class Label:
    """What a method says in its certificate: clauses, or lines in a user's own words.

    Args:
        covered: data accesses that the promise covers.
        not_covered: data accesses that it does not.
        not_protected: what a reader could wrongly believe to be protected.
        assumptions: what the method assumes beyond the certificate's standing assumptions.
    """

    covered: Sequence[Clause | str]
    not_covered: Sequence[Clause | str]
    not_protected: Sequence[Clause | str]
    assumptions: Sequence[Clause | str] = ()


def clause(code: str, **values: Value) -> Clause:
    """The clause of this code."""
    return {"code": code, **values}


def clauses(lines: Iterable[Clause | str]) -> list[Clause]:
    """Clauses, each once; a line in a user's own words becomes one, with what a terminal would hide made visible."""
    found: list[Clause] = []
    for line in lines:
        one = clause("own_words", words=line) if isinstance(line, str) else line
        shown = {name: escape(value) if isinstance(value, str) else value for name, value in one.items()}
        found += [] if shown in found else [shown]
    return found


def problem(clause: Any) -> str | None:
    """What keeps a JSON value from being a clause; None where it is one."""
    if not isinstance(clause, Mapping) or not isinstance(clause.get("code"), str) or clause["code"] not in SENTENCES:
        return "is no clause with a known code"
    policy = clause.get("policy", "")
    if not isinstance(policy, str) or ("policy" in clause and policy not in POLICIES):
        return "is about a policy of no known code"
    wanted = _fields(SENTENCES[clause["code"]]) | _fields(POLICIES.get(policy, ""))
    if clause.keys() - {"code"} != wanted.keys():
        return "has other fields than its code"
    fitting = all(type(clause[name]) in ((int, float) if number else (str,)) for name, number in wanted.items())
    return None if fitting else "has a word for a number, or a number for a word"


@cache
def _fields(sentence: str) -> dict[str, bool]:
    """The fields of a sentence beside the unit, and whether each is a number."""
    parsed = string.Formatter().parse(sentence)
    return {name: bool(form) or name == "seed" for _, name, form, _ in parsed if name and name != "unit"}


def say(clause: Clause, unit: str) -> str:
    """The sentence of a clause about units that are called so."""
    values = {name: value for name, value in clause.items() if name != "code"}
    if "policy" in values:
        values["policy"] = policy(values)
    return SENTENCES[str(clause["code"])].format(unit=noun(unit), **values)


def policy(described: Clause) -> str:
    """What is said of a policy that a clause is about."""
    return POLICIES[str(described["policy"])].format(**described)


def lines(record: Record, name: str) -> list[str]:
    """The sentences of one of the `LISTS` of a certificate."""
    return [say(clause, record["unit"]["name"]) for clause in record[name]]


def publishes_logs(record: Record) -> bool:
    """Whether a part copies from logs, which it says in its `source`; no other part has one."""
    return any(part.get("source") == "logs" for part in record.get("parts", ()))


def knowledge_exception(*, logs: bool) -> str:
    """What somebody must not know besides, as an insertion after "whatever else somebody knows"."""
    return ", the logs apart" if logs else ""


def neighbours(name: str, relation: str, *, logs: bool) -> str:
    """What nobody can tell well, in plain words: something of the logs, or of the policies behind them."""
    name = noun(name)
    if logs:
        return f"whether any one {name}'s policy is among those that were learnt from or not"
    if relation == "add_or_remove":
        return f"whether any one {name}, with all their records, is in the data or not"
    return f"which records any one {name} contributed (its number of records included)"


def describe_neighbours(record: Record) -> str:
    """The neighbours of a certificate, in plain words."""
    return neighbours(record["unit"]["name"], record["unit"]["relation"], logs=publishes_logs(record))


def reasons(record: Record) -> list[str]:
    """Why nothing is promised; none where something is."""
    found = ["the mechanism as run has no finite epsilon"] if math.isinf(float(record["epsilon"])) else []
    return found + ([] if record["void_reason"] is None else [f"the ledger is void: {record['void_reason']}"])


def promise(record: Record) -> str:
    """The promise of a certificate in one sentence."""
    epsilon, delta, unit = float(record["epsilon"]), record["delta"], record["unit"]
    name, why = noun(unit["name"]), reasons(record)
    invented = " The records are declared simulated: no person is behind them." if record["simulated"] else ""
    if why:
        return f"NOT PRIVATE, because {' and '.join(why)}: nothing is promised to any {name}.{invented}"
    if publishes_logs(record):
        invented = f" {protected_policies(unit['name'])}{invented}"
    return (
        f"The chance of anything that could be concluded from this release changes at most by a factor of "
        f"{_factor(epsilon)} and by {delta:.3g} added, {describe_neighbours(record)}, in a public population of "
        f"{unit['population']:,}: ({epsilon:.6g}, {delta:.6g})-differential privacy for every {name}.{invented}"
    )


def protected_policies(name: str) -> str:
    """What is protected where logs are published."""
    return f"The policy of every {noun(name)} is protected; its logs, which are published in part, are not."


def _factor(epsilon: float) -> str:
    """exp(epsilon), rounded up to four digits."""
    if epsilon >= 50:
        return f"exp({epsilon:.4g})"
    step = 10.0 ** (math.floor(epsilon / math.log(10)) - 3)
    return f"{math.ceil(math.exp(epsilon) / step * (1 - 1e-12)) * step:.4g}"


def mu_range(record: Record) -> str:
    """For which epsilons a certificate's mu holds, by its code."""
    return {
        "exact": "exact, for every epsilon",
        "upper_bound": "upper bound, for every epsilon",
        "none": "none: epsilon is infinite",
    }.get(
        record["mu_range"],
        f"upper bound, for every epsilon from 0 to {float(record['epsilon']):.6g}, that is for every delta down to "
        f"{record['delta']:.3g}",
    )
