"""Every benchmark, against its bars and against the ratios that are committed for this machine's instruction set.

    python -m benchmarks                   # each; fails where a median is 15 % worse than the committed one
    python -m benchmarks noise dp_sgd      # some of them
    python -m benchmarks --commit          # write the medians into benchmarks/ratios.json

`benchmarks/ratios.json` holds the medians by instruction set (as torch calls it: AVX2, AVX512), since a ratio of two
computations depends on it. On a set without committed ratios the figures are reported, and nothing fails. Missed bars
are reported too. Figures of accuracy (an error, a difference, a loss) are compared with their bars alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RATIOS = ROOT / "benchmarks" / "ratios.json"
RUNS: Mapping[str, int] = {
    "noise": 5,
    "dp_sgd": 5,
    "sampling": 5,
    "sampling_diffusion": 1,
    "agents": 1,
    "ledger": 5,
    "maze": 5,
    "alignment": 1,
    "off_policy_evaluation": 1,
    "policy_gradient": 1,
    "experts": 1,
    "mobility": 1,
    "trajectories": 1,
    "distributed": 1,
    "demo": 1,
    "peers": 1,
    "scale": 1,
    "start_up": 1,
    "commands": 1,
    "histograms": 5,
    "shards": 1,
    "outputs": 1,
    "ingest": 1,
}
"""How often each is run: once where one run is minutes of rounds of its own, whose median it prints."""
WORSE = 1.15
ACCURACY = ("error", "difference", "loss")


@dataclass(frozen=True)
class Measured:
    """The median of a figure, with its bar and the committed median.

    Attributes:
        name: "BENCHMARK.FIGURE".
        value: the median over the runs.
        bar: the promised bound.
        most: whether the bar is the largest value that is good, not the smallest.
        committed: the median that is committed for this instruction set; None without one.
    """

    name: str
    value: float
    bar: float
    most: bool
    committed: float | None

    @property
    def missed(self) -> bool:
        """Whether the bar is missed."""
        return self.value > self.bar if self.most else self.value < self.bar

    @property
    def slower(self) -> bool:
        """Whether the figure is worse by 15 % than the committed one."""
        if self.committed is None or any(word in self.name for word in ACCURACY):
            return False
        return self.value > WORSE * self.committed if self.most else self.value < self.committed / WORSE

    def __str__(self) -> str:
        verdict = " and ".join(word for word, true in (("MISSED", self.missed), ("SLOWER", self.slower)) if true)
        before = "none committed" if self.committed is None else f"committed {self.committed:.4g}"
        bound = f"{'at most' if self.most else 'at least'} {self.bar:g}"
        return f"{verdict or 'ok':8s}{self.name:42s}{self.value:10.4g}   {bound}, {before}"


def medians(name: str, runs: Sequence[Mapping[str, Any]], committed: Mapping[str, float]) -> list[Measured]:
    """The promised figures of one benchmark's runs, each the JSON object that a run printed last."""
    return [
        Measured(
            f"{name}.{figure}",
            statistics.median(float(run[figure]) for run in runs),
            float(bar),
            side == "at_most",
            committed.get(f"{name}.{figure}"),
        )
        for side in ("at_most", "at_least")
        for figure, bar in runs[0].get(side, {}).items()
        if figure in runs[0]  # without a peer its figures are missing
    ]


def run(name: str) -> dict[str, Any]:
    """Run one benchmark, and return the JSON object that it prints last.

    Raises:
        CalledProcessError: it failed.
    """
    print(f"-- {name}", flush=True)
    command = [sys.executable, "-m", f"benchmarks.{name}"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, end="", flush=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(arguments: Sequence[str]) -> int:
    """Run, compare, report; 1 where a median is worse by 15 % than the committed one."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RUNS)}; all by default")
    parser.add_argument("--runs", type=int, help="of each benchmark, instead of its own number")
    parser.add_argument("--commit", action="store_true", help="write the medians into benchmarks/ratios.json")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(RUNS):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; expected some of {', '.join(RUNS)}")
    stored: dict[str, dict[str, float]] = json.loads(RATIOS.read_text()) if RATIOS.exists() else {}
    instructions = torch.backends.cpu.get_cpu_capability()
    committed = stored.get(instructions, {})
    measured: list[Measured] = []
    for name in options.names or RUNS:
        measured += medians(name, [run(name) for _ in range(options.runs or RUNS[name])], committed)
    print(f"\nInstruction set {instructions}: {'' if committed else 'no '}committed ratios", *measured, sep="\n")
    if options.commit:
        stored[instructions] = committed | {figure.name: float(f"{figure.value:.4g}") for figure in measured}
        RATIOS.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    return int(any(figure.slower for figure in measured))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
