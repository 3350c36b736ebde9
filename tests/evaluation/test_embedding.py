"""t-SNE: groups that are apart stay apart, and the extra is named where it is missing."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tacit.errors import DataError
from tacit.evaluation.neighbours import tsne


def table(rows: int, seed: int, centre: float = 0.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    states = rng.normal(centre, 1.0, size=(rows, 2)).astype(np.float32)
    reward = rng.normal(size=rows).astype(np.float32)
    return {"observations": states, "actions": states[:, :1], "rewards": reward, "next_observations": states}


def test_what_lies_apart_is_drawn_apart_and_what_is_alike_together() -> None:
    pytest.importorskip("sklearn")
    shown = tsne({"real": table(60, 0), "alike": table(80, 1), "far": table(50, 2, centre=30.0)}, rows=50)
    assert {name: places.shape for name, places in shown.items()} == dict.fromkeys(("real", "alike", "far"), (50, 2))
    middle = {name: places.mean(axis=0) for name, places in shown.items()}
    spread = np.concatenate([shown["real"], shown["alike"]]).std()
    assert np.linalg.norm(middle["real"] - middle["alike"]) < spread
    assert np.linalg.norm(middle["real"] - middle["far"]) > 2 * spread


def test_few_rows_and_other_columns_are_refused() -> None:
    pytest.importorskip("sklearn")
    with pytest.raises(DataError, match="too few rows"):
        tsne({"real": table(20, 0), "synthetic": table(10, 1)})
    with pytest.raises(DataError, match="different columns"):
        tsne({"real": table(20, 0), "synthetic": table(20, 1) | {"actions": np.zeros((20, 2), np.float32)}})


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(DataError, match=r"pip install 'tacit\[tsne\]'"):
        tsne({"real": table(40, 0)})
