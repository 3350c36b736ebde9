#!/usr/bin/env python3
"""Recompute a tacit privacy certificate without tacit: python tacit_verify.py certificate.json [PUBLIC_KEY_HEX].

Exit codes: 0 recomputed, 1 refused, 2 not recomputable (KIND), 3 void: nothing is promised. Epsilon comes from the
event, never from a printed figure: losses of dominating pairs (arXiv 1805.06530, 2106.08567) are put on a grid (connect
the dots, arXiv 2207.04380) and composed by Fourier transform; those beyond the window (Chernoff) count as infinite.
Discrete noise has Renyi curves alone (arXiv 2004.00010, Prop. 12). Words are known by hashes. What is declared (plan,
dates, identifiers, budgets, and what vaults and users say) is protected by a signature alone.
"""
import base64, collections, functools, hashlib, json, math, re, sys
import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp, ndtr
TOLERANCE = 1e-3
FIRST = {"sampling_rate": "rate", "clip_norm": "clip", "batch_size": "batch", "held_out": "reserve"}  # in format 1
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
DECLARED = re.compile(  # lines in which a vault or a user declares something
    r"(the user's|each) .+ (proved|tried|checked|of them|without (unit )?ids)|(evaluated|candidate .+): .+|logs, from"
    r" the release .+|.+ \(declared public by the user.+\)|the (features .+ these records|behaviour policy is .+)")
MASKED = re.compile(r": (given by the user$|drawn with .+ seed \d+$|.+(?= \(declared by the user))")
NOUNS = "person|patient|expert|unit|user|device|trajectory|episode|record|row|day|state"  # that units may be called
WORDS = """
+Ig3+v6g/3Ac/K16/vcY0ZzC0f4h12nh1Ao11OoJ29pQ2NAZ2cUi2yRb32Wv3CLS3Cw43ajG3mlm3vO346X547DE52e05BJT5DYi5T8e5mF36Ow36Tn36g3i
6u9879J07FqG7wIt8SSE8au+8fGO93Cr9bw99phCA43aA8oYAw8bBYd5Bd3qBduoBjR/BpJIC1zRCHe0CN4iDMV6DoFVDx3cEh8QEi4FEiFfFGafFNnrFUnY
FYldFfqxG9bWHHIJHQ7XI2vLIGwSINXTIp7yIvI/IzykJ4LtJTENJe1/JoFSJp3xKSj4KYVtL21ILRk6LXkyLcacM/I0MP32MbpkNFhINGZXNOTHNSpCNleK
Nn+COBZ3OwupPKD/PSPPPiAYPrg6Q+mWQK49QQVdR97WRAKeRdveRvToSCqBSDf7SKb+SNMkSacjSm6ISy2BT/UFTBWtTfb6UOX4UT+PUTDfUlWrUu3uVT2g
VUSOVkc3VlavVlf1W78bW98/WG0rWGUJWH3AWPqNX8V/XdaWXi72Xmw5XnBRXw5DY0ldY1IDYSW8YhJkZS+vZT39ZXZPa/ZTa08haNopaTdjadn1b2U0b7R1
b9jjbFP5bJeLcEozcSP7cx8QcyvOd8DEdBlGdJ1ddQn8dTuqdaJ+dpOodzWOelcBf1zufVD6fZL0gS2OgeSIgrTXhQVXhaNDhgcWiDjgiPe0iRZFiohZjLYn
jVS9l3vQlprImSx8meS2n3Ybn3q1nL5nnLE1nMA3ng12nhIUnizKnl2DnlBUnxeRoKrvolceoqyipWXYpcLdpgwcq3h5qTO0qcLqrAERrNq0rU/ErnBms5Nx
s9fSsAeWsBMvsSFssg0tshvlsp/St946tA/PtTA1ttAiu55auCvWuKf3ubc/utGBuxkIv14avFT+vJ0uvNHmvT/jvZqpvcW9voUpw+Ejw6x4wDRixYRZxhqU
y1AGy2NRy6XryARTyOzsyUbKymnmyoyjytPXyzLBzTRYzl+DRQz5K7WxhCUJKWG0zFDAi+eI
"""
class Refused(Exception): """The certificate contradicts itself."""
class NotRecomputable(Exception): """A kind of event without numerics here."""
def require(holds, what):
    if not holds: raise Refused(what)
PARTS = {"poisson_sum": "poisson_sampled", "fixed_size_sum": "sampled_without_replacement", "laplace_sum": "laplace",
         "user_sum": "gaussian", "noisy_histogram": "gaussian", "device_sum": "gaussian"}
def steps_of(event, count=1):
    """Steps of an event or a part: (kind, parameters, count)."""
    kind, numbers = event["kind"], event.get("most", event.get("size", 1))
    if kind == "composed": return [step for one in event["events"] for step in steps_of(one, count)]
    if kind == "self_composed":
        require(type(event["count"]) is int and event["count"] >= 1, "a count is below 1")
        return steps_of(event["event"], count * event["count"])
    if kind in ("poisson_sampled", "sampled_without_replacement"):
        rate = float(event["rate"] if kind == "poisson_sampled" else event["batch"] / event["population"])
        sigma = float(event["event"]["noise_multiplier"])
        require(event["event"]["kind"] == "gaussian" and 0 < rate <= 1, "a sampled step is out of range")
        return [("gaussian", (sigma,), count) if rate == 1 else (kind, (rate, sigma), count)]
    if kind in ("gaussian", "laplace", "zcdp", "non_private"):
        return [(kind, (float(event.get("rho", event.get("noise_multiplier", 0.0))),), count)]
    if kind not in PARTS: raise NotRecomputable(kind)
    steps, sigma = 1 if kind == "user_sum" else event["steps"] * numbers, event["noise_multiplier"]
    if event.get("noise") == "shared": return [("zcdp", (0.5 / sigma**2,), steps)]
    return steps_of({**event, "kind": PARTS[kind], "event": {"kind": "gaussian", "noise_multiplier": sigma}}, steps)
def merged(steps):
    """Plain Gaussians as one, which is exact; None where a step has no noise."""
    require(all(value >= 0 for _, values, _ in steps for value in values), "a parameter is negative")
    if not all(values[-1] for _, values, _ in steps): return None
    precision = sum(n / values[0] ** 2 for kind, values, n in steps if kind == "gaussian")
    whole = [("gaussian", (float(f"{precision**-0.5:.12g}"),), 1)] if precision else []
    return sorted(whole + [step for step in steps if step[0] != "gaussian"])
def steps_of_parts(parts):
    """Of two halves, which share no unit, the dearer one counts."""
    halves = [sum(n / v[0] ** 2 for p in parts if p.get("fold") == i for _, v, n in steps_of(p)) for i in (0, 1)]
    rest = [step for part in parts if part.get("fold") is None for step in steps_of(part)]
    return merged(rest + ([("gaussian", (max(halves) ** -0.5,), 1)] if any(halves) else []))
def losses(kind, values, far, swapped):
    """Privacy losses of a step of the dominating pair, and their probabilities, at points closer than any grid."""
    if kind == "laplace":
        e, inside = far / values[0], (np.arange(2000) - 999.5) / 1000 * far / values[0]
        density = np.exp(inside / 2) / np.exp(inside / 2).sum() * -math.expm1(-e) / 2
        return np.append(inside, [-e, e]), np.append(density, [math.exp(-e) / 2, 0.5])
    q, sigma, z = values[0] if "sampled" in kind else 1.0, values[-1], np.linspace(-12.0, 12.0, 24001)
    shift, normal = 2.0 if kind == "sampled_without_replacement" else 1.0, np.exp(-(z**2) / 2)
    x, y, normal = sigma * z, sigma * z + shift, normal / normal.sum()
    def log_ratio(x, at):
        return np.logaddexp(math.log1p(-q) if q < 1 else -math.inf, math.log(q) + (2 * at * x - at**2) / (2 * sigma**2))
    if swapped and far == 1: return -log_ratio(x, shift), normal
    if kind == "sampled_without_replacement":  # beyond one clip, its mirror image, and the rest at 0
        below, above = log_ratio(x[x > 1], shift), log_ratio(y[y > 1], shift)
        p = np.concatenate([(1 - q) * normal[x > 1], q * normal[y > 1], normal[x > 1]])
        return np.concatenate([below, above, -below, [0.0]]), np.append(p, 1 - p.sum())
    x, p = np.append(x, y), np.append((1 - q) * normal, q * normal)
    return log_ratio(x, shift) - (log_ratio(x, -shift) if far == 2 else 0.0), p
def composed(steps, far, delta, swapped):
    """A bound epsilon -> delta of all steps together."""
    every = [(*losses(kind, values, far, swapped), n) for kind, values, n in steps]
    deviation = sum(n * (p @ loss**2 - (p @ loss) ** 2) for loss, p, n in every) ** 0.5
    step = min(deviation * math.sqrt(4e-4 / sum(n for *_, n in every)), 1e-3)
    def end(power):  # Chernoff: the mass of losses beyond is at most delta / 1e9
        return (sum(n * logsumexp(power * loss, b=p) for loss, p, n in every) - math.log(delta * 1e-9)) / power
    powers = np.geomspace(0.1, 100.0, 12) / deviation
    low, high = max(map(end, -powers)), min(map(end, powers))
    base, size, transform = math.floor(low / step), 1 << (math.ceil((high - low) / step) + 4).bit_length(), 1.0
    require(size <= 1 << 23, "the steps are more than this file can compose")
    for loss, p, n in every:
        index = np.floor(loss / step).astype(int)
        right = p * np.expm1(step * index - loss) / math.expm1(-step)  # keeps both neighbours' masses
        masses = np.bincount(index % size, p - right, size) + np.bincount((index + 1) % size, right, size)
        transform = transform * np.fft.rfft(masses) ** n
    masses, grid = np.roll(np.fft.irfft(transform, size), -base % size).clip(0.0), step * (base + np.arange(size))
    return lambda e: 2e-9 * delta + float(masses[grid > e] @ -np.expm1(e - grid[grid > e]))
def gaussian(e, mu): return float(ndtr(mu / 2 - e / mu) - math.exp(min(0.0, e + float(log_ndtr(-mu / 2 - e / mu)))))
def trade_off(steps, relation, delta):
    """epsilon -> a bound of delta, for deltas from the given one up."""
    far, kinds = 1.0 if relation == "add_or_remove" else 2.0, {kind for kind, _, _ in steps}
    if "zcdp" in kinds:
        if kinds - {"zcdp", "gaussian"}: raise NotRecomputable("zcdp beside other events")
        rho = far**2 * sum(n * (v[0] if kind == "zcdp" else 0.5 / v[0] ** 2) for kind, v, n in steps)
        a = 1 + np.geomspace(1e-2, 1e7, 20000)
        rest = rho * a * (a - 1) + a * np.log1p(-1 / a) - np.log(a - 1)
        return lambda e: math.exp(min(0.0, float((rest - (a - 1) * e).min())))
    if kinds == {"gaussian"}: return lambda e: gaussian(e, far / steps[0][1][0])
    one, other = (composed(steps, far, delta, swapped) for swapped in (False, True))
    return lambda e: max(one(e), other(e))
def epsilon_at(curve, delta):
    return brentq(lambda e: curve(e) - delta, 0.0, 2.0**14, xtol=1e-7) if curve(0.0) > delta else 0.0
def mu_of(curve, largest):
    """The mu of the least Gaussian trade-off curve that bounds this one for every epsilon up to the largest."""
    pairs = [(e, at) for e in np.linspace(0.0, largest, 41) if (at := curve(e)) < 0.99]
    return max(brentq(lambda mu, e=e, at=at: gaussian(e, mu) - at, 1e-6, 100.0, rtol=1e-6) for e, at in pairs)

def check_numbers(record, steps):
    """Epsilon in all its places, and mu."""
    e, here, plain = record["epsilon"], (record["unit"]["relation"], record["delta"]), "sampled" not in str(steps)
    curves = functools.cache(lambda relation: trade_off(steps, relation, min(here[1], 1e-9)))
    rows = [(*here, e), *((here[0], row["delta"], row["epsilon"]) for row in record["profile"])]
    rows += [(row["relation"], here[1], row["epsilon"]) for row in record["relations"]]
    for relation, delta, stated in rows:
        epsilon = epsilon_at(curves(relation), delta)
        require(np.isclose(float(stated), epsilon, TOLERANCE, 1e-5), f"epsilon at {delta:g} is {epsilon:.6g}")
    same = {record["accountants"][0]["epsilon"], *(stated for *where, stated in rows if (*where,) == here)}
    relations = [one for one in ("add_or_remove", "replace_one")
                 if one == here[0] or plain and epsilon_at(curves(one), here[1]) <= 500]
    require(same == {e} and [row["relation"] for row in record["relations"]] == relations, "epsilon has several values")
    require([row["delta"] for row in record["profile"]] == [10.0**-k for k in range(3, 10)], "the profile is not whole")
    mu = mu_of(curves(here[0]), float(e))
    most = mu * (1 + 5 * TOLERANCE) if curves(here[0])(0.0) < 0.99 else math.inf
    require(mu * (1 - TOLERANCE) <= record["mu"] <= most, f"mu recomputes to {mu:.6g}")
def written(text): return [float(one.replace(",", "")) for one in NUMBER.findall(text)]
def known(record, *lines):
    """Whether tacit has these lines in a row, with # for numbers and @ for the unit."""
    text = re.sub(rf"\b({re.escape(record['unit']['name'])}|{NOUNS})(?=s?\b)", "@", "\n".join(lines))
    digest = base64.b64encode(hashlib.sha256(NUMBER.sub("#", text).encode()).digest())
    return digest[:4].decode() in re.findall("....", WORDS)
def check_words(record):
    """Lines for people, and their numbers."""
    own = not known(record, "method", record["method"])  # the words of a method of one's own are declared
    stated = {sum(part["steps"] for part in record["parts"]), *written(json.dumps([record["plan"], record["parts"]]))}
    for place in ("covered", "not_covered", "assumptions"):
        lines = [MASKED.sub(":", line) for line in record[place] if not DECLARED.fullmatch(line)]
        require(len(set(record[place])) == len(record[place]), f"{place} holds a line twice")
        require(own or known(record, record["method"], place, *lines), f"{place} has words that are not tacit's")
        counts = [line for line in lines if place == "covered" and not re.search("tables|states|noisy sums|half", line)]
        require(own or set(written(" ".join(counts))) <= stated, "covered has another number")
    said = (record["mu_range"], record["unit"]["words"], *record["deployment"].values())
    said = (*said, re.sub("^NOT PRIVATE.*", "", record["sentence"]).replace(record["unit"]["words"], ""))
    require(all(known(record, text) for text in said), "the promise has words that are not tacit's")
    for part, text in zip(record["parts"], record["contribution"], strict=True):
        start = f"{part['name']} ({part['kind']}): "
        bound = 1.0 if part["kind"] == "user_sum" else part.get("clip", part.get("bound", 1.0))
        words = {key: value for key, value in sorted(part.items()) if key != "name" and isinstance(value, str)}
        said = collections.Counter(written(text.removeprefix(start)))
        require(text.startswith(start) and {*written(words["sampler"])} <= {*said}, "a contribution is of another part")
        require(known(record, *words, *words.values(), text.removeprefix(start)), "a part has words of its own")
        decay = record["plan"].get("decay", part.get("decay"))
        require((part.get("decay"), part.get("fold") is not None) == (decay, "half" in text), "a part has another fold")
        shown = {**part, "noise_multiplier": part["noise_multiplier"] * bound, "bits": bound / 2 ** part.get("bits", 0)}
        unsaid = () if part.get("noise") == "shared" else ("bits", "floor")
        numbers = [one for key, one in shown.items() if type(one) in (int, float) and key not in unsaid]
        require(not collections.Counter(float(f"{one:.6g}") for one in numbers) - said, "a contribution says otherwise")
def check_document(record):
    """The digest, totals and the numbers of the sentence."""
    def number(text):  # 1.0 and 1 are the same
        return int(float(text)) if float(text).is_integer() and abs(float(text)) < 2**53 else float(text)
    content = {name: value for name, value in record.items() if name not in ("digest", "signature")}
    content = json.loads(json.dumps(content), parse_float=number)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    require(hashlib.sha256(text.encode()).hexdigest() == record["digest"], "the digest is not that of the fields")
    total, e, delta, unit = (record[name] for name in ("total", "epsilon", "delta", "unit"))
    folds = {p.get("fold") if p["kind"] == "poisson_sum" and p.get("sampling_rate") == 1 else None
             for p in record["parts"]}
    place = (min(folds) if folds in ({0}, {1}) else None, None if None in folds else f"fold {min(folds)}")
    own = [row for row in record["releases"] if row["plan_id"] == record["plan_id"]]
    require([(row.get("fold"), row.get("taught_by")) for row in own] == [place], "the release is of another fold")
    for name, slack in (("epsilon", 1.1e-5), ("delta", 1e-9)):
        both = name == "delta" and unit["relation"] == "replace_one"  # who is exchanged may meet the plans of both
        rows = [(None if both or row["epsilon"] == "inf" else row.get("fold"), float(row[name]))
                for row in record["releases"]]
        spent, most = float(total[name]), float(total[f"budget_{name}"])
        dearer = max(sum(value for at, value in rows if at in (None, fold)) for fold in (0, 1))
        require(np.isclose(spent, dearer, slack, 0), "the total is no sum")
        bound = record["private"] and total["composition"] == "sum"
        require(not bound or spent <= most * (1 + slack), "the total is above the budget")
    require(re.fullmatch(r"sum|Renyi DP at order [1-9][0-9.e+]*", total["composition"]), "the composition is unknown")
    if record["private"]:
        step = 10.0 ** (math.floor(e / math.log(10)) - 3)
        factor = math.ceil(math.exp(e) / step * (1 - 1e-12)) * step if e < 50 else e
        stated = written(f"{factor:.4g} {delta:.3g} {unit['words']} {unit['population']:,} {e:.6g} {delta:.6g}")
        require(written(record["sentence"]) == stated, "the sentence does not follow from the numbers")
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
    if not number: return (0, 1)
    twice = times(number // 2, added(base, base))
    return added(twice, base) if number % 2 else twice
def check_signature(record, key):
    signature = record["signature"]
    require(key is None or signature and signature["public_key"] == key.lower(), "it is not signed by that key")
    if signature:
        public, value = bytes.fromhex(signature["public_key"]), bytes.fromhex(signature["value"])
        message = value[:32] + public + b"tacit certificate, format 1\n" + bytes.fromhex(record["digest"])
        h = int.from_bytes(hashlib.sha512(message).digest(), "little") % ORDER
        s, base = int.from_bytes(value[32:], "little"), point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
        require(s < ORDER and times(s, base) == added(point(value[:32]), times(h, point(public))), "a false signature")
@np.errstate(all="ignore")
def verify(record, key=None):
    """(exit code, sentence); raises Refused or NotRecomputable."""
    require(isinstance(record, dict) and len(record) == 38 and record["format"] in (1, 2), "it has other fields")
    parts = [{FIRST.get(name, name): value for name, value in part.items()} for part in record["parts"]]
    steps, delta, signature = steps_of_parts(parts), record["delta"], record["signature"]
    require(steps == merged(steps_of(record["event"])), "the parts are not the event")
    require(0 < delta < 1 / record["unit"]["population"], "delta is not below 1 / population")
    if steps or record["epsilon"] != "inf": check_numbers(record, steps)
    check_words({**record, "parts": parts})
    check_document(record)
    check_signature(record, key)
    reasons = [] if steps else ["the mechanism as run has no finite epsilon"]
    reasons += [f"the ledger is void: {record['void_reason']}"] * (record["void_reason"] is not None)
    require(record["reasons"] == reasons and record["private"] == (not reasons), "private contradicts the rest")
    void = f"NOT PRIVATE, because {' and '.join(reasons)}: " if reasons else "The chance of anything "
    require(record["sentence"].startswith(void), "the sentence does not say what is promised")
    signer = f"signed by {signature['public_key']}" if signature else "not signed"
    return (3, f"void: {record['sentence']}") if reasons else (0, f"recomputed ({signer}): {record['sentence']}")
def main(words):
    try:
        with open(words[0], encoding="utf-8") as file: record = json.loads(file.read(4 << 20))
        code, sentence = verify(record, *words[1:2])
    except NotRecomputable as kind: code, sentence = 2, f"not recomputable: {kind}"
    except Refused as why: code, sentence = 1, f"refused: {why}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError):
        code, sentence = 1, "refused: the file cannot be read as a certificate"
    print(sentence)
    return code

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["certificate.json"]))
