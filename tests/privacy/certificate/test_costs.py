"""What hostile papers cost: both readers read each in a process of its own, whose time and memory are measured."""

from __future__ import annotations

import json
import os
import resource
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.certificate_edits import identified, places, put, redigested

from tacit import methods
from tacit.errors import CertificateError, TacitError
from tacit.privacy.accounting.events import event_from_json
from tacit.privacy.certificate import fields
from tacit.privacy.certificate.certificate import Certificate
from tacit.units import Unit

ROOT = Path(__file__).parents[3]
Record = dict[str, Any]
Reader = Callable[[Path], str]

SECONDS, MEGABYTES = 4.0, 200
"""How much more a hostile paper may cost than the dearest of the honest ones: four times what an idle machine needs."""


def golden(name: str) -> Record:
    """A kept certificate without a signature."""
    path = ROOT / "tests" / f"{name}.json"
    record: Record = json.loads(path.read_text(encoding="utf-8"))
    return record | {"signature": None}


HONEST = {
    name: golden(f"golden/certificates/{name}")
    for name in ("fixed_size", "policies", "devices_shared", "signed", "one_gaussian")
} | {name: golden(f"net/fixtures/models/{name}/certificate") for name in ("marginals", "transitions")}


def everywhere(record: Record, value: float, other: float) -> Record:
    """The record with another number wherever this one stands in event, parts and plan, and the plan's identifier."""
    changed: Record = json.loads(json.dumps(record))
    for path, found in list(places(record)):
        if path[0] in ("event", "parts", "plan") and type(found) in (int, float) and found == value:
            put(changed, path, other)
    return fitting(identified(changed))


def fitting(record: Record) -> Record:
    """The record with the words that follow from its numbers, so that a reader goes on to the dear checks."""
    try:
        event = event_from_json(record["event"])
        unit = Unit(*(record["unit"][name] for name in ("name", "relation", "population")))
        return record | fields.derive_status(unit, event, record)
    except TacitError:
        return record


def lines(words: str) -> Record:
    """A clause in words of one's own."""
    return {"code": "own_words", "words": words}


def nested(depth: int) -> Any:
    """Composed events within one another."""
    event: Any = {"kind": "gaussian", "noise_multiplier": 1.0}
    for _ in range(depth):
        event = {"kind": "composed", "events": [event]}
    return event


def many_parts(count: int) -> Record:
    """As many parts as that, each sampled at another rate."""
    record = HONEST["signed"]
    part = {**record["parts"][0], "steps": 10_000}
    parts = [{**part, "name": f"p{i}", "sampling_rate": 0.001 * (1 + i / count)} for i in range(count)]
    events = [
        {
            "kind": "self_composed",
            "count": 10_000,
            "event": {
                "kind": "poisson_sampled",
                "rate": one["sampling_rate"],
                "event": {"kind": "gaussian", "noise_multiplier": one["noise_multiplier"]},
            },
        }
        for one in parts
    ]
    return fitting({**record, "parts": parts, "event": {"kind": "composed", "events": events}})


def row(i: int) -> Record:
    return {"plan_id": f"{i:x}", "method": "m", "epsilon": 0.1, "delta": 0.0, "rdp": None, "mu": None, "fold": None}


SIZES = (10**5, 3 * 10**7, 10**15)
HOSTILE: dict[str, Callable[[], Record]] = {
    **{f"{size:.0e} bins": lambda size=size: everywhere(HONEST["marginals"], 6, size) for size in SIZES},
    **{
        f"{size:.0e} steps of {name}": lambda name=name, size=size: everywhere(
            HONEST[name], HONEST[name]["parts"][0]["steps"], size
        )
        for name in ("signed", "fixed_size", "transitions")
        for size in SIZES
    },
    **{
        f"{size:.0e} rounds": lambda size=size: everywhere(
            HONEST["policies"], HONEST["policies"]["parts"][0]["steps"], size
        )
        for size in SIZES
    },
    **{
        f"{bits:.0e} bits": lambda bits=bits: everywhere(
            HONEST["devices_shared"], HONEST["devices_shared"]["parts"][0]["bits"], bits
        )
        for bits in SIZES
    },
    **{
        f"noise {sigma:g} of {name}": lambda name=name, sigma=sigma: everywhere(
            HONEST[name], HONEST[name]["parts"][0]["noise_multiplier"], sigma
        )
        for name in ("signed", "fixed_size", "transitions", "policies")
        for sigma in (1e-3, 0.05, 1e9)
    },
    **{f"{count} parts": lambda count=count: many_parts(count) for count in (12, 100, 1_000)},
    "a deep event": lambda: HONEST["signed"] | {"event": nested(20)},
    "many releases": lambda: (
        HONEST["signed"] | {"releases": [*HONEST["signed"]["releases"], *(row(i) for i in range(19_000))]}
    ),
    "more releases": lambda: HONEST["signed"] | {"releases": [row(i) for i in range(30_000)]},
    **{
        f"a mu of {mu:g}": lambda mu=mu: (
            HONEST["one_gaussian"] | {"releases": [row(1) | {"mu": mu}, *HONEST["one_gaussian"]["releases"]]}
        )
        for mu in (1e-300, 20.0, 1e6, 1e300)
    },
    **{
        f"a budget of {epsilon:g}, {delta:g}": lambda epsilon=epsilon, delta=delta: (
            HONEST["one_gaussian"]
            | {
                "total": HONEST["one_gaussian"]["total"]
                | {"budget_epsilon": epsilon, "ceiling_epsilon": epsilon, "budget_delta": delta}
            }
        )
        for epsilon, delta in ((500.0, 5e-324), (1e9, 1e-5), (5e-324, 5e-324), (500.0, 0.999999), (8.0, 1e12))
    },
    "many mus": lambda: (
        HONEST["one_gaussian"]
        | {
            "releases": [
                *HONEST["one_gaussian"]["releases"],
                *(row(i) | {"mu": 1e-5 + i * 1e-17} for i in range(15_000)),
            ]
        }
    ),
    "empty objects": lambda: HONEST["signed"] | {"plan": {"x": [{}] * 90_000}},
    "more empty objects": lambda: HONEST["signed"] | {"plan": {"x": [{}] * 1_000_000}},
    "numbers": lambda: HONEST["signed"] | {"plan": {"x": [0.1] * 99_000}},
    "long lines": lambda: HONEST["policies"] | {"assumptions": [lines("a " * 1_990 + str(i)) for i in range(500)]},
    "longer lines": lambda: HONEST["policies"] | {"covered": [lines("each " * 5_000 + str(i)) for i in range(100)]},
    "a long text in a plan": lambda: HONEST["signed"] | {"plan": {"x": "a" * 4_000_000}},
    "digits": lambda: HONEST["policies"] | {"not_covered": [lines("1" * 4_000)] * 256},
}


def is_between(name: str) -> bool:
    """Whether a paper lies between two others in what it costs."""
    return name.startswith((f"{SIZES[1]:.0e} ", "noise 0.05 ", "100 parts", "a mu of 20", "a mu of 1e+06"))


def by_tacit(path: Path) -> str:
    """What tacit says."""
    try:
        Certificate.load(path).verify()
    except CertificateError as error:
        return f"refused: {error}"
    return "recomputed"


@pytest.fixture(scope="module")
def readers() -> dict[str, Reader]:
    """Both readers, with all that they import."""
    verifier = runpy.run_path(str(ROOT / "verifier" / "tacit_verify.py"))

    def by_the_verifier(path: Path) -> str:
        return {0: "recomputed", 1: "refused", 2: "not recomputable", 3: "void"}[verifier["main"]([str(path)])]

    for method in methods.METHODS:
        methods.load(method.plan)
    return {"tacit": by_tacit, "verifier": by_the_verifier}


def cost(reader: Reader, path: Path) -> tuple[float, float, str]:
    """Processor seconds, megabytes above those of the process that is forked, and the answer."""
    back, out = os.pipe()
    child = os.fork()
    if not child:
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
            before = resource.getrusage(resource.RUSAGE_SELF)
            held = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
            said = reader(path)
            after = resource.getrusage(resource.RUSAGE_SELF)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            peak = int(status["VmHWM"].split()[0]) * 1024
            os.write(out, json.dumps([seconds, (peak - held) / 1e6, said[:200]]).encode())
        finally:
            os._exit(0)
    os.close(out)
    with os.fdopen(back, "rb") as answer:
        told = answer.read()
    os.waitpid(child, 0)
    seconds, megabytes, said = json.loads(told) if told else (30.0, float("inf"), "killed")
    return seconds, megabytes, said


@pytest.fixture(scope="module")
def honest(readers: dict[str, Reader], tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[float, float]]:
    """The most that an honest paper costs each reader."""
    folder, most = tmp_path_factory.mktemp("papers"), {}
    for name, reader in readers.items():
        costs = []
        for stem, record in HONEST.items():
            (folder / f"{stem}.json").write_text(json.dumps(redigested(record)), encoding="utf-8")
            costs.append(cost(reader, folder / f"{stem}.json"))
            assert not costs[-1][2].startswith("refused"), costs[-1]
        most[name] = (max(one[0] for one in costs), max(one[1] for one in costs))
    return most


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="measures a process by Linux's /proc")
@pytest.mark.parametrize("reader", ["tacit", "verifier"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if is_between(name) else ()) for name in HOSTILE]
)
def test_a_hostile_paper_costs_little_more_than_an_honest_one(
    name: str, reader: str, readers: dict[str, Reader], honest: dict[str, tuple[float, float]], tmp_path: Path
) -> None:
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(redigested(HOSTILE[name]())), encoding="utf-8")
    seconds, megabytes, said = cost(readers[reader], path)
    assert said != "killed"
    assert seconds <= honest[reader][0] + SECONDS, (seconds, said)
    assert megabytes <= honest[reader][1] + MEGABYTES, (megabytes, said)
