# %% [markdown]
# # One policy from many experts, none of which is given away
#
# About ten seconds on one core. 1,000 simulated experts, good ones and bad ones, have logged how they balance a pole.
# A clone of each votes at public states. The noisy votes become a policy, and say where the experts agree.

# %%
import dataclasses
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import tacit
from tacit import experts
from tacit.agents.features import Scaled
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit_worlds import populations

folder, count, epsilon, delta = Path(tempfile.mkdtemp(prefix="tacit-")), 1_000, 1.0, 1e-4
world = populations.world("cart_pole")
unit = tacit.Unit("expert", relation="add_or_remove", population=count)
logs = populations.logs(world, populations.population(world, "mixed", count, seed=0), trajectories=5, seed=1)

# %% [markdown]
# ## The plan
#
# Where the votes are cast is public: at random states within public limits.

# %%
sees = Scaled(world.box.low, world.box.high)
votes = experts.Votes(
    anchors=experts.UniformAnchors(low=world.box.low, high=world.box.high, count=1_000),
    clone=experts.LinearClone(features=sees, actions=world.actions),
    policy=Policy(sees, Mlp((sees.size, world.actions), gain=0.0), Categorical(world.actions)),
)
plan = votes.calibrate(unit=unit, epsilon=epsilon, delta=delta)
print(plan)

# %% [markdown]
# ## With privacy, without, and from nothing
#
# The private policy; the same without noise; and policies from experts who act at random, one of which may be lucky.


# %%
def learned(plan: experts.Votes, logs: dict[str, np.ndarray], name: str) -> tacit.Release[experts.LearnedPolicies]:
    """One release, and the ledger that pays for it."""
    data = tacit.Trajectories.from_arrays(**logs, spec=world.spec, simulated=True)
    gaussian = tacit.Composition(sampled=0)  # nobody is sampled
    with tacit.Ledger(folder / name, unit, epsilon=epsilon, delta=delta, composition=gaussian) as ledger:
        return experts.fit(plan, tacit.Vault(data, ledger))


def steps(value: experts.LearnedPolicies) -> float:
    """How long 100 poles stay up, 1,000 steps at most."""
    return float(populations.returns(world, value.actor(), 100, seed=3).mean())


quiet = dataclasses.replace(plan, noise_multiplier=0.0).account(unit=unit, delta=delta)
release = learned(plan, logs, "ledger")
print(f"epsilon {epsilon:g}: {steps(release.value):.1f} of 1,000 steps")
print(f"without privacy: {steps(learned(quiet, logs, 'quiet').value):.1f} of 1,000 steps")
scores = []
for seed in range(5):
    drawn = np.random.default_rng(seed).integers(world.actions, size=len(logs["actions"]))
    scores.append(steps(learned(plan, {**logs, "actions": drawn}, f"random-{seed}").value))
print(f"actions at random: {np.mean(scores):.1f} of 1,000 steps, median {np.median(scores):.1f}")

# %% [markdown]
# ## Where experts agree
#
# The same noisy votes, looked at again: free of charge.

# %%
agreement = release.value.agreement
most = agreement.shares[0].max(axis=1)
print(f"nine of ten experts agree at {np.mean(most > 0.9):.0%} of the states")

states = votes.anchors.points()
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
points = axes.scatter(states[:, 2], states[:, 3], c=most, s=14, vmin=0.5, vmax=1)
axes.set(xlabel="angle of the pole", ylabel="its speed", title="Share of the experts behind the most common action")
figure.colorbar(points)
figure.savefig(folder / "agreement.png")

# %% [markdown]
# ## Save, load, verify

# %%
notes = {"environment": world.name, "horizon": world.evaluation_horizon, "repeat": 1}
tacit.hub.save(release, folder / "policy", notes=notes)
print(f"verified: epsilon {tacit.hub.load(folder / 'policy').certificate.verify().epsilon:.4f}")
print("files are in the temporary folder", folder.name)
