"""What a policy is worth, from other people's logs: `python examples/evaluate.py [FOLDER]`.

Seconds on one core. Simulated people walk a chain of 40 states; the logs' policy prefers the second action, and the
uniform policy is asked about. Both are worth the same here, and the true values are known.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import tacit
from tacit import off_policy_evaluation as ope
from tacit.envs import chain

PEOPLE = 1_000
UNIT = tacit.Unit("person", relation="add_or_remove", population=PEOPLE)
PROBLEM = ope.Problem(gamma=chain.GAMMA, horizon=chain.HORIZON, return_range=(0.0, 1.0))
FEATURES = ope.OneHot(chain.STATES - 1)  # the last state ends the episode


def logs() -> tacit.Trajectories:
    """One episode of each person, with the probability of every logged action."""
    columns = chain.collect(lambda states: np.tile([0.45, 0.55], (len(states), 1)), PEOPLE, seed=0)
    return tacit.Trajectories.from_arrays(**columns, spec=chain.spec(), simulated=True)


def main(folder: Path) -> None:
    """Promise, evaluate by three plans from one budget, compare with the truth, verify."""
    truth = chain.values()
    on, off = (ope.ResidualRegression(problem=PROBLEM, features=FEATURES, on_policy=here) for here in (True, False))
    questions: dict[str, tuple[ope.Plan, ope.Behaviour | ope.Uniform]] = {
        "residual, on-policy": (on, ope.Behaviour()),
        "residual, off-policy": (off, ope.Uniform(chain.ACTIONS)),
        "importance sampling": (ope.ImportanceSampling(problem=PROBLEM), ope.Uniform(chain.ACTIONS)),
    }
    print(f"true value of both policies: {truth.mean():.3f}")
    with tacit.Ledger(folder / "chain.ledger", UNIT, epsilon=3.0, delta=1e-5) as ledger:
        vault = tacit.Vault(logs(), ledger)
        for name, (plan, policy) in questions.items():
            release = ope.fit(plan.calibrate(unit=UNIT, epsilon=1.0, delta=1e-6), vault, policy)
            answer, interval = release.value, release.value.interval
            assert interval is not None
            ends = f"{interval.low:.3f} to {interval.high:.3f}"
            print(f"{name}: {answer.value:.3f}, {interval.level:.0%} interval {ends}")
            if answer.theta is not None:
                error = np.sqrt(np.mean((answer.values(np.arange(len(truth))) - truth) ** 2))
                print(f"  root mean square error over the states: {error:.3f}")
        print("spent:", ledger.spent())
    release.certificate.save(folder / "certificate.json")
    (folder / "evaluation.json").write_text(json.dumps(release.value.to_json()))
    checked = tacit.Certificate.load(folder / "certificate.json").verify()
    print(f"verified: epsilon {checked.epsilon:.4f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
