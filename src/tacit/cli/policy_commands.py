"""The commands of `tacit` for policies, as frozen dataclasses: fields are options, docstrings are help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from tacit.units import Relation

RECIPES: Literal["recipe"] = "recipe"
"""The choice of the environment's own recipe."""
Critic = Literal["recipe", "none", "local", "private"]
"""What each person's actions are judged against; the paper's shared critic exists with --paper alone."""
Correlation = Literal["recipe", "toeplitz", "independent", "tree"]
"""How the noise of one round is related to that of the rounds before."""


@dataclass(frozen=True, kw_only=True)
class Train:
    """Learn a policy from simulated people met once each, with differential privacy.

    Args:
        environment: any id that Gymnasium knows, one of your own as "module:Dose-v0" (importing the module registers
            it), or tacit's: river-swim, dosing-0, dosing-1, clinic.
        out: folder of the run; the key of its register of contributions lies beside it (OUT.key).
        epsilon: the promise to every person.
        delta: its slack; it must be below 1 / population, which is --users / --participations.
        users: how many contributions there are at most, rounds times people in a round: as many as people are met
            where everybody takes part once.
        users_per_round: how many people in a round, between two releases; by default the recipe's own (8, and 32 for
            the robots).
        relation: what neighbouring populations differ in: a person contributes or not, or acts like another one.
        unit: what one protected unit is called, in the singular.
        policy: "log-linear", or the widths of a tanh network ("64-64"); by default the environment's own choice.
        critic: what actions are judged against: what the recipe says; nothing but the person's own returns (none), a
            critic fitted to the person's own episode and thrown away (local), or one that is learned with noise
            (private).
        correlation: what the recipe says; noise that cancels over the rounds (toeplitz, tree) or does not
            (independent).
        clip: bound on the norm of one person's contribution.
        gamma: discount.
        horizon: most steps of the environment in one person's episode.
        repeat: public number of steps for which an action is repeated.
        participations: in how many rounds one person may take part, at most once in each. The noise grows with it, and
            the population is --users / --participations.
        bounds: JSON file with public bounds of what the environment leaves open, {"observation": [[LOWS], [HIGHS]],
            "action": [[LOWS], [HIGHS]], "reward": [LOW, HIGH]}, one number of LOWS and HIGHS for each dimension. Of an
            environment that tacit does not know, the reward's are always needed: no environment declares them.
        seed: of the simulated people and the first policy (never of the privacy noise, which is secret).
        paper: the published recipe, with a critic that is shared without noise: it has no guarantee, and its
            certificate says so.
        compare: further epsilons to train at, for the report.
        runs: how many runs of each of these, and of the ceiling and the floor.
        evaluate: on how many fresh simulated people returns are measured.
        tensorboard: also write released values as TensorBoard scalars, under OUT/tensorboard/.
        resume: go on with a run that was interrupted; give the same options (compare, runs, evaluate and tensorboard,
            which concern the report alone, may be others).
        dry_run: print the promise and stop: nobody is met and nothing is spent.
    """

    environment: Positional[str]
    out: Path
    epsilon: float = 1.0
    delta: float = 1e-5
    users: int = 1600
    users_per_round: int | None = None
    relation: Relation = "add_or_remove"
    unit: str = "person"
    policy: str | None = None
    critic: Critic = RECIPES
    correlation: Correlation = RECIPES
    clip: float | None = None
    gamma: float | None = None
    horizon: int | None = None
    repeat: int | None = None
    participations: int = 1
    bounds: Path | None = None
    seed: int = 0
    paper: bool = False
    compare: tuple[float, ...] = ()
    runs: int = 3
    evaluate: int = 200
    tensorboard: bool = False
    resume: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class Play:
    """Verify a released policy and play it in its environment; this costs no privacy.

    Args:
        policy: folder of the policy (RUN/policy).
        environment: another environment than the one that it was learned in.
        episodes: how many.
        greedy: take the best action instead of a drawn one, as policies that experts taught always do.
        averaged: play the averaged policy instead of the last one (of `tacit train`).
        render: show what happens in a window (Gymnasium's own environments).
        seed: of the environment and of the actions.
    """

    policy: Positional[Path]
    environment: str | None = None
    episodes: int = 10
    greedy: bool = False
    averaged: bool = False
    render: bool = False
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a released policy as an ONNX model: observations in, distribution over actions out.

    Args:
        policy: folder of the policy (RUN/policy).
        out: file to write; it must not exist.
        averaged: export the averaged policy instead of the last one (of `tacit train`).
    """

    policy: Positional[Path]
    out: Positional[Path]
    averaged: bool = False
