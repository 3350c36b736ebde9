"""Every kind of cell of `experiments.experts_accounting`, small; prints one hash.

    python -m experiments.witnesses.experts_accounting

Nothing is drawn: two trees with the same hash compute the same figures to the last bit. See `experiments.witness`.
"""

from __future__ import annotations

import hashlib
import json

from experiments import experts_accounting as experiment


def main() -> None:
    """Print the hash."""
    cells = [
        experiment.joint(),
        experiment.allowed(2.0, experiment.DELTA),
        experiment.claim(0.5, 10.0, 1.0),
        experiment.task(2.0, 5, 0.5, 4.0),
        experiment.task(4.0, 20, 0.2, 10.0),
    ]
    print(hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()[:16])


if __name__ == "__main__":
    main()
