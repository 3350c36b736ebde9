"""Days of invented people who move as a city does: `python examples/imitate_city.py [FOLDER]`.

About ten seconds on one core. 1,000 simulated people are observed for 20 days; noisy sums over them make a simulator,
from which days are drawn at no further cost. The same people without noise, and noise without people, show what privacy
cost.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path

import tacit
from tacit import mobility
from tacit.data.mobility.days import Days
from tacit.envs.city import GRID, city
from tacit.evaluation.movement import divergences
from tacit.evaluation.movement.divergences import map_advice
from tacit.methods.mobility.places import STARTS

PEOPLE, EPSILON, DELTA = 1_000, 2.0, 1e-5
UNIT = tacit.Unit("person", relation="add_or_remove", population=PEOPLE)


def imitated(plan: mobility.OneShotPlan, days: Days, ledger: Path) -> tacit.Release[mobility.Simulator]:
    """One release, and the ledger that pays for it."""
    with tacit.Ledger(ledger, UNIT, epsilon=EPSILON, delta=DELTA) as own:
        return mobility.fit(plan, tacit.Vault(days.trajectories(simulated=True), own), grid=days.grid)


def main(folder: Path) -> None:
    """Promise, imitate; compare; save, load and verify."""
    folder.mkdir(parents=True, exist_ok=True)
    days = city(PEOPLE, days=20, seed=0).days
    plan = mobility.OneShotPlan(days=20).calibrate(unit=UNIT, epsilon=EPSILON, delta=DELTA)
    print(plan)

    quiet = dataclasses.replace(plan, noise_multiplier=0.0).account(unit=UNIT, delta=DELTA)
    deaf = dataclasses.replace(plan, zero_contribution=True)
    release = imitated(plan, days, folder / "ledger")
    rows = {
        f"epsilon {EPSILON:g}": release.value,
        "without privacy": imitated(quiet, days, folder / "quiet").value,
        "noise alone": imitated(deaf, days, folder / "deaf").value,
    }
    drawn = {name: simulator.generate(20_000, seed=1) for name, simulator in rows.items()}
    for row in divergences.table(days, drawn, metrics="sequence", floors=5).rows:
        name = "real people against others" if row.name == divergences.FLOOR else row.name
        print(f"{name}: SEQ {row.values['SEQ'].value:.4f}, moves a day {row.values['NMove'].value:.4f}")

    side = 24  # cells of 500 m: squares of 12 km
    for advice in map_advice(plan.noise_of(STARTS), GRID.coarse(side).size):
        print(advice.words())

    tacit.hub.save(release, folder / "simulator")
    again = tacit.hub.load(folder / "simulator")
    for day in again.value.generate(3, seed=7).cells:
        stops = " ".join(f"{day[slot]}@{slot // 2:02d}:{slot % 2 * 30:02d}" for slot in _arrivals(day.tolist()))
        print(f"a day: {stops}")
    print(f"verified: epsilon {again.certificate.verify().epsilon:.4f}")


def _arrivals(day: list[int]) -> list[int]:
    """Slots at which a day comes to a cell, the first one included."""
    return [slot for slot, cell in enumerate(day) if slot == 0 or cell != day[slot - 1]]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
