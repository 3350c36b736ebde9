"""Other people's libraries against tacit: the same work, process CPU time on one thread.

Run `python -m benchmarks.peers` (`--only NAME` for some of the figures). A line of the table says what a peer spends,
what tacit spends, and the first over the second, in rounds that alternate. The last line is one JSON object with a
figure `NAME` for each ratio, which is meant to be at least 1. The docstring of each module says what the same work is,
and how the peer was set to be fast. All peers are optional: the line of a missing one says "not installed", and a
sentence below the table what to install. `pip install 'tacit[peers]'` brings most of them.

d3rlpy's IQL and TD3+BC are measured by `python -m benchmarks.agents`.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse

from benchmarks.peers import (
    jax_privacy_diffusion,
    mbi_mechanisms,
    opacus_diffusion,
    scope_rl_evaluation,
    stable_baselines_ppo,
)
from benchmarks.peers.works import Outcome, Work, compare

WORKS: tuple[Work, ...] = (
    *opacus_diffusion.WORKS,
    *jax_privacy_diffusion.WORKS,
    *mbi_mechanisms.WORKS,
    *stable_baselines_ppo.WORKS,
    *scope_rl_evaluation.WORKS,
)
HEADINGS = ("peer", "version", "work", "peer CPU s", "tacit CPU s", "peer over tacit")


def row(*cells: str) -> str:
    """One line of the table."""
    first, version, work, *numbers = cells
    return f"{first:26s}{version:15s}{work:44s}" + "".join(f"{number:>16s}" for number in numbers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", metavar="NAME", choices=[work.figure for work in WORKS])
    chosen = parser.parse_args().only
    ratios: dict[str, object] = {}
    missing: list[str] = []
    versions: dict[str, str] = {}
    print(row(*HEADINGS), flush=True)
    for work in WORKS:
        if chosen is not None and work.figure not in chosen:
            continue
        outcome = compare(work)
        if isinstance(outcome, Outcome):
            ratios[work.figure] = outcome.ratio
            versions[work.package] = outcome.version
            numbers = (f"{outcome.peer:.3f}", f"{outcome.tacit:.3f}", f"{outcome.ratio:.2f}")
            print(row(work.peer, outcome.version, work.description, *numbers), flush=True)
        else:
            missing.append(f"{work.peer} is missing ({outcome}): {work.install}.")
            print(row(work.peer, "not installed", work.description, "-", "-", "-"), flush=True)
    print("\n".join(dict.fromkeys(missing)))
    print("d3rlpy's IQL and TD3+BC: python -m benchmarks.agents")
    timing.report(
        {"benchmark": "peers", **ratios, "peers": versions, "at_least": dict.fromkeys(ratios, 1.0)},
        packages=("numpy", "torch"),
    )


if __name__ == "__main__":
    main()
