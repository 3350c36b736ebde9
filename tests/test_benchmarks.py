"""What `python -m benchmarks` concludes from figures."""

from __future__ import annotations

import json
from pathlib import Path

import benchmarks.__main__ as benchmarks
import pytest
from benchmarks.__main__ import Measured, medians

RUNS = [
    {
        "ratio": ratio,
        "speedup": speedup,
        "error": error,
        "at_most": {"ratio": 1.2, "error": 1e-6},
        "at_least": {"speedup": 8, "over_a_missing_peer": 1},
    }
    for ratio, speedup, error in ((1.0, 9.0, 1e-9), (1.4, 7.0, 1e-8), (1.1, 8.5, 1e-7))
]


def test_a_figure_is_the_median_of_its_runs() -> None:
    assert medians("x", RUNS, {"x.ratio": 1.0}) == [
        Measured("x.ratio", 1.1, 1.2, True, 1.0),
        Measured("x.error", 1e-8, 1e-6, True, None),
        Measured("x.speedup", 8.5, 8.0, False, None),
    ]


@pytest.mark.parametrize(
    ("figure", "missed", "slower"),
    [
        (Measured("x.ratio", 1.149, 1.2, True, 1.0), False, False),
        (Measured("x.ratio", 1.151, 1.2, True, 1.0), False, True),
        (Measured("x.ratio", 1.201, 1.2, True, None), True, False),
        (Measured("x.speedup", 8.7, 8.0, False, 10.0), False, False),
        (Measured("x.speedup", 8.6, 8.0, False, 10.0), False, True),
        (Measured("x.speedup", 7.9, 8.0, False, 8.0), True, False),
        (Measured("x.error", 1e-7, 1e-6, True, 1e-9), False, False),
    ],
)
def test_fifteen_percent_worse_is_slower(figure: Measured, missed: bool, slower: bool) -> None:
    assert (figure.missed, figure.slower) == (missed, slower)
    assert str(figure).split()[0] == ("MISSED" if missed else "SLOWER" if slower else "ok")


def test_the_exit_code_says_what_is_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = iter(RUNS + RUNS + [{**RUNS[0], "ratio": 1.3}] * 3)
    monkeypatch.setattr(benchmarks, "run", lambda name: next(figures))
    monkeypatch.setattr(benchmarks, "RATIOS", tmp_path / "ratios.json")
    assert benchmarks.main(["noise", "--runs", "3", "--commit"]) == 0
    assert "no committed ratios" in capsys.readouterr().out
    ((_, stored),) = json.loads((tmp_path / "ratios.json").read_text()).items()
    assert stored == {"noise.ratio": 1.1, "noise.error": 1e-8, "noise.speedup": 8.5}
    assert benchmarks.main(["noise", "--runs", "3"]) == 0
    assert benchmarks.main(["noise", "--runs", "3"]) == 1


def test_every_benchmark_is_run() -> None:
    folder = Path(benchmarks.__file__).parent
    parts_of_others = {"timing", "dosing", "ope_hiv"}
    names = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
    assert names - parts_of_others | {"peers"} == set(benchmarks.RUNS)
