# %% [markdown]
# # Your own data: from a file of visits to synthetic rows with a certificate
#
# Half a minute on one core. Two releases share one budget, and a third is refused. The patients here are invented.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch

import tacit

torch.set_num_threads(1)  # networks this small are fastest on one thread
folder = Path(tempfile.mkdtemp(prefix="tacit-"))

# %% [markdown]
# ## Records
#
# A row for each step of a patient: heart rate before, dose, reward, heart rate after.

# %%
rng = np.random.default_rng(0)
steps = rng.integers(3, 9, 5_000)
patient = np.repeat(np.arange(len(steps)), steps)
rate = np.repeat(rng.normal(85, 10, len(steps)), steps) + rng.normal(0, 5, len(patient))
dose = (rate > 90).astype(int) + (rate > 105)
after = rate - 5 * dose + rng.normal(0, 4, len(patient))
last = np.append(patient[1:] != patient[:-1], True)
columns = {"patient": patient, "observation_0": rate, "action": dose, "reward": -np.abs(after - 75) / 145}
columns |= {"next_observation_0": after, "termination": np.zeros_like(patient), "truncation": last.astype(int)}
pd.DataFrame(columns).to_csv(folder / "visits.csv", index=False)

# %% [markdown]
# ## What is public
#
# Limits that a colleague who never saw the records would write down, and what one promise is about.

# %%
spec = tacit.PublicSpec(
    observation=tacit.Box(low=(30.0,), high=(220.0,)),  # heart rate, beats a minute
    action=tacit.Discrete(3),  # no dose, a small one, a large one
    reward=tacit.Box(low=(-1.0,), high=(0.0,)),  # distance from 75 beats a minute
    difference=(5.0,),  # typical change in one step
    source="physics",
)
unit = tacit.Unit("patient", relation="add_or_remove", population=20_000)  # the hospital's public register
data = tacit.Trajectories.from_csv(folder / "visits.csv", unit="patient", spec=spec)

# %% [markdown]
# ## Two releases from one budget
#
# From here on, nothing but the vault reads the records, and the ledger admits no more than it holds. Training looks at
# random samples of the patients, so all of the budget is for plans that sample, and their epsilons add up.


# %%
def release(vault: tacit.Vault, epsilon: float) -> tacit.Release[tacit.synthesis.Synthesizer]:
    """Train under a promise of its own, and write the synthetic rows."""
    plan = tacit.synthesis.TransitionsPlan(steps=200, sampling_rate=0.05, rows_per_unit=4)
    result = tacit.synthesis.fit(plan.calibrate(unit=unit, epsilon=epsilon, delta=1e-6), vault)
    path = folder / f"synthetic-epsilon{epsilon:g}.parquet"
    result.value.sample(10_000).to_parquet(path, certificate=result.certificate.to_json())
    return result


sums = tacit.Composition(sampled=1)
with tacit.Ledger(folder / "visits.ledger", unit, epsilon=6.0, delta=5e-6, composition=sums) as ledger:
    vault = tacit.Vault(data, ledger)
    first, second = release(vault, 4.0), release(vault, 2.0)
    print("spent:", ledger.spent())
    try:
        release(vault, 1.0)
    except tacit.TacitError as refusal:
        print("refused:", refusal)

# %% [markdown]
# ## What is promised
#
# Anyone can recompute a certificate, without the records.

# %%
for one in (first, second):
    print(one.certificate.sentence)
    print("recomputed: epsilon", one.certificate.verify().epsilon)
first.certificate.save(folder / "certificate.json")

# %% [markdown]
# ## What it is good for
#
# Any question may be put to the synthetic rows. The effect of a dose comes out weakened, most of all that of the rare
# large one. This is the price of the promise, with so few patients.

# %%
rows = first.value.sample_columns(10_000, seed=0)
changes = [(rows["next_observations"] - rows["observations"])[rows["actions"] == dose].ravel() for dose in range(3)]
for dose, change in enumerate(changes):
    print(f"dose {dose}: {len(change):>5,} synthetic rows, mean change {change.mean():+.1f} (true: {-5 * dose:+d})")

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.boxplot(changes, showfliers=False, tick_labels=["none", "small", "large"])
axes.plot([1, 2, 3], [0, -5, -10], "o", label="true mean")
axes.set(xlabel="dose", ylabel="change of heart rate, beats a minute", title="Synthetic rows, epsilon 4")
axes.legend()
figure.savefig(folder / "doses.png")
print("files are in the temporary folder", folder.name)
