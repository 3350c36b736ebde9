"""Makes `tests/net/fixtures` with the code of commit 82bbe36, and runs on that commit alone.

    git worktree add ../then 82bbe36
    PYTHONPATH=../then/src python tests/net/make_fixtures.py FOLDER

What is made holds secret noise and random names, so a second run makes other files; those of the repository stay. No
record is of a real person. `test_fixtures.py` opens what lies here with today's code.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tacit import hub
from tacit.agents.features import Scaled
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.agents.stacked import Stacked
from tacit.cli import main, movement_report, movement_runs, runs, train
from tacit.data.days import Days
from tacit.data.grids import RegularGrid
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.envs import cart_pole
from tacit.envs.users import SimulatedUsers
from tacit.methods import experts, imitation, policy_gradient, synthesis
from tacit.methods.imitation import baselines as movement_baselines
from tacit.methods.synthesis import trajectories
from tacit.methods.synthesis.baselines import privsyn
from tacit.methods.synthesis.cut import Cut
from tacit.privacy.filters import RdpOrder
from tacit.privacy.ledger import Ledger
from tacit.privacy.register import Register
from tacit.privacy.release import Release
from tacit.privacy.user_vault import UserVault
from tacit.privacy.vault import Vault
from tacit.units import Unit

UNIT = Unit("patient", "add_or_remove", 1000)
SPEC = PublicSpec(Box((0.0,), (1.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared", difference=(0.1,))
WARD = PublicSpec(Box((-1.0, -1.0), (1.0, 1.0)), Discrete(3), Box((0.0,), (1.0,)), "declared")
GRID = RegularGrid(0.0, 0.0, 0.09, 0.09, 0.01)
TINY_TRAIN = ("--users", "24", "--users-per-round", "6", "--delta", "1e-3", "--evaluate", "2", "--runs", "1")
COMMANDS: dict[str, tuple[str, ...]] = {
    "synthesize": (
        *("synthesize", "visits", "--unit", "patient", "--relation", "add_or_remove", "--population", "200"),
        *("--epsilon", "4", "--delta", "1e-4", "--steps", "8", "--batch", "200", "--width", "8", "--depth", "1"),
        *("--rows-per-unit", "2", "--no-rake", "--rows", "50", "--out", "run"),
    ),
    "train": ("train", "CartPole-v1", *TINY_TRAIN, "--policy", "4", "--horizon", "20", "--out", "run"),
    "imitate": (
        *("imitate", "--city", "30", "--days", "4", "--delta", "1e-3", "--epsilon", "4", "--method", "pategail"),
        *("--rounds", "4", "--out", "run"),
    ),
}
"""The commands of the runs that were interrupted."""
BARS: dict[str, tuple[Any, str, int]] = {
    "synthesize": (runs, "Training with privacy", 3),
    "train": (train, "Meeting people", 2),
    "imitate": (movement_runs, "Asking people's critics", 2),
}
"""The module whose progress bar interrupts, at which title, after how many steps."""
PUBLIC = {
    "observation": {"kind": "box", "low": [0.0, 0.0], "high": [200.0, 100.0]},
    "action": {"kind": "discrete", "n": 3},
    "reward": {"kind": "box", "low": [-1.0], "high": [1.0]},
    "source": "physics",
    "terminals": True,
    "difference": [10.0, 5.0],
}


def ledgers(folder: Path) -> dict[str, Any]:
    """Spent ledgers: of sums, at a Rényi order, void, and one that is older than the head recorded beside it."""
    with Ledger(folder / "sum.ledger", UNIT, epsilon=1.0, delta=1e-4) as ledger:
        ledger.reserve("p", {"method": "synthesis"}, parts={"a": 250, "b": 3}, epsilon=0.4, delta=1e-5)
        for _ in range(3):
            ledger.claim("p", "a", 3)
        shutil.copy(ledger.path, folder / "older.ledger")
        ledger.reserve("q", {"method": "evaluation"}, parts={"a": 1}, epsilon=0.3, delta=1e-5)
        ledger.cancel("q")
        ledger.note("curator", "a look at the records")
        ledger.reserve("r", {"method": "evaluation"}, parts={"a": 1}, epsilon=0.25, delta=2e-5)
        ledger.claim("r", "a", 1)
    shutil.copy(folder / "sum.ledger.lock", folder / "older.ledger.lock")
    with Ledger(folder / "renyi.ledger", UNIT, epsilon=3.0, delta=1e-4, composition=RdpOrder(8.0)) as ledger:
        ledger.reserve("p", {"method": "synthesis"}, parts={"a": 10}, epsilon=1.1, delta=1e-5, rdp=0.25)
        ledger.claim("p", "a", 1)
    with Ledger(folder / "void.ledger", UNIT, epsilon=1.0, delta=1e-4) as ledger:
        ledger.reserve("p", {"method": "synthesis"}, parts={"a": 10}, epsilon=0.5, delta=1e-5)
        ledger.void("the curator published figures")
    views = {path.name: Ledger.read(path) for path in sorted(folder.glob("*.ledger")) if path.name != "older.ledger"}
    return {
        name: {
            "spent": list(view.spent()),
            "head": view.head,
            "void": view.void_reason,
            "plans": [[plan.id, plan.method, plan.steps, plan.claimed] for plan in view.plans()],
        }
        for name, view in views.items()
    }


def register(folder: Path) -> dict[str, Any]:
    """Who contributed to two plans; the key lies in a folder of its own."""
    (folder / "register").mkdir()
    (folder / "keys").mkdir()
    with Register(folder / "register" / "register", key=folder / "keys" / "key") as opened:
        opened.bind(["0" * 32])
        opened.reserve("p", ["ada", "ben"], 2)
        opened.commit()
        shutil.copy(opened.path, folder / "register" / "older")
        opened.reserve("p", ["ada", "eve"], 2)
        return {"head": opened.head}


def rows(spec: PublicSpec, *, units: int, length: int, actions: int) -> Trajectories:
    """Simulated episodes, one of each unit."""
    rng, count = np.random.default_rng(0), units * length
    width = spec.observation.size
    return Trajectories.from_arrays(
        observations=rng.uniform(0.1, 0.9, (count, width)),
        actions=rng.integers(0, actions, count),
        rewards=rng.uniform(0.1, 0.9, count),
        next_observations=rng.uniform(0.1, 0.9, (count, width)),
        terminations=np.arange(count) % length == length - 1,
        unit_ids=np.arange(count) // length,
        spec=spec,
        simulated=True,
    )


def transitions(vault: Callable[..., Any]) -> Release[Any]:
    raking = synthesis.Raking.of(SPEC, bins=4, coarse=4, pool=50)
    plan = synthesis.Plan(
        steps=4, rate=0.5, width=8, depth=1, warmup=0, sampler=synthesis.Sampler(steps=4), raking=raking
    )
    return synthesis.fit(
        plan.calibrate(unit=UNIT, epsilon=2.0, delta=1e-4), vault(rows(SPEC, units=40, length=5, actions=2))
    )


def whole(vault: Callable[..., Any]) -> Release[Any]:
    plan = trajectories.Plan(
        steps=2,
        start_steps=2,
        warmup=0,
        rate=1.0,
        sampler=synthesis.Sampler(steps=2),
        width=8,
        depth=1,
        heads=2,
        start_width=8,
        horizon=4,
        rows_per_token=1,
        longest=9,
    )
    priced = plan.calibrate(unit=UNIT, epsilon=2.0, delta=1e-4)
    return trajectories.fit(priced, vault(rows(SPEC, units=20, length=6, actions=2)))


def marginals(vault: Callable[..., Any]) -> Release[Any]:
    plan = privsyn.PrivSynPlan(cut=Cut(SPEC, bins=4), records=200).calibrate(unit=UNIT, epsilon=2.0, delta=1e-4)
    return privsyn.fit(plan, vault(rows(SPEC, units=60, length=1, actions=2)))


def votes(vault: Callable[..., Any]) -> Release[Any]:
    features = Scaled((-1.0, -1.0), (1.0, 1.0))
    plan = experts.Votes(
        anchors=experts.Uniform(low=(-1.0, -1.0), high=(1.0, 1.0), count=20),
        clone=experts.LinearClone(features=features, actions=3),
        policy=Policy(features, Mlp((2, 3), gain=0.0), Categorical(3)),
        weight=experts.ReturnWeight(low=0.0, high=5.0),
    ).calibrate(unit=UNIT, epsilon=2.0, delta=1e-4)
    return experts.learn(plan, vault(rows(WARD, units=40, length=5, actions=3)))


def movement() -> Trajectories:
    """Three days each of fifty people who go back and forth between two cells of their own."""
    places = np.random.default_rng(0).integers(GRID.size, size=(50, 2))
    out = (np.arange(48) >= 16) & (np.arange(48) < 34)
    cells = np.repeat(places[:, out.astype(int)], 3, axis=0)
    return Days(cells, np.repeat(np.arange(50), 3), GRID).trajectories(simulated=True)


def simulator(vault: Callable[..., Any]) -> Release[Any]:
    plan = imitation.Plan(days=3, matching=imitation.Matching(rounds=1, days=200))
    return imitation.fit(plan.calibrate(unit=UNIT, epsilon=2.0, delta=1e-4), vault(movement()), grid=GRID)


def chain(vault: Callable[..., Any]) -> Release[Any]:
    plan = movement_baselines.Plan(model="markov", days=3).calibrate(unit=UNIT, epsilon=2.0, delta=1e-4)
    return movement_baselines.fit(plan, vault(movement()), grid=GRID)


def policy(folder: Path) -> Release[Any]:
    (folder / "run").mkdir()
    plan = policy_gradient.Plan(rounds=4, users=3, horizon=12, reward_rate=1.0)
    users = SimulatedUsers(cart_pole.CartPole(), cart_pole.spec(), horizon=12, seed=0)
    with (
        Ledger(folder / "run" / "ledger", UNIT, epsilon=4.0, delta=1e-4) as ledger,
        Register(folder / "run" / "register", key=folder / "key") as register,
    ):
        priced = plan.calibrate(unit=UNIT, epsilon=4.0, delta=1e-4)
        vault = UserVault(users, ledger, register)
        return policy_gradient.learn(priced, vault, policy_gradient.Policy.default(users.spec, (8,)))


def models(folder: Path) -> dict[str, Any]:
    """A release of every kind that the hub knows, and what each of them draws or does."""
    made: dict[str, Release[Any]] = {}
    for name, make in (
        ("transitions", transitions),
        ("trajectories", whole),
        ("marginals", marginals),
        ("experts", votes),
        ("simulator", simulator),
        ("chain", chain),
    ):
        with tempfile.TemporaryDirectory() as own, Ledger(Path(own, "l"), UNIT, epsilon=4.0, delta=5e-4) as ledger:
            made[name] = make(lambda data, ledger=ledger: Vault(data, ledger))
    with tempfile.TemporaryDirectory() as own:
        made["policy"] = policy(Path(own))
    for name, release in made.items():
        hub.save(release, folder / name, notes={"made by": "make_fixtures.py"})
    rng = np.random.default_rng(1)
    layers = tuple(
        (rng.normal(size=(3, a, b)).astype(np.float32), rng.normal(size=(3, b)).astype(np.float32))
        for a, b in ((2, 4), (4, 3))
    )
    stack = Stacked(Scaled((-1.0, -1.0), (1.0, 1.0)), (2, 4, 3), layers, activation="tanh")
    hub.save_experts(stack, folder / "own_policies")
    seen = np.linspace(-0.9, 0.9, 48).reshape(12, 4).astype(np.float32)
    drawn: dict[str, Any] = {
        name: {key: column.tolist() for key, column in made[name].value.sample(5, seed=3).columns.items()}
        for name in ("transitions", "trajectories", "marginals")
    }
    drawn |= {name: made[name].value.generate(4, seed=3).cells.tolist() for name in ("simulator", "chain")}
    actor = made["policy"].value.actor(greedy=True)
    drawn["policy"] = actor(seen, np.zeros(12, np.int64), np.random.default_rng(0)).tolist()
    actor = made["experts"].value.actor()
    drawn["experts"] = actor(seen[:, :2], np.zeros(12, np.int64), np.random.default_rng(0)).tolist()
    drawn["own_policies"] = stack.greedy(seen[:, :2]).tolist()
    drawn["epsilons"] = {name: release.certificate.epsilon for name, release in made.items()}
    return drawn


def imported(folder: Path) -> dict[str, Any]:
    """Records of twelve invented patients as `tacit data import` keeps them, and their public spec."""
    generator = np.random.default_rng(0)
    lines = ["patient,observation_0,observation_1,action,reward,next_observation_0,next_observation_1,termination"]
    for person in range(12):
        for visit in range(3):
            a, b, c, d = generator.uniform(20, 90, 4)
            lines.append(f"invented-{person},{a:.4f},{b:.4f},{visit},0.5,{c:.4f},{d:.4f},{visit == 2}")
    (folder / "visits.csv").write_text("\n".join(lines) + "\n")
    (folder / "spec.json").write_text(json.dumps(PUBLIC) + "\n")
    words = ("data", "import", "visits.csv", "--unit", "patient", "--spec", "spec.json", "--out", "visits")
    with contextlib.chdir(folder):
        assert main([*words]) == 0
    kept = Trajectories.open(folder / "visits")
    return {
        "columns": {name: column.tolist() for name, column in kept.columns.items()},
        "episodes": kept.episodes.tolist(),
    }


@contextmanager
def interrupting(name: str) -> Iterator[None]:
    """The command's own progress bar interrupts it."""
    module, wanted, steps = BARS[name]
    real, days = module.progress, movement_report.DAYS

    @contextmanager
    def stopped(title: str) -> Iterator[Any]:
        def advance(done: int, total: int, *_: object) -> None:
            if done == steps and title == wanted:
                raise KeyboardInterrupt

        yield advance

    module.progress, movement_report.DAYS = stopped, 100
    try:
        yield
    finally:
        module.progress, movement_report.DAYS = real, days


def half_done(folder: Path, visits: Path) -> dict[str, Any]:
    """Runs that were interrupted midway, each in a folder from which its command is given again."""
    found = {}
    for name, words in COMMANDS.items():
        own = folder / name
        own.mkdir()
        if name == "synthesize":
            shutil.copytree(visits, own / "visits")
        with contextlib.chdir(own), interrupting(name):
            assert main([*words]) == 130
        path = own / ("visits.ledger" if name == "synthesize" else "run/ledger")
        (plan,) = Ledger.read(path).plans()
        note = own / "visits" / "ledger.json"
        if note.exists():  # it names a folder of the machine: as if records and ledger had been moved from another one
            note.write_text(json.dumps(json.loads(note.read_text()) | {"path": "/nowhere/visits.ledger"}) + "\n")
        found[name] = {
            "command": [*words],
            "ledger": path.relative_to(own).as_posix(),
            "spent": list(Ledger.read(path).spent()),
            "steps": plan.steps,
            "claimed": plan.claimed,
        }
    return found


def make(folder: Path) -> None:
    """All fixtures, and `expected.json` with what they say."""
    for name in ("ledgers", "register", "models", "data", "half_done"):
        (folder / name).mkdir(parents=True)
    expected = {
        "ledgers": ledgers(folder / "ledgers"),
        "register": register(folder / "register"),
        "models": models(folder / "models"),
        "data": imported(folder / "data"),
        "half_done": half_done(folder / "half_done", folder / "data" / "visits"),
    }
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    make(Path(sys.argv[1]).resolve())
