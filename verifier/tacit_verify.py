#!/usr/bin/env python3
"""Recompute a tacit privacy certificate without tacit: python tacit_verify.py certificate.json [PUBLIC_KEY_HEX].

Exit codes: 0 recomputed, 1 refused, 2 not recomputable (KIND), 3 void: nothing is promised. Epsilon comes from the
event, never from a printed figure: losses of dominating pairs (arXiv 1805.06530, 2106.08567) are put on a grid (connect
the dots, arXiv 2207.04380) and composed by Fourier transform; those beyond the window (Chernoff) count as infinite.
Discrete noise has Renyi curves alone (arXiv 2004.00010, Prop. 12). The promise in words is made again from the numbers.
What is printed as declared is not: a signature alone protects it. `tacit certificate verify` recomputes more of it.
"""
import collections, functools, hashlib, json, math, re, sys
import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp, ndtr
TOLERANCE = 1e-3
MOST_BYTES, MOST_VALUES, MOST_TEXT, MOST_STEPS, MOST_CELLS = 4 << 20, 100_000, 4_000, 6, 1 << 21
FIRST = {"sampling_rate": "rate", "clip_norm": "clip", "batch_size": "batch", "held_out": "reserve"}  # in format 1
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
NAMES = {  # fields of a certificate, of the objects and rows in it, and of any part or event
    "": "accountants assumptions audit commit contribution covered dataset_id date delta deployment digest epsilon "
        "event format ledger_head method mu mu_range not_covered not_protected parts plan plan_id private profile "
        "reasons relations releases sentence signature simulated source tacit_version target_epsilon total unit "
        "versions void_reason",
    "unit": "name population relation words", "deployment": "model trusted", "profile": "delta epsilon",
    "total": "budget_delta budget_epsilon composition delta epsilon", "relations": "epsilon relation",
    "audit": "confidence lower_bound method", "signature": "algorithm public_key value",
    "accountants": "epsilon name role version", "releases": "delta epsilon method plan_id"}
COUNTS = ("batch bits bound clip count devices floor horizon most noise_multiplier participations population rate "
          "reserve rho rows_per_unit size steps users")  # numbers of a part or an event; beside them it has
STEPS = COUNTS + " axes correlation decay event events fold kind name noise rows sampler"
CHOICES = {"noise": ("device", "shared"), "rows": ("drawn", "first"), "fold": (None, 0, 1),
           "correlation": ("independent", "toeplitz", "tree")}
DECLARED = ("format, method, source, plan, plan_id and target_epsilon; covered, not_covered, not_protected, "
            "assumptions and contribution; names and samplers of parts; names and versions of accountants; audit; "
            "other releases, composition and budget; simulated, void_reason, ledger_head, dataset_id, commit, versions "
            "and date")
TRUSTED = "the curator who holds the records and runs the vault; nobody who sees a release has to be trusted"
class Refused(Exception): """The certificate contradicts itself."""
class NotRecomputable(Exception): """A kind of event without numerics here."""
def require(holds, what):
    if not holds: raise Refused(what)
def read(path):
    """The JSON of a file: no repeated names, no infinity, nothing but plain text, and no more than papers have."""
    def unrepeated(pairs):
        require(len(dict(pairs)) == len(pairs), "a name is repeated")
        return dict(pairs)
    def constant(name): raise Refused(f"{name} is no number")
    with open(path, "rb") as file: content = file.read(MOST_BYTES + 1)
    require(len(content) <= MOST_BYTES, "the file has more than 4 MiB")
    text = content.decode("utf-8")
    require(sum(map(text.count, ",[{")) <= MOST_VALUES, f"the file has more than {MOST_VALUES:,} values")
    return json.loads(text, object_pairs_hook=unrepeated, parse_constant=constant)
def check_values(value, inside="", depth=0):
    """Finite numbers and plain texts alone; texts inside a plan may be long and have lines."""
    require(depth <= 24, "values are nested too deeply")
    if isinstance(value, str):
        plain = value.replace("\n", " ").replace("\t", " ") if inside == "plan" else value
        require(plain.isprintable(), "a text is not plain")
        require(len(value) <= MOST_TEXT or inside == "plan", "a text is too long")
    elif isinstance(value, dict):
        for name, one in value.items(): check_values(name), check_values(one, inside or name, depth + 1)
    elif isinstance(value, list):
        require(inside == "plan" or bool not in map(type, value), "a list has a truth value")
        for one in value: check_values(one, inside, depth + 1)
    elif type(value) in (int, float):
        most = 1e300 if inside in ("plan", "audit", "epsilon", "mu") else 1e12
        require(abs(value) <= most and (value >= 0 or inside == "plan"), "a number is out of range")
    else: require(value is None or isinstance(value, bool), "a value is no JSON")
def loss(value):
    require(value == "inf" or type(value) in (int, float) and value >= 0, "a loss is no number")
    return float(value)
PARTS = {"poisson_sum": "poisson_sampled", "fixed_size_sum": "sampled_without_replacement", "laplace_sum": "laplace",
         "user_sum": "gaussian", "noisy_histogram": "gaussian", "device_sum": "gaussian"}
KINDS = {*PARTS, "composed", "self_composed", "poisson_sampled", "sampled_without_replacement", "gaussian", "laplace",
         "zcdp", "non_private"}
def steps_of(event, count=1):
    """Steps of an event or a part: (kind, parameters, count)."""
    kind, coordinates = event["kind"], event.get("most", event.get("size", 1))
    if kind not in KINDS: raise NotRecomputable(kind)
    require(event.keys() <= {*STEPS.split()}, "a part or an event has another field")
    numbers = {type(event[name]) for name in COUNTS.split() if name in event}
    require(numbers <= {int, float}, "a part has a word for a number")
    require(all(event.get(name, known[0]) in known for name, known in CHOICES.items()), "a part has a word of its own")
    if kind == "composed": return [step for one in event["events"] for step in steps_of(one, count)]
    if kind == "self_composed":
        require(type(event["count"]) is int and event["count"] >= 1, "a count is below 1")
        return steps_of(event["event"], count * event["count"])
    if kind in ("poisson_sampled", "sampled_without_replacement"):
        rate = float(event["rate"] if kind == "poisson_sampled" else event["batch"] / event["population"])
        ((inner, (sigma,), once),) = steps_of(event["event"])
        require((inner, once) == ("gaussian", 1) and 0 < rate <= 1, "a sampled step is out of range")
        return [("gaussian", (sigma,), count) if rate == 1 else (kind, (rate, sigma), count)]
    if kind in ("gaussian", "laplace", "zcdp", "non_private"):
        return [(kind, (float(event.get("rho", event.get("noise_multiplier", 0.0))),), count)]
    steps, sigma = 1 if kind == "user_sum" else event["steps"] * coordinates, event["noise_multiplier"]
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
    if len(steps) > MOST_STEPS: raise NotRecomputable("so many kinds of steps")
    every = [(*losses(kind, values, far, swapped), n) for kind, values, n in steps]
    deviation = sum(n * (p @ loss**2 - (p @ loss) ** 2) for loss, p, n in every) ** 0.5
    step = min(deviation * math.sqrt(4e-4 / sum(n for *_, n in every)), 1e-3)
    def end(power):  # Chernoff: the mass of losses beyond is at most delta / 1e9
        return (sum(n * logsumexp(power * loss, b=p) for loss, p, n in every) - math.log(delta * 1e-9)) / power
    powers = np.geomspace(0.1, 100.0, 12) / deviation
    low, high = max(map(end, -powers)), min(map(end, powers))
    base, size, transform = math.floor(low / step), 1 << (math.ceil((high - low) / step) + 4).bit_length(), 1.0
    if size > MOST_CELLS: raise NotRecomputable("so many steps")
    for loss, p, n in every:
        index = np.floor(loss / step).astype(int)
        right = p * np.expm1(step * index - loss) / math.expm1(-step)  # keeps both neighbours' masses
        masses = np.bincount(index % size, p - right, size) + np.bincount((index + 1) % size, right, size)
        transform = transform * np.fft.rfft(masses) ** n
    masses, first = np.roll(np.fft.irfft(transform, size), -base % size).clip(0.0), max(0, 1 - base)
    masses, grid = masses[first:], step * np.arange(base + first, base + size)  # losses above 0
    above, weighted = (np.append(np.cumsum(one[::-1])[::-1], 0.0) for one in (masses, masses * np.exp(-grid)))
    def at(e):
        k = np.searchsorted(grid, e, "right")
        return 2e-9 * delta + max(0.0, float(above[k] - math.exp(e) * weighted[k])) if e < 700 else 0.0
    return at
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
    require([row["delta"] for row in record["profile"]] == [10.0**-k for k in range(3, 10)], "the profile is not whole")
    for relation, delta, stated in rows:
        epsilon = epsilon_at(curves(relation), delta)
        require(np.isclose(loss(stated), epsilon, TOLERANCE, 1e-5), f"epsilon at {delta:g} is {epsilon:.6g}")
    first, second = record["accountants"]
    same = {first["epsilon"], *(stated for *where, stated in rows if (*where,) == here)}
    relations = [one for one in ("add_or_remove", "replace_one")
                 if one == here[0] or plain and epsilon_at(curves(one), here[1]) <= 500]
    require(same == {e} and [row["relation"] for row in record["relations"]] == relations, "epsilon has several values")
    require(np.isclose(loss(second["epsilon"]), e, 6e-3, 1e-5), "the second accountant has another epsilon")
    mu = mu_of(curves(here[0]), float(e))
    most = mu * (1 + 5 * TOLERANCE) if curves(here[0])(0.0) < 0.99 else math.inf
    require(mu * (1 - TOLERANCE) <= record["mu"] <= most, f"mu recomputes to {mu:.6g}")
def check_ledger(record):
    """Its own charge once, as certified; other charges that a ledger admits; their sum, within the budget."""
    total, rows, versions = record["total"], record["releases"], record["versions"]
    own = [row for row in rows if row["plan_id"] == record["plan_id"]]
    require(len(own) == 1 and len({row["plan_id"] for row in rows}) == len(rows), "a plan is not charged once")
    require(np.isclose(loss(own[0]["epsilon"]), max(loss(record["epsilon"]), 1e-9), 1.1e-5, 0) and
            (own[0]["delta"], own[0]["method"]) == (record["delta"], record["method"]), "its own charge is another one")
    for row in rows:
        require(row.get("fold") in (None, 0, 1), "there is no such fold")
        require(loss(row["epsilon"]) > 0 and 0 <= row["delta"] < 1, "a charge is none that a ledger admits")
        require(row["epsilon"] != "inf" or not record["private"], "a charge voids the ledger")
    folds = {part.get("fold") if part["kind"] == "poisson_sum" and part.get("sampling_rate") == 1 else None
             for part in record["parts"]}
    require(own[0].get("fold") == (min(folds) if folds in ({0}, {1}) else None), "its own charge is of another fold")
    for name, slack in (("epsilon", 1.1e-5), ("delta", 1e-9)):
        both = name == "delta" and record["unit"]["relation"] == "replace_one"  # who is exchanged may meet both folds
        paid = [(None if both or row["epsilon"] == "inf" else row.get("fold"), loss(row[name])) for row in rows]
        spent, most = loss(total[name]), loss(total[f"budget_{name}"])
        dearer = max(sum(value for at, value in paid if at in (None, fold)) for fold in (0, 1))
        require(np.isclose(spent, dearer, slack, 0), "the total is no sum")
        bound = record["private"] and total["composition"] == "sum"
        require(not bound or spent <= most * (1 + slack), "the total is above the budget")
    require(re.fullmatch(r"sum|Renyi DP at order [1-9][0-9.e+]*", total["composition"]), "the composition is unknown")
    target, plan = record["target_epsilon"], record["plan"]
    require(target is None or loss(record["epsilon"]) <= loss(target) * (1 + 1e-5), "epsilon is above its target")
    planned = {"unit": record["unit"], "epsilon": target, "delta": record["delta"], **plan}
    unit = {name: record["unit"][name] for name in planned["unit"]}
    require((planned["unit"], planned["epsilon"], planned["delta"]) == (unit, target, record["delta"]),
            "the plan has another promise")
    for row, role in zip(record["accountants"], ("certified upper bound", "independent check"), strict=True):
        require(row["role"] == role and row["version"] in versions.values(), "an accountant is another one")
    require(versions["tacit"] == record["tacit_version"], "tacit has two versions")
    audit = record["audit"]
    require(audit is None or audit["lower_bound"] <= loss(record["epsilon"]), "an audit contradicts epsilon")
    for place in ("covered", "not_covered", "not_protected", "assumptions"):
        require(len(set(record[place])) == len(record[place]), f"{place} holds a line twice")
def written(text): return [float(one.replace(",", "")) for one in NUMBER.findall(text)]
def check_parts(parts, record):
    """Every number of a part stands in the words of its contribution."""
    for part, text in zip(parts, record["contribution"], strict=True):
        start = f"{part['name']} ({part['kind']}): "
        bound = 1.0 if part["kind"] == "user_sum" else part.get("clip", part.get("bound", 1.0))
        said = collections.Counter(written(text.removeprefix(start)))
        require(text.startswith(start) and {*written(part["sampler"])} <= {*said}, "a contribution is of another part")
        decay = record["plan"].get("decay", part.get("decay"))
        require((part.get("decay"), part.get("fold") is not None) == (decay, "half" in text), "a part has another fold")
        axes = {name for axis in part.get("axes", ()) for name in axis}
        require(axes <= {"bins", "column", "index"}, "an axis has another field")
        finest = bound * 0.5 ** part.get("bits", 0)
        shown = {**part, "noise_multiplier": part["noise_multiplier"] * bound, "bits": finest}
        unsaid = () if part.get("noise") == "shared" else ("bits", "floor")
        numbers = [one for key, one in shown.items() if type(one) in (int, float) and key not in unsaid]
        require(not collections.Counter(float(f"{one:.6g}") for one in numbers) - said, "a contribution says otherwise")
def check_words(record, steps):
    """The promise in words: what it says follows from the numbers, to the letter."""
    e, delta, unit, name = loss(record["epsilon"]), record["delta"], record["unit"], record["unit"]["name"]
    reasons = [] if steps else ["the mechanism as run has no finite epsilon"]
    reasons += [f"the ledger is void: {record['void_reason']}"] * (record["void_reason"] is not None)
    require(record["reasons"] == reasons and record["private"] == (not reasons), "private contradicts the rest")
    words = {"add_or_remove": f"whether any one {name}, with all of its records, is in the data or not",
             "replace_one": f"which records any one {name} contributed (its number of records included)"}
    require(unit["words"] == words[unit["relation"]], "the unit's words are not tacit's")
    require(record["deployment"] == {"model": "central", "trusted": TRUSTED}, "the deployment is another one")
    upper = f"upper bound, for every epsilon from 0 to {e:.6g}, that is for every delta down to {delta:.3g}"
    exact = "exact, for every epsilon" if {kind for kind, *_ in steps or ()} == {"gaussian"} else upper
    require(record["mu_range"] == (exact if steps else "none: epsilon is infinite"), "mu holds for another range")
    step = 10.0 ** (math.floor(min(e, 50) / math.log(10)) - 3)
    factor = f"{math.ceil(math.exp(e) / step * (1 - 1e-12)) * step:.4g}" if e < 50 else f"exp({e:.4g})"
    promise = (f"The chance of anything that could be concluded from this release changes at most by a factor of "
               f"{factor} and by {delta:.3g} added, {unit['words']}, in a public population of {unit['population']:,}: "
               f"({e:.6g}, {delta:.6g})-differential privacy for every {name}.")
    void = f"NOT PRIVATE, because {' and '.join(reasons)}: nothing is promised to any {name}."
    invented = " The records are declared simulated: no person is behind them." * (record["simulated"] is True)
    said = (void if reasons else promise) + invented
    require(record["sentence"] == said, "the sentence does not follow from the numbers")
    return reasons
def check_document(record):
    """The fields, and the digest of all of them."""
    for place, names in NAMES.items():
        found = record if not place else record[place]
        for one in found if isinstance(found, list) else [found] if found is not None else []:
            extra = {"fold"} if place == "releases" else set()
            require(sorted({*one} - extra) == names.split(), f"the {place or 'certificate'} has other fields")
    def number(text):  # 1.0 and 1 are the same
        return int(float(text)) if float(text).is_integer() and abs(float(text)) < 2**53 else float(text)
    content = {name: value for name, value in record.items() if name not in ("digest", "signature")}
    content = json.loads(json.dumps(content), parse_float=number)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    require(hashlib.sha256(text.encode()).hexdigest() == record["digest"], "the digest is not that of the fields")
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
    check_values(record)
    check_document(record)
    typed = [type(record[name]) for name in ("format", "private", "simulated", "epsilon", "mu", "delta")]
    require(typed[:3] == [int, bool, bool] and bool not in typed[3:], "a field is of another type")
    require(record["format"] in (1, 2), "it is of another format")
    parts = [{FIRST.get(name, name): value for name, value in part.items()} for part in record["parts"]]
    steps, delta, signature = steps_of_parts(parts), record["delta"], record["signature"]
    require(steps == merged(steps_of(record["event"])), "the parts are not the event")
    require(0 < delta < 1 / record["unit"]["population"], "delta is not below 1 / population")
    reasons = check_words(record, steps)
    check_parts(parts, record)
    check_ledger(record)
    check_signature(record, key)
    if steps or record["epsilon"] != "inf": check_numbers(record, steps)
    signer = f"signed by {signature['public_key']}" if signature else "not signed"
    return (3, f"void: {record['sentence']}") if reasons else (0, f"recomputed ({signer}): {record['sentence']}")
def main(words):
    try:
        code, sentence = verify(read(words[0]), *words[1:2])
        sentence += f"\nDeclared, not recomputed: {DECLARED}."
    except NotRecomputable as kind: code, sentence = 2, f"not recomputable: {kind}"
    except Refused as why: code, sentence = 1, f"refused: {why}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError):
        code, sentence = 1, "refused: the file cannot be read as a certificate"
    print(sentence)
    return code

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["certificate.json"]))
