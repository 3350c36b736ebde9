"""The sections of the report of a policy learned from experts: from public inputs to sentences and charts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from tacit.evaluation.report import settings
from tacit.evaluation.report.charts import bar_chart, histogram_chart, interval_chart, vote_chart, vote_mark
from tacit.evaluation.report.experts import Consensus, ExpertsReport, Level, Played, Role, Votes
from tacit.evaluation.report.svg import Axis, number, span

_NAMES = {
    "anchors": "public states",
    "anchors: count": "how many public states",
    "anchors: low": "lows of their box",
    "anchors: high": "highs of their box",
    "anchors: seed": "seed of their draw",
    "clone": "clone of an expert",
    "clone: floor": "least chance of an action of a clone",
    "clone: ridge": "penalty of the clone's regression",
    "clone: rows": "rows that a clone is fitted to",
    "fit: loss": "how votes become a policy",
    "rounds": "rounds of votes",
    "rows": "rows of an expert that are read",
    "kept": "rows of an expert in a gradient",
    "rows_per_expert": "rows of an expert in a gradient",
    "clip": "largest norm of a contribution",
    "noise_multiplier": "noise multiplier",
    "weight: low": "return of an episode of no use",
    "weight: high": "return of a very good episode",
    "weight: sharpness": "how much good experts count, as an exponent",
    "trajectories": "trajectories drawn for prefixes",
    "trajectory_epsilon": "ε of one trajectory",
    "trajectory_delta": "δ of one trajectory",
    "experts": "experts there are at least",
    "floor": "what hides an unreleased action",
    "share": "share of ε for the prefixes",
    "stable_fraction": "share of steps on the consensus",
    "batch": "experts in a noisy step, on average",
}
"""Settings that their names alone do not explain."""
_KINDS = {
    "uniform": "drawn uniformly",
    "given": "given",
    "mlp": "network",
    "kappa_stop": "stops at random",
    "p_min": "a least chance of each",
    "cql": "conservative Q-learning",
    "dqn": "Q-learning",
    "bc": "imitation",
}
_CLOSED = frozenset({"fit: steps", "fit: rate", "fit: seed"})
"""Of a descent; without effect where there is a closed form."""
BINS = 20
NEARLY_ALL = 0.9
"""Of the experts: a share from which on the page speaks of agreement."""
MUCH = 0.05
"""Noise of a share from which on the picture needs a word of caution."""
_ROLES = {"released": "synthetic", "ceiling": "reference", "floor": "control-0", "experts": "control-1"}
_LEVELS = {
    "logs": (
        "the experts' logs",
        "The promise covers everything that one expert contributed: every decision, and whatever else stands in that "
        "expert's log, were it the worst case. It says nothing of a person who is in the logs of several experts.",
    ),
    "policies": (
        "only the experts' policies",
        "The promise covers how one expert decides, and nothing else. States, rewards and transitions of released "
        "prefixes are published as they are, and whoever appears in them, a patient for instance, is not protected. "
        "It holds if all experts meet the same environment and the logs themselves stay secret.",
    ),
}


def taught(report: ExpertsReport) -> dict[str, Any]:
    """Headline, returns, agreement, prefixes, settings and limits for the template."""
    certificate, votes, consensus = report.certificate, report.votes, report.consensus
    heading, reading = _LEVELS[report.level]
    return {
        "eyebrow": "What was learned",
        "answer": _headline(report),
        "answer_details": _details(report),
        "answer_figures": _figures(report),
        "return_chart": _returns(report),
        "return_rows": [_row(row) for row in report.returns] if len(report.returns) > 1 else [],
        "return_lead": _returns_lead(report),
        "world": report.world,
        "votes_lead": None if votes is None else _votes_lead(votes, certificate),
        "votes_chart": None if votes is None else _votes_chart(votes),
        "votes_legend": [] if votes is None else [(f"action {a}", *vote_mark(a)) for a in range(votes.actions)],
        "agreement_chart": None if votes is None else _agreement(votes),
        "consensus_lead": None if consensus is None else _consensus_lead(consensus, report.level),
        "consensus_figures": [] if consensus is None else _consensus_figures(consensus),
        "consensus_chart": None if consensus is None else _consensus_chart(consensus),
        "level_heading": heading,
        "level_reading": reading,
        "settings": settings.pairs(_used(certificate["plan"]), _NAMES),
        "covered": list(certificate["covered"]),
        "assumptions": list(certificate["assumptions"]),
        "not_covered": list(certificate["not_covered"]),
    }


def _headline(report: ExpertsReport) -> str:
    row = report.released
    if row is not None:
        return f"In {report.world}, an episode under this policy returns about {number(float(f'{row.mean:.3g}'))}."
    if report.votes is not None and report.votes.error <= MUCH:
        share = number(round(100 * float(np.median(report.votes.share))))
        return f"At half of the public states, at least {share} % of the experts choose alike."
    return "One policy, learned from what many experts do."


def _details(report: ExpertsReport) -> list[str]:
    lines = [f"Learned by {report.method}; it takes the best action each time."]
    if report.returns:
        lines.append(
            f"Measured over {report.episodes:,} episodes in the public simulator. That costs no privacy, and nothing "
            "was chosen by it."
        )
    return lines


def _figures(report: ExpertsReport) -> list[tuple[str, str, str]]:
    figures = []
    row = report.released
    if row is not None:
        spread = number(float(f"{(row.high - row.low) / 2:.2g}"))
        figures.append(("Return", number(float(f"{row.mean:.4g}")), f"± {spread} (95 % interval of the mean)"))
    if report.votes is not None and report.votes.error > MUCH:
        note = "in each share of the votes: too much to say at how many of the public states experts agree"
        figures.append(("Noise", f"± {100 * report.votes.error:.2g} %", note))
    elif report.votes is not None:
        nearly = float(np.mean(report.votes.share >= NEARLY_ALL))
        note = f"of the public states, at least, have {100 * NEARLY_ALL:g} % of the experts on one action"
        figures.append(("Agreement", f"{100 * nearly:.0f} %", note))
    if report.consensus is not None:
        kept = int(np.sum(report.consensus.lengths > 0))
        figures.append(("Prefixes", f"{kept} of {len(report.consensus.lengths)}", "trajectories let something out"))
    return figures


def _returns(report: ExpertsReport) -> Markup | None:
    rows = report.returns
    if len(rows) < 2:
        return None
    told = "; ".join(f"{row.label} {number(float(f'{row.mean:.4g}'))}" for row in rows)
    return interval_chart(
        [(row.label, _ROLES[row.role], row.mean, row.low, row.high) for row in rows],
        title=f"Return of an episode: {told}",
        x=span("return of an episode", *(np.array([row.low, row.high]) for row in rows)),
    )


def _returns_lead(report: ExpertsReport) -> str:
    """What the rows beside the release are."""
    roles = {row.role for row in report.returns}
    told: dict[Role, str] = {
        "ceiling": "The same without noise learned from the same experts, with nothing added to any sum"
        + (
            "." if report.consensus is None else "; its prefixes were drawn and cut anew, so that it is no upper bound."
        ),
        "floor": "Actions at random: learned, with the same noise, from logs whose actions were drawn at random.",
        "experts": "Of the experts themselves, the bar holds nine in ten.",
    }
    return " ".join(
        ["What the policy returns in the public simulator."] + [told[role] for role in told if role in roles]
    )


def _row(row: Played) -> dict[str, Any]:
    mean, low, high = (number(float(f"{value:.4g}")) for value in (row.mean, row.low, row.high))
    return {"label": row.label, "released": row.role == "released", "mean": mean, "interval": f"{low} to {high}"}


def _votes_lead(votes: Votes, certificate: Mapping[str, Any]) -> str:
    count, error, population = len(votes.share), 100 * votes.error, int(certificate["unit"]["population"])
    noise = f"Noise moves a share by about ± {error:.2g} percentage points." if error > 0 else "There is no noise."
    if votes.error > MUCH:
        noise += " With so much of it, single marks say little, and agreement looks larger than it is: look at regions."
    weighed = certificate["plan"].get("weight") is not None
    undecided = (
        "whoever is not there, and what returns take from an expert's weight," if weighed else "whoever is not there"
    )
    return (
        f"What the experts would do at {count:,} public states, as released: noisy counts and nothing else. "
        "A mark's form is the action that most of them choose, its strength how many do. Shares are of the public "
        f"population of {population:,}, of whom {undecided} counts as undecided: without noise, those who are there "
        f"agree at least as much. {noise}"
    )


def _votes_chart(votes: Votes) -> Markup:
    return vote_chart(
        votes.positions,
        votes.choice.astype(int),
        votes.share,
        lowest=1 / votes.actions,
        title=f"The experts' choice over {votes.x} and {votes.y}: {_split(votes)}",
        x=span(votes.x, votes.positions[:, 0]),
        y=span(votes.y, votes.positions[:, 1]),
    )


def _split(votes: Votes) -> str:
    shares = np.bincount(votes.choice.astype(int), minlength=votes.actions) / len(votes.choice)
    return "; ".join(f"action {action} at {100 * share:.0f} %" for action, share in enumerate(shares))


def _agreement(votes: Votes) -> Markup:
    edges = np.linspace(1 / votes.actions, 1.0, BINS + 1)
    counts, _ = np.histogram(np.clip(votes.share, edges[0], edges[-1]), bins=edges)
    middle = 100 * float(np.median(votes.share))
    return histogram_chart(
        100 * edges,
        None,
        counts / len(votes.share),
        title=f"Share of the public population on the leading action; half of the states have at least {middle:.0f} %",
        x_label="of the population on the leading action, %",
        y_label="public states, %",
    )


def _consensus_lead(consensus: Consensus, level: Level) -> str:
    whose = {
        "logs": "Beginnings of trajectories that clones of the experts played in a public simulator, released",
        "policies": "Beginnings of trajectories out of the experts' own logs, published as they are",
    }
    return (
        f"{whose[level]} for as long as enough experts would have acted like that. A step counts as consensus while "
        f"about {consensus.threshold:,.0f} of the experts agree with everything up to it; threshold and count are both "
        "noisy."
    )


def _consensus_figures(consensus: Consensus) -> list[tuple[str, str, str]]:
    lengths = consensus.lengths
    share = 100 * consensus.threshold / consensus.experts
    return [
        ("Threshold", f"{consensus.threshold:,.0f}", f"{share:.0f} % of at least {consensus.experts:,} experts"),
        ("Steps released", f"{int(lengths.sum()):,}", f"of at most {len(lengths) * consensus.horizon:,}"),
        ("Mean prefix", f"{float(lengths.mean()):.3g}", f"steps; the longest has {int(lengths.max()):,}"),
    ]


def _consensus_chart(consensus: Consensus) -> Markup:
    lengths = np.sort(consensus.lengths)[::-1]
    told = f"from {int(lengths[-1])} to {int(lengths[0])} steps"
    return bar_chart(
        lengths,
        title=f"Lengths of {len(lengths)} released prefixes, {told}",
        x_label="trajectory, the longest prefix first",
        first=1,
        y=Axis("steps of the prefix", 0.0, 1.05 * max(1.0, float(lengths[0])), whole=True),
    )


def _used(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The plan's fields that have an effect, flat: what is of a kind is named by it, a network by its widths."""
    flat: dict[str, Any] = {}
    for name, value in plan.items():
        if name == "policy" and isinstance(value, Mapping):
            flat |= {"policy": "-".join(str(size) for size in value["network"]["sizes"])}
            flat |= {"features": value["features"]["kind"]}
        elif name == "unit" or value is None:
            continue
        elif isinstance(value, Mapping):
            flat |= {name: _KINDS.get(value["kind"], value["kind"])} if "kind" in value else {}
            plain = {key: part for key, part in value.items() if not isinstance(part, Mapping)}
            flat |= {f"{name}: {key}": part for key, part in plain.items() if key not in ("kind", "actions", "digest")}
        else:
            flat[name] = value
    unused = set(_CLOSED) if flat.get("fit: loss") == "squares" and flat.get("policy", "").count("-") == 1 else set()
    unused |= {"horizon", "explore"} if flat.get("rounds") == 1 else set()
    return {name: value for name, value in flat.items() if name not in unused}
