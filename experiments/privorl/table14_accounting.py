"""Rényi accounting against privacy loss distributions at PrivORL-n's own settings (its tables X and XIV).

The paper trains with the noise that Rényi accounting asks for (as Opacus has it) and again with what the tighter PRV
accountant asks for, and compares returns. Here is what the accountants themselves say, with the steps as the authors'
code runs them (batches of 128 of four fifths of the rows, five epochs). `DATA/table X` has the noise and the training
steps that the paper prints: what Rényi accounting says of them at the rate 128 / (the rows it prints), and the
certified epsilon over fine-tuning's steps. `DATA/delta` keeps a delta below 1 / rows, which 1e-6 is not for the mazes.
"""

import functools
from dataclasses import dataclass

import numpy as np
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import brentq

from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Computed, Jobs, command_line, describe
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import Event, GaussianEvent, PoissonSampledEvent, SelfComposedEvent
from tacit.units import Relation

DELTA, BATCH, EPSILONS = 1e-6, 128, (10.0, 1.0)
EPOCHS = 5
RELATION: Relation = "add_or_remove"
VALID = {"epsilon": 10.0, "delta_times_rows": 0.1}  # the promise of the rows `DATA/delta`
ORDERS = [1 + x / 10 for x in range(1, 100)] + list(range(12, 64))  # those of Opacus (its RDPAccountant.DEFAULT_ALPHAS)


@dataclass(frozen=True)
class Setting:
    """One data set: all its transitions, and what the paper prints for PrivORL-n in its tables X and VIII."""

    rows: int
    printed_sigma: float
    printed_steps: int
    printed_rows: int

    @property
    def private(self) -> int:
        """The rows that fine-tuning sees: the authors hold a fifth back."""
        return self.rows * 4 // 5

    @property
    def steps(self) -> int:
        return EPOCHS * self.private // BATCH

    def event(self, sigma: float) -> Event:
        """Fine-tuning as it is run."""
        return training(BATCH / self.private, sigma, self.steps)


SETTINGS = {
    "umaze": Setting(1_000_000, 0.44, 574_000, 1_000_000),
    "medium": Setting(2_000_000, 0.39, 294_000, 2_000_000),
    "large": Setting(4_000_000, 0.37, 433_000, 4_000_000),
    "kitchen": Setting(136_950, 0.47, 15_300, 136_950),
    "halfcheetah": Setting(202_000, 0.68, 240_000, 101_000),  # half of D4RL's rows
}


def training(rate: float, sigma: float, steps: int) -> Event:
    return SelfComposedEvent(PoissonSampledEvent(rate, GaussianEvent(sigma)), steps)


def renyi(rate: float, sigma: float, steps: int) -> float:
    """Epsilon by Rényi accounting, with Opacus' orders."""
    accountant = RdpAccountant(ORDERS)
    accountant.compose(dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma)), steps)
    return float(accountant.get_epsilon(DELTA))


def renyi_noise(one: Setting, epsilon: float) -> float:
    rate, steps = BATCH / one.private, one.steps
    return float(brentq(lambda sigma: renyi(rate, sigma, steps) - epsilon, 0.25, 4.0, xtol=1e-4))


def noise(one: Setting, epsilon: float) -> dict[str, float]:
    """Both accountants' noise, and what that of the looser one costs."""
    loose = renyi_noise(one, epsilon)
    bound = accounting.epsilon(one.event(loose), delta=DELTA, relation=RELATION)
    tight = accounting.calibrate(one.event, epsilon=epsilon, delta=DELTA, relation=RELATION)
    return {
        "steps": one.steps,
        "renyi": loose,
        "certified": tight,
        "honest": bound.epsilon,
        "check": bound.check_epsilon,
    }


def printed_together(one: Setting) -> float:
    """Rényi accounting of the rate, noise and steps that the paper prints."""
    return renyi(BATCH / one.printed_rows, one.printed_sigma, one.printed_steps)


def printed(one: Setting) -> dict[str, float]:
    """Table X: what its numbers mean together, and what its noise costs over the steps as run."""
    as_run = accounting.epsilon(one.event(one.printed_sigma), delta=DELTA, relation=RELATION)
    both = {"sigma": one.printed_sigma, "steps": one.printed_steps}
    return both | {"printed": printed_together(one), "as run": as_run.epsilon}


def valid(one: Setting) -> dict[str, float]:
    """The noise for epsilon 10 at a tenth of 1 / rows."""
    delta = VALID["delta_times_rows"] / one.private
    sigma = accounting.calibrate(one.event, epsilon=VALID["epsilon"], delta=delta, relation=RELATION)
    return {"delta": delta, "certified": sigma}


def jobs() -> Jobs:
    found: Jobs = {}
    for name, one in SETTINGS.items():
        steps = {"private_rows": one.private, "steps": one.steps, "epochs": EPOCHS, "batch": BATCH}
        asked = {"data": describe(one), "training": steps, "relation": RELATION}
        more = {**asked, "delta": DELTA, "orders": describe(np.array(ORDERS))}
        for epsilon in EPSILONS:
            found[f"{name}/epsilon={epsilon:g}"] = {**more, "epsilon": epsilon}, functools.partial(noise, one, epsilon)
        found[f"{name}/table X"] = more, functools.partial(printed, one)
        found[f"{name}/delta"] = {**asked, "promise": dict(VALID)}, functools.partial(valid, one)
    return found


ROWS = Computed(__file__, jobs, "tables VIII and X of the paper", dataset="the number of transitions alone")
rows, configuration, store, run_row = ROWS.rows, ROWS.configuration, ROWS.store, ROWS.run_row


def figures() -> Figures:
    results = store()
    for name in SETTINGS:
        for epsilon in EPSILONS:
            cell = results.values(f"{name}/epsilon={epsilon:g}")
            title = f"{name}, epsilon {epsilon:g}"
            yield at_least(f"{title}: Rényi's noise over the certified", cell["renyi"] / cell["certified"], 1.0)
            yield at_most(f"{title}: honest over its check, less 1", cell["honest"] / cell["check"] - 1, 5e-3)
            yield at_most(f"{title}: what Rényi's noise costs", cell["honest"], epsilon)
        cell = results.values(f"{name}/table X")
        off = abs(cell["printed"] / 10 - 1)
        yield at_most(f"{name}: table X taken together is epsilon 10, off by", off, 0.05)


if __name__ == "__main__":
    command_line(__file__)
