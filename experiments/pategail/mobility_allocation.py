"""How a round's budget is split among rewards, at equal rho: PateGAIL++ on Geolife's 83 people.

Every rule costs the same, whatever it does: answers are bounded after they are weighted. `paper` has less noise for
what looked generated in the round before (weights 1 - R + .05), as PateGAIL++ asks; `mirrored` the other way round;
`utility` noise by how often a pair is played, which makes least error of the policy's gradient; `noise` noise alone.
"""

import numpy as np

from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import command_line
from experiments.pategail.mobility_ways import Change, Changes

EPSILONS = (2.0, 10.0)
LEAST = 0.05  # the weight of a reward of 0 under the rule `mirrored`


def mirrored(pilot: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Weights of rewards R in [0, 1]: R + `LEAST`."""
    return np.asarray(np.clip(pilot + 0.5, 0.0, 1.0) + LEAST)


def rules(epsilon: float) -> list[Change]:
    weights = {"rule": "R + least", "least": LEAST}
    named = [Change(rule, epsilon, changes=(("allocation", rule),)) for rule in ("uniform", "paper", "utility")]
    own = Change(
        "mirrored", epsilon, changes=(("allocation", "own"),), allocate=mirrored, asked=(("weights", weights),)
    )
    noise = Change("noise", epsilon, changes=(("allocation", "uniform"), ("zero_contribution", True)))
    return [*named[:2], own, named[2], noise]


ROWS = Changes(__file__, tuple(change for epsilon in EPSILONS for change in rules(epsilon)))
rows, configuration, store, run_row = ROWS.rows, ROWS.configuration, ROWS.store, ROWS.run_row


def figures() -> Figures:
    results = store()
    for epsilon in EPSILONS:
        keys = [key for key in rows() if f"/{epsilon:g}/" in key]
        certified = max(results.values(key)["certified"] for key in keys)
        yield at_most(f"epsilon {epsilon:g}: largest certified epsilon", certified, epsilon)
        seq = {change.name: ROWS.column(results, change) for change in ROWS.every if change.epsilon == epsilon}
        for rule in ("paper", "mirrored", "utility"):
            low = float((seq[rule] / seq["uniform"].mean()).mean())
            words = f"epsilon {epsilon:g}: SEQ of {rule} over that of uniform (no rule halves it)"
            yield at_least(words, low, 0.5)


if __name__ == "__main__":
    command_line(__file__)
