"""The commands that run a plan, as frozen dataclasses: fields are options, docstrings are help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from tacit.cli.options import PlanCommand, of_plans
from tacit.methods import list_baselines, list_names
from tacit.units import Relation, Unit

if TYPE_CHECKING:
    from tacit.study.account import Account, Words

    Baseline = str
    SynthesisMethod = str
else:
    Baseline = Literal[list_baselines()]
    SynthesisMethod = Literal[list_names("synthesize")]
RowsFormat = Literal["parquet", "csv", "npz", "minari", "folder"]
"""What synthetic rows are written as."""


@dataclass(frozen=True, kw_only=True)
class Spending(PlanCommand):
    """A command that spends from the ledger of its records.

    Args:
        epsilon: the promise to every unit, for all that this run releases.
        delta: its slack; it must be below 1 / population.
        ledger: file of the budget of these records; by default beside them (DATA.ledger).
        budget_epsilon: the whole budget of the records, when the ledger is new (by default: this run alone).
        budget_delta: likewise.
        dry_run: print the promise and stop: no record is read and nothing is spent.
    """

    epsilon: float
    delta: float
    ledger: Path | None = None
    budget_epsilon: float | None = None
    budget_delta: float | None = None
    dry_run: bool = False

    @property
    def simulates(self) -> bool:
        """Whether the records are made up here."""
        return False

    @property
    def sources(self) -> tuple[Path, ...]:
        """All records that the ledger pays for."""
        return (Path(vars(self)["data"]),)

    def account(self, unit: Unit, words: Words, *, epsilon: float | None = None) -> Account:
        """What pays for the run, by default of its --epsilon."""
        from tacit.cli.console import Console
        from tacit.study.account import Account

        return Account(
            sources=self.sources,
            unit=unit,
            epsilon=self.epsilon if epsilon is None else epsilon,
            delta=self.delta,
            words=words,
            ledger=self.ledger,
            budget_epsilon=self.budget_epsilon,
            budget_delta=self.budget_delta,
            simulated=self.simulates,
            resumes=hasattr(self, "resume"),
            narrator=Console(),
        )


@dataclass(frozen=True, kw_only=True)
class Demo(PlanCommand):
    """The whole library in two minutes: simulated private maze data, a synthetic dataset, its report and certificate.

    Args:
        out: folder of the run; everything is written there.
        epsilon: the promise to every transition, at delta 1e-7.
        seed: of the simulated data, of sampling and of the agents (never of the privacy noise, which is secret).
        quick: a tiny run of seconds, to see that everything works; its figures mean nothing.
        full: more steps, rows and agents, for better figures in six minutes or so.
        compare: other synthesizers to learn from the same data at the same epsilon: mst, aim, pgm, privsyn, pate-gan.
        audit: also attack the release, and train once more with planted records for a lower bound on epsilon.
        format: of the synthetic rows: "parquet" (rows.parquet), "csv", "npz" or "folder" (tacit's own format).
        resume: go on with a run that was interrupted.
    """

    out: Path
    epsilon: float = 1.0
    seed: int = 0
    quick: bool = False
    full: bool = False
    compare: tuple[Baseline, ...] = ()
    audit: bool = False
    format: RowsFormat = "parquet"
    resume: bool = False


@dataclass(frozen=True, kw_only=True)
@of_plans("synthesize")
class Synthesize(Spending):
    """Learn a synthesizer with differential privacy, and write a synthetic dataset and its certificate.

    The rows of `--method privorl` are single steps. Where a unit owns several records (a patient, an episode), many of
    them enter a noisy gradient at once, and noisy histograms weight the rows. Whole trajectories come from `privorl-j`.

    Args:
        data: folder of the private records (`tacit data import` writes one).
        out: folder of the run; it will hold nothing private, but for what --nonprivate-diagnostics puts into private/.
        unit: what one protected unit is, in the singular ("patient").
        relation: what neighbouring data sets differ in: a unit is present or absent, or exchanged for another.
        population: how many units there could be, as the public knows; never counted from the data.
        method: "privorl" (a diffusion model of single steps), "privorl-j" (one of whole trajectories), or to compare
            with: "mst", "aim" and "pgm" (graphical models of noisy marginals), "privsyn" (noisy marginals, gradually
            adapted), "pate-gan" and "pre-pate-gan" (a generator that learns from noisy votes of teachers; the latter
            begins with public records).
        public: folder of public records of the same shape to pre-train on, or to choose bins by. They are never
            compared with the private ones: what becomes of a run does not depend on who is on both sides.
        provenance: where the public records come from and why they hold no private one; it is printed in the
            certificate.
        paper: the published settings of privorl or privorl-j, with millions of parameters (for an accelerator), not
            ours.
        expected_batch_size: expected number of units in a noisy gradient.
        curiosity_rate: share of each public batch that novel generated rows replace in privorl's pre-training, with
            --public (the paper's curiosity; its rate is 0.3).
        no_rake: leave out the noisy histograms of the rows that privorl and privorl-j release besides the model,
            within the same promise, and by which they weight what is sampled. With --public, their bins are cut by the
            public records.
        choose: settings of privorl to choose from by the records themselves, each as NAME=VALUE,VALUE: all combinations
            are candidates, of which a secret number is run and the best released, within the same promise. Names:
            steps, expected-batch-size, clip-norm, rows-per-unit, noise-multiplicity, learning-rate, curiosity-rate. It
            takes about ten times as long; how long exactly must not become known, and it cannot be resumed.
        device: where the diffusion model is trained and sampled: cpu, or an accelerator such as cuda.
        rows: how many synthetic transitions to write; 100,000 by default.
        trajectories: how many synthetic trajectories to write, for privorl-j; 1,000 by default.
        format: of the synthetic rows: "parquet" (OUT/rows.parquet), "csv", "npz", "minari" or "folder" (tacit's own).
        world: the simulator that the records are of, a maze (umaze, medium ...) or "clinic": the report draws what was
            synthesized in it, and compares it with its steps.
        holdout: folder of records of the same kind that nothing is learned from, to see whether records were copied.
        nonprivate_diagnostics: also compute closeness to the records WITHOUT privacy for the curator, under
            OUT/private/.
        seed: of sampling and public pre-training (never of the privacy noise, which is secret).
        resume: go on with a run that was interrupted; give the same options.
    """

    data: Positional[Path]
    out: Path
    unit: str
    relation: Relation
    population: int
    method: SynthesisMethod = "privorl"
    public: Path | None = None
    provenance: str | None = None
    paper: bool = False
    expected_batch_size: float | None = None
    curiosity_rate: float | None = None
    no_rake: bool = False
    choose: tuple[str, ...] = ()
    device: str = "cpu"
    rows: int | None = None
    trajectories: int | None = None
    format: RowsFormat = "parquet"
    world: str | None = None
    holdout: Path | None = None
    nonprivate_diagnostics: bool = False
    seed: int = 0
    resume: bool = False
