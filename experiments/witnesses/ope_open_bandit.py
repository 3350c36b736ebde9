"""Every plan of `experiments.ope_open_bandit` on the log of one campaign; prints one hash.

    python -m experiments.witnesses.ope_open_bandit

Two trees that print the same hash read, calibrate, draw and estimate to the last bit alike, with noise that is drawn
again from a seed. The halves of the doubly robust method depend on the ledger's random id, so that method is left to
the witness of `ope_estimators`, which hashes its scores. See `experiments.witness`.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path

from experiments import ope_open_bandit as experiment
from tacit import off_policy_evaluation as ope
from tacit.data import open_bandit
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import SecretNoise
from tacit.privacy.vault import Vault

CAMPAIGN: open_bandit.Campaign = "men"


def main() -> None:
    """Run and print the hash."""
    target, log = experiment.thompson(CAMPAIGN), open_bandit.read(CAMPAIGN)
    found = [experiment.nonprivate(log.columns, target)]
    digest = hashlib.sha256(json.dumps(found).encode())
    for name, plan in experiment.plans(target).items():
        for epsilon in experiment.EPSILONS if name != "doubly_robust" else ():
            calibrated = plan.calibrate(unit=experiment.UNIT, epsilon=epsilon, delta=experiment.DELTA)
            with (
                tempfile.TemporaryDirectory() as folder,
                Ledger(Path(folder) / "l", experiment.UNIT, epsilon=epsilon, delta=experiment.DELTA) as ledger,
            ):
                vault = Vault(open_bandit.read(CAMPAIGN), ledger, noise=SecretNoise.for_tests(1))
                value = ope.estimate(calibrated, vault, ope.Tabular(target)).value
            assert value.interval is not None
            digest.update(json.dumps([name, value.value, value.interval.low, value.interval.high]).encode())
    print(digest.hexdigest()[:16])


if __name__ == "__main__":
    main()
