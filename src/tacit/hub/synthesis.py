"""How released synthesizers are written: of transitions, of trajectories, and those of the baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.methods import load_class, synthesis
from tacit.methods.synthesis import Raking, trajectories
from tacit.methods.synthesis.trajectories.plan import FRAGMENTS, STARTS
from tacit.privacy.certificate.certificate import Release

if TYPE_CHECKING:
    from torch import Tensor, nn

Fields = Mapping[str, Any]
Arrays = Mapping[str, np.ndarray]
Packed = tuple[dict[str, Any], dict[str, np.ndarray]]
"""The configuration's own fields, and the arrays."""

HISTOGRAMS, SUMS = "raking.histograms", "raking.sums"
"""Names of the released histograms, and of how many sums they are the mean of, among the arrays."""
_PARTS = (f"{STARTS}.", f"{FRAGMENTS}.")
"""Before the names of the weights of each network of trajectories."""


@dataclass(frozen=True)
class Kind:
    """How one kind of synthesizer becomes configuration and arrays, and comes back.

    Args:
        FIELDS: the configuration's own fields.
        pack: a value -> these fields and its arrays.
        unpack: the configuration and the arrays -> the value; a ValueError, TypeError, KeyError or TacitError where
            they are those of another one.
        title, use: the first lines of the card.
        advice: its last lines, for a unit's name and the value.
    """

    FIELDS: frozenset[str]
    pack: Callable[[Any], Packed]
    unpack: Callable[[Fields, Arrays], Any]
    title: str
    use: str
    advice: Callable[[str, Any], str]

    def card(self, release: Release[Any]) -> str:
        """What lies beside the arrays for people."""
        certificate = release.certificate
        return f"""# {self.title}

{certificate.sentence}

{self.use} Certificate: `tacit certificate verify certificate.json`.

- method: {certificate.method}
- source: {certificate.source}
- made with tacit {certificate.tacit_version}

{self.advice(certificate.unit["name"], release.value)}
"""


def _pack_transitions(value: synthesis.Synthesizer) -> Packed:
    return {"encoder": value.encoder.to_json()}, _arrays(value.weights) | _raked(value)


def _unpack_transitions(config: Fields, arrays: Arrays) -> synthesis.Synthesizer:
    plan, encoder = synthesis.TransitionsPlan.from_json(config["plan"]), synthesis.Encoder.from_json(config["encoder"])
    weights = _tensors({name: part for name, part in arrays.items() if name not in (HISTOGRAMS, SUMS)})
    value = synthesis.Synthesizer(plan, encoder, weights, *_unraked(plan.raking, arrays))
    _require_shapes(value.network(), weights)
    return value


def _pack_trajectories(value: trajectories.TrajectorySynthesizer) -> Packed:
    starts, fragments = _arrays(value.starts, _PARTS[0]), _arrays(value.fragments, _PARTS[1])
    return {"encoder": value.encoder.to_json()}, starts | fragments | _raked(value)


def _unpack_trajectories(config: Fields, arrays: Arrays) -> trajectories.TrajectorySynthesizer:
    from tacit.methods.synthesis.trajectories import models

    plan, encoder = (
        trajectories.TrajectoriesPlan.from_json(config["plan"]),
        synthesis.Encoder.from_json(config["encoder"]),
    )
    starts, fragments = (_tensors(arrays, part) for part in _PARTS)
    _require_shapes(models.start_model(plan, encoder).network, starts)
    _require_shapes(models.fragment_model(plan, encoder).network, fragments)
    return trajectories.TrajectorySynthesizer(plan, encoder, starts, fragments, *_unraked(plan.raking, arrays))


def _pack_baseline(value: Any) -> Packed:
    return {"synthesizer": {"class": type(value).__name__, "fields": value.to_json()}}, value.arrays()


def _unpack_baseline(config: Fields, arrays: Arrays) -> Any:
    saved = config["synthesizer"]
    return load_class("value", saved["class"]).from_saved(config["plan"], saved["fields"], arrays)


_ROWS = "Rows: `tacit sample --model . --count 100000 --out rows.parquet`."
KINDS = {
    "synthesis": Kind(
        frozenset({"encoder"}),
        _pack_transitions,
        _unpack_transitions,
        title="Synthesizer of transitions",
        use=_ROWS,
        advice=lambda unit, value: (
            "What the rows are good for: training and comparing offline agents, and looking at the population. What "
            f"they are not:\nevidence about any one {unit}. The certificate lists what is not protected."
        ),
    ),
    "trajectories": Kind(
        frozenset({"encoder"}),
        _pack_trajectories,
        _unpack_trajectories,
        title="Synthesizer of trajectories",
        use="Trajectories: `tacit sample --model . --count 1000 --out rows.parquet`.\n",
        advice=lambda unit, value: (
            "What the trajectories are good for: training and comparing offline agents, and looking at how things go "
            f"in the\npopulation. What they are not: evidence about any one {unit}. They are stitched from fragments "
            f"of\n{value.plan.horizon} steps, and what lies further apart is known less well. The certificate lists "
            "what is not\nprotected."
        ),
    ),
    "baselines": Kind(
        frozenset({"synthesizer"}),
        _pack_baseline,
        _unpack_baseline,
        title="Synthesizer of transitions, to compare with",
        use=_ROWS,
        advice=lambda unit, value: (
            "A baseline: its rows keep what noisy marginals or noisy votes show, and little of how one step leads to "
            f"the next. They\nare no evidence about any one {unit}. The certificate lists what is not protected."
        ),
    ),
}


def _arrays(tensors: Mapping[str, Tensor], part: str = "") -> dict[str, np.ndarray]:
    """Weights by name, with the name of the part that they belong to before it."""
    return {f"{part}{name}": tensor.numpy() for name, tensor in tensors.items()}


def _tensors(arrays: Arrays, part: str = "") -> dict[str, Tensor]:
    """The weights of one part, as `_arrays` names them."""
    import torch

    weights = {name: array for name, array in arrays.items() if name.startswith(part)}
    return {name.removeprefix(part): torch.from_numpy(array) for name, array in weights.items()}


def _require_shapes(network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Raise a ValueError unless these are the weights of such a network."""
    shapes = {name: part.shape for name, part in network.named_parameters()}
    if shapes != {name: part.shape for name, part in tensors.items()}:
        raise ValueError("weights of another network")


def _raked(value: synthesis.Synthesizer | trajectories.TrajectorySynthesizer) -> dict[str, np.ndarray]:
    """Released histograms as arrays, if there are any."""
    return {} if value.histograms is None else {HISTOGRAMS: value.histograms, SUMS: np.array([value.sums])}


def _unraked(raking: Raking | None, arrays: Arrays) -> tuple[np.ndarray | None, int]:
    """The histograms that `_raked` wrote, and of how many sums they are the mean."""
    histograms, sums = arrays.get(HISTOGRAMS), int(arrays.get(SUMS, np.zeros(1))[0])
    if histograms is not None and (
        raking is None or histograms.shape != (sum(raking.sizes),) or not 1 <= sums <= raking.steps
    ):
        raise ValueError("histograms of another plan")
    return histograms, sums
