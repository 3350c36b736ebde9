"""A small seeded run of `experiments.trajectory_audit`, both ways; prints one hash."""

from __future__ import annotations

from functools import partial
from unittest import mock

import torch

from experiments import trajectory_audit
from experiments.witnesses.seeded import Digest
from tacit.privacy.noise import SecretNoise
from tacit.privacy.vault import Vault


def main() -> str:
    """Scores and coins of one run of each way."""
    torch.set_num_threads(1)
    digest = Digest()
    with mock.patch.object(trajectory_audit, "Vault", partial(Vault, noise=SecretNoise.for_tests(13))):
        for way in trajectory_audit.RUNS:
            values = trajectory_audit.run(trajectory_audit.Cell(way, 0))
            digest.add(way, {name: value for name, value in values.items() if name != "cpu_s"})
    return str(digest)


if __name__ == "__main__":
    print(main())
