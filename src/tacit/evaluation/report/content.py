"""What a report says: plain public inputs, checked so that no private row can be drawn by mistake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError
from tacit.evaluation.report.courses import Courses
from tacit.evaluation.report.evidence import Attack, Audit, Cost, Nearest
from tacit.evaluation.report.histograms import Histogram

Array = NDArray[np.float64]
Reference = Literal["simulated", "public"]
Kind = Literal["reference", "synthetic", "control"]


@dataclass(frozen=True)
class Points:
    """Positions of one table in a picture, [N, 2]: over a maze in cells; a few thousand are enough."""

    label: str
    kind: Kind
    positions: Array


@dataclass(frozen=True)
class Map:
    """A maze and the tables drawn over it, one panel each.

    Attributes:
        cells: rows of the maze, '#' for a wall; x grows with the row and y with the column.
        origin: cell 0 covers [-origin, 1 - origin] on both axes.
        goal: (x, y), or None.
        panels: the tables.
    """

    cells: tuple[str, ...]
    origin: float
    goal: tuple[float, float] | None
    panels: tuple[Points, ...]


@dataclass(frozen=True)
class Correlation:
    """Pearson correlations of C columns: `synthetic` and `reference` [C, C], the latter None without reference rows."""

    labels: tuple[str, ...]
    synthetic: Array
    reference: Array | None = None


@dataclass(frozen=True)
class Curve:
    """Return of agents over training: mean [N] at steps [N] with an interval over seeds (low, high [N]).

    Curves of one `agent`, as for `Return`, share a chart.
    """

    label: str
    kind: Kind
    steps: Array
    mean: Array
    low: Array
    high: Array
    agent: str = ""


@dataclass(frozen=True)
class Return:
    """Final return of agents trained on one table: mean over `seeds` seeds, with an interval over seeds.

    `starts` names the evaluation ("all starts", "far starts") and `agent` how they learned, where there are several
    ways; rows that share both share a chart.
    """

    label: str
    kind: Kind
    starts: str
    mean: float
    low: float
    high: float
    seeds: int
    agent: str = ""


@dataclass(frozen=True)
class Score:
    """One measure of closeness.

    Attributes:
        measure: its name ("Marginal").
        meaning: one phrase on what it is and which direction is better.
        synthetic: the synthetic table's value.
        public: computed from synthetic rows and public facts alone (a public simulator, say), without reference rows.
        ceiling: the value of one half of the reference rows against the other half, or None if that makes no sense.
        controls: (name, value) of each control table.
        rivals: (name, value) of other synthesizers' tables.
    """

    measure: str
    meaning: str
    synthetic: float
    public: bool
    ceiling: float | None = None
    controls: tuple[tuple[str, float], ...] = ()
    rivals: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Report:
    """Everything that a report shows. Only public values: nothing here may depend on private rows except releases.

    Attributes:
        title: of the release ("ICU stays, synthetic").
        certificate: the release's certificate as `Certificate.to_json()` gives it, verified by the caller. The promise
            in words, the profile, what is not protected and whether the records are simulated are read from it alone.
        verify: the shell commands with which a reader recomputes the promise.
        reference: where rows that are compared or drawn beside the synthetic ones come from: "simulated" (the
            protected rows are simulated: no person is in them), "public", or None if there are none. A report on
            private people's records has none: such figures would not be differentially private.
        map, scores, marginals, correlation, returns, curves: the sections; None or () leaves one out.
        courses: trajectories as wholes.
        embedding: tables as points of one t-SNE picture.
        nearest: how near synthetic rows come to single records.
        audits, attacks: what was tried against the promise, with planted or simulated records.
        synthesizers: what this synthesizer and others take, on the same simulated rows.
        return_unit: what returns and curves are measured in.
        costs: (name, value) pairs on run time, memory and size.

    Raises:
        DataError: something of kind "reference", or a value computed from reference rows, is shown although `reference`
            is None; or `reference` is "simulated" and the certificate does not say so.
    """

    title: str
    certificate: Mapping[str, Any]
    verify: tuple[str, ...]
    reference: Reference | None = None
    map: Map | None = None
    scores: tuple[Score, ...] = ()
    marginals: tuple[Histogram, ...] = ()
    correlation: Correlation | None = None
    returns: tuple[Return, ...] = ()
    curves: tuple[Curve, ...] = ()
    courses: Courses | None = None
    embedding: tuple[Points, ...] = ()
    nearest: Nearest | None = None
    audits: tuple[Audit, ...] = ()
    attacks: tuple[Attack, ...] = ()
    synthesizers: tuple[Cost, ...] = ()
    return_unit: str = "normalised return"
    costs: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.reference == "simulated" and self.certificate.get("simulated") is not True:
            raise DataError(
                "the reference rows are called simulated and the certificate does not say so",
                where="Report",
                expected="a certificate with simulated = true, written by a vault of simulated records",
                remedy="leave every comparison with the protected rows out, or compare with public rows",
            )
        compared = {
            "map": self.map is not None and any(panel.kind == "reference" for panel in self.map.panels),
            "scores": any(not score.public or score.ceiling is not None for score in self.scores),
            "marginals": any(h.reference is not None or h.similarity is not None for h in self.marginals),
            "correlation": self.correlation is not None and self.correlation.reference is not None,
            "returns": any(row.kind == "reference" for row in self.returns),
            "curves": any(curve.kind == "reference" for curve in self.curves),
            "courses": self.courses is not None and self.courses.compared,
            "embedding": any(points.kind == "reference" for points in self.embedding),
            "nearest": self.nearest is not None,
            "attacks": bool(self.audits or self.attacks),
            "synthesizers": bool(self.synthesizers),
        }
        shown = [name for name, present in compared.items() if present]
        if self.reference is None and shown:
            raise DataError(
                f"reference rows are shown ({', '.join(shown)}) but their source is not declared",
                where="Report",
                expected="reference='simulated' or 'public' whenever real rows or values computed from them appear",
                remedy="leave them out: comparisons with private rows are not differentially private",
            )
