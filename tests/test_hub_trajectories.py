"""Released synthesizers of trajectories on disk: what comes back draws the same trajectories, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tacit import hub
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.hub.values import KINDS
from tacit.methods.synthesis import Sampler, TableMatching
from tacit.methods.synthesis.trajectories import TrajectoriesPlan, TrajectorySynthesizer, fit
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.plan import public_fields
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

SPEC = PublicSpec(Box((0.0,), (1.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared", difference=(0.1,))
UNIT = Unit("person", "add_or_remove", 40)


def released(folder: Path, **fields: object) -> Release[TrajectorySynthesizer]:
    rng = np.random.default_rng(0)
    states = rng.uniform(0.1, 0.9, (120, 1))
    data = Trajectories.from_arrays(
        observations=states,
        actions=rng.integers(0, 2, 120),
        rewards=rng.uniform(0.1, 0.9, 120),
        next_observations=np.roll(states, -1, axis=0),
        terminations=np.arange(120) % 6 == 5,
        unit_ids=np.arange(120) // 6,
        spec=SPEC,
        simulated=True,
    )
    given = {"width": 8, "depth": 1, "heads": 2, "start_width": 8, "horizon": 4, "rows_per_token": 1, "longest": 9}
    plan = TrajectoriesPlan(
        steps=2,
        start_steps=2,
        warmup=0,
        sampling_rate=1.0,
        sampler=Sampler(steps=2),
        **{**given, **fields},  # type: ignore[arg-type]
    ).calibrate(unit=UNIT, epsilon=5.0, delta=1e-3)
    with Ledger(folder / "ledger", UNIT, epsilon=9.0, delta=1e-2, composition=SUM) as ledger:
        return fit(plan, Vault(data, ledger))


@pytest.mark.parametrize("network", ["transformer", "unet", "autoregressive"])
def test_every_network_comes_back(network: str, tmp_path: Path) -> None:
    matching = TableMatching.of(SPEC, bins=4, coarse=4, pool=50) if network == "transformer" else None
    release = released(tmp_path, network=network, matching=matching)
    hub.save(release, tmp_path / "model")
    loaded = hub.load(tmp_path / "model")
    assert loaded.certificate == release.certificate
    assert (loaded.value.plan, loaded.value.encoder) == (release.value.plan, release.value.encoder)
    for part in ("starts", "fragments"):
        ours, theirs = getattr(release.value, part), getattr(loaded.value, part)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    one, other = (value.sample_trajectories(6, seed=1) for value in (release.value, loaded.value))
    assert np.array_equal(one.episodes, other.episodes)
    assert all(np.array_equal(one.columns[name], other.columns[name]) for name in one.columns)
    assert release.certificate.sentence in (tmp_path / "model" / hub.CARD).read_text()
    assert not list(tmp_path.rglob("*.pkl"))


def test_weights_of_other_networks_and_histograms_of_another_plan_are_refused(tmp_path: Path) -> None:
    value = released(tmp_path).value
    kind = KINDS["trajectories"]
    fields, arrays = kind.pack(value)
    config = {"plan": public_fields(value.plan), **fields}
    assert kind.unpack(config, arrays).plan == value.plan
    longer = dict(config["plan"], width=12, heads=3)
    with pytest.raises(ValueError, match="another network"):
        kind.unpack({**config, "plan": longer}, arrays)
    with pytest.raises(ValueError, match="another network"):
        kind.unpack(config, {name: array for name, array in arrays.items() if name.startswith("fragments.")})
    with pytest.raises(ValueError, match="another plan"):
        kind.unpack(config, {**arrays, "matching.histograms": np.zeros(3), "matching.sums": np.array([1])})
