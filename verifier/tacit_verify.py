#!/usr/bin/env python3
"""Recompute a tacit privacy certificate without tacit: python tacit_verify.py certificate.json [PUBLIC_KEY_HEX].

Needs NumPy and SciPy. Exit codes: 0 recomputed, 1 refused, 2 not recomputable (KIND), 3 void: nothing is promised.
Epsilon comes from the certificate's event by the numerics below, never from a printed figure. Each step's privacy loss
is put on a grid so that every cell keeps its mass under both neighbours, an upper bound (connect the dots, arXiv
2207.04380); steps are composed by Fourier transform; mass beyond the window (Chernoff) counts as infinite loss.
Dominating pairs: arXiv 1805.06530, 2106.08567. Discrete noise has Renyi curves alone (arXiv 2004.00010, Prop. 12).
"""
import hashlib
import json
import math
import re
import sys

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

TOLERANCE = 1e-3
FIELDS = set("""format tacit_version private void_reason reasons sentence epsilon delta target_epsilon mu mu_range profile
relations unit deployment contribution parts event accountants method source plan_id plan assumptions covered not_covered
not_protected releases total audit simulated ledger_head dataset_id commit versions date digest signature""".split())
FIRST = {"sampling_rate": "rate", "clip_norm": "clip", "batch_size": "batch", "expected_batch_size": "batch",
         "held_out": "reserve", "noise_multiplicity": "noise_draws", "local_context": "surroundings",
         "discretisation": "cut", "zero_contribution": "silent", "whole_trajectories": "courses", "stitches": "seams"}
"""Names that fields had in format 1: a plan's identifier is made from them."""

class Refused(Exception): """The certificate contradicts itself."""
class NotRecomputable(Exception): """A kind of event without numerics here."""

def require(holds, what):
    if not holds: raise Refused(what)

# -- events: lists of (kind, parameters, count) -------------------------------------------------------------------------
PARAMETERS = {"gaussian": ["noise_multiplier"], "laplace": ["noise_multiplier"], "zcdp": ["rho"], "non_private": [],
              "epsilon_delta": ["epsilon", "delta"]}

def steps_of(event, count=1):
    kind, inner = event["kind"], event.get("event")
    if kind == "composed": return [step for one in event["events"] for step in steps_of(one, count)]
    if kind == "self_composed":
        require(type(event["count"]) is int and event["count"] >= 1, "a count is below 1")
        return steps_of(inner, count * event["count"])
    if kind in ("poisson_sampled", "sampled_without_replacement"):
        rate = event["rate"] if kind == "poisson_sampled" else event["batch"] / event["population"]
        require(inner["kind"] == "gaussian" and 0 < rate <= 1, "a sampled step is out of range")
        sigma = float(inner["noise_multiplier"])
        return [("gaussian", (sigma,), count) if rate == 1 else (kind, (float(rate), sigma), count)]
    if kind not in PARAMETERS: raise NotRecomputable(kind)
    return [(kind, tuple(float(event[name]) for name in PARAMETERS[kind]), count)]

def stated_steps(part):
    part, kind = {FIRST.get(name, name): value for name, value in part.items()}, part["kind"]
    sigma, steps = part.get("noise_multiplier"), part.get("steps", 1)
    single = kind in ("smooth_sensitivity", "noisy_max", "noisy_histogram", "above_threshold")
    require(not single or steps == 1, "a single release has several steps")
    sampled = {**part, "event": {"kind": "gaussian", "noise_multiplier": sigma}}
    if kind == "poisson_sum": return steps_of({**sampled, "kind": "poisson_sampled"}, steps)
    if kind == "fixed_size_sum": return steps_of({**sampled, "kind": "sampled_without_replacement"}, steps)
    if kind in ("user_sum", "noisy_histogram"): return [("gaussian", (sigma,), 1)]
    if kind == "device_sum" and part["noise"] == "shared": return [("zcdp", (0.5 / sigma**2,), steps)]
    if kind in ("device_sum", "teacher_votes"): return [("gaussian", (sigma,), steps)]
    if kind == "laplace_sum": return [("laplace", (sigma,), steps * part["size"])]
    if kind in ("smooth_sensitivity", "noisy_max"): return [("epsilon_delta", (part["epsilon"], part["delta"]), 1)]
    if kind == "above_threshold":
        prefixes = ("epsilon_delta", (part["epsilon"], part["delta"]), part["trajectories"])
        return [prefixes, ("epsilon_delta", (0.0, part["overflow"]), 1)] if part["overflow"] else [prefixes]
    raise NotRecomputable(kind)

def merged(steps):
    """Equal steps together, plain Gaussians as one, which is exact; None where a step has no noise."""
    if any(kind == "non_private" or kind != "epsilon_delta" and not values[-1] for kind, values, _ in steps): return None
    require(all(value >= 0 for _, values, _ in steps for value in values), "a parameter is negative")
    total, precision = {}, sum(n / values[0] ** 2 for kind, values, n in steps if kind == "gaussian")
    for kind, values, n in steps:
        if kind != "gaussian": total[kind, values] = total.get((kind, values), 0) + n
    plain_ones = [("gaussian", (precision**-0.5,), 1)] if precision else []
    return sorted(plain_ones + [(*key, n) for key, n in total.items()])

def parts_steps(parts):
    """Of two halves, which share no unit, the dearer one counts."""
    halves = [sum(n / v[0] ** 2 for p in parts if p.get("fold") == i for _, v, n in stated_steps(p)) for i in (0, 1)]
    rest = [step for part in parts if part.get("fold") is None for step in stated_steps(part)]
    return merged(rest + ([("gaussian", (max(halves) ** -0.5,), 1)] if any(halves) else []))

# -- privacy loss distributions -----------------------------------------------------------------------------------------
def normal(x, centre, sigma):
    """Masses of N(centre, sigma^2) between -inf, rising points and inf, each from the tail that it lies in."""
    z = np.concatenate([[-np.inf], (x - centre) / sigma, [np.inf]])
    return np.where(z[1:] < 0, np.diff(ndtr(z)), -np.diff(ndtr(-z)))

def cells(kind, values, edges, relation):
    """Masses under both neighbours of losses below edges[0], between neighbouring edges, above edges[-1]."""
    far, q, sigma = 1.0 if relation == "add_or_remove" else 2.0, values[0], values[-1]
    if kind == "gaussian":
        x = edges * sigma**2 / far + far / 2
        return normal(x, far, sigma), normal(x, 0.0, sigma)
    if kind == "poisson_sampled" and far == 1:
        log = np.where(edges > 30, edges - math.log(q), np.log((np.expm1(np.minimum(edges, 30)) + q) / q))
        x = 0.5 + sigma**2 * np.where(edges > math.log1p(-q), log, -np.inf)
        return (1 - q) * normal(x, 0.0, sigma) + q * normal(x, 1.0, sigma), normal(x, 0.0, sigma)
    if kind == "poisson_sampled":  # loss = log((1 + h e^y) / (1 + h e^-y)) with y = x / sigma^2
        h, ratio = math.exp(-0.5 / sigma**2) * q / (1 - q), np.exp(np.clip(edges, -300, 300))
        x = sigma**2 * np.log((ratio - 1 + np.sqrt((ratio - 1) ** 2 + 4 * h**2 * ratio)) / (2 * h))
        return tuple((1 - q) * normal(x, 0.0, sigma) + q * normal(x, at, sigma) for at in (1.0, -1.0))
    if kind == "sampled_without_replacement":  # (M, A) beyond one clip, (A, M) beyond it mirrored, an atom at 0
        size = abs(edges)
        x = 1 + sigma**2 / 2 * np.where(size < 500, np.log1p(np.expm1(np.minimum(size, 500)) / q), size - math.log(q))
        absent, mixed = ndtr(-x / sigma), (1 - q) * ndtr(-x / sigma) + q * ndtr((2 - x) / sigma)
        above = np.where(edges >= 0, mixed, 1 - absent), np.where(edges >= 0, absent, 1 - mixed)
        return tuple(np.maximum(-np.diff(np.concatenate([[1.0], one, [0.0]])), 0.0) for one in above)
    e = far / sigma if kind == "laplace" else q  # below: the mass of losses in [-e, loss]
    laplace = np.exp((edges - e) / 2) / 2, 1 - np.exp((-edges - e) / 2) / 2
    below = laplace if kind == "laplace" else (1 / (1 + math.exp(e)), 1 / (1 + math.exp(-e)))
    return tuple(np.diff(np.concatenate([[0.0], np.where(edges >= e, 1.0, np.where(edges < -e, 0.0, one)), [1.0]]))
                 for one in below)

def shape(kind, values, relation):
    """Standard deviation of a step's loss, and the ends of the losses that have any mass."""
    edges = np.concatenate([-np.geomspace(1e3, 1e-7, 4000), [0.0], np.geomspace(1e-7, 1e3, 4000)])
    p, q = (mass[1:-1] for mass in cells(kind, values, edges, relation))
    middle, held = (edges[1:] + edges[:-1]) / 2, np.flatnonzero(np.maximum(p, q) > 1e-25)
    variance = max(float(m @ middle**2 - (m @ middle) ** 2) for m in (p, q))
    return max(variance, 1e-20) ** 0.5, edges[held[0]], edges[held[-1] + 1]

def gridded(kind, values, step, relation, swapped, low, high):
    """First index, masses on multiples of the step, mass of an infinite loss."""
    first, last = math.floor(low / step) - 1, math.ceil(high / step) + 1
    edges = step * np.arange(first, last + 1)
    p, q = cells(kind, values, edges, relation)
    if swapped: p, q, edges, first = q[::-1], p[::-1], -edges[::-1], -last
    right = np.nan_to_num((p[1:-1] - np.exp(edges[:-1]) * q[1:-1]) / -math.expm1(-step)).clip(0.0, p[1:-1])
    return first, np.concatenate([[p[0]], right]) + np.concatenate([p[1:-1] - right, [0.0]]), p[-1]

def composed(steps, relation, delta, swapped):
    """A bound epsilon -> delta of all steps together."""
    shapes = [shape(kind, values, relation) for kind, values, _ in steps]
    total = sum(n * s[0] ** 2 for s, (_, _, n) in zip(shapes, steps)) ** 0.5
    width = max(s[2] - s[1] for s in shapes)
    step = max(min(total * math.sqrt(4e-4 / sum(n for *_, n in steps)), 0.01, width / 50), width / 4e6)
    parts = [(*gridded(k, v, step, relation, swapped, *s[1:]), n) for s, (k, v, n) in zip(shapes, steps)]
    reveal = [v[1] if kind == "epsilon_delta" else 0.0 for kind, v, _ in steps]
    finite = sum(n * (math.log1p(-part) + math.log1p(-one)) for (_, _, part, n), one in zip(parts, reveal))
    def end(sign):
        def bound(power):
            logs = 0.0
            for first, masses, _, n in parts:
                x = power * sign * step * (first + np.arange(len(masses)))
                logs += n * (x.max() + math.log(float(masses @ np.exp(x - x.max())) / masses.sum()))
            return (logs - math.log(delta * 1e-9)) / power
        return min(map(bound, np.geomspace(0.1, 100.0, 24) / total))
    first, last = (sum(n * (start + k * (len(m) - 1)) for start, m, _, n in parts) * step for k in (0, 1))
    high, low = min(end(1.0), last), max(-end(-1.0), first)
    beyond = 0.0 if (low, high) == (first, last) else 2e-9 * delta
    base, size = math.floor(low / step), 1 << (math.ceil(abs(high - low) / step) + 4).bit_length()
    require(size <= 1 << 23, "the steps are more than this file can compose")
    transform = 1.0
    for _, masses, _, n in parts:
        transform = transform * np.fft.rfft(np.bincount(np.arange(len(masses)) % size, masses / masses.sum(), size)) ** n
    shift = sum(n * first for first, _, _, n in parts)
    masses = np.maximum(np.roll(np.fft.irfft(transform, size), (shift - base) % size), 0.0) * math.exp(finite)
    losses, infinite = step * (base + np.arange(size)), -math.expm1(finite) + beyond
    def bound(e):
        rest = slice(np.searchsorted(losses, e, "right"), None)
        return infinite + float(masses[rest] @ -np.expm1(e - losses[rest]))
    return bound

def gaussian(e, mu):
    return float(ndtr(mu / 2 - e / mu) - math.exp(min(0.0, e + float(log_ndtr(-mu / 2 - e / mu)))))

def profile(steps, relation, delta):
    """epsilon -> a bound of delta, for deltas from the given one up."""
    far, kinds = 1.0 if relation == "add_or_remove" else 2.0, {kind for kind, _, _ in steps}
    if "zcdp" in kinds:
        if kinds - {"zcdp", "gaussian"}: raise NotRecomputable("zcdp beside other events")
        rho = far**2 * sum(n * (v[0] if kind == "zcdp" else 0.5 / v[0] ** 2) for kind, v, n in steps)
        a = 1 + np.geomspace(1e-2, 1e7, 20000)
        rest = rho * a * (a - 1) + a * np.log1p(-1 / a) - np.log(a - 1)
        return lambda e: math.exp(min(0.0, float((rest - (a - 1) * e).min())))
    if kinds == {"gaussian"}: return lambda e: gaussian(e, far / steps[0][1][0])
    orders = (False, True) if far == 1 and "poisson_sampled" in kinds else (False,)
    bounds = [composed(steps, relation, delta, swapped) for swapped in orders]
    return lambda e: max(bound(e) for bound in bounds)

def epsilon_at(curve, delta):
    delta *= 1 + 1e-9
    if curve(0.0) <= delta: return 0.0
    high = next((2.0**k for k in range(-3, 14) if curve(2.0**k) <= delta), math.inf)
    return high if math.isinf(high) else brentq(lambda e: curve(e) - delta, 0.0, high, xtol=1e-7)

# -- the document -------------------------------------------------------------------------------------------------------
def plain(value, names):
    """1.0 and 1 are the same number; fields are renamed unless two would get one name."""
    if isinstance(value, list): return [plain(one, names) for one in value]
    if isinstance(value, dict):
        new = {name: names.get(name, name) for name in value}
        new = new if len(set(new.values())) == len(new) else {name: name for name in value}
        return {new[name]: plain(one, names) for name, one in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value

def sha256(value, names):
    text = json.dumps(plain(value, names), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()

def near(stated, value):
    if stated == "inf" or math.isinf(value): return stated == "inf" and math.isinf(value)
    return abs(float(stated) - value) <= TOLERANCE * max(value, 0.01)

def check_numbers(record, curves, epsilon):
    e, delta, relation = record["epsilon"], record["delta"], record["unit"]["relation"]
    require(near(e, epsilon), f"epsilon is stated as {e} and recomputes to {epsilon:.6g}")
    for row in record["profile"]:
        require(near(row["epsilon"], epsilon_at(curves(relation), row["delta"])), "the profile does not recompute")
        require(row["delta"] != delta or row["epsilon"] == e, "the profile contradicts epsilon")
    for row in record["relations"]:
        require(near(row["epsilon"], epsilon_at(curves(row["relation"]), delta)), "a relation does not recompute")
    require([r["epsilon"] for r in record["relations"] if r["relation"] == relation] == [e], "relations contradict epsilon")
    bound, check = record["accountants"]
    require((bound["role"], check["role"]) == ("certified upper bound", "independent check"), "the accountants' roles")
    require(bound["epsilon"] == e and near(check["epsilon"], epsilon), "the accountants contradict epsilon")
    if record["mu"] != "inf":
        low = [gaussian(p, record["mu"]) / curves(relation)(p) for p in np.linspace(0.0, 0.9 * float(e), 6)]
        require(min(low) > 1 - 5 * TOLERANCE, "mu does not bound the profile")

def check_parts(record):
    """Parts say their numbers in words, too."""
    for part, words in zip(record["parts"], record["contribution"]):
        part = {FIRST.get(name, name): value for name, value in part.items()}
        require(words.startswith(f"{part['name']} ({part['kind']}): "), "a contribution is of another part")
        if part["kind"].endswith(("poisson_sum", "size_sum", "user_sum", "device_sum", "histogram")):
            said = [f": {part['steps']:,} ", f"norm at most {part['clip']:.6g} ", f" {part['rows_per_unit']:,} "]
            require(all(one in words for one in said), "a contribution contradicts its part")

def check_document(record, epsilon):
    content = {name: value for name, value in record.items() if name not in ("digest", "signature")}
    require(sha256(content, {}) == record["digest"], "the digest is not that of the fields")
    identity = sha256({"method": record["method"], **record["plan"]}, FIRST)[:16]
    require(identity == record["plan_id"], "the identifier is not that of the plan")
    total, rows, unit, e = record["total"], record["releases"], record["unit"], float(record["epsilon"])
    spent, budget = ([float(total[f"{b}epsilon"]), total[f"{b}delta"]] for b in ("", "budget_"))
    sums = [math.fsum(float(row[name]) for row in rows) for name in ("epsilon", "delta")]
    require(np.allclose(spent, sums, rtol=1.1e-5, atol=0), "the total is not the sum of the releases")
    known = total["composition"] == "sum" or re.fullmatch(r"Renyi DP at order [1-9][0-9.e+]*", total["composition"])
    require(known, "the composition is unknown")
    over = any(one > most * (1 + 1e-5) for one, most in zip(spent, budget))
    require(not (record["private"] and total["composition"] == "sum" and over), "the total is above the budget")
    own = [(row["method"], float(row["epsilon"]), row["delta"]) for row in rows if row["plan_id"] == identity]
    require(len(own) == 1 and own[0][0] == record["method"], "the plan's own charge is not there once")
    require(own[0][1] >= e * (1 - 1e-5) and own[0][2] >= record["delta"], "the plan's own charge is too small")
    require(record["private"] == (record["void_reason"] is None and math.isfinite(epsilon)), "private contradicts the rest")
    step = 10.0 ** (math.floor(e / math.log(10)) - 3) if e < 50 else 1.0
    factor = f"{math.ceil(math.exp(e) / step * (1 - 1e-12)) * step:.4g}" if e < 50 else f"exp({e:.4g})"
    sentence = (
        f"The chance of anything that could be concluded from this release changes at most by a factor of {factor} "
        f"and by {record['delta']:.3g} added, {unit['words']}, in a public population of {unit['population']:,}: "
        f"({e:.6g}, {record['delta']:.6g})-differential privacy for every {unit['name']}.")
    begins = sentence if record["private"] else "NOT PRIVATE, because "
    require(record["sentence"].startswith(begins), "the sentence does not follow from the numbers")

P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493  # Ed25519, RFC 8032
D = -121665 * pow(121666, -1, P) % P

def point(raw):
    y, sign = int.from_bytes(raw, "little") & (1 << 255) - 1, raw[31] >> 7
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if x * x % P == square else x * pow(2, (P - 1) // 4, P) % P
    require(y < P and x * x % P == square, "a key or signature is no point of the curve")
    return (P - x if x % 2 != sign else x), y

def added(one, other):
    (a, b), (c, d), t = one, other, D * one[0] * one[1] * other[0] * other[1] % P
    return (a * d + b * c) * pow(1 + t, -1, P) % P, (b * d + a * c) * pow(1 - t, -1, P) % P

def times(number, base):
    result = (0, 1)
    for bit in bin(number)[2:]:
        result = added(result, result)
        result = added(result, base) if bit == "1" else result
    return result

def check_signature(record, key):
    signature = record["signature"]
    require(key is None or signature and signature["public_key"] == key.lower(), "it is not signed by that key")
    if signature:
        public, value = bytes.fromhex(signature["public_key"]), bytes.fromhex(signature["value"])
        message = value[:32] + public + b"tacit certificate, format 1\n" + bytes.fromhex(record["digest"])
        h = int.from_bytes(hashlib.sha512(message).digest(), "little") % ORDER
        s, base = int.from_bytes(value[32:], "little"), point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
        require(s < ORDER and times(s, base) == added(point(value[:32]), times(h, point(public))), "the signature is invalid")

@np.errstate(all="ignore")
def verify(record, key=None):
    """(exit code, sentence); raises Refused or NotRecomputable."""
    require(isinstance(record, dict) and set(record) == FIELDS and record["format"] in (1, 2), "it has other fields")
    steps, stated, delta = merged(steps_of(record["event"])), parts_steps(record["parts"]), record["delta"]
    alike = steps == stated or steps and stated and [s[::2] for s in steps] == [s[::2] for s in stated] and all(
        np.allclose(a[1], b[1], rtol=1e-9, atol=0) for a, b in zip(steps, stated))
    require(alike, "the parts are not the event")
    require(0 < delta < 1 / record["unit"]["population"], "delta is not below 1 / population")
    made, least = {}, min([delta, *(row["delta"] for row in record["profile"])])
    def curves(relation):
        if relation not in made: made[relation] = profile(steps, relation, least)
        return made[relation]
    epsilon = epsilon_at(curves(record["unit"]["relation"]), delta) if steps else math.inf
    if steps: check_numbers(record, curves, epsilon)
    require(len(record["parts"]) == len(record["contribution"]), "a part or its contribution is missing")
    check_parts(record)
    check_document(record, epsilon)
    check_signature(record, key)
    if not record["private"]: return 3, f"void: {record['sentence']}"
    signer = f"signed by {record['signature']['public_key']}" if record["signature"] else "not signed"
    return 0, f"recomputed: epsilon {epsilon:.6g} at delta {delta:g} ({signer}). {record['sentence']}"

def main(words):
    try:
        with open(words[0], encoding="utf-8") as file:
            code, sentence = verify(json.loads(file.read(4 << 20)), *words[1:2])
    except NotRecomputable as kind: code, sentence = 2, f"not recomputable: {kind}"
    except Refused as why: code, sentence = 1, f"refused: {why}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError):
        code, sentence = 1, "refused: the file cannot be read as a certificate"
    print(sentence)
    return code

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["certificate.json"]))
