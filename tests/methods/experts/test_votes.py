"""Clone votes through a vault: what is released, refused and certified."""

from __future__ import annotations

from pathlib import Path

from expert_cases import DELTA, UNIT, balanced, columns, gains, open_vault, votes

import tacit
from tacit.methods.experts.algorithm import learn


def test_private_votes_of_perturbed_controllers_hold_the_pole_up(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, columns(gains(200)), replicates=2)
    release = learn(votes().calibrate(unit=UNIT, epsilon=2.0, delta=DELTA), vault)
    assert min(balanced(release.value.actor(), 2)) > 480
    release.certificate.verify()
    assert release.certificate.epsilon <= 2.0
    assert tacit.experts.learn is learn
