"""The commands about synthetic transitions, as `commands` has the others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from tacit.units import Relation

Baseline = Literal["mst", "aim", "pgm", "privsyn", "pate-gan"]
"""Methods that learn from private records alone, to compare with."""
SynthesisMethod = Literal["privorl", "privorl-j", "mst", "aim", "pgm", "privsyn", "pate-gan", "pre-pate-gan"]
"""Methods of `tacit synthesize`."""
FragmentNetwork = Literal["transformer", "unet", "autoregressive"]
"""Networks of `tacit synthesize --method privorl-j`."""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """The whole library in a few minutes: simulated private maze data, a synthetic dataset, its report and certificate.

    Args:
        out: folder of the run; everything is written there.
        epsilon: the promise to every transition, at delta 1e-7.
        seed: of the simulated data, of sampling and of the agents (never of the privacy noise, which is secret).
        quick: a tiny run of seconds, to see that everything works; its figures mean nothing.
        compare: other synthesizers to learn from the same data at the same epsilon: mst, aim, pgm, privsyn, pate-gan.
        audit: also attack the release, and train once more with planted records for a lower bound on epsilon.
        resume: go on with a run that was interrupted.
    """

    out: Path
    epsilon: float = 1.0
    seed: int = 0
    quick: bool = False
    compare: tuple[Baseline, ...] = ()
    audit: bool = False
    resume: bool = False


@dataclass(frozen=True, kw_only=True)
class Synthesize:
    """Learn a synthesizer with differential privacy, and write a synthetic dataset and its certificate.

    The rows of `--method privorl` are single steps. Where a unit owns several records (a patient, an episode), many of
    them enter a noisy gradient at once, and noisy histograms weight the rows. Whole trajectories come from `privorl-j`.

    Args:
        data: folder of the private records (`tacit data import` writes one).
        out: folder of the run; it will hold nothing private, but for what --nonprivate-diagnostics puts into private/.
        unit: what one protected unit is, in the singular ("patient").
        relation: what neighbouring data sets differ in: a unit is present or absent, or exchanged for another.
        population: how many units there could be, as the public knows; never counted from the data.
        epsilon: the promise to every unit.
        delta: its slack; it must be below 1 / population.
        method: "privorl" (a diffusion model of single steps), "privorl-j" (one of whole trajectories), or to compare
            with: "mst", "aim" and "pgm" (graphical models of noisy
            marginals), "privsyn" (noisy marginals, gradually adapted), "pate-gan" and "pre-pate-gan" (a generator that
            learns from noisy votes of teachers; the latter begins with public records).
        ledger: file of the budget of these records; by default beside the data folder (DATA.ledger).
        budget_epsilon: the whole budget of the records, when the ledger is new (by default: this release alone).
        budget_delta: likewise.
        public: folder of public records of the same shape to pre-train on, or to choose bins by. Before anything is
            learned it is checked that no more of them coincide with private ones than chance explains; the look at
            private records is noted in their ledger.
        provenance: where the public records come from and why they hold no private one; it is printed in the
            certificate.
        public_is_apart: why nobody is on both sides, though more single rows coincide than chance explains; it is
            printed in the certificate and noted in the ledger. Several in a row are refused all the same.
        paper: the published settings of privorl or privorl-j, with millions of parameters (for an accelerator), not
            ours.
        steps: number of noisy gradients, or of batches of noisy votes.
        batch: expected number of units in a noisy gradient.
        clip: bound on the norm of a unit's gradient.
        rows_per_unit: rows of one unit in a noisy gradient.
        noise_draws: diffusion noise draws averaged for each row.
        no_rake: leave out the noisy histograms of the rows that privorl and privorl-j release besides the model,
            within the same promise, and by which they weight what is sampled. With --public, their bins are cut by the
            public records.
        network: of fragments, for privorl-j: a transformer, a temporal U-Net, or one that draws row by row.
        horizon: rows of a fragment, for privorl-j; trajectories are stitched from fragments.
        fragments_per_unit: fragments of one unit in a noisy gradient, for privorl-j.
        surroundings: for privorl-j: whose --public records are of many worlds (cities, hospitals, mazes), each world a
            unit of them, learn from these alone how people move, and see the private world by its noisy histograms
            alone, up to so many bins around a place; no noisy gradient is taken then.
        longest: steps of the longest episode, as the public knows, for privorl-j; longer ones are cut off.
        episodes_per_unit: how many episodes a unit usually owns, as the public knows, for privorl-j.
        width: width of the network.
        depth: depth of the network.
        learning_rate: of Adam on the noisy gradients.
        choose: settings of privorl to choose from by the records themselves, each as NAME=VALUE,VALUE: all combinations
            are candidates, of which a secret number is run and the best released, within the same promise. Names:
            steps, batch, clip, rows-per-unit, noise-draws, learning-rate. It takes about ten times as long; how long
            exactly must not become known, and it cannot be resumed.
        bins: bins of a column, for the methods of marginals.
        teachers: how many there are, for the methods of votes.
        device: where the diffusion model is trained and sampled: cpu, or an accelerator such as cuda.
        rows: how many synthetic transitions to write; 100,000 by default.
        trajectories: how many synthetic trajectories to write, for privorl-j; 1,000 by default.
        world: the simulator that the records are of, a maze (umaze, medium ...) or "clinic": the report draws what was
            synthesized in it, and compares it with its steps.
        holdout: folder of records of the same kind that nothing is learned from, to see whether records were copied.
        nonprivate_diagnostics: also compute closeness to the records WITHOUT privacy for the curator, under
            OUT/private/.
        seed: of sampling and public pre-training (never of the privacy noise, which is secret).
        resume: go on with a run that was interrupted; give the same options.
        dry_run: check the options and the budget, print the promise and stop: no private record is read and nothing
            is spent.
    """

    data: Positional[Path]
    out: Path
    unit: str
    relation: Relation
    population: int
    epsilon: float
    delta: float
    method: SynthesisMethod = "privorl"
    ledger: Path | None = None
    budget_epsilon: float | None = None
    budget_delta: float | None = None
    public: Path | None = None
    provenance: str | None = None
    public_is_apart: str | None = None
    paper: bool = False
    steps: int | None = None
    batch: float | None = None
    clip: float | None = None
    rows_per_unit: int | None = None
    noise_draws: int | None = None
    no_rake: bool = False
    network: FragmentNetwork | None = None
    horizon: int | None = None
    fragments_per_unit: int | None = None
    surroundings: int | None = None
    longest: int | None = None
    episodes_per_unit: int | None = None
    width: int | None = None
    depth: int | None = None
    learning_rate: float | None = None
    choose: tuple[str, ...] = ()
    bins: int | None = None
    teachers: int | None = None
    device: str = "cpu"
    rows: int | None = None
    trajectories: int | None = None
    world: str | None = None
    holdout: Path | None = None
    nonprivate_diagnostics: bool = False
    seed: int = 0
    resume: bool = False
    dry_run: bool = False

    @property
    def simulates(self) -> bool:
        """Whether the records are made up here; they never are."""
        return False


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Draw more synthetic transitions or trajectories from a released model; this costs no privacy.

    Args:
        model: folder of the model (RUN/model).
        count: how many transitions, or trajectories of a model of these.
        transitions: draw single steps of a model of trajectories, each weighted for itself: for agents, which look at
            nothing else.
        seed: of the sampling.
        out: folder to write, in tacit's own format; it must not exist.
        minari: write a Minari dataset of this id instead (name-v0).
        root: folder of the Minari datasets; otherwise Minari's own.
    """

    model: Path
    count: int
    transitions: bool = False
    seed: int = 0
    out: Path | None = None
    minari: str | None = None
    root: Path | None = None
