"""The report of a policy learned from experts: where they agree, what was released, what it returns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tacit.errors import DataError
from tacit.evaluation.report import blocks, charts
from tacit.evaluation.report.blocks import Block, Certified, Chart, Facts, Paragraphs, Section, TableRow, make_grid
from tacit.evaluation.report.charts import Array, ChartAxis, number, span

if TYPE_CHECKING:
    from tacit.methods.experts import LearnedPolicies

Level = Literal["logs", "policies"]
"""What of an expert the promise covers: every record that they contributed, or only how they decide."""
Role = Literal["released", "ceiling", "floor", "experts"]
"""The release; the same without noise; what experts who act at random would have taught; the experts themselves."""
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
_BINS = 20
_MARKS = 2_000
"""States in the picture, the first ones of the public anchors."""
_NEARLY_ALL = 0.9
"""Of the experts: a share from which on the page speaks of agreement."""
_HIGH_NOISE = 0.05
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
        "prefixes are published as they are, and people who appear in them, such as patients, are not protected. "
        "It holds if all experts meet the same environment and the logs themselves stay secret.",
    ),
}


@dataclass(frozen=True)
class PolicyReturn:
    """What one policy returns in the public simulator."""

    label: str  # of the row ("epsilon 1, released")
    role: Role  # see `Role`
    mean: float  # mean return of an episode
    # low, high: 95 % interval of that mean over the episodes; for the role "experts", the returns that nine of ten
    # experts lie between
    low: float
    high: float


@dataclass(frozen=True)
class VotesPicture:
    """Where experts agree, by the noisy votes at public anchor states; all of it is released."""

    x: str  # x, y: names of the two public dimensions of the picture
    y: str
    positions: Array  # [N, 2] of the anchors in these dimensions
    actions: int  # how many actions there are
    choice: Array  # [N] the action with most votes, 0 .. actions - 1.
    share: Array  # [N] its noisy share of the votes, inside [0, 1]
    error: float  # standard deviation of the noise in one share


@dataclass(frozen=True)
class ReleasedPrefixes:
    """What the release of consensus prefixes let out."""

    lengths: Array  # [n] steps of each released prefix, in the order of the release; 0 where nothing came out
    horizon: int  # longest episode
    threshold: float  # how many experts have to agree, before its noise
    experts: int  # public lower bound on how many there are


def sections(
    certificate: Certified,
    *,
    level: Level,
    method: str,
    world: str | None = None,
    episodes: int = 0,
    returns: Sequence[PolicyReturn] = (),
    votes: VotesPicture | None = None,
    consensus: ReleasedPrefixes | None = None,
) -> tuple[Section, ...]:
    """What the page of a policy learned from experts says besides the promise.

    Args:
        certificate: of the policy.
        level: what of an expert the promise covers.
        method: how the policy was learned, in a few words ("votes of clones").
        world: the public simulator in which returns are measured, or None.
        episodes: over how many episodes each mean is taken.
        returns: what the policy returns there, beside others; () without a simulator.
        votes: where experts agree, or None.
        consensus: the released prefixes, or None.

    Raises:
        DataError: a policy that is not private is shown and the certificate does not say that the experts are
            simulated, or returns are shown and not exactly one of them is the release's.
    """
    roles = [row.role for row in returns]
    if certificate.get("simulated") is not True and set(roles) - {"released"}:
        what = "policies without privacy are shown and the certificate does not say that the experts are simulated"
        expected = "a certificate with simulated = true, or the returns of the release alone"
        raise DataError(what, where="report", expected=expected, remedy="leave the ceiling and the experts' own out")
    if roles and (roles.count("released") != 1 or world is None or episodes < 1):
        what = "the returns are not those of one release in a simulator"
        expected = "one row of the role 'released', the name of the simulator and the number of episodes"
        raise DataError(what, where="report", expected=expected, remedy="put them in, or leave all returns out")
    heading, reading = _LEVELS[level]
    lines = [f"Learned by {method}; it takes the best action each time."]
    if returns:
        lines.append(
            f"Measured over {episodes:,} episodes in the public simulator. That costs no privacy, and nothing "
            "was chosen by it."
        )
    headline, figures = _answer_figures(world, returns, votes, consensus)
    answer: list[Block] = [Paragraphs(lines), *([Facts(figures)] if figures else [])]
    return (
        blocks.opening_section(headline, answer, eyebrow="What was learned", hero="The policy"),
        *([] if votes is None else [_agreement_section(votes, certificate)]),
        *([] if consensus is None else [_prefixes_section(consensus, level)]),
        _returns_section(world, returns, cut=consensus is not None),
        blocks.limits_section(certificate, title=f"Protected: {heading}", lead=reading, id="level"),
        blocks.settings_section(plan_settings(certificate)),
    )


def _answer_figures(
    world: str | None, returns: Sequence[PolicyReturn], votes: VotesPicture | None, consensus: ReleasedPrefixes | None
) -> tuple[str, list[tuple[str, str, str]]]:
    headline, figures = "One policy, learned from what many experts do.", []
    if votes is not None and votes.error <= _HIGH_NOISE:
        share = number(round(100 * float(np.median(votes.share))))
        headline = f"At half of the public states, at least {share} % of the experts choose alike."
    for row in returns:
        if row.role == "released":
            headline = f"In {world}, an episode under this policy returns about {number(row.mean, 3)}."
            spread = number((row.high - row.low) / 2, 2)
            figures.append(("Return", number(row.mean, 4), f"± {spread} (95 % interval of the mean)"))
    if votes is not None and votes.error > _HIGH_NOISE:
        note = "in each share of the votes: too much to say at how many of the public states experts agree"
        figures.append(("Noise", f"± {100 * votes.error:.2g} %", note))
    elif votes is not None:
        nearly = float(np.mean(votes.share >= _NEARLY_ALL))
        note = f"of the public states, at least, have {100 * _NEARLY_ALL:g} % of the experts on one action"
        figures.append(("Agreement", f"{100 * nearly:.0f} %", note))
    if consensus is not None:
        prefixes = int(np.sum(consensus.lengths > 0))
        figures.append(("Prefixes", f"{prefixes} of {len(consensus.lengths)}", "trajectories let something out"))
    return headline, figures


def _returns_section(world: str | None, rows: Sequence[PolicyReturn], *, cut: bool) -> Section:
    """What the release returns beside others; no block without others."""
    content: list[Block] = []
    if len(rows) > 1:
        drawn = charts.interval_chart(
            [(row.label, [(_ROLES[row.role], row.mean, row.low, row.high)]) for row in rows],
            title=f"Return of an episode: {'; '.join(f'{row.label} {number(row.mean, 4)}' for row in rows)}",
            x=span("return of an episode", *(np.array([row.low, row.high]) for row in rows)),
        )
        table = blocks.make_table("Policy", [_row(row) for row in rows])
        content = [Chart("Returns", f"mean of an episode in {world}", drawn), *table]
    notes: dict[Role, str] = {
        "ceiling": "The same without noise learned from the same experts, with nothing added to any sum"
        + ("; its prefixes were drawn and cut again, so that it is no upper bound." if cut else "."),
        "floor": "Actions at random: learned, with the same noise, from logs whose actions were drawn at random.",
        "experts": "Of the experts themselves, the bar holds nine in ten.",
    }
    roles = {row.role for row in rows}
    remarks = (notes[role] for role in notes if role in roles)
    lead = " ".join(["What the policy returns in the public simulator.", *remarks])
    title = "What it returns, and what privacy cost"
    return Section(title, make_grid(content, wide=True), lead, "returns", before=True)


def _row(row: PolicyReturn) -> TableRow:
    mean, low, high = (number(value, 4) for value in (row.mean, row.low, row.high))
    kind = "synthetic" if row.role == "released" else "control"
    return TableRow(row.label, {"Return": mean, "Range": f"{low} to {high}"}, kind=kind)


def _agreement_section(votes: VotesPicture, certificate: Certified) -> Section:
    marks = [(f"action {action}", *charts.vote_mark(action)) for action in range(votes.actions)]
    drawings = [
        Chart("What they choose", "at public states, over two of their dimensions", _choices_chart(votes), marks),
        Chart("How many choose alike", "blind choices would be at the left end", _shares_chart(votes)),
    ]
    lead = _votes_lead(votes, certificate)
    return Section("Where the experts agree", make_grid(drawings, wide=True), lead, "agreement", before=True)


def _votes_lead(votes: VotesPicture, certificate: Certified) -> str:
    count, error, population = len(votes.share), 100 * votes.error, int(certificate["unit"]["population"])
    noise = f"Noise moves a share by about ± {error:.2g} percentage points." if error > 0 else "There is no noise."
    if votes.error > _HIGH_NOISE:
        noise += " With so much of it, single marks say little, and agreement looks larger than it is: look at regions."
    weighed = certificate["plan"].get("weight") is not None
    undecided = (
        "those who are absent, and what returns take from an expert's weight," if weighed else "those who are absent"
    )
    return (
        f"What the experts would do at {count:,} public states, as released: noisy counts and nothing else. "
        "A mark's form is the action that most of them choose, its strength how many do. Shares are of the public "
        f"population of {population:,}, in which {undecided} count as undecided: without noise, those who are there "
        f"agree at least as much. {noise}"
    )


def _choices_chart(votes: VotesPicture) -> str:
    choice = votes.choice.astype(int)
    shares = 100 * np.bincount(choice, minlength=votes.actions) / len(choice)
    split = "; ".join(f"action {action} at {share:.0f} %" for action, share in enumerate(shares))
    return charts.votes_chart(
        votes.positions,
        choice,
        votes.share,
        lowest=1 / votes.actions,
        title=f"The experts' choice over {votes.x} and {votes.y}: {split}",
        x=span(votes.x, votes.positions[:, 0]),
        y=span(votes.y, votes.positions[:, 1]),
    )


def _shares_chart(votes: VotesPicture) -> str:
    edges = np.linspace(1 / votes.actions, 1.0, _BINS + 1)
    counts, _ = np.histogram(np.clip(votes.share, edges[0], edges[-1]), bins=edges)
    middle = 100 * float(np.median(votes.share))
    return charts.histogram_chart(
        100 * edges,
        None,
        counts / len(votes.share),
        title=f"Share of the public population on the leading action; half of the states have at least {middle:.0f} %",
        x_label="of the population on the leading action, %",
        y_label="public states, %",
    )


def _prefixes_section(consensus: ReleasedPrefixes, level: Level) -> Section:
    lengths = np.sort(consensus.lengths)[::-1]
    count, steps, longest = len(lengths), int(lengths.sum()), float(lengths[0])
    drawn = charts.bar_chart(
        lengths,
        title=f"Lengths of {count} released prefixes, from {int(lengths[-1])} to {int(longest)} steps",
        x_label="trajectory, the longest prefix first",
        first=1,
        y=ChartAxis("steps of the prefix", 0.0, 1.05 * max(1.0, longest), whole=True),
    )
    share = 100 * consensus.threshold / consensus.experts
    figures = [
        ("Threshold", f"{consensus.threshold:,.0f}", f"{share:.0f} % of at least {consensus.experts:,} experts"),
        ("Steps released", f"{steps:,}", f"of at most {count * consensus.horizon:,}"),
        ("Mean prefix", f"{float(lengths.mean()):.3g}", f"steps; the longest has {int(longest):,}"),
    ]
    chart = Chart("Released prefixes", "one bar for each trajectory that was drawn", drawn)
    content, lead = make_grid((chart, Facts(figures)), wide=True), _prefixes_lead(consensus, level)
    return Section("What went out word for word", content, lead, "consensus", before=True)


def _prefixes_lead(consensus: ReleasedPrefixes, level: Level) -> str:
    opening = {
        "logs": "Beginnings of trajectories that clones of the experts played in a public simulator, released",
        "policies": "Beginnings of trajectories out of the experts' own logs, published as they are",
    }
    return (
        f"{opening[level]} for as long as enough experts would have acted like that. A step counts as consensus while "
        f"about {consensus.threshold:,.0f} of the experts agree with everything up to it; threshold and count are both "
        "noisy."
    )


def plan_settings(certificate: Certified) -> list[tuple[str, str, str]]:
    """The plan's settings that have an effect: what is of a kind is named by it, a network by its widths."""
    flat: dict[str, Any] = {}
    for name, value in certificate["plan"].items():
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
    return blocks.setting_pairs(certificate, unused | blocks.STATED, plan=flat)


# What a report shows of a released value.


def votes_picture(value: LearnedPolicies, dimensions: Sequence[str] = ()) -> VotesPicture | None:
    """The picture of where experts agree, over the two of these dimensions that tell most of their choice."""
    if value.agreement is None:
        return None
    states, shares = value.agreement.states[0], value.agreement.shares[0]
    unit, actions = value.plan.unit, shares.shape[1]
    part: Any = value.plan.parts()[0]  # the votes are all that there is
    assert unit is not None
    noise = part.clip_norm * (part.noise_multiplier or 0.0) / unit.size * math.sqrt(1 - 1 / actions)
    if states.ndim == 1:
        states, (i, j), names = np.stack([states, np.zeros_like(states)], axis=1), (0, 1), ["state", " "]
    else:
        (i, j), names = informative_dimensions(states, shares), list(dimensions)
        if len(names) != states.shape[1]:
            names = [f"observation_{k}" for k in range(states.shape[1])]
    shown = slice(_MARKS)
    return VotesPicture(
        x=names[i],
        y=names[j],
        positions=states[shown][:, [i, j]].astype(np.float64),
        actions=actions,
        choice=shares[shown].argmax(axis=1).astype(np.float64),
        share=np.clip(shares[shown].max(axis=1), 0.0, 1.0),
        error=noise,
    )


def informative_dimensions(states: Array, shares: Array) -> tuple[int, int]:
    """The two dimensions with the largest slopes of a linear fit of the noisy shares, in order."""
    if states.shape[1] < 2:
        return 0, 0
    x = (states - states.mean(axis=0)) / np.maximum(states.std(axis=0), 1e-12)
    slopes, *_ = np.linalg.lstsq(x.astype(np.float64), shares - shares.mean(axis=0), rcond=None)
    first, second = sorted(np.argsort(-np.linalg.norm(slopes, axis=1), kind="stable")[:2].tolist())
    return first, second


def released_prefixes(value: LearnedPolicies) -> ReleasedPrefixes | None:
    """The lengths of the prefixes that were released, beside the threshold."""
    if value.prefixes is None:
        return None
    part: Any = value.plan.parts()[0]  # the prefixes come first
    return ReleasedPrefixes(
        value.prefixes[0].lengths.astype(np.float64), part.horizon, part.thresholds.threshold, part.experts
    )
