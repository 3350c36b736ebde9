"""Private policy gradient against what one would write in torch and Gymnasium: process CPU time on one thread.

Run `python -m benchmarks.policy_gradient`. The last line is one JSON object. `local_update_speedup` is the time of a
loop over 8 people in torch (`benchmarks.peers.torch_users`; 64 steps, 8 epochs, 2 minibatches, actor 4-64-64-2) over
that of `LocalUpdates` on the same numbers; `local_update_difference` is how far the two results are apart.

`end_to_end_speedup` is environment steps per second of private learning on CartPole, 4 seeds x 8 people, over those of
a single-file loop in torch on `SyncVectorEnv(8)` (`benchmarks.peers.cleanrl_style`). Both sides run the same algorithm:
64 steps a person, actor and critic trained on each person's own steps, one clip, Gaussian noise. Ours goes through the
doors of a `UserVault` with its trials, its ledgers and its register on disk, and issues the certificate; the loop has
none of these, its seeds run one after another, and its rate is taken from a few rounds of each. `rollout_steps_per_s`
is what `tacit.envs.serving.serve` makes of CartPole with that actor, 256 people at once. `dosing_speedup` is that of
`benchmarks.dosing`.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch

from benchmarks import dosing
from benchmarks.peers import cleanrl_style, torch_users
from tacit.agents.networks import Mlp
from tacit.envs.serving import SimulatedUsers, serve
from tacit.methods.policy_gradient import (
    Local,
    Policy,
    PolicyActor,
    PolicyGradientPlan,
    TrainedPolicies,
    ValueFunction,
    fit,
)
from tacit.methods.policy_gradient.contributions import Advantages, RoundInputs
from tacit.methods.policy_gradient.local_updates import LocalTraining, LocalUpdates
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.vault.user_vault import UserVault
from tacit.units import Unit
from tacit_worlds import cart_pole

PEER = cleanrl_style.Settings()
SEEDS, ROUNDS, PEER_ROUNDS = 4, 200, 8
EPSILON, DELTA = 1.0, 1e-5
POLICY = Policy.default(cart_pole.spec())
ROLLED = 256


def local_updates(repeats: int) -> dict[str, object]:
    """`local_update_speedup`, the milliseconds of both, and how far their results are apart."""
    generator = np.random.default_rng(0)
    theta, shape = POLICY.initial_parameters(generator, 1), (PEER.users, PEER.steps)
    rows = {
        "observations": generator.uniform(-0.2, 0.2, (*shape, 4)).astype(np.float32),
        "actions": generator.integers(2, size=shape),
        "rewards": generator.normal(size=shape).astype(np.float32),
        "terminations": np.zeros(shape, bool),
        "starts": np.zeros(shape, bool),
        "mask": np.ones(shape, bool),
        "replicate": np.zeros(PEER.users, np.int64),
    }
    advantages = Advantages(gamma=PEER.gamma, trace=PEER.trace)
    training = LocalTraining(learning_rate=PEER.learning_rate, epochs=PEER.epochs, minibatches=PEER.minibatches)
    update, state = LocalUpdates(POLICY, advantages, training, PEER.entropy), RoundInputs(theta, None, np.ones(1))
    keys = np.random.default_rng(state.round).random((PEER.epochs, PEER.steps))
    inputs, gains = POLICY.features(rows["observations"]), advantages(rows).astype(np.float32)
    actor = torch_users.actor((4, 64, 64, 2), theta[0])

    def loop() -> list[np.ndarray]:
        return torch_users.updates(
            actor,
            inputs,
            rows["actions"],
            gains,
            learning_rate=PEER.learning_rate,
            epochs=PEER.epochs,
            minibatches=PEER.minibatches,
            entropy=PEER.entropy,
            epsilon=training.epsilon,
            keys=keys,
        )

    apart = float(np.abs(update(rows, state) - np.stack(loop())).max())
    seconds = timing.cpu_seconds({"tacit": lambda: update(rows, state), "torch": loop}, repeats=4 * repeats)
    milliseconds = {name: 1000 * statistics.median(seconds[name]) for name in seconds}
    print("local updates, 8 people: " + ", ".join(f"{name} {value:.1f} ms" for name, value in milliseconds.items()))
    return {
        "local_update_speedup": timing.ratio(seconds, "torch", "tacit"),
        "local_update_ms": milliseconds["tacit"],
        "local_update_torch_ms": milliseconds["torch"],
        "local_update_difference": apart,
    }


def private(rounds: int) -> Release[TrainedPolicies]:
    """Learn CartPole with 4 seeds at once, every one with a ledger of its own."""
    unit = Unit("person", "add_or_remove", rounds * PEER.users)
    plan = PolicyGradientPlan(
        rounds=rounds,
        users=PEER.users,
        horizon=PEER.steps,
        gamma=PEER.gamma,
        trace=PEER.trace,
        clip_norm=PEER.clip,
        correlation="independent",
        local=Local(
            epochs=PEER.epochs,
            minibatches=PEER.minibatches,
            learning_rate=PEER.learning_rate,
            entropy=PEER.entropy,
            seeded=False,
        ),
        critic="private",
        schedule="constant",
    ).calibrate(unit=unit, epsilon=EPSILON, delta=DELTA)
    users = SimulatedUsers(
        cart_pole.CartPole(), cart_pole.spec(), horizon=PEER.steps, restarts=True, replicates=SEEDS, seed=0
    )
    critic = ValueFunction(POLICY.features, Mlp((4, 64, 64, 1), gain=1.0))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        inside = Path(folder, "run")
        inside.mkdir()
        ledgers = [
            stack.enter_context(Ledger(inside / f"ledger-{r}", unit, epsilon=EPSILON, delta=DELTA, composition=SUM))
            for r in range(SEEDS)
        ]
        register = stack.enter_context(Register(inside / "register", key=Path(folder, "key")))
        return fit(plan, UserVault(users, ledgers, register), POLICY, critic=critic)


def end_to_end(repeats: int) -> dict[str, object]:
    """`end_to_end_speedup` and both rates in environment steps a second."""

    def loop() -> None:
        for seed in range(SEEDS):
            cleanrl_style.run(PEER_ROUNDS, seed)

    seconds = timing.cpu_seconds({"tacit": lambda: private(ROUNDS), "loop": loop}, repeats=repeats, warmup=1)
    steps = SEEDS * PEER.users * PEER.steps
    rates = {
        "tacit": ROUNDS * steps / statistics.median(seconds["tacit"]),
        "loop": PEER_ROUNDS * steps / statistics.median(seconds["loop"]),
    }
    print("private learning: " + ", ".join(f"{name} {rate:,.0f} steps/s" for name, rate in rates.items()))
    return {
        "end_to_end_speedup": ROUNDS / PEER_ROUNDS * timing.ratio(seconds, "loop", "tacit"),
        "end_to_end_steps_per_s": rates["tacit"],
        "end_to_end_peer_steps_per_s": rates["loop"],
        "end_to_end_rounds": ROUNDS,
        "end_to_end_peer_rounds": PEER_ROUNDS,
    }


def rollouts(repeats: int) -> dict[str, object]:
    """`rollout_steps_per_s`."""
    actor = PolicyActor(POLICY, POLICY.initial_parameters(np.random.default_rng(0), SEEDS))
    people = np.repeat(np.arange(SEEDS), ROLLED // SEEDS)

    def roll() -> None:
        serve(
            cart_pole.CartPole(),
            actor,
            people,
            horizon=PEER.steps,
            restarts=True,
            generator=np.random.default_rng(0),
        )

    seconds = timing.cpu_seconds({"serve": roll}, repeats=4 * repeats)
    rate = ROLLED * PEER.steps / statistics.median(seconds["serve"])
    print(f"rollouts, {ROLLED} people: {rate:,.0f} steps/s")
    return {"rollout_steps_per_s": rate}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    timing.report(
        {
            "benchmark": "policy_gradient",
            **local_updates(repeats),
            **end_to_end(repeats),
            **rollouts(repeats),
            **dosing.figures(repeats),
            "at_least": {"local_update_speedup": 12, "end_to_end_speedup": 12, "dosing_speedup": 50},
            "at_most": {
                "local_update_difference": 1e-6,
                "dosing_error": dosing.ACCURACY,
                "dosing_error_scipy": dosing.ACCURACY,
            },
        },
        packages=("numpy", "scipy", "torch", "gymnasium"),
    )


if __name__ == "__main__":
    main()
