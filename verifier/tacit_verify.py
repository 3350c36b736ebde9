#!/usr/bin/env python3
"""Recompute a tacit privacy certificate without tacit: python tacit_verify.py certificate.json [PUBLIC_KEY_HEX].

Exit codes: 0 recomputed, 1 refused, 2 not recomputable (KIND), 3 void: nothing is promised.
Epsilon and mu come from the event, and the event from the parts, never from a printed figure. Losses of dominating
pairs (arXiv 1805.06530, 2106.08567) are put on a grid (connect the dots, arXiv 2207.04380) and composed by Fourier
transform; those beyond the window (Chernoff) count as infinite. Noise that is stated as zCDP has a Renyi curve alone
(arXiv 2004.00010, Prop. 12). What is printed as declared is not recomputed: a signature alone protects it from an edit.
"""

import collections
import functools
import hashlib
import json
import math
import re
import sys

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, log_ndtr, logsumexp, ndtr, ndtri

RECOMPUTED = (
    "epsilon, mu, profile, relations, private and mu_range follow from the parts, the event, delta and the relation; "
    "total follows from the charges; digest and plan_id are those of the fields; the standing assumptions are there"
)
DECLARED = (
    "the unit's name and population; format, method, source, plan and target_epsilon; covered, not_covered, "
    "not_protected and assumptions; of parts, names, clips, rows and all else that no event holds; names and versions "
    "of accountants; audit; other releases, composition and budget; simulated, void_reason, ledger_head, dataset_id, "
    "commit, versions and date"
)
EDITS = "Whoever edits a declared field can make the digest again: only a signature by a key that you know binds it."
TOLERANCE = 1e-3  # of epsilon and mu, relative: both numerics are upper bounds
MOST_BYTES, MOST_VALUES, MOST_TEXT, MOST_DEPTH, MOST_STEPS, MOST_CELLS = 4 << 20, 100_000, 4_000, 24, 6, 1 << 21


class Refused(Exception):
    """The certificate contradicts itself."""


class NotRecomputable(Exception):
    """A kind of part, or of event, without numerics here."""


def require(holds, what):
    if not holds:
        raise Refused(what)


# Reading: JSON of plain texts and finite numbers, and no more of it than certificates have.
def read(path):
    """The JSON of a file: no repeated names and no infinity."""
    with open(path, "rb") as file:
        text = file.read(MOST_BYTES + 1).decode("utf-8")
    require(len(text.encode()) <= MOST_BYTES, "the file has more than 4 MiB")
    require(sum(map(text.count, ",[{")) <= MOST_VALUES, f"the file has more than {MOST_VALUES:,} values")
    once = lambda pairs: require(len(dict(pairs)) == len(pairs), "a name is repeated") or dict(pairs)  # noqa: E731
    no_number = lambda name: require(False, f"{name} is no number")  # noqa: E731
    return json.loads(text, object_pairs_hook=once, parse_constant=no_number)


def check_values(value, in_plan=False, depth=0):
    """Finite numbers and plain texts alone; texts inside a plan may be long and have lines."""
    require(depth <= MOST_DEPTH, "values are nested too deeply")
    if isinstance(value, str):
        seen = value.replace("\n", " ").replace("\t", " ") if in_plan else value[:MOST_TEXT]
        require(seen.isprintable() and len(seen) == len(value), "a text is not plain, or too long")
    elif isinstance(value, dict):
        for name, inner in value.items():
            check_values(name)
            check_values(inner, in_plan or name == "plan", depth + 1)
    elif isinstance(value, list):
        for inner in value:
            check_values(inner, in_plan, depth + 1)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        require(abs(value) <= 1e300, "a number is out of range")
    else:
        require(value is None or isinstance(value, bool), "a value is no JSON")


# The shape: which fields there are, and what may stand in them.
Numbers = collections.namedtuple("Numbers", "least most", defaults=(0.0, 1e12))  # in a range, ends included


def fits(x, rule):
    """Whether a value is of a type, as a pattern or range says, one of a set, or as one of several rules says."""
    if isinstance(rule, dict):
        names = {name.rstrip("?"): name for name in rule}  # those with a mark may be missing
        needed = {name for name, written in names.items() if name == written}
        known = isinstance(x, dict) and needed <= x.keys() <= names.keys()
        return known and all(fits(value, rule[names[name]]) for name, value in x.items())
    if isinstance(rule, list):
        return isinstance(x, list) and all(fits(one, rule[0]) for one in x)
    if isinstance(rule, Numbers):
        return type(x) in (int, float) and rule.least <= x <= rule.most
    if isinstance(rule, tuple):
        return any(fits(x, one) for one in rule)
    if isinstance(rule, set):
        return any(type(x) is type(one) and x == one for one in rule)
    if isinstance(rule, range):
        return type(x) is int and x in rule
    return isinstance(x, rule) if isinstance(rule, type) else isinstance(x, str) and bool(rule.fullmatch(x))


def each(names, rule):
    return dict.fromkeys(names.split(), rule)


ABOVE_0 = 5e-324  # the least number that is
COUNT, WHOLE, UNITS = range(1, 10**12 + 1), range(10**12 + 1), range(2, 10**12 + 1)
CLIP, SHARE, LOSS = Numbers(ABOVE_0), Numbers(ABOVE_0, 1), ({"inf"}, Numbers(0, 1e300))
DIAMETER = Numbers(1, 2)
RELATION, ROWS, FOLD = {"add_or_remove", "replace_one"}, {"drawn", "first"}, {None, 0, 1}
RENYI, SHARE_OF = r"Renyi DP at order ([\d.e+]+)", r"of share ([\d.e-]+)"
COMPOSED = re.compile(rf"sum|{RENYI}|one Gaussian(?: beside (?:a sum|{RENYI}) {SHARE_OF})?")
COMMIT, HEX_64, HEX_128 = (re.compile(f"[0-9a-f]{{{digits}}}") for digits in ("7,64", "64", "128"))
CLAUSES = "assumptions covered not_covered not_protected"
CERTIFICATE = {
    "format": {1},
    **each("tacit_version method source plan_id ledger_head dataset_id date", str),
    **each("private simulated", bool),
    **each("plan event versions", dict),
    **each("epsilon mu", LOSS),
    **each(CLAUSES, [dict]),
    "delta": SHARE,
    "target_epsilon": ({None}, LOSS),
    "void_reason": ({None}, str),
    "mu_range": {"exact", "upper_bound", "up_to_epsilon", "none"},
    "profile": [{"delta": SHARE, "epsilon": LOSS}],
    "relations": [{"relation": RELATION, "epsilon": LOSS}],
    "accountants": [each("name version", str) | {"role": {"upper_bound", "check"}, "epsilon": LOSS}],
    "releases": [
        each("plan_id method", str)
        | each("rdp mu", ({None}, Numbers()))
        | {"epsilon": LOSS, "delta": Numbers(0, 1), "fold": FOLD, "diameter?": DIAMETER}
    ],
    "unit": {"name": str, "relation": RELATION, "population": UNITS},
    "total": each("epsilon budget_epsilon ceiling_epsilon", LOSS)
    | {"delta": Numbers(), "budget_delta": SHARE, "composition": COMPOSED},
    "audit": ({None}, {"lower_bound": Numbers(0, 1e300), "confidence": SHARE, "method": str}),
    "signature": ({None}, {"algorithm": {"Ed25519"}, "public_key": HEX_64, "value": HEX_128}),
    "parts": [dict],
    "commit": ({None}, COMMIT),
    "digest": HEX_64,
}

READ = {"kind": str, "name": str, "noise_multiplier": Numbers(), "rows_per_unit": COUNT}
SUM, CORRELATION = READ | {"steps": COUNT, "clip_norm": CLIP}, {"independent", "toeplitz", "tree"}
KINDS_OF_BLOCKS = {"signed", "positive", "constant", "squares", "gram", "votes"}
BLOCKS = {"blocks?": [each("size? width?", COUNT) | {"kind": KINDS_OF_BLOCKS, "share": SHARE, "of?": WHOLE}]}
SELECTED, STATED = {"stop": range(2, 10**4 + 1), "law": {"geometric", "logarithmic"}}, {"method": str, "stated": [dict]}
PARTS = {
    "poisson_sum": (SUM | BLOCKS)
    | {"sampling_rate": SHARE, "rows": ROWS, "horizon": COUNT, "fold": FOLD, "held_out": WHOLE},
    "fixed_size_sum": SUM | {"batch_size": COUNT, "population": UNITS, "rows": ROWS, "horizon": COUNT},
    "user_sum": (SUM | BLOCKS | each("users participations", COUNT))
    | {"correlation": CORRELATION, "decay": [Numbers(0, 1)], "fold?": {0, 1}},
    "device_sum": SUM | {"devices": COUNT, "noise": {"shared", "device"}, "floor": COUNT, "bits": range(8, 25)},
    "randomized_responses": READ | each("steps users answers participations", COUNT),
    "selection": each("kind name", str) | SELECTED | {"judge": ({None}, STATED), "candidates": [STATED]},
    "laplace_sum": READ | {"steps": COUNT, "size": COUNT, "bound": CLIP, "most": ({None}, COUNT)},
    "noisy_histogram": READ | {"axes": [{"column": str, "index": WHOLE, "bins": range(1, 2**20 + 1)}]},
}
"""The kinds of parts whose events are recomputed, and their fields."""
EVENTS = {
    "composed": {"events": [dict]},
    "self_composed": {"event": dict, "count": COUNT},
    "poisson_sampled": {"rate": SHARE, "event": dict},
    "sampled_without_replacement": {"batch": COUNT, "population": COUNT, "event": dict},
    "gaussian": {"noise_multiplier": Numbers(), "diameter?": DIAMETER},
    "laplace": {"noise_multiplier": Numbers()},
    "zcdp": {"rho": Numbers()},
    "randomized_response": {"epsilon": Numbers()},
    "non_private": {},
    "selection": SELECTED | {"candidates": [dict]},
}


def check_shape(record):
    """The fields, and clauses that are different and have a code each, of words and numbers."""
    require(isinstance(record, dict) and record.keys() == CERTIFICATE.keys(), "the certificate has other fields")
    for name, rule in CERTIFICATE.items():
        require(fits(record[name], rule), f"the field {name} has another form")
    for name in CLAUSES.split():
        words = [value for one in record[name] for value in (*one.values(), one.get("code"))]
        different = len({json.dumps(one, sort_keys=True) for one in record[name]}) == len(record[name])
        plain = all(type(value) in (str, int, float) for value in words)
        require(plain and different, f"{name} is no list of different clauses")
    require(all(isinstance(version, str) for version in record["versions"].values()), "a version is no text")


STANDING = "secret_noise floating_point side_channels one_id declared_public ledger_kept ran_as_stated "
OF_PARTS = dict.fromkeys(("user_sum", "randomized_responses"), "coming register_kept ") | {
    "device_sum": "who_answers ",
    "selection": "runs_secret ",
}


def check_assumptions(record):
    """What every certificate with these parts assumes."""
    parts = record["parts"]
    codes = STANDING + "".join(OF_PARTS.get(part["kind"], "") for part in parts)
    codes += "noise_shares" if any(part.get("noise") == "shared" for part in parts) else ""
    require(all({"code": code} in record["assumptions"] for code in codes.split()), "a standing assumption is missing")


# From parts, and from the event, to the steps that they are: both have to be the same.
Step = collections.namedtuple("Step", "kind rate noise apart", defaults=(2.0,))
"""A query: its kind, the share of the units that it reads, its noise over the clip (or rho, or epsilon), and how many
clips apart two units' answers are, one of which replaces the other.

Of a selection: its stop and law in place of the share, and the steps of its candidates in place of the noise.
"""


def width_of(blocks):
    """How many clips two contributions are apart that lie in these blocks: squares of distances add up."""
    require(blocks and sum(block["share"] for block in blocks) <= 1 + 1e-12, "blocks of more than the clip")
    square = 0.0
    for i, block in enumerate(blocks):
        require(block.get("of", -1) < i, "squares of no block before")
        share, size, root = block["share"], block.get("size"), blocks[block["of"]] if "of" in block else block
        if root is not block:
            light = (root["kind"], size) == ("signed", 1) and share <= root["share"]
            require(root.get("size") == size and (light or root["kind"] == "positive"), "squares of other numbers")
        flat = block["kind"] == "constant" or (root is not block and root["kind"] == "signed")
        votes = 2 * block["width"] / (block["width"] - 1) if block["kind"] == "votes" else 2
        known = {"signed": 4, "positive": 1 if size == 1 else 2}
        square += 0.0 if flat else share * known.get(root["kind"], votes)
    return min(2.0, max(1.0, math.sqrt(square)))


def sampled(kind, rate, noise):
    require(0 < rate <= 1, "a sampled step is out of range")
    return Step("gaussian", 1.0, noise) if rate == 1 else Step(kind, rate, noise)


def steps_of_part(part, former):
    """The steps of a part: [(Step, how often)]; as certificates stated them formerly, if asked."""
    kind = part.get("kind")
    if kind not in PARTS:
        raise NotRecomputable(kind)
    require(fits(part, PARTS[kind]), f"the part {part.get('name')} has another field or value")
    if kind == "selection":
        judged = part["judge"]["stated"] if part["judge"] else []
        return selected([steps_of_parts(run["stated"] + judged, former) for run in part["candidates"]], part)
    noise, count = float(part["noise_multiplier"]), part.get("steps", 1)
    apart = math.sqrt(2) if kind == "noisy_histogram" else width_of(part["blocks"]) if part.get("blocks") else 2.0
    if kind == "poisson_sum":
        require(part["sampling_rate"] == 1 or (part["fold"] is None and "blocks" not in part), "a fold is sampled")
        return [(sampled("poisson_sampled", float(part["sampling_rate"]), noise)._replace(apart=apart), count)]
    if kind == "fixed_size_sum":
        return [(sampled("sampled_without_replacement", part["batch_size"] / part["population"], noise), count)]
    if kind == "laplace_sum":
        return [(Step("laplace", 1.0, noise), count * (part["most"] or part["size"]))]
    require(part.get("correlation", "toeplitz") == "toeplitz" or part["decay"] == [1.0], "a decay without its noise")
    if kind == "user_sum":  # its noise is that of all sums together
        alone = "blocks" not in part or (len(part["blocks"]) == part["blocks"][0]["share"] == 1 and apart > 1.4142)
        require(alone, "people who are met have several blocks")
        require("fold" not in part or part["participations"] == 1, "people of a fold are met several times")
        return [(Step("gaussian", 1.0, noise, apart), 1)]
    if kind == "device_sum" and part["noise"] == "shared":  # Gaussian noise, rounded at random with variance 4
        exact = noise**2 - 4 / 4.0 ** part["bits"] if noise else 0.0
        require(exact >= 0, "a share of noise is too small")
        return [(Step("zcdp", 1.0, 0.5 / noise**2) if former and noise else Step("gaussian", 1.0, exact**0.5), count)]
    if kind == "randomized_responses":
        epsilon = 1 / noise if noise else 0.0
        return [(Step("randomized_response", 1.0, epsilon), part["answers"] * part["participations"])]
    require(kind != "device_sum" or (part["floor"], part["bits"]) == (1, 16), "a floor or a grid without shares")
    return [(Step("gaussian", 1.0, noise, apart), count)]


def selected(candidates, stated):
    """The selection of candidates, each its steps, or None without noise."""
    runs = () if None in candidates else tuple(sorted({tuple(steps) for steps in candidates}))
    return [(Step("selection", (stated["stop"], stated["law"]), runs), 1)]


def in_balls(steps):
    """The steps of older certificates, which knew of no diameters."""
    runs = lambda step: tuple(sorted({tuple(in_balls(run)) for run in step.noise}))  # noqa: E731
    inner = lambda step: runs(step) if step.kind == "selection" else step.noise  # noqa: E731
    return [(step._replace(apart=2.0, noise=inner(step)), count) for step, count in steps]


def steps_of(event, count=1):  # as above
    kind = event.get("kind")
    if kind not in EVENTS:
        raise NotRecomputable(kind)
    require(fits(event, EVENTS[kind] | {"kind": str}), f"the event {kind} has another field or value")
    if kind == "composed":
        return [step for inner in event["events"] for step in steps_of(inner, count)]
    if kind == "self_composed":
        return steps_of(event["event"], count * event["count"])
    if kind == "selection":
        require(count == 1 and event["candidates"], "it selects several times, or nothing")
        return selected([merged(steps_of(one)) for one in event["candidates"]], event)
    if kind in ("poisson_sampled", "sampled_without_replacement"):
        rate = float(event["rate"] if kind == "poisson_sampled" else event["batch"] / event["population"])
        ((inner, once),) = steps_of(event["event"])
        require((inner.kind, once, inner.apart) == ("gaussian", 1, 2.0), "a sampled step is no Gaussian one")
        return [(sampled(kind, rate, inner.noise), count)]
    noise = float(next((event[name] for name in EVENTS[kind] if not name.endswith("?")), 0.0))
    return [(Step(kind, 1.0, noise, float(event.get("diameter", 2.0))), count)]


def gaussians(steps):
    """The precision (1 / noise^2) of all plain Gaussian steps, and its product with the squared diameters."""
    plain = [(step, count) for step, count in steps if step.kind == "gaussian"]
    return sum(n / step.noise**2 for step, n in plain), sum(n * (step.apart / step.noise) ** 2 for step, n in plain)


def one_gaussian(precision, moved):
    return [(Step("gaussian", 1.0, precision**-0.5, min(2.0, (moved / precision) ** 0.5)), 1)] if precision else []


def merged(steps):
    """The steps in one order, plain Gaussian ones as one, which is exact; None where a step has no noise."""
    if not all(step.noise for step, _ in steps):
        return None
    one = [
        (step._replace(noise=float(f"{step.noise:.12g}"), apart=float(f"{step.apart:.10g}")), count)
        for step, count in one_gaussian(*gaussians(steps))
    ]
    return sorted(one + [pair for pair in steps if pair[0].kind != "gaussian"])


def steps_of_parts(parts, former):
    """All steps; of two halves, which share no unit, the dearer one counts, or both where a unit changes its half."""
    steps = [(part.get("fold"), pair) for part in parts for pair in steps_of_part(part, former)]
    if not all(pair[0].noise for _, pair in steps):
        return None
    (p, moved), (q, also) = (gaussians([pair for fold, pair in steps if fold == half]) for half in (0, 1))
    halves = one_gaussian(max(p, q), max(moved, also, p + q))
    return merged([pair for fold, pair in steps if fold is None] + halves)


# The numerics: from steps to epsilon and mu.
def losses(step, far, swapped):
    """Privacy losses of the dominating pair of a step, and their probabilities, at points closer than any grid."""
    # far: how many clips one unit moves a sum by: 1 if it is added or removed, 2 if it is replaced
    q, sigma = step.rate, step.noise
    if step.kind == "randomized_response":  # against the other answer, or a coin against it, or it against a coin
        yes = np.array([1.0, -1.0]) * sigma
        p = np.exp(-np.logaddexp(0.0, -yes))
        if far == 2:
            return yes, p
        return (-np.log(2 * p), np.array([0.5, 0.5])) if swapped else (np.log(2 * p), p)
    if step.kind == "laplace":
        e = far / sigma
        inside = (np.arange(2000) - 999.5) / 1000 * e
        density = np.exp(inside / 2) / np.exp(inside / 2).sum() * -math.expm1(-e) / 2
        return np.append(inside, [-e, e]), np.append(density, [math.exp(-e) / 2, 0.5])
    shift = 2.0 if step.kind == "sampled_without_replacement" else 1.0
    z = np.linspace(-12.0, 12.0, 24001)
    x, y, normal = sigma * z, sigma * z + shift, np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()

    def log_ratio(x, at):  # ln of (1 - q) N(0) + q N(at) over N(0)
        stays = math.log1p(-q) if q < 1 else -math.inf
        return np.logaddexp(stays, math.log(q) + (2 * at * x - at**2) / (2 * sigma**2))

    if swapped and far == 1:
        return -log_ratio(x, shift), normal
    if step.kind == "sampled_without_replacement":  # beyond one clip, its mirror image, and the rest at 0
        below, above = log_ratio(x[x > 1], shift), log_ratio(y[y > 1], shift)
        p = np.concatenate([(1 - q) * normal[x > 1], q * normal[y > 1], normal[x > 1]])
        return np.concatenate([below, above, -below, [0.0]]), np.append(p, 1 - p.sum())
    both, p = np.append(x, y), np.append((1 - q) * normal, q * normal)
    return log_ratio(both, shift) - (log_ratio(both, -shift) if far == 2 else 0.0), p


def composed(steps, far, delta, swapped):
    """A bound epsilon -> delta of all steps together, in one direction."""
    if len(steps) > MOST_STEPS:
        raise NotRecomputable("so many kinds of steps")
    each = [(*losses(step, far, swapped), count) for step, count in steps]
    deviation = sum(n * (p @ loss**2 - (p @ loss) ** 2) for loss, p, n in each) ** 0.5
    width = min(deviation * math.sqrt(4e-4 / sum(n for *_, n in each)), 1e-3)
    atoms = [far / step.noise for step, _ in steps if step.kind == "laplace"]  # half of the mass: it stands on the grid
    width = atoms[0] / math.ceil(atoms[0] / width) if atoms else width

    def end(power):  # Chernoff: the mass of losses beyond is at most delta / 1e9
        return (sum(n * logsumexp(power * loss, b=p) for loss, p, n in each) - math.log(delta * 1e-9)) / power

    powers = np.geomspace(0.1, 100.0, 12) / deviation
    low, high = max(map(end, -powers)), min(map(end, powers))
    base, size = math.floor(low / width), 1 << (math.ceil((high - low) / width) + 4).bit_length()
    if size > MOST_CELLS:
        raise NotRecomputable("so many steps")
    transform = 1.0
    for loss, p, n in each:
        index = np.floor(loss / width).astype(int)
        right = p * np.expm1(width * index - loss) / math.expm1(-width)  # keeps both neighbours' masses
        masses = np.bincount(index % size, p - right, size) + np.bincount((index + 1) % size, right, size)
        transform = transform * np.fft.rfft(masses) ** n
    masses = np.roll(np.fft.irfft(transform, size), -base % size).clip(0.0)
    first = max(0, 1 - base)
    masses, grid = masses[first:], width * np.arange(base + first, base + size)  # losses above 0
    above = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    weighted = np.append(np.cumsum((masses * np.exp(-grid))[::-1])[::-1], 0.0)

    def at(e):
        k = np.searchsorted(grid, e, "right")
        return 2e-9 * delta + max(0.0, float(above[k] - math.exp(e) * weighted[k])) if e < 700 else 0.0

    return at


def gaussian(e, mu):
    """delta of a Gaussian mechanism whose mean moves by mu standard deviations (arXiv 1805.06530)."""
    return float(ndtr(mu / 2 - e / mu) - math.exp(min(0.0, e + float(log_ndtr(-mu / 2 - e / mu)))))


def best_of(step, relation, delta):
    """The profile of the best of a secret number of runs, from that of one (arXiv 2402.06701)."""
    (stop, law), candidates = step.rate, step.noise
    power, mean = (2, float(stop)) if law == "geometric" else (1, (stop - 1) / math.log(stop))
    curves = [trade_off(list(steps), relation, delta / mean) for steps in candidates]
    worst = functools.cache(lambda e: max(curve(e) for curve in curves))
    shift = power * brentq(lambda h: (stop - 1) * worst(h) - math.expm1(h), 0.0, math.log(stop))
    at = lambda e: min(1.0, mean * worst(e - shift)) if e >= shift else 1.0  # noqa: E731
    beyond = shift + np.linspace(0.0, epsilon_at(worst, 1e-3 / mean), 400)
    corner, end = max(((1 - at(e)) / (1 + math.exp(e)), e) for e in beyond)  # bounds smaller epsilons, by two lines
    return lambda e: min(at(e), 1 - corner * (1 + math.exp(e))) if e < end else at(e)


def trade_off(steps, relation, delta):
    """epsilon -> a bound of delta, for deltas from the given one up."""
    far, kinds = 1.0 if relation == "add_or_remove" else 2.0, {step.kind for step, _ in steps}
    if "selection" in kinds:
        if len(steps) > 1:
            raise NotRecomputable("a selection beside other events")
        return best_of(steps[0][0], relation, delta)
    if far == 2:  # as a step whose units are two clips apart, and that has more noise
        nearer = lambda step: step.noise * 2 / step.apart if step.kind == "gaussian" else step.noise  # noqa: E731
        steps = [(step._replace(noise=nearer(step)), count) for step, count in steps]
    if "zcdp" in kinds:
        if kinds - {"zcdp", "gaussian"}:
            raise NotRecomputable("zcdp beside other events")
        rho = far**2 * sum(n * (s.noise if s.kind == "zcdp" else 0.5 / s.noise**2) for s, n in steps)
        a = 1 + np.geomspace(1e-2, 1e7, 20000)
        rest = rho * a * (a - 1) + a * np.log1p(-1 / a) - np.log(a - 1)
        return lambda e: math.exp(min(0.0, float((rest - (a - 1) * e).min())))
    if kinds == {"gaussian"}:
        return lambda e: gaussian(e, far / steps[0][0].noise)
    one, other = (composed(steps, far, delta, swapped) for swapped in (False, True))
    return lambda e: max(one(e), other(e))


def epsilon_at(curve, delta):
    return brentq(lambda e: curve(e) - delta, 0.0, 2.0**14, xtol=1e-12) if curve(0.0) > delta else 0.0


def mu_of(curve, largest):
    """The mu of the least Gaussian trade-off curve that bounds this one for every epsilon up to the largest."""
    pairs = [(e, at) for e in np.linspace(0.0, largest, 41) if (at := curve(e)) < 0.99]
    return max(brentq(lambda mu, e=e, at=at: gaussian(e, mu) - at, 1e-6, 100.0, rtol=1e-6) for e, at in pairs)


def mu_of_answers(steps, relation):
    """The mu of all answers together: that of the Gaussian at the one corner of an answer's curve; a coin is half."""
    far = 1.0 if relation == "add_or_remove" else 2.0
    return far * sum(n * ndtri(expit(step.noise)) ** 2 for step, n in steps) ** 0.5


def check_numbers(record, steps):
    """Epsilon in all its places, and mu."""
    epsilon, relation, delta = record["epsilon"], record["unit"]["relation"], record["delta"]
    curves = functools.cache(lambda which: trade_off(steps, which, min(delta, 1e-9)))
    whole, found = [10.0**-k for k in range(3, 10)], [row["delta"] for row in record["profile"]]
    some = found == whole[: len(found)] and any(step.kind == "selection" for step, _ in steps)  # E[K] times as much
    require(some or found == whole, "the profile is not whole")
    stated = [(relation, delta, epsilon)]
    stated += [(relation, row["delta"], row["epsilon"]) for row in record["profile"]]
    stated += [(row["relation"], delta, row["epsilon"]) for row in record["relations"]]
    for which, at, value in stated:
        found = epsilon_at(curves(which), at)
        require(
            math.isclose(float(value), found, rel_tol=TOLERANCE, abs_tol=1e-5),
            f"epsilon at {at:g} recomputes to {found:.6g}",
        )
    plain = not any("sampled" in step.kind or step.kind == "selection" for step, _ in steps)
    finite = [one for one in ("add_or_remove", "replace_one") if plain and epsilon_at(curves(one), delta) <= 500]
    priced = finite if relation in finite else [relation]
    require([row["relation"] for row in record["relations"]] == priced, "other relations are priced")
    own, check = record["accountants"]
    same = {own["epsilon"], *(value for which, at, value in stated if (which, at) == (relation, delta))}
    require(same == {epsilon}, "epsilon has several values")
    require(
        math.isclose(float(check["epsilon"]), float(epsilon), rel_tol=6e-3, abs_tol=1e-5),
        "the second accountant has another epsilon",
    )
    curve, answers = curves(relation), {step.kind for step, _ in steps} == {"randomized_response"}
    mu = mu_of(curve, float(epsilon)) if not answers else mu_of_answers(steps, relation)
    most = mu * (1 + 5 * TOLERANCE) if curve(0.0) < 0.99 else math.inf
    require(mu * (1 - TOLERANCE) <= float(record["mu"]) <= most, f"mu recomputes to {mu:.6g}")


def check_promise(record, steps):
    """Whether something is promised, and for which epsilons mu holds; returns the promise."""
    unit, epsilon = record["unit"], float(record["epsilon"])
    require(record["delta"] < 1 / unit["population"], "delta is not below 1 / population")
    require(steps is None or math.isfinite(epsilon), "the epsilon is not that of the parts")
    require(steps is not None or (math.isinf(epsilon) and record["mu"] == "inf"), "nothing is promised without noise")
    private = steps is not None and record["void_reason"] is None
    require(record["private"] is private, "private contradicts the rest")
    kinds = {step.kind for step, _ in steps or ()}
    known = {"gaussian": "exact", "randomized_response": "upper_bound"}.get("".join(kinds), "up_to_epsilon")
    rounded = known == "exact" and any(part.get("noise") == "shared" for part in record["parts"])
    known = "none" if steps is None else "upper_bound" if rounded else known
    require(record["mu_range"] == known, "mu holds for another range")
    if not private:
        why = "no finite epsilon" if steps is None else f"the ledger is void: {record['void_reason']}"
        return f"NOT PRIVATE, {why}: nothing is promised to any {unit['name']}"
    promise = f"({epsilon:.6g}, {record['delta']:.6g})-differential privacy for every {unit['name']}"
    return f"{promise} ({unit['relation']}), in a public population of {unit['population']:,}"


def rule_of(words):
    """The share of a budget that is added up without mus, and the order of the Renyi bounds that it adds, or None."""
    one, other, part = COMPOSED.fullmatch(words).groups()
    order, share = one or other, part or str(int(not words.startswith("one")))
    require(
        all(f"{float(number):g}" == number for number in (order or "2", share)), "a number of the rule is spelled so"
    )
    order, share = order and float(order), float(share)
    require((order is None or 1 < order <= 1e4) and (part is None or 0 < share < 1), "no ledger has that rule")
    return share, order


def epsilon_of(row, order, delta):
    """What a charge by mu, or by a Renyi bound, is at delta."""
    if row["mu"] is not None:
        return epsilon_at(lambda e: gaussian(e, row["mu"]), delta) if row["mu"] else 0.0
    return max(0.0, row["rdp"] + math.log((order - 1) / order) - math.log(delta * order) / (order - 1))


def moved(row):
    """What a plan costs a unit that goes from one fold to the other: that of one that comes or goes, on a fold."""
    d = 1.0 if row["fold"] is None else row.get("diameter", 2.0)
    mu, rdp = row["mu"] and row["mu"] / d, row["rdp"] and row["rdp"] / d**2
    return row | {"fold": None, "mu": mu, "rdp": rdp, "epsilon": row["epsilon"] / d if mu is rdp is None else 0.0}


def spent(rows, total, half):
    """[share of the budget, epsilon, delta] that one fold paid as one Gaussian, and by all other plans."""
    (share, order), whole = rule_of(total["composition"]), total["budget_delta"]
    for row in rows:
        known = (row["mu"] is not None) + (row["rdp"] is not None)
        charged = (row["mu"] is None or share < 1) and (row["rdp"] is None or order is not None) and known <= 1
        require(charged and (known or order is None), "a plan is charged by what the ledger does not add up")
        # Any bound of a plan is above what it is certified for, to what two numerics may differ by.
        small = known and epsilon_of(row, order, max(row["delta"], 1e-300)) < row["epsilon"] * 0.99 - 1e-6
        require(not small, "a plan is charged by less than its own epsilon")
    others = [row for row in rows if row["mu"] is None]
    paid = [row for row in others if row["fold"] in (None, half)]
    square = sum(row["mu"] ** 2 for row in rows if row["mu"] and row["fold"] in (None, half))
    require(square <= 1e4, "more is charged by mu than any budget holds")
    own, rest = {"mu": square**0.5, "rdp": None}, {"mu": None, "rdp": sum(row["rdp"] or 0.0 for row in paid)}
    gauss = (
        [1 - share, epsilon_of(own, order, (1 - share) * whole), (1 - share) * whole] if square else [1 - share, 0, 0]
    )
    if order:
        return gauss, [share, epsilon_of(rest, order, share * whole), share * whole] if paid else [share, 0, 0]
    return gauss, [share, sum(row["epsilon"] for row in paid), sum(row["delta"] for row in paid)]


def check_ledger(record, steps):
    """Its own charge once, as certified; other charges that a ledger admits; their total, within the budget."""
    total, rows, epsilon = record["total"], record["releases"], float(record["epsilon"])
    own = [row for row in rows if row["plan_id"] == record["plan_id"]]
    require(len(own) == 1 and len({row["plan_id"] for row in rows}) == len(rows), "a plan is not charged once")
    require(math.isclose(float(own[0]["epsilon"]), max(epsilon, 1e-9), rel_tol=1.1e-5), "its own charge is another one")
    require((own[0]["delta"], own[0]["method"]) == (record["delta"], record["method"]), "its own charge is another one")
    for row in rows:
        require(float(row["epsilon"]) > 0 and row["delta"] < 1, "a charge is none that a ledger admits")
        require(row["epsilon"] != "inf" or not record["private"], "a charge voids the ledger")
        require(row["epsilon"] != "inf" or row["rdp"] is row["mu"] is None, "a charge voids the ledger")
    folds = {part.get("fold") for part in record["parts"]}
    require(own[0]["fold"] == (min(folds) if folds in ({0}, {1}) else None), "its own charge is of another fold")
    require(own[0]["mu"] is None or own[0]["mu"] >= float(record["mu"]) * (1 - TOLERANCE), "its own mu is too small")
    finite = [row for row in rows if row["epsilon"] != "inf"]
    require(
        float(total["budget_epsilon"]) <= float(total["ceiling_epsilon"]) < math.inf,
        "the budget is above its ceiling, or has none",
    )
    own_diameter = round(gaussians(steps or [])[1] ** 0.5 / max(gaussians(steps or [])[0], 1e-300) ** 0.5, 9)
    due = own_diameter if record["unit"]["relation"] == "replace_one" and own[0]["fold"] is not None else 2.0
    require(abs(own[0].get("diameter", 2.0) - due) < 1e-8 or steps is None, "its own diameter is another one")
    folds = [spent(finite, total, half) for half in (0, 1)]
    if record["unit"]["relation"] == "replace_one":  # who is exchanged for another may meet both folds
        folds.append(spent([moved(row) for row in finite], total, None))
    for i, name, slack in ((1, "epsilon", 1.1e-5), (2, "delta", 1e-9)):
        dearer = math.inf if i == 1 and len(finite) < len(rows) else max(one[i] + other[i] for one, other in folds)
        require(math.isclose(float(total[name]), dearer, rel_tol=slack, abs_tol=1e-12), "the total is another")
        for part in (part for fold in folds for part in fold):
            within = part[i] <= part[0] * float(total[f"budget_{name}"]) * (1 + slack)
            require(within, "the total is above the budget")
    target, plan, unit = record["target_epsilon"], record["plan"], record["unit"]
    require(target is None or epsilon <= float(target) * (1 + 1e-5), "epsilon is above its target")
    stated = {"unit": unit, "epsilon": target, "delta": record["delta"]}
    planned = stated | {name: plan[name] for name in stated if name in plan}
    require(planned == stated | {"unit": {name: unit[name] for name in planned["unit"]}}, "the plan promises another")
    roles, versions = [row["role"] for row in record["accountants"]], record["versions"]
    require(roles == ["upper_bound", "check"], "the accountants are others")
    known = all(row["version"] in versions.values() for row in record["accountants"])
    require(known and versions["tacit"] == record["tacit_version"], "tacit, or an accountant, has two versions")
    audit = record["audit"]
    require(audit is None or audit["lower_bound"] <= float(record["epsilon"]), "an audit contradicts epsilon")


def hashed(content):
    def same(x):  # 1.0 and 1 are the same
        return int(float(x)) if float(x).is_integer() and abs(float(x)) < 2**53 else float(x)

    content = json.loads(json.dumps(content), parse_float=same)
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def check_hashes(record):
    content = {name: value for name, value in record.items() if name not in ("digest", "signature")}
    require(hashed(content) == record["digest"], "the digest is not that of the fields")
    plan = hashed({name: record[name] for name in ("method", "plan", "parts")})
    require(plan[:16] == record["plan_id"], "the plan has another identifier")


# Ed25519 (RFC 8032): points (x, y) of the curve -x^2 + y^2 = 1 + D x^2 y^2 modulo P.
P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def point(raw):
    y, sign = int.from_bytes(raw, "little") & ((1 << 255) - 1), raw[31] >> 7
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if x * x % P == square else x * pow(2, (P - 1) // 4, P) % P
    require(y < P and x * x % P == square, "a key or signature is no point of the curve")
    return (P - x if x % 2 != sign else x), y


def added(one, other):
    (a, b), (c, d), t = one, other, D * one[0] * one[1] * other[0] * other[1] % P
    return (a * d + b * c) * pow(1 + t, -1, P) % P, (b * d + a * c) * pow(1 - t, -1, P) % P


def times(factor, base):
    twice = times(factor // 2, added(base, base)) if factor else (0, 1)
    return added(twice, base) if factor % 2 else twice


def check_signature(record, key):
    signature = record["signature"]
    signed = signature is not None and (key is None or signature["public_key"] == key.lower())
    require(signed or key is None, "it is not signed by that key")
    if signature is None:
        return "not signed"
    public, value = bytes.fromhex(signature["public_key"]), bytes.fromhex(signature["value"])
    message = value[:32] + public + b"tacit certificate, format 1\n" + bytes.fromhex(record["digest"])
    h = int.from_bytes(hashlib.sha512(message).digest(), "little") % ORDER
    s, base = int.from_bytes(value[32:], "little"), point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    require(s < ORDER and times(s, base) == added(point(value[:32]), times(h, point(public))), "a false signature")
    return f"signed by {signature['public_key']}"


@np.errstate(all="ignore")
def verify(record, key=None):
    """(exit code, sentence); raises Refused or NotRecomputable."""
    check_values(record)
    check_shape(record)
    check_hashes(record)
    of_parts = steps_of_parts(record["parts"], former="'zcdp'" in str(record["event"]))
    check_assumptions(record)
    steps = merged(steps_of(record["event"]))
    require(steps in (of_parts, of_parts and in_balls(of_parts)), "the parts are not the event")
    promise = check_promise(record, steps)
    check_ledger(record, steps)
    signer = check_signature(record, key)
    if steps is not None:
        check_numbers(record, steps)
    return (0, f"recomputed ({signer}): {promise}.") if record["private"] else (3, f"void: {promise}.")


def main(words):
    try:
        code, sentence = verify(read(words[0]), *words[1:2])
        sentence += f"\nRecomputed: {RECOMPUTED}.\nDeclared, not recomputed: {DECLARED}.\n{EDITS}"
    except NotRecomputable as kind:
        code, sentence = 2, f"not recomputable: {kind}"
    except Refused as why:
        code, sentence = 1, f"refused: {why}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError):
        code, sentence = 1, "refused: the file cannot be read as a certificate"
    print(sentence)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["certificate.json"]))
