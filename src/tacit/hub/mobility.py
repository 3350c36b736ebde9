"""How released simulators of movement are written: probabilities as arrays, the grid and the buckets as words.

There are two kinds of simulator: a `Simulator` of one-shot imitation, of PateGAIL++ and of most baselines, and a
`BlockChain`, the baseline "markov".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.mobility.grids import grid_from_json
from tacit.envs.spaces import JumpLaw
from tacit.methods.mobility.baselines.models import BlockChain
from tacit.methods.mobility.places import Starts
from tacit.methods.mobility.plan import forbidden
from tacit.methods.mobility.simulator import Layout, Simulator, TablePolicy
from tacit.privacy.certificate.certificate import Release
from tacit.serialization import from_json

FIELDS = frozenset({"simulator"})
_POLICY, _STARTS, _EDGES, _JUMPS, _CHAIN = "policy", "starts", "space.edges", "space.probabilities", "chain"

Floats = NDArray[np.float64]


def pack(value: Simulator | BlockChain) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The configuration's own fields, and the arrays."""
    if isinstance(value, BlockChain):
        chain = {"grid": value.grid.to_json(), "factor": value.factor, "vocabulary": list(value.vocabulary)}
        return {"simulator": {"kind": "chain", **chain}}, {_STARTS: value.starts, _CHAIN: value.matrix}
    words = value.to_json()
    assert isinstance(value.policy, TablePolicy)
    assert isinstance(value.starts, Starts)
    assert isinstance(value.space, JumpLaw)
    fields = {
        "kind": "days",
        "grid": words["grid"],
        "invalid": value.invalid,
        "layout": words["policy"]["layout"],
        "starts": {name: words["starts"][name] for name in ("grid", "factor", "homes", "seed")},
        "space": {"grid": words["space"]["grid"]},
    }
    arrays = {
        _POLICY: value.policy.table,
        _STARTS: np.asarray(value.starts.probabilities, np.float64),
        _EDGES: np.asarray(value.space.edges, np.float64),
        _JUMPS: np.asarray(value.space.probabilities, np.float64),
    }
    return {"simulator": fields}, arrays


def unpack(config: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> Simulator | BlockChain:
    """What `pack` was given."""
    fields = config["simulator"]
    if any(array.dtype != np.float64 for array in weights.values()):
        raise ValueError("arrays of another kind")
    if fields["kind"] == "chain":
        return _chain(fields, dict(weights))
    if fields["kind"] != "days" or set(weights) != {_POLICY, _STARTS, _EDGES, _JUMPS}:
        raise ValueError("a simulator of another kind")
    starts, space = fields["starts"], fields["space"]
    begin = grid_from_json(starts["grid"]), int(starts["factor"]), weights[_STARTS]
    return Simulator(
        grid=grid_from_json(fields["grid"]),
        policy=TablePolicy(from_json(Layout, fields["layout"]), weights[_POLICY]),
        starts=Starts(*begin, homes=int(starts["homes"]), seed=int(starts["seed"])),
        space=JumpLaw(grid_from_json(space["grid"]), tuple(weights[_EDGES].tolist()), tuple(weights[_JUMPS].tolist())),
        invalid=fields["invalid"],
    )


def _chain(fields: Mapping[str, Any], weights: dict[str, Floats]) -> BlockChain:
    grid, factor = grid_from_json(fields["grid"]), int(fields["factor"])
    vocabulary = tuple(int(block) for block in fields["vocabulary"])
    starts, matrix, size = weights.pop(_STARTS), weights.pop(_CHAIN), len(vocabulary)
    valid = len(set(vocabulary)) == size and 0 <= min(vocabulary) <= max(vocabulary) < grid.coarse(factor).size
    if weights or not valid or starts.shape != (size,) or matrix.shape != (size, size):
        raise ValueError("a chain of other blocks")
    for table in (starts, matrix):
        if not ((table >= 0).all() and np.allclose(table.sum(axis=-1), 1.0, atol=1e-6)):
            raise ValueError("numbers that are no probabilities")
    return BlockChain(grid, factor, vocabulary, starts, matrix)


def card(release: Release[Simulator | BlockChain]) -> str:
    """What lies beside the arrays for people."""
    certificate = release.certificate
    name = certificate.unit["name"]
    caution = "".join(f"\n{line}.\n" for line in forbidden(certificate.to_json()))
    return f"""# Simulator of movement

{certificate.sentence}

Days: `tacit generate . --days 1000 --out days.csv`. Map: `tacit map . --out map.html`.
Certificate: `tacit certificate verify certificate.json`.

- method: {certificate.method}
- source: {certificate.source}
- made with tacit {certificate.tacit_version}
{caution}
What the days are good for: planning and simulation that need how many people move, when, how often and how far. What
they are not: evidence about any one {name}, or anybody's trips. The certificate lists what is not protected.
"""
