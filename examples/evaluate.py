# %% [markdown]
# # What a policy is worth, from other people's logs
#
# Seconds on one core. Simulated people walk a chain of 40 states. Their policy prefers the second action, and the
# question is about the uniform policy. Both are worth the same here, and the true values are known.

# %%
import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import tacit
from tacit import off_policy_evaluation as ope
from tacit_worlds import chain

folder = Path(tempfile.mkdtemp(prefix="tacit-"))
people = 1_000
columns = chain.collect(lambda states: np.tile([0.45, 0.55], (len(states), 1)), people, seed=0)
logs = tacit.Trajectories.from_arrays(**columns, spec=chain.spec(), simulated=True)
truth = chain.values()
print(f"true value of both policies: {truth.mean():.3f}")

# %% [markdown]
# ## Three questions, one budget
#
# Each estimator is a plan with a promise of its own. It puts Gaussian noise on sums over all people: no sample.
# The ledger adds such plans up as one Gaussian, so three times epsilon 1 cost less than 3.

# %%
unit = tacit.Unit("person", relation="add_or_remove", population=people)
problem = ope.Problem(gamma=chain.GAMMA, horizon=chain.HORIZON, return_range=(0.0, 1.0))
features = ope.OneHot(chain.STATES - 1)  # the last state ends the episode
on, off = (ope.ResidualRegression(problem=problem, features=features, on_policy=here) for here in (True, False))
questions = {  # another policy first: after an answer it could have been chosen by that, and gets a wider interval
    "residual, off-policy": (off, ope.Uniform(chain.ACTIONS)),
    "importance sampling": (ope.ImportanceSampling(problem=problem), ope.Uniform(chain.ACTIONS)),
    "residual, on-policy": (on, ope.Behaviour()),
}
answers = {}
gaussian = tacit.Composition(sampled=0)
with tacit.Ledger(folder / "chain.ledger", unit, epsilon=2.0, delta=3e-6, composition=gaussian) as ledger:
    vault = tacit.Vault(logs, ledger)
    for name, (plan, policy) in questions.items():
        release = ope.fit(plan.calibrate(unit=unit, epsilon=1.0, delta=1e-6), vault, policy)
        answers[name] = release.value
        interval = release.value.interval
        ends = f"{interval.low:.3f} to {interval.high:.3f}"
        print(f"{name}: {release.value.value:.3f}, {interval.level:.0%} interval {ends}")
    print("spent:", ledger.spent())

# %% [markdown]
# ## Against the truth
#
# An interval covers what privacy and the sample of people do to the answer. Residual regression also says what each
# state is worth.

# %%
states = np.arange(len(truth))
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for row, (name, answer) in enumerate(answers.items()):
    ends = [[answer.value - answer.interval.low], [answer.interval.high - answer.value]]
    left.errorbar([answer.value], [row], xerr=ends, fmt="o", capsize=4)
    if answer.theta is not None:
        error = np.sqrt(np.mean((answer.values(states) - truth) ** 2))
        print(f"{name}, root mean square error over the states: {error:.3f}")
        right.plot(states, answer.values(states), label=name)
left.axvline(truth.mean(), color="black", label="truth")
left.set(yticks=range(3), yticklabels=list(answers), xlabel="value of the policy", title="Epsilon 1 for each")
left.legend()
right.plot(states, truth, color="black", label="truth")
right.set(xlabel="state", ylabel="value", title="Value of each state")
right.legend()
figure.savefig(folder / "values.png")

# %% [markdown]
# ## What can be checked

# %%
release.certificate.save(folder / "certificate.json")
(folder / "evaluation.json").write_text(json.dumps(release.value.to_json()))
print(f"verified: epsilon {tacit.Certificate.load(folder / 'certificate.json').verify().epsilon:.4f}")
print("files are in the temporary folder", folder.name)
