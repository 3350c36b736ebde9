# %% [markdown]
# # A policy that learns from people
#
# About fifteen seconds on one core. 1,600 simulated people each balance a pole once, eight between two updates. The
# released policy is promised to say hardly more about any of them than if they had stayed away.

# %%
import dataclasses
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import tacit
from tacit import policy_gradient as pg
from tacit.envs.serving import SimulatedUsers, returns
from tacit.methods.policy_gradient import recipes
from tacit_worlds.cart_pole import CartPole, spec

folder, people, delta = Path(tempfile.mkdtemp(prefix="tacit-")), 1_600, 1e-5
unit = tacit.Unit("person", relation="add_or_remove", population=people)
recipe = recipes.cart_pole(hidden=())  # log-linear; (64, 64) is the paper's network
plan = recipe.plan.calibrate(unit=unit, epsilon=1.0, delta=delta)
print(plan)

# %% [markdown]
# ## Three runs
#
# The private one; the same steps without noise; and noise alone, which shows what chance would do.


# %%
def learned(plan: pg.PolicyGradientPlan, name: str) -> tacit.Release[pg.TrainedPolicies]:
    """One run: its ledger and its register in a folder, the register's key beside it."""
    (folder / name).mkdir()
    gaussian = tacit.Composition(sampled=0)  # nobody is sampled
    users = SimulatedUsers(CartPole(), spec(), horizon=recipe.horizon, seed=0)
    with (
        tacit.Ledger(folder / name / "ledger", unit, epsilon=1.0, delta=delta, composition=gaussian) as ledger,
        tacit.Register(folder / name / "register", key=folder / f"{name}.key") as register,
    ):
        return pg.fit(plan, tacit.UserVault(users, ledger, register), recipe.policy)


quiet = dataclasses.replace(plan, noise_multiplier=0.0, clip_norm=plan.bound, most_noise=None)
deaf = dataclasses.replace(plan, return_scale=0.0)
release = learned(plan, "run")
values = {
    "epsilon 1": release.value,
    "without privacy": learned(quiet.account(unit=unit, delta=delta), "quiet").value,
    "noise alone": learned(deaf.account(unit=unit, delta=delta), "deaf").value,
}

# %% [markdown]
# ## What they are worth
#
# Over 100 people whom no training met, actions drawn from the policy. 500 is the most.

# %%
drawn = {
    name: returns(CartPole(), value.actor(), 1, 100, horizon=500, generator=np.random.default_rng(1))
    for name, value in values.items()
}
for name, scores in drawn.items():
    print(f"{name}: return {scores.mean():.1f}")

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.boxplot([scores.ravel() for scores in drawn.values()], tick_labels=list(drawn))
axes.set(ylabel="steps that the pole stays up", title="100 new people")
figure.savefig(folder / "returns.png")

# %% [markdown]
# ## Save, load, verify

# %%
tacit.hub.save(release, folder / "policy", notes={"environment": "CartPole-v1", "horizon": 500, "repeat": 1})
print(f"verified: epsilon {tacit.hub.load(folder / 'policy').certificate.verify().epsilon:.4f}")
print("files are in the temporary folder", folder.name)
