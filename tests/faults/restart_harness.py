"""One rank of a torchrun with restarts, which dies at a point of its first lives: `restart_harness.py FOLDER MODE`.

The MODE "command" runs `tacit synthesize --resume` over the shards in FOLDER, "command, no resume" the same without;
others are those of `shard_harness.py`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from shard_harness import PATIENCE, deadly, run

from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.vault.sharded_vault import Ranks
from tacit.privacy.vault.steps import VectorStep

DEATHS = {(0, 1): (VectorStep, "add_samples", False, 4), (1, 0): (Ledger, "claim", True, 3)}
"""(life, rank) -> where it dies: a worker before its fourth sum, the leader after its third claim."""
COMMAND_DEATHS = {(0, 1): (Ranks, "add", False, 3), (1, 0): (Ranks, "add", True, 2)}


def main(folder: Path, mode: str) -> int:
    """Live once."""
    torch.set_num_threads(1)
    life, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
    command = mode.startswith("command")
    deaths = COMMAND_DEATHS if command else DEATHS
    if (life, rank) in deaths:
        deadly(*deaths[life, rank])
    if not command:
        ranks = Ranks(patience=PATIENCE)
        run(ranks, folder, mode)
        ranks.close()  # threads of a group that is still open may abort a process that ends
        return 0
    from tacit.cli.app import main as tacit

    words = (folder / "words").read_text().split("\n")
    code = tacit([*words, "--resume"] if mode == "command" else words)
    (folder / f"life{life}.rank{rank}").write_text(str(code))
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
