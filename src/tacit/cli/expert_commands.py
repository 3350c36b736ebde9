"""`tacit learn` as a frozen dataclass: its fields are the options, its docstring is the help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

Method = Literal["votes", "return-weighted", "consensus"]
"""Plans of `tacit.experts`: `Votes`, `ReturnWeighted`, `Consensus`."""
Clone = Literal["linear", "quadratic", "mlp"]
"""What an expert's clone is: linear in the observation, in its products of two, or a small network."""
Learner = Literal["cql", "dqn", "bc"]
"""Losses of `tacit.agents.learners`."""
Activation = Literal["relu", "tanh"]
"""Between the layers of networks that do not say it."""


@dataclass(frozen=True, kw_only=True)
class Learn:
    """Learn one policy from many experts, with differential privacy for every expert.

    Args:
        source: folder of the experts' private logs (`tacit data import` writes one, --unit EXPERT_ID), or of their
            policies, one .safetensors or .onnx file each, which are played in --world. Without it, a population of
            --world is simulated.
        out: folder of the run.
        epsilon: the promise to every expert.
        delta: its slack; it must be below 1 / population.
        population: how many experts there could be, as the public knows; never counted from the data. Of a simulated
            population, the experts in it.
        unit: what one protected expert is called, in the singular ("doctor").
        method: "votes" of clones at public states; "return-weighted" imitation; "consensus" prefixes and private
            training.
        world: public simulator: cart_pole, acrobot, lunar_lander, hiv, or any id that Gymnasium knows. Logs need none,
            except for consensus prefixes; with one, the report says what the policy returns there.
        bounds: JSON file with public bounds of what a Gymnasium environment leaves open (as for `tacit train`).
        experts: how many are simulated.
        kind: of the simulated ones: good, or mixed with bad ones.
        episodes: how many each expert plays in --world, where policies are played.
        horizon: most steps of such an episode; by default the world's own.
        floor: probability of every action but their best one with which policies are played; for consensus prefixes it
            is also what keeps one action from telling an expert.
        activation: between the layers of policies whose files do not say it; by default relu.
        simulated: declare that nobody is behind the policies in the folder.
        anchors: how many public states the experts vote at.
        anchor_bounds: JSON file {"observation": [[LOWS], [HIGHS]]} of the box they are drawn from; by default the
            bounds of the records.
        clone: what stands for an expert; by default linear, and an mlp in lunar_lander and hiv.
        policy: "linear", or the widths of a tanh network ("32" or "64-64"); by default like the clone.
        rounds: of votes; from the second on, where the policy of the round before comes in --world.
        returns: public LOW HIGH of an episode's return; experts count by theirs (votes and return-weighted).
        sharpness: how much more an expert at HIGH counts, as the exponent of e.
        rows: of how many rows of an expert its clone or its gradients are made at most.
        clip: bound on the norm of one expert's gradient (return-weighted, consensus).
        steps: of the training, noiseless ones included (return-weighted, consensus).
        learner: the loss of the training on consensus: conservative or plain Q-learning, or imitation.
        prefixes: how many trajectories are drawn for the consensus.
        present: public lower bound on how many experts there are (consensus).
        stop: chance of a random end of a prefix at each step, in place of --floor; by default 0.02.
        queried: draw the trajectories of the experts' own policies, not of their clones'. The promise then covers the
            policies alone.
        share: of epsilon and delta, for the consensus; the rest is for the training.
        stable_fraction: of the training's steps, that are noiseless, on the consensus.
        paper: the settings of arXiv:2411.13598 for --world at --epsilon 10, 7.5 or 5, which is what that paper claims;
            the promise, the certificate and the budget say what holds. Consensus of the experts' own policies;
            --steps shortens it, since the paper trains for millions.
        evaluate: over how many episodes in --world returns are measured.
        seed: of simulated experts, of what they play and of evaluations (never of the privacy noise, which is secret).
        ledger: file of the budget of these experts; by default beside the source (SOURCE.ledger).
        budget_epsilon: their whole budget, when the ledger is new (by default: this release alone).
        budget_delta: likewise.
        dry_run: print the promise and stop: no file is opened and nothing is spent.
    """

    source: Positional[Path | None] = None
    out: Path
    epsilon: float
    delta: float
    population: int | None = None
    unit: str = "expert"
    method: Method = "votes"
    world: str | None = None
    bounds: Path | None = None
    experts: int | None = None
    kind: Literal["good", "mixed"] | None = None
    episodes: int | None = None
    horizon: int | None = None
    floor: float | None = None
    activation: Activation | None = None
    simulated: bool = False
    anchors: int | None = None
    anchor_bounds: Path | None = None
    clone: Clone | None = None
    policy: str | None = None
    rounds: int | None = None
    returns: tuple[float, float] | None = None
    sharpness: float | None = None
    rows: int | None = None
    clip: float | None = None
    steps: int | None = None
    learner: Learner | None = None
    prefixes: int | None = None
    present: int | None = None
    stop: float | None = None
    queried: bool = False
    share: float | None = None
    stable_fraction: float | None = None
    paper: bool = False
    evaluate: int = 100
    seed: int = 0
    ledger: Path | None = None
    budget_epsilon: float | None = None
    budget_delta: float | None = None
    dry_run: bool = False

    @property
    def simulates(self) -> bool:
        """Whether the experts are made up here."""
        return self.source is None

    @property
    def data(self) -> Path:
        """Beside which the ledger lies."""
        return self.out / "experts" if self.source is None else self.source
