# %% [markdown]
# # Days of invented people who move as a city does
#
# About ten seconds on one core. 1,000 simulated people are observed for 20 days. Noisy sums over them make a simulator,
# from which days are drawn at no further cost.

# %%
import dataclasses
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import tacit
from tacit import mobility
from tacit.evaluation.movement import divergences
from tacit.evaluation.movement.divergences import map_advice
from tacit.methods.mobility.places import STARTS
from tacit_worlds.city import GRID, city

folder, people, epsilon, delta = Path(tempfile.mkdtemp(prefix="tacit-")), 1_000, 2.0, 1e-5
unit = tacit.Unit("person", relation="add_or_remove", population=people)
days = city(people, days=20, seed=0).days
plan = mobility.OneShotPlan(days=20).calibrate(unit=unit, epsilon=epsilon, delta=delta)
print(plan)

# %% [markdown]
# ## Three simulators
#
# The private one; the same people without noise; and noise without people, which shows what privacy cost.


# %%
def imitated(plan: mobility.OneShotPlan, name: str) -> tacit.Release[mobility.Simulator]:
    """One release, and the ledger that pays for it."""
    gaussian = tacit.Composition(sampled=0)  # nobody is sampled
    with tacit.Ledger(folder / name, unit, epsilon=epsilon, delta=delta, composition=gaussian) as ledger:
        return mobility.fit(plan, tacit.Vault(days.trajectories(simulated=True), ledger), grid=days.grid)


quiet = dataclasses.replace(plan, noise_multiplier=0.0).account(unit=unit, delta=delta)
release = imitated(plan, "ledger")
simulators = {
    f"epsilon {epsilon:g}": release.value,
    "without privacy": imitated(quiet, "quiet").value,
    "noise alone": imitated(dataclasses.replace(plan, zero_contribution=True), "deaf").value,
}
drawn = {name: simulator.generate(20_000, seed=1) for name, simulator in simulators.items()}
for row in divergences.divergence_table(days, drawn, metrics="sequence", floors=5).rows:
    name = "real people against others" if row.name == divergences.FLOOR else row.name
    print(f"{name}: SEQ {row.values['SEQ'].value:.4f}, moves a day {row.values['NMove'].value:.4f}")

# %% [markdown]
# ## A map
#
# How fine a map may be is public: it follows from the noise, not from the people.

# %%
side = 24  # cells of 500 m: squares of 12 km
for advice in map_advice(plan.noise_std(STARTS), GRID.coarse_grid(side).size):
    print(advice.to_sentence())

maps = {"the people": days, **drawn}
figure, panels = plt.subplots(1, len(maps), figsize=(12, 3.2), layout="constrained")
for axes, (name, shown) in zip(panels, maps.items(), strict=True):
    visits = np.bincount(shown.cells.ravel(), minlength=GRID.size).reshape(GRID.rows, GRID.columns)
    axes.imshow(np.log1p(visits / visits.sum() * GRID.size), origin="lower")
    axes.set(title=name, xticks=[], yticks=[])
figure.savefig(folder / "maps.png")

# %% [markdown]
# ## Save, load, verify, draw

# %%
tacit.hub.save(release, folder / "simulator")
again = tacit.hub.load(folder / "simulator")
for day in again.value.generate(3, seed=7).cells:
    arrivals = np.flatnonzero(np.append(True, day[1:] != day[:-1]))
    print("a day:", " ".join(f"{day[slot]}@{slot // 2:02d}:{slot % 2 * 30:02d}" for slot in arrivals))
print(f"verified: epsilon {again.certificate.verify().epsilon:.4f}")
print("files are in the temporary folder", folder.name)
