"""Trackers of runs: what a vault lets out, step by step, as lines of JSON, for TensorBoard or for MLflow.

    release = synthesis.fit(plan, Vault(data, ledger, tracker=JsonLines("run.jsonl")))

The vault calls its tracker, whatever the method: once for each plan that its ledger admits, and once for each value
that leaves a mechanism. A tracker sees the lengths of these values and never what they were computed from, so tracking
costs no privacy. Runs within a private selection are not tracked, since their number is secret.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from tacit.errors import FileError

__all__ = ["JsonLines", "MLflow", "TensorBoard", "Tracker"]


class Tracker(Protocol):
    """What a vault shows released values to; what `log` raises ends the run, and the step stays charged."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Keep the values of one step.

        Args:
            step: of the part of the plan that the names begin with, from 1; of "ledger/..." how many plans there are.
            values: "ledger/epsilon" and "ledger/delta", what is spent so far; or of what a part of the plan let out its
                Euclidean length "PART/length" and largest absolute number "PART/largest" (of replicates, all together).
                Of prefixes there are "PART/count" and "PART/steps", of a selection "PART/candidate" and "PART/score".
        """


class JsonLines:
    """One JSON object a step: {"step": 1, "fit/length": 0.25, "fit/largest": 0.01}.

    Args:
        path: the file; what it holds already stays, so that a resumed run goes on in it.

    Raises:
        FileError: the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        try:
            self._path.open("a").close()
        except OSError as error:
            what = f"the file cannot be written ({error.strerror})"
            expected = "a file in a folder that exists and can be written"
            remedy = "choose another path for the tracker"
            raise FileError(what, where=str(path), expected=expected, remedy=remedy) from None

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add a line, which is in the file when this returns; numbers that are not finite become null."""
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **finite}) + "\n")


class TensorBoard:
    """Scalars in an event file, which leaving a `with` block closes; needs the extra `tensorboard`.

    Args:
        folder: for `tensorboard --logdir`.

    Raises:
        ModuleNotFoundError: TensorBoard is not installed.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._writer: Any = import_module("torch.utils.tensorboard").SummaryWriter(log_dir=str(folder))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add one scalar for each name."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._writer.close()


class MLflow:
    """Metrics of an MLflow run; needs the extra `mlflow`. Where they go is MLflow's own setting.

    Args:
        run_id: of an existing run; None takes the active one, or starts one.

    Raises:
        ModuleNotFoundError: MLflow is not installed.
    """

    def __init__(self, run_id: str | None = None) -> None:
        self._mlflow: Any = import_module("mlflow")
        self._run_id = run_id

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log one metric for each name."""
        self._mlflow.log_metrics(dict(values), step=step, run_id=self._run_id)
