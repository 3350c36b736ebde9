"""From a CSV file of patients to a synthetic dataset with its certificate: `python examples/own_data.py [FOLDER]`.

Half a minute on one core. Two releases share one budget, and a third is refused.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import tacit

SPEC = tacit.PublicSpec(  # limits that a colleague who never saw the records would write down
    observation=tacit.Box(low=(30.0,), high=(220.0,)),  # heart rate, beats a minute
    action=tacit.Discrete(3),  # no dose, a small one, a large one
    reward=tacit.Box(low=(-1.0,), high=(0.0,)),  # distance from 75 beats a minute
    difference=(5.0,),  # typical change in one step
    source="physics",
)
UNIT = tacit.Unit("patient", relation="add_or_remove", population=20_000)  # the hospital's public register


def write_records(path: Path, *, patients: int = 5_000) -> None:
    """Invented visits of invented patients, one row for each step."""
    rng = np.random.default_rng(0)
    steps = rng.integers(3, 9, patients)
    patient = np.repeat(np.arange(patients), steps)
    rate = np.repeat(rng.normal(85, 10, patients), steps) + rng.normal(0, 5, len(patient))
    dose = (rate > 90).astype(int) + (rate > 105)
    after = rate - 5 * dose + rng.normal(0, 4, len(patient))
    last = np.append(patient[1:] != patient[:-1], True)
    columns = {"patient": patient, "observation_0": rate, "action": dose, "reward": -np.abs(after - 75) / 145}
    columns |= {"next_observation_0": after, "termination": np.zeros_like(patient), "truncation": last.astype(int)}
    pd.DataFrame(columns).to_csv(path, index=False)


def release(vault: tacit.Vault, epsilon: float, folder: Path) -> tacit.Release[tacit.synthesis.Synthesizer]:
    """Train under a promise of its own, and write the synthetic dataset."""
    plan = tacit.synthesis.TransitionsPlan(steps=200, sampling_rate=0.05, rows_per_unit=4)
    plan = plan.calibrate(unit=UNIT, epsilon=epsilon, delta=1e-6)
    result = tacit.synthesis.fit(plan, vault)
    path = folder / f"synthetic-epsilon{epsilon:g}.parquet"
    result.value.sample(10_000).to_parquet(path, certificate=result.certificate.to_json())
    return result


def main(folder: Path) -> None:
    """Import, promise, release twice, be refused once, verify."""
    write_records(folder / "visits.csv")
    data = tacit.Trajectories.from_csv(folder / "visits.csv", unit="patient", spec=SPEC)
    with tacit.Ledger(folder / "visits.ledger", UNIT, epsilon=6.0, delta=5e-6) as ledger:
        vault = tacit.Vault(data, ledger)  # from here on, nothing but the vault reads the records
        first = release(vault, 4.0, folder)
        second = release(vault, 2.0, folder)
        print("spent:", ledger.spent())
        try:
            release(vault, 1.0, folder)
        except tacit.TacitError as refusal:
            print("refused:", refusal)

    for one in (first, second):
        print(one.certificate.sentence)
        print("recomputed: epsilon", one.certificate.verify().epsilon)
    first.certificate.save(folder / "certificate.json")

    # Post-processing is free: any question may be put to the synthetic rows. The effect of a dose comes out weakened,
    # most of all that of the rare large one: this is the price of the promise, with so few patients.
    rows = first.value.sample_columns(10_000, seed=0)
    for dose in range(3):
        change = (rows["next_observations"] - rows["observations"])[rows["actions"] == dose]
        print(f"dose {dose}: {len(change):>5,} synthetic rows, mean change {change.mean():+.1f} (true: {-5 * dose:+d})")


if __name__ == "__main__":
    torch.set_num_threads(1)  # networks this small are fastest on one thread
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
