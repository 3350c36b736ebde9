"""What the report of `tacit synthesize` shows besides the promise."""

from __future__ import annotations

from typing import Any

from tacit.cli import outcome, runs
from tacit.cli.synthesis_commands import Synthesize
from tacit.cli.synthesis_plans import PRIVORL_J
from tacit.cli.synthesis_sources import CLINIC, Sources
from tacit.envs.maze_layouts import LAYOUTS, Layout
from tacit.evaluation.report import Cost, tables
from tacit.evaluation.sequences import Sequences
from tacit.privacy.certificate.certificate import Release

SYMPTOMS = (0, "symptoms")
"""What a time line of the clinic shows."""


def sections(
    command: Synthesize, release: Release[Any], synthetic: Sequences, sources: Sources, watch: outcome.Stopwatch
) -> dict[str, Any]:
    """All of them: private records are never compared with, only simulated ones."""
    data, size = sources.data, runs.size_of(release)
    real = data.columns if data.simulated else None
    found = tables.sections(data.spec, synthetic.columns, real, seed=command.seed)
    layout = LAYOUTS.get(command.world or "")
    scores = found.get("scores", ())
    if layout is not None:
        scores += tables.physics(layout, synthetic.columns, ())
        panels: list[tuple[str, Any, tables.Table]] = [("Synthetic rows", "synthetic", synthetic.columns)]
        if real is not None:
            panels.insert(0, ("Protected rows", "reference", real))
        found["map"] = tables.maze_map(layout, panels, seed=command.seed)
    if command.method == PRIVORL_J:
        whole = _whole(command, release, synthetic, sources, layout)
        found["courses"], scores = whole["courses"], scores + whole["scores"]
    found["scores"] = scores
    if real is None:
        return {**found, "costs": (size,)}
    found["embedding"] = tables.picture(real, synthetic.columns, seed=command.seed)
    if sources.holdout is not None:
        found["nearest"] = tables.nearest(synthetic.columns, real, sources.holdout.columns, seed=command.seed)
    cost = Cost(command.method, "synthetic", tuple(watch.phases.items()), watch.memory())
    return {**found, "synthesizers": (cost,), "costs": (size, *watch.costs())}


def _whole(
    command: Synthesize, release: Release[Any], synthetic: Sequences, sources: Sources, layout: Layout | None
) -> dict[str, Any]:
    data, public = sources.data, sources.public
    line = {"state": SYMPTOMS} if command.world == CLINIC else {}
    return tables.courses(
        data.spec,
        synthetic,
        Sequences.of(data) if data.simulated else None,
        None if public is None else Sequences.of(public),
        longest=release.value.plan.longest,
        seed=command.seed,
        layout=layout,
        **line,
    )
