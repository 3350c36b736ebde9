"""Settings for known tasks, fixed by trials on simulated people alone (eight replicates of seed 0, used for no result).

Each function gives a plan that is not calibrated yet, a policy, and how its people are to be met:

    recipe = recipes.cart_pole()
    plan = recipe.plan.calibrate(unit=unit, epsilon=1.0, delta=1e-5)
    users = SimulatedUsers(CartPole(), cart_pole.spec(), horizon=recipe.horizon, repeat=recipe.repeat, seed=1)
    release = policy_gradient.fit(plan, UserVault(users, ledger, register), recipe.policy)

What they have in common: a person's whole episode is one slot; few people a round and many rounds; and a clip C that
grows as 1 / sigma where there is less noise, up to a public most (`PolicyGradientPlan.clip`,
`PolicyGradientPlan.most_noise`), since almost everybody is clipped and C / N is the length of a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tacit.agents.features import Features, OneHot, Scaled
from tacit.agents.heads import Categorical, Gaussian
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.data.spec import PublicSpec
from tacit.methods.policy_gradient.plan import Critic, PolicyGradientPlan
from tacit.methods.policy_gradient.votes import Ramp, VotesPlan

Hidden = tuple[int, ...]
Clips = tuple[float, float]
"""The largest clip C, and the largest sigma C, for 8 people a round: both grow in proportion to their number."""


@dataclass(frozen=True)
class Recipe:
    """How a task is learnt.

    Args:
        plan: not calibrated.
        policy: what is learnt.
        horizon: most steps of the task in one person's slot.
        repeat: for how many steps one decision holds (public).
        restarts: whether a person's slot goes on with another episode when one is over.
    """

    plan: PolicyGradientPlan | VotesPlan
    policy: Policy
    horizon: int
    repeat: int = 1
    restarts: bool = False


def cart_pole(*, hidden: Hidden = (64, 64), rounds: int = 200, users: int = 8) -> Recipe:
    """CartPole: the public baseline is that the pole stands for ever.

    Args:
        hidden: widths of the policy's hidden layers; () is log-linear.
        rounds, users: T and N.
    """
    high = (2.4, 3.0, 0.21, 3.0)
    policy = Policy(_centred_features(high), _network(4, hidden, 2), Categorical(2))
    plan = _plan(rounds, users, clips=_clips_by_size(hidden), horizon=500, reward_rate=1.0)
    return Recipe(plan, policy, horizon=500)


def acrobot(*, hidden: Hidden = (64, 64), repeat: int = 2, rounds: int = 200, users: int = 8) -> Recipe:
    """Acrobot: the public baseline is that the tip is never swung up. Repeated actions are what finds the first swings.

    Args:
        hidden, rounds, users: as for `cart_pole`.
        repeat: steps that an action holds for.
    """
    policy = Policy(_centred_features((1.0, 1.0, 1.0, 1.0, 4.0, 9.0)), _network(6, hidden, 3), Categorical(3))
    horizon = math.ceil(500 / repeat)
    clip, noise = _clips_by_size(hidden)
    plan = _plan(rounds, users, clips=(clip, 0.8 * noise), horizon=horizon, reward_rate=-float(repeat))
    return Recipe(plan, policy, horizon=500, repeat=repeat)


def dosing(*, hidden: Hidden = (), rounds: int = 200, users: int = 8) -> Recipe:
    """Dosing (either one): doses around a basal one of 3; what a dose does shows within the hour, hence gamma 0.8.

    Args:
        hidden, rounds, users: as for `cart_pole`.
    """
    low = (40.0, 0.0, 0.0, 0.0, 0.0, 0.0, 700.0, 40.0, 700.0)
    high = (160.0, 80.0, 80.0, 45.0, 45.0, 600.0, 1700.0, 160.0, 1700.0)
    policy = Policy(Scaled(low, high), _network(9, hidden, 1), Gaussian((0.0,), (10.0,), (3.0,), 0.5))
    plan = _plan(rounds, users, clips=_clips_by_size(hidden, 2.5), horizon=143, gamma=0.8)
    return Recipe(plan, policy, horizon=143)


def river_swim(*, repeat: int = 4, rounds: int = 200, users: int = 8) -> Recipe:
    """RiverSwim: raw returns on a public scale, so that the rare large reward outweighs the frequent small one.

    Advantages that are standardised for each person make a vote of 0.005 as loud as one of 1.

    Args:
        repeat: steps that an action holds for; with 1, few people find the right bank.
        rounds, users: as for `cart_pole`.
    """
    policy = Policy(OneHot(6), _network(6, (), 2), Categorical(2))
    plan = _plan(
        rounds, users, clips=(3.75, 4.0), horizon=math.ceil(20 / repeat), gamma=0.95, critic="none", standardised=False
    )
    return Recipe(plan, policy, horizon=20, repeat=repeat)


def general_recipe(
    spec: PublicSpec,
    *,
    horizon: int,
    repeat: int = 1,
    hidden: Hidden = (64, 64),
    reward_rate: float | None = None,
    rounds: int = 200,
    users: int = 8,
) -> Recipe:
    """A first try for another task.

    Args:
        spec: public bounds of people's rows; narrow ones of the observation (typical ranges) learn faster.
        horizon: most steps of the task in one person's slot.
        repeat: steps that an action holds for.
        hidden, rounds, users: as for `cart_pole`.
        reward_rate: the constant reward of one decision, where episodes differ in how soon they terminate.
    """
    policy = Policy.default(spec, hidden)
    slot = math.ceil(horizon / repeat)
    plan = _plan(rounds, users, clips=_clips_by_size(hidden), horizon=slot, reward_rate=reward_rate)
    return Recipe(plan, policy, horizon=horizon, repeat=repeat)


def half_cheetah(*, rounds: int = 50, users: int = 32) -> Recipe:
    """HalfCheetah of MuJoCo: a linear policy of 108 parameters, and returns over about 17 steps (a stride).

    Args:
        rounds, users: as for `cart_pole`.
    """
    high = (0.5, 1.0, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 5.0, 3.0, 5.0, 15.0, 15.0, 15.0, 15.0, 15.0, 15.0)
    policy = Policy(_centred_features(high), _network(17, (), 6), _torques(6))
    return Recipe(_robot_plan(rounds, users, horizon=1000), policy, horizon=1000)


def hopper(*, rounds: int = 50, users: int = 32) -> Recipe:
    """Hopper of MuJoCo: a linear policy of 36 parameters; who falls starts again, until the slot of 500 steps is full.

    Args:
        rounds, users: as for `cart_pole`.
    """
    low = (0.7, -0.2, -2.7, -2.7, -0.8, -5.0, -5.0, -10.0, -10.0, -10.0, -10.0)
    high = (1.8, 0.2, 0.3, 0.3, 0.8, 5.0, 5.0, 10.0, 10.0, 10.0, 10.0)
    policy = Policy(Scaled(low, high), _network(11, (), 3), _torques(3))
    return Recipe(_robot_plan(rounds, users, horizon=500, reward_rate=2.0), policy, horizon=500, restarts=True)


def half_cheetah_votes(*, hidden: Hidden = (), rounds: int = 100, users: int = 16) -> Recipe:
    """HalfCheetah by votes: five of each person, on strides that grow, since a gait may tip over later.

    Args:
        hidden, rounds, users: as for `cart_pole`.
    """
    high = (0.5, 1.0, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 5.0, 3.0, 5.0, 15.0, 15.0, 15.0, 15.0, 15.0, 15.0)
    policy = Policy(_centred_features(high), _network(17, hidden, 6), _torques(6))
    strides = Ramp(first=100, last=300)
    plan = VotesPlan(rounds=rounds, users=users, directions=5, episode_length=strides, radius=1.0, step=0.3)
    return Recipe(plan, policy, horizon=1000)


def hopper_votes(*, hidden: Hidden = (), rounds: int = 90, users: int = 32) -> Recipe:
    """Hopper by votes: one of each person; episodes grow, since one that dashes forward falls after a hundred steps.

    The ranges of the features are narrow ones around a hopper on its feet, from the limits that its documentation has.

    Args:
        hidden, rounds, users: as for `cart_pole`.
    """
    middle = (1.25, 0.0, -0.2, -0.2, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    reach = (0.6, 0.2, 0.8, 0.8, 1.0, 3.0, 3.0, 4.0, 6.0, 8.0, 12.0)
    low, high = (tuple(m + sign * r for m, r in zip(middle, reach, strict=True)) for sign in (-1.0, 1.0))
    policy = Policy(Scaled(low, high), _network(11, hidden, 3), _torques(3))
    plan = VotesPlan(
        rounds=rounds,
        users=users,
        directions=1,
        episode_length=Ramp(first=100, last=400),
        radius=0.5,
        step=0.3,
        offset=-0.2,
    )
    return Recipe(plan, policy, horizon=1000)


def general_votes(
    spec: PublicSpec, *, horizon: int, repeat: int = 1, hidden: Hidden = (), rounds: int = 100, users: int = 16
) -> Recipe:
    """A first try of votes for another task: one of each person, on whole episodes.

    Args:
        spec, horizon, repeat: as for `general_recipe`.
        hidden, rounds, users: as for `cart_pole`.
    """
    plan = VotesPlan(rounds=rounds, users=users, episode_length=math.ceil(horizon / repeat), radius=0.5, step=0.3)
    return Recipe(plan, Policy.default(spec, hidden), horizon=horizon, repeat=repeat)


def with_critic(plan: PolicyGradientPlan, critic: Critic) -> PolicyGradientPlan:
    """The plan with another critic; a private one learns returns on a scale of about 1, under the same clip.

    Args:
        plan: of a recipe.
        critic: "none", "local" or "private".
    """
    if critic != "private":
        return replace(plan, critic=critic)
    scale = (1 - plan.gamma) / abs(plan.reward_rate) if plan.reward_rate else 1 - plan.gamma
    return replace(plan, critic=critic, return_scale=scale, kappa=20.0, critic_step=5.0)


NAMED: dict[str, Callable[..., Recipe]] = {
    "CartPole-v1": cart_pole,
    "Acrobot-v1": acrobot,
    "dosing-0": dosing,
    "dosing-1": dosing,
    "river-swim": river_swim,
    "HalfCheetah-v5": half_cheetah,
    "Hopper-v5": hopper,
}
"""The recipes by the names of their tasks."""


VOTED: dict[str, Callable[..., Recipe]] = {"HalfCheetah-v5": half_cheetah_votes, "Hopper-v5": hopper_votes}
"""Recipes of votes by the names of their tasks."""


def _plan(
    rounds: int,
    users: int,
    *,
    clips: Clips,
    horizon: int,
    gamma: float = 0.99,
    reward_rate: float | None = None,
    critic: Critic = "local",
    standardised: bool = True,
) -> PolicyGradientPlan:
    """The common plan; the clips are those of 8 people."""
    clip, noise = (value * users / 8 for value in clips)
    return PolicyGradientPlan(
        rounds=rounds,
        users=users,
        horizon=horizon,
        gamma=gamma,
        clip_norm=clip,
        most_noise=noise,
        critic=critic,
        reward_rate=reward_rate,
        standardised=standardised,
    )


def _robot_plan(rounds: int, users: int, *, horizon: int, reward_rate: float | None = None) -> PolicyGradientPlan:
    return PolicyGradientPlan(
        rounds=rounds, users=users, horizon=horizon, trace=0.95, clip_norm=1.5 * users / 32, reward_rate=reward_rate
    )


def _torques(joints: int) -> Gaussian:
    return Gaussian((-1.0,) * joints, (1.0,) * joints, (0.0,) * joints, 0.5)


def _network(inputs: int, hidden: Hidden, outputs: int) -> Mlp:
    """A tanh network that begins with nearly uniform actions; a linear one begins at 0."""
    return Mlp((inputs, *hidden, outputs), gain=0.01 if hidden else 0.0)


def _clips_by_size(hidden: Hidden, scale: float = 1.0) -> Clips:
    """For a log-linear policy, one small hidden layer, or more; `scale` is of the task."""
    clip, noise = (1.9, 2.0) if not hidden else (1.1, 1.2) if len(hidden) == 1 and hidden[0] <= 16 else (0.75, 0.8)
    return scale * clip, scale * noise


def _centred_features(high: tuple[float, ...]) -> Features:
    return Scaled(tuple(-v for v in high), high)
