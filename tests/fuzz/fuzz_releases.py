"""Readers of what tacit released and wrote down: models, certificates, ledgers, registers, checkpoints, settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tests.fuzz.fuzz_mutations as change
from tests.fuzz.fuzz_bombs import tensor_bomb
from tests.fuzz.fuzz_cases import GRID, SPEC, UNIT, Reader, days, trajectories

from tacit import Box, Certificate, Ledger, Vault, hub
from tacit.cli import generate
from tacit.data import spec_files
from tacit.data.mobility import trips
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger import checkpoint
from tacit.privacy.ledger import store as ledger_store
from tacit.privacy.ledger.ledger import SUM
from tacit.privacy.ledger.register import Register
from tacit.privacy.ledger.state import replay
from tacit.study import environments
from tacit.study.folder import RunFolder
from tacit.study.movement import read_grid

SECRET = bytes(range(32))
PLAN_ID = "0123456789abcdef"


def _synthesis(folder: Path) -> Release[Any]:
    from tacit.methods.synthesis import TransitionsPlan, fit

    plan = TransitionsPlan(steps=2, sampling_rate=1.0, warmup=0, width=8, depth=1, noise_multiplier=4.0).account(
        unit=UNIT, delta=1e-5
    )
    with Ledger(folder / "ledger", UNIT, epsilon=9.0, delta=1e-4, composition=SUM) as ledger:
        return fit(plan, Vault(trajectories(), ledger))


def _policy(folder: Path) -> Release[Any]:
    from tacit.envs.serving import SimulatedUsers
    from tacit.methods.policy_gradient import Policy, PolicyGradientPlan, fit
    from tacit.privacy.vault.user_vault import UserVault
    from tacit_worlds import cart_pole

    plan = PolicyGradientPlan(rounds=4, users=3, horizon=12, reward_rate=1.0).calibrate(
        unit=UNIT, epsilon=4.0, delta=1e-4
    )
    users = SimulatedUsers(cart_pole.CartPole(), cart_pole.spec(), horizon=12, seed=0)
    (folder / "run").mkdir()
    with (
        Ledger(folder / "run" / "ledger", UNIT, epsilon=4.0, delta=1e-4, composition=SUM) as ledger,
        Register(folder / "run" / "register", key=folder / "key") as register,
    ):
        return fit(plan, UserVault(users, ledger, register), Policy.default(users.spec, (4,)))


def _experts(folder: Path) -> Release[Any]:
    from tacit.agents.features import Scaled
    from tacit.agents.heads import Categorical
    from tacit.agents.networks import Mlp
    from tacit.agents.policies import Policy
    from tacit.methods import experts
    from tacit.methods.experts import LinearClone, ReturnWeight, UniformAnchors, Votes

    assert isinstance(SPEC.observation, Box)
    features = Scaled(SPEC.observation.low, SPEC.observation.high)
    plan = Votes(
        anchors=UniformAnchors(low=SPEC.observation.low, high=SPEC.observation.high, count=8),
        clone=LinearClone(features=features, actions=3),
        policy=Policy(features, Mlp((2, 3), gain=0.0), Categorical(3)),
        weight=ReturnWeight(low=0.0, high=5.0),
    ).calibrate(unit=UNIT, epsilon=4.0, delta=1e-4)
    with Ledger(folder / "ledger", UNIT, epsilon=4.0, delta=1e-4, composition=SUM) as ledger:
        return experts.fit(plan, Vault(trajectories(), ledger))


def _movement(folder: Path, model: str = "one-shot") -> Release[Any]:
    from tacit.methods import mobility
    from tacit.methods.mobility import baselines

    with Ledger(folder / "ledger", UNIT, epsilon=4.0, delta=1e-4, composition=SUM) as ledger:
        vault = Vault(days().trajectories(simulated=True), ledger)
        if model != "one-shot":
            other = baselines.BaselinePlan(model=model, days=3).calibrate(unit=UNIT, epsilon=4.0, delta=1e-4)
            return baselines.fit(other, vault, grid=GRID)
        plan = mobility.OneShotPlan(days=3, matching=mobility.Matching(rounds=1, days=100))
        return mobility.fit(plan.calibrate(unit=UNIT, epsilon=4.0, delta=1e-4), vault, grid=GRID)


def markov(folder: Path) -> Release[Any]:
    return _movement(folder, "markov")


def _released(make: Callable[[Path], Release[Any]], name: str) -> Callable[[Path], list[bytes]]:
    def seeds(folder: Path) -> list[bytes]:
        (folder / "made").mkdir()
        hub.save(make(folder / "made"), folder / "release", notes={"environment": "CartPole-v1"})
        return [(folder / "release" / name).read_bytes()]

    return seeds


def _digest(folder: Path) -> None:
    """Write the digest that belongs to the weights and the configuration as they are."""
    try:
        config = json.loads((folder / "release" / hub.CONFIG).read_text(encoding="utf-8"))
        if isinstance(config, dict):
            weights = hashlib.sha256((folder / "release" / hub.MODEL).read_bytes()).hexdigest()
            rest = {name: value for name, value in config.items() if name != "sha256"}
            text = json.dumps({"weights": weights, **rest}, sort_keys=True, separators=(",", ":"))
            config["sha256"] = hashlib.sha256(text.encode()).hexdigest()
            (folder / "release" / hub.CONFIG).write_text(json.dumps(config), encoding="utf-8")
    except (ValueError, RecursionError):
        return  # the reader has to refuse it without help


def _read_release(folder: Path) -> object:
    hub.notes(folder / "release")
    return hub.read(folder / "release")


def _load_release(folder: Path) -> object:
    return hub.load(folder / "release")


def _stacked(folder: Path) -> list[bytes]:
    from tacit.agents.features import Scaled
    from tacit.agents.stacked import StackedPolicies

    rng = np.random.default_rng(1)
    layers = [(rng.normal(size=(2, a, b)), rng.normal(size=(2, b))) for a, b in ((2, 4), (4, 3))]
    weights = tuple((w.astype(np.float32), b.astype(np.float32)) for w, b in layers)
    assert isinstance(SPEC.observation, Box)
    experts = StackedPolicies(
        Scaled(SPEC.observation.low, SPEC.observation.high), (2, 4, 3), weights, activation="tanh"
    )
    hub.save_experts(experts, folder / "experts")
    return [(folder / "experts" / "0.safetensors").read_bytes()]


def _graphs(folder: Path) -> list[bytes]:
    (folder / "made").mkdir()
    hub.to_onnx(_experts(folder / "made"), folder / "policy.onnx")
    (folder / "experts").mkdir()
    return [(folder / "policy.onnx").read_bytes()]


def _read_experts(folder: Path) -> object:
    return hub.load_experts(folder / "experts", SPEC)


# -- papers ------------------------------------------------------------------------------------------------------------


def _certificates(folder: Path) -> list[bytes]:
    out = []
    for make in (_synthesis, _policy, _experts, _movement):
        (folder / make.__name__).mkdir()
        out.append(json.dumps(make(folder / make.__name__).certificate.to_json()).encode())
    return out


def _read_certificate(folder: Path) -> object:
    found = Certificate.load(folder / "certificate.json")
    found.to_markdown()
    return found.verify()


def ledgers(folder: Path) -> list[bytes]:
    (folder / "made").mkdir()
    with Ledger(folder / "made" / "ledger", UNIT, epsilon=2.0, delta=1e-4, composition=SUM) as ledger:
        ledger.reserve("p", {"method": "m", "parts": []}, epsilon=0.5, delta=1e-6, parts={"a": 250})
        for _ in range(3):
            ledger.claim("p", "a", 3)
        ledger.note("curator", "a look")
    return [(folder / "made" / "ledger").read_bytes()]


def _read_ledger(folder: Path) -> object:
    """Without the lock, as `tacit ledger verify` does, and with it, as a run does."""
    replay(ledger_store.read_entries(folder / "ledger")).summaries()
    with Ledger(folder / "ledger", UNIT, epsilon=2.0, delta=1e-4, composition=SUM) as ledger:
        return ledger.spent()


def _alone(folder: Path) -> None:
    """A ledger or register that comes without its lock and journal."""
    for name in ("ledger.lock", "ledger-journal", "own/register.lock"):
        (folder / name).unlink(missing_ok=True)


def _registers(folder: Path) -> list[bytes]:
    (folder / "keys").mkdir()
    (folder / "own").mkdir()
    (folder / "keys" / "key").write_bytes(SECRET)
    (folder / "keys" / "key").chmod(0o600)
    created = {"kind": "create", "name": "n", "version": 1}
    (folder / "own" / "register").write_bytes(change.lines([created], SECRET))
    with Register(folder / "own" / "register", key=folder / "keys" / "key") as register:
        register.bind(["d"])
        register.reserve("p", ["ann", "bob"], 2)
        register.commit()
    return [(folder / "own" / "register").read_bytes()]


def _read_register(folder: Path) -> object:
    with Register(folder / "own" / "register", key=folder / "keys" / "key") as register:
        return register.head


def _checkpoints(folder: Path) -> list[bytes]:
    import torch

    with Ledger(folder / "ledger", UNIT, epsilon=2.0, delta=1e-4, composition=SUM) as ledger:
        checkpoint.save(folder / "state", {"w": torch.zeros(3), "n": torch.ones(2, 2)}, plan_id=PLAN_ID, ledger=ledger)
    return [(folder / "state").read_bytes()]


def _read_checkpoint(folder: Path) -> object:
    with Ledger(folder / "ledger", UNIT, epsilon=2.0, delta=1e-4, composition=SUM) as ledger:
        return checkpoint.load(folder / "state", plan_id=PLAN_ID, ledger=ledger)


def _json(*values: Any) -> Callable[[Path], list[bytes]]:
    """Seeds of JSON values, and of a map in GeoJSON, which is something else."""

    def seeds(folder: Path) -> list[bytes]:
        trips.to_geojson(days(), folder / "days.geojson")
        return [*(json.dumps(value).encode() for value in values), (folder / "days.geojson").read_bytes()]

    return seeds


def _read_days(folder: Path) -> object:
    return generate.read_days(folder / "days.csv")


def _generated(folder: Path) -> list[bytes]:
    (folder / "made").mkdir()
    generate.write_days(days(), folder / "days.csv", _movement(folder / "made").certificate)
    return [(folder / "days.csv").read_bytes()]


def _beside(folder: Path) -> list[bytes]:
    _generated(folder)
    return [generate.sidecar(folder / "days.csv").read_bytes()]


def _day_digest(folder: Path) -> None:
    path = generate.sidecar(folder / "days.csv")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        values["sha256"] = hashlib.sha256((folder / "days.csv").read_bytes()).hexdigest()
        path.write_text(json.dumps(values), encoding="utf-8")
    except (ValueError, TypeError, RecursionError):
        return


_TEXT, _JSON = (
    change.one_of(change.table, change.spans),
    change.one_of(change.json_text, change.json_text, change.spans),
)
_TENSORS, _ONNX = (
    change.one_of(change.safetensors, tensor_bomb, change.spans),
    change.one_of(change.onnx_graph, change.spans),
)
_SIGNED = change.one_of(change.certificate, change.certificate, change.json_text, change.spans)
_CHAIN = change.one_of(change.ledger, change.ledger, change.spans)
_CODED = change.one_of(change.register(SECRET), change.spans)
_PLAIN = {"observation": [[-1.0, 0.0], [1.0, 2.0]], "action": [[-1], [1]], "reward": [0, 1]}
_RUN = {"command": "synthesize", "settings": {}, "finished": False}
_MADE = {"synthesis": _synthesis, "policies": _policy, "experts": _experts, "movement": _movement, "chains": markov}
_HELD = f"release/{hub.CERTIFICATE}"

READERS = (
    *(
        Reader(f"release of {name}: {part}", f"release/{file}", _released(make, file), _read_release, how, _digest)
        for name, make in _MADE.items()
        for part, file, how in (("plan and configuration", hub.CONFIG, _JSON), ("weights", hub.MODEL, _TENSORS))
    ),
    Reader("release with certificate", _HELD, _released(markov, hub.CERTIFICATE), _load_release, _SIGNED),
    Reader("experts in safetensors", "experts/0.safetensors", _stacked, _read_experts, _TENSORS),
    Reader("experts in onnx", "experts/0.onnx", _graphs, _read_experts, _ONNX),
    Reader("certificate", "certificate.json", _certificates, _read_certificate, _SIGNED),
    Reader("ledger", "ledger", ledgers, _read_ledger, _CHAIN, _alone, ("ledger", "ledger.lock", "ledger-journal")),
    Reader("register", "own/register", _registers, _read_register, _CODED, _alone, ("register", "register.lock")),
    Reader("checkpoint", "state", _checkpoints, _read_checkpoint, _TENSORS, own=("ledger", "ledger.lock")),
    Reader("generated days", "days.csv", _generated, _read_days, _TEXT, _day_digest),
    Reader("beside generated days", "days.csv.json", _beside, _read_days, _JSON, _day_digest),
    Reader("public bounds", "spec.json", _json(SPEC.to_json()), lambda f: spec_files.read(f / "spec.json"), _JSON),
    Reader("bounds", "b.json", _json(_PLAIN), lambda f: environments.read_bounds(f / "b.json"), _JSON),
    Reader("grid", "grid.json", _json(GRID.to_json()), lambda f: read_grid(f / "grid.json"), _JSON),
    Reader("run", "run.json", _json(_RUN), lambda f: RunFolder(f).read(), _JSON),
)
