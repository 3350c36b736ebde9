from __future__ import annotations

from pathlib import Path
from typing import Any

import device_cases as cases
import numpy as np
import pytest
from tests.federation.loop_grid import Opener

from tacit.federation import FlowerDevices, simulate
from tacit.privacy.vault.federated_vault import FederatedVault

PEOPLE, STEPS = 4, 2


@pytest.mark.slow  # it starts a cluster of Ray, for 11 s
def test_ray_answers_as_one_process_does(tmp_path: Path) -> None:
    """Each device is built again in another process, and its state survives from one round to the next."""
    plan = cases.priced("server", 0.0)

    def serve(devices: FlowerDevices) -> list[Any]:
        devices.wait(PEOPLE)
        vault = FederatedVault(devices, cases.ledger(tmp_path))
        run = vault.reserve(plan)
        means = [vault.noisy_sum(run, "sum", cases.Remembering(), cases.PUBLIC)[0] for _ in range(STEPS)]
        vault.ledger.close()
        return means

    means = simulate(serve, Opener(tmp_path, plan), devices=PEOPLE, spec=cases.SPEC, timeout=600.0)
    for step, mean in enumerate(means):
        np.testing.assert_allclose(mean, cases.exact(step, PEOPLE), atol=1e-6, rtol=0)
    assert len(list(tmp_path.glob("person?"))) == PEOPLE
