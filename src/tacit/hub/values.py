"""How each kind of released value (`tacit.methods.METHODS`) is written: as configuration and arrays, with a card for
people; and read again. What is read may have been edited: every array has the shape and the type that the plan asks
for, or the value is refused."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.agents.policies import Policy
from tacit.errors import PlanError
from tacit.methods import load_class
from tacit.privacy.certificate.certificate import Certificate, Release
from tacit.privacy.mechanisms.above_threshold import Prefixes
from tacit.serialization import from_json, read
from tacit.units import noun

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tacit.methods.alignment.steered import Steered
    from tacit.methods.experts.learned import LearnedPolicies as Taught
    from tacit.methods.improvement.algorithm import Improvement
    from tacit.methods.mobility.baselines import BlockChain
    from tacit.methods.mobility.simulator import Simulator
    from tacit.methods.policy_gradient.state import TrainedPolicies as Trained
    from tacit.methods.synthesis import Synthesizer, trajectories

Fields = Mapping[str, Any]
Arrays = Mapping[str, np.ndarray]
Packed = tuple[dict[str, Any], dict[str, np.ndarray]]
"""The configuration's own fields, and the arrays."""
HISTOGRAMS, SUMS = "matching.histograms", "matching.sums"
"""Names of the released histograms, and of how many sums they are the mean of, among the arrays."""
COLUMNS = frozenset({"observations", "actions", "rewards", "next_observations", "terminations", "truncations"})
"""Of a prefix; whatever else logs may hold is nobody's to publish."""


@dataclass(frozen=True)
class Kind:
    """How one kind of value becomes configuration and arrays, and comes back."""

    fields: frozenset[str]  # names of the configuration's own fields
    pack: Callable[[Any], Packed]  # a value -> these fields and its arrays
    # the configuration and the arrays -> the value; an error of any class where they are those of another
    unpack: Callable[[Fields, Arrays], Any]
    title: str  # of the card
    # of the card: how the release is used, and what it is no evidence of, in paragraphs with places for `value`, `unit`
    # (its name) and what `more` adds
    text: str
    # what the text says of this very value, for it and its certificate
    card_values: Callable[[Any, Certificate], dict[str, str]] = lambda value, certificate: {}

    def card(self, release: Release[Any]) -> str:
        """What lies beside the arrays for people."""
        certificate, value = release.certificate, release.value
        text = f"{self.text} The certificate lists what is not protected."
        text = text.format(value=value, unit=noun(certificate.unit["name"]), **self.card_values(value, certificate))
        paragraphs = [textwrap.fill(line, 120, break_on_hyphens=False) for line in text.split("\n\n") if line]
        paragraphs[-1:] = [
            "Certificate: `tacit certificate verify certificate.json`.",
            f"- method: {certificate.method}\n- source: {certificate.source}\n"
            f"- made with tacit {certificate.tacit_version}",
            paragraphs[-1],
        ]
        return "\n\n".join([f"# {self.title}", certificate.sentence, *paragraphs]) + "\n"


def _require_arrays(arrays: Arrays, layout: Mapping[str, tuple[tuple[int, ...], Any]]) -> None:
    if {name: (part.shape, part.dtype) for name, part in arrays.items()} != {
        name: (shape, np.dtype(kind)) for name, (shape, kind) in layout.items()
    } or not all(np.isfinite(part).all() for part in arrays.values()):
        raise ValueError("arrays of another value, or numbers that are not finite")


def _to_arrays(tensors: Mapping[str, Tensor], part: str = "") -> dict[str, np.ndarray]:
    """Weights by name, with the name of the part that they belong to before it."""
    return {f"{part}{name}": tensor.numpy() for name, tensor in tensors.items()}


def _weights(network: nn.Module, arrays: Arrays, part: str = "") -> dict[str, Tensor]:
    import torch

    part_arrays = {name.removeprefix(part): array for name, array in arrays.items() if name.startswith(part)}
    tensors = {name: torch.from_numpy(array) for name, array in part_arrays.items() if name not in (HISTOGRAMS, SUMS)}
    shapes = {name: parameter.shape for name, parameter in network.named_parameters()}
    if shapes != {name: tensor.shape for name, tensor in tensors.items()}:
        raise ValueError("weights of another network")
    return tensors


def _histogram_arrays(value: Synthesizer | trajectories.TrajectorySynthesizer) -> dict[str, np.ndarray]:
    return {} if value.histograms is None else {HISTOGRAMS: value.histograms, SUMS: np.array([value.sums])}


def _read_histograms(plan: Any, arrays: Arrays) -> tuple[np.ndarray | None, int]:
    """The histograms that `_histogram_arrays` wrote, and of how many sums they are the mean."""
    histograms, sums, matching = arrays.get(HISTOGRAMS), int(arrays.get(SUMS, np.zeros(1))[0]), plan.matching
    if histograms is not None and (
        matching is None or histograms.shape != (sum(matching.sizes),) or not 1 <= sums <= matching.steps
    ):
        raise ValueError("histograms of another plan")
    return histograms, sums


def _unpack_transitions(config: Fields, arrays: Arrays) -> Synthesizer:
    from tacit.methods import synthesis

    plan, encoder = synthesis.TransitionsPlan.from_json(config["plan"]), synthesis.Encoder.from_json(config["encoder"])
    value = synthesis.Synthesizer(plan, encoder, {}, *_read_histograms(plan, arrays))
    return synthesis.Synthesizer(plan, encoder, _weights(value.network(), arrays), value.histograms, value.sums)


def _unpack_trajectories(config: Fields, arrays: Arrays) -> trajectories.TrajectorySynthesizer:
    from tacit.methods.synthesis import Encoder, trajectories
    from tacit.methods.synthesis.trajectories import models

    plan = trajectories.TrajectoriesPlan.from_json(config["plan"])
    encoder = Encoder.from_json(config["encoder"])
    starts = _weights(models.start_model(plan, encoder).network, arrays, "starts.")
    fragments = _weights(models.fragment_model(plan, encoder).network, arrays, "fragments.")
    return trajectories.TrajectorySynthesizer(plan, encoder, starts, fragments, *_read_histograms(plan, arrays))


def _pack_synthesizer(value: Any) -> Packed:
    return {"synthesizer": {"class": type(value).__name__, "fields": value.to_json()}}, value.arrays()


def _unpack_synthesizer(config: Fields, arrays: Arrays) -> Any:
    saved = config["synthesizer"]
    return load_class("value", saved["class"]).from_saved(config["plan"], saved["fields"], arrays)


_TRAINED = {"last": np.float32, "average": np.float32, "norms": np.float64, "iterates": np.float32, "people": np.int64}


def _unpack_policy(config: Fields, arrays: Arrays) -> Trained:
    from tacit.methods.policy_gradient.state import AnyPlan, TrainedPolicies

    plan, policy = read(AnyPlan, config["plan"]), Policy.from_json(config["policy"])
    replicates, iterates = len(arrays["last"]), len(arrays["people"])
    theta = (replicates, policy.parameters)
    shapes = (theta, theta, (plan.rounds, replicates), (iterates, *theta), (iterates,))
    _require_arrays(arrays, {name: (shape, _TRAINED[name]) for name, shape in zip(_TRAINED, shapes, strict=True)})
    if not replicates:
        raise ValueError("no policy at all")
    return TrainedPolicies(plan=plan, policy=policy, **arrays)


def _pack_experts(value: Taught) -> Packed:
    arrays: dict[str, np.ndarray] = {"theta": value.theta}
    if value.agreement is not None:
        arrays |= {"agreement.states": value.agreement.states, "agreement.shares": value.agreement.shares}
    for r, prefixes in enumerate(value.prefixes or ()):
        if set(prefixes.columns) - COLUMNS:
            what, expected = "the prefixes have columns that are not released", ", ".join(sorted(COLUMNS))
            raise PlanError(what, where="hub.save", expected=expected, remedy="save what `experts.fit` returned")
        named = {**prefixes.columns, "lengths": prefixes.lengths}
        arrays |= {f"prefixes.{r}.{name}": np.asarray(column) for name, column in named.items()}
    fields = {"policy": value.policy.to_json(), "learner": type(value.plan).__name__}
    return {**fields, "prefixes": None if value.prefixes is None else len(value.prefixes)}, arrays


def _unpack_experts(config: Fields, arrays: Arrays) -> Taught:
    from tacit.methods import experts
    from tacit.methods.experts.learned import Agreement, LearnedPolicies

    rest, policy = dict(arrays), Policy.from_json(config["policy"])
    if config["learner"] not in ("Votes", "ReturnWeighted", "Consensus"):
        raise ValueError("a plan of another kind")
    plan, theta = getattr(experts, config["learner"]).from_json(config["plan"]), rest.pop("theta")
    _require_arrays({"theta": theta}, {"theta": ((max(1, len(theta)), policy.parameters), np.float32)})
    agreement = None
    if "agreement.shares" in rest:
        states, shares = rest.pop("agreement.states"), rest.pop("agreement.shares")
        if states.shape[:2] != shares.shape[:2] or shares.ndim != 3 or len(shares) != len(theta):
            raise ValueError("votes of another policy")
        if not np.isfinite(shares).all():
            raise ValueError("votes that are not finite")
        agreement = Agreement(states, shares)
    prefix_list = []
    for r in range(config["prefixes"] or 0):
        start = f"prefixes.{r}."
        columns = {name.removeprefix(start): rest.pop(name) for name in list(rest) if name.startswith(start)}
        lengths = columns.pop("lengths")
        rows = {len(column) for column in columns.values()}
        if lengths.ndim != 1 or (lengths < 0).any() or rows != {int(lengths.sum())} or set(columns) - COLUMNS:
            raise ValueError("prefixes of other lengths, or with columns that are not released")
        prefix_list.append(Prefixes(columns, lengths))
    if rest:
        raise ValueError("arrays that no policy has")
    prefixes = None if config["prefixes"] is None else tuple(prefix_list)
    return LearnedPolicies(plan=plan, policy=policy, theta=theta, agreement=agreement, prefixes=prefixes)


def _experts_card_values(value: Taught, certificate: Certificate) -> dict[str, str]:
    from tacit.methods.experts.learned import promise_scope

    name = noun(certificate.unit["name"])
    protected = (
        f"the log of every {name}, with all decisions and returns in it. A person in the logs of several {name}s is "
        "not protected as a person."
    )
    if promise_scope(value.plan) == "policies":
        protected = (
            f"how every {name} decides, and nothing else. The prefixes in `model.safetensors` are states, actions and "
            "rewards as they were logged: people in them, patients for instance, are NOT protected. It holds if all "
            f"{name}s met the same environment and the logs themselves stay secret."
        )
    votes = ", `agreement` the noisy votes at public states" if value.agreement is not None else ""
    prefixes = ", `prefixes` the consensus prefixes" if value.prefixes is not None else ""
    return {"protected": protected, "held": votes + prefixes}


_MOMENTS = {"products": "products", "changes of values": "changes", "rewards": "rewards"}


def _pack_improvement(value: Improvement) -> Packed:
    fields = {
        "policy": value.policy.to_json(),
        "scales": value.scales.to_json(),
        "noise": [] if value.moments is None else list(value.moments.noise),
        "units": value.scales.units,
        "statement": value.statement.to_json(),
        "sampled": value.sampled,
    }
    arrays = {} if value.moments is None else {name: getattr(value.moments, at) for name, at in _MOMENTS.items()}
    return fields, {"theta": value.theta, "clone": value.clone, "changes": value.changes, **arrays}


def _unpack_improvement(config: Fields, arrays: Arrays) -> Improvement:
    from tacit.methods.improvement.algorithm import Improvement
    from tacit.methods.improvement.moments import Moments, Scales
    from tacit.methods.improvement.plan import ImprovementPlan
    from tacit.methods.improvement.statement import Statement

    plan, policy = ImprovementPlan.from_json(config["plan"]), Policy.from_json(config["policy"])
    actions, d, n = policy.head.outputs, len(plan.value_columns), plan.features
    shapes: dict[str, tuple[int, ...]] = {
        "theta": (1, policy.parameters),
        "clone": (1, policy.parameters),
        "changes": (actions, actions),
    }
    if plan.advises:
        m = 1 + d + d * (d + 1) // 2 if plan.has_next_states else 0
        shapes |= {"products": (actions, n, n), "changes of values": (actions, n, m), "rewards": (actions, n)}
    _require_arrays(arrays, {name: (shape, arrays[name].dtype) for name, shape in shapes.items()})
    if not isinstance(config["sampled"], bool):
        raise ValueError("no word on how the policy acts")
    moments = None
    if plan.advises:
        first, second, third = (float(size) for size in config["noise"])
        sums = {field: arrays[name] for name, field in _MOMENTS.items()}
        moments = Moments(**sums, noise=(first, second, third), units=float(config["units"]))
    return Improvement(
        plan=plan,
        policy=policy,
        **{name: arrays[name] for name in ("theta", "clone", "changes")},
        scales=Scales.from_json(config["scales"]),
        moments=moments,
        statement=Statement.from_json(config["statement"]),
        sampled=config["sampled"],
    )


def _improvement_card_values(value: Improvement, certificate: Certificate) -> dict[str, str]:
    rates = ", ".join(f"{rate:g}" for rate in value.memory.rates)
    return {"acts": "draws its actions" if value.sampled else "takes its best action", "rates": rates}


_POLICY, _STARTS, _EDGES, _JUMPS, _CHAIN = "policy", "starts", "space.edges", "space.probabilities", "chain"


def _pack_movement(value: Simulator | BlockChain) -> Packed:
    from tacit.envs.spaces import JumpLaw
    from tacit.methods.mobility.baselines import BlockChain
    from tacit.methods.mobility.places import StartDistribution
    from tacit.methods.mobility.simulator import TablePolicy

    if isinstance(value, BlockChain):
        chain = {"grid": value.grid.to_json(), "factor": value.factor, "vocabulary": list(value.vocabulary)}
        return {"simulator": {"kind": "chain", **chain}}, {_STARTS: value.starts, _CHAIN: value.matrix}
    words = value.to_json()
    assert isinstance(value.policy, TablePolicy)
    assert isinstance(value.starts, StartDistribution)
    assert isinstance(value.space, JumpLaw)
    fields = {
        "kind": "days",
        "grid": words["grid"],
        "invalid": value.invalid,
        **({"gravity": True} if value.gravity else {}),
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


def _unpack_movement(config: Fields, arrays: Arrays) -> Simulator | BlockChain:
    from tacit.data.mobility.grids import grid_from_json
    from tacit.envs.spaces import JumpLaw
    from tacit.methods.mobility.places import StartDistribution
    from tacit.methods.mobility.simulator import Simulator, StateLayout, TablePolicy

    fields = config["simulator"]
    if any(array.dtype != np.float64 for array in arrays.values()):
        raise ValueError("arrays of another kind")
    grid = grid_from_json(fields["grid"])
    if fields["kind"] == "chain":
        return _unpack_chain(grid, int(fields["factor"]), fields["vocabulary"], arrays)
    if fields["kind"] != "days" or set(arrays) != {_POLICY, _STARTS, _EDGES, _JUMPS}:
        raise ValueError("a simulator of another kind")
    starts, space = fields["starts"], fields["space"]
    begin = grid_from_json(starts["grid"]), int(starts["factor"]), arrays[_STARTS]
    return Simulator(
        grid=grid,
        policy=TablePolicy(from_json(StateLayout, fields["layout"]), arrays[_POLICY]),
        starts=StartDistribution(*begin, homes=int(starts["homes"]), seed=int(starts["seed"])),
        space=JumpLaw(grid_from_json(space["grid"]), tuple(arrays[_EDGES].tolist()), tuple(arrays[_JUMPS].tolist())),
        invalid=fields["invalid"],
        gravity=fields.get("gravity", False),
    )


def _unpack_chain(grid: Any, factor: int, blocks: Sequence[Any], arrays: Arrays) -> BlockChain:
    from tacit.methods.mobility.baselines import BlockChain

    vocabulary = tuple(int(block) for block in blocks)
    size = len(vocabulary)
    valid = len(set(vocabulary)) == size and 0 <= min(vocabulary) <= max(vocabulary) < grid.coarse_grid(factor).size
    if not valid:
        raise ValueError("a chain of other blocks")
    _require_arrays(arrays, {_STARTS: ((size,), np.float64), _CHAIN: ((size, size), np.float64)})
    for table in arrays.values():
        if not ((table >= 0).all() and np.allclose(table.sum(axis=-1), 1.0, atol=1e-6)):
            raise ValueError("numbers that are no probabilities")
    return BlockChain(grid, factor, vocabulary, arrays[_STARTS], arrays[_CHAIN])


def _movement_card_values(value: Any, certificate: Certificate) -> dict[str, str]:
    from tacit.methods.mobility.plan import forbidden_uses

    return {"warnings": "\n\n".join(f"{line}." for line in forbidden_uses(certificate.to_json()))}


def _pack_steered(value: Steered) -> Packed:
    judgement = None if value.judgement is None else value.judgement.to_json()
    return {"share": value.share, "judgement": judgement}, {"iterates": value.iterates, "words": value.words}


def _unpack_steered(config: Fields, arrays: Arrays) -> Steered:
    from tacit.methods.alignment.judging import Judgement
    from tacit.methods.alignment.plan import AlignmentPlan
    from tacit.methods.alignment.preferences import PreferencePlan
    from tacit.methods.alignment.steered import Steered

    kind = PreferencePlan if "pairs" in config["plan"] else AlignmentPlan
    plan, share = kind.from_json(config["plan"]), config["share"]
    iterates, words = arrays["iterates"], arrays["words"]
    size = (plan.rounds + 1, *iterates.shape[1:2])
    _require_arrays(arrays, {"iterates": (size, np.float32), "words": ((len(words),), np.int64)})
    if (words < 0).any() or not isinstance(share, float) or not 0 <= share <= 1:
        raise ValueError("parameters of another run, or no share")
    judgement = None if config["judgement"] is None else Judgement.from_json(config["judgement"])
    if judgement is not None and plan.judges is None:
        raise ValueError("people judged whom the plan does not have")
    return Steered(plan, iterates, words, share=share, judgement=judgement)


_ROWS = "Rows: `tacit sample --model . --count 100000 --out rows.parquet`.\n\n"
KINDS: Mapping[str, Kind] = {
    "synthesis": Kind(
        frozenset({"encoder"}),
        lambda value: ({"encoder": value.encoder.to_json()}, _to_arrays(value.weights) | _histogram_arrays(value)),
        _unpack_transitions,
        title="Synthesizer of transitions",
        text=_ROWS
        + "What the rows are good for: training and comparing offline agents, and looking at the population. "
        "What they are not: evidence about any one {unit}.",
    ),
    "trajectories": Kind(
        frozenset({"encoder"}),
        lambda value: (
            {"encoder": value.encoder.to_json()},
            _to_arrays(value.starts, "starts.") | _to_arrays(value.fragments, "fragments.") | _histogram_arrays(value),
        ),
        _unpack_trajectories,
        title="Synthesizer of trajectories",
        text="Trajectories: `tacit sample --model . --count 1000 --out rows.parquet`.\n\nWhat the trajectories are "
        "good for: training and comparing offline agents, and looking at how things go in the population. What they "
        "are not: evidence about any one {unit}. They are stitched from fragments of {value.plan.horizon} steps, and "
        "what lies further apart is known less well.",
    ),
    "people": Kind(
        frozenset({"synthesizer"}),
        _pack_synthesizer,
        _unpack_synthesizer,
        title="Synthesizer of whole people",
        text="Draw more people with `tacit sample --model . --count 10000 --out people.parquet`. They keep what noisy "
        "tables show: how columns hang together within a visit, from visit to visit and with what never changes. They "
        "are no evidence about any one {unit}.",
    ),
    "structured": Kind(
        frozenset({"synthesizer"}),
        _pack_synthesizer,
        _unpack_synthesizer,
        title="Synthesizer of transitions from structured tables",
        text=_ROWS + "Its rows keep what noisy tables show: every column given a few before it. They are no evidence "
        "about any one {unit}.",
    ),
    "baselines": Kind(
        frozenset({"synthesizer"}),
        _pack_synthesizer,
        _unpack_synthesizer,
        title="Synthesizer of transitions, to compare with",
        text=_ROWS + "A baseline: its rows keep what noisy marginals or noisy votes show, and little of how one step "
        "leads to the next. They are no evidence about any one {unit}.",
    ),
    "policy": Kind(
        frozenset({"policy"}),
        lambda value: ({"policy": value.policy.to_json()}, {name: getattr(value, name) for name in _TRAINED}),
        _unpack_policy,
        title="Policy",
        text="Play: `tacit play .`. ONNX: `tacit export . policy.onnx`.\n\nIn `model.safetensors`, `last` holds the "
        "parameters after the last round and `average` the mean of the later ones. What the policy is good for: "
        "acting, and whatever is computed from it. What it is not: evidence about any one {unit}.",
    ),
    "experts": Kind(
        frozenset({"policy", "learner", "prefixes"}),
        _pack_experts,
        _unpack_experts,
        title="Policy learned from experts",
        text="What is protected: {protected}\n\nONNX: `tacit export . policy.onnx`. Play: `tacit play .`, or with "
        "`--environment ID` where the policy names none and there is one.\n\nIn `model.safetensors`, `theta` holds the "
        "parameters{held}. What the policy is good for: acting as most experts would, with the best action each time. "
        "What it is not: evidence about any one {unit}.",
        card_values=_experts_card_values,
    ),
    "improvement": Kind(
        frozenset({"policy", "scales", "noise", "units", "statement", "sampled"}),
        _pack_improvement,
        _unpack_improvement,
        title="Policy that improves on logged decisions",
        text="{value.statement}\n\nThe policy {acts}. It acts on memories of the course, column by column at the rates "
        "{rates} (1 is the newest value, 0 the mean of all so far). `tacit play .` and `tacit evaluate --policy .` "
        "keep them; `tacit.hub.load(...).value.predict(observation, state)` carries them for your own code; an ONNX "
        "graph takes memories.\n\nIn `model.safetensors`, `theta` holds the parameters of the advice, `clone` those of "
        "the records' own decisions, and `products`, `changes of values` and `rewards` the noisy moments. What it is "
        "not: evidence about any one {unit}.",
        card_values=_improvement_card_values,
    ),
    "imitation": Kind(
        frozenset({"simulator"}),
        _pack_movement,
        _unpack_movement,
        title="Simulator of movement",
        text="Days: `tacit generate . --days 1000 --out days.csv`. Map: `tacit map . --out map.html`.\n\n{warnings}\n\n"
        "What the days are good for: planning and simulation that need how many people move, when, how often and how "
        "far. What they are not: evidence about any one {unit}, or anybody's trips.",
        card_values=_movement_card_values,
    ),
    "alignment": Kind(
        frozenset({"share", "judgement"}),
        _pack_steered,
        _unpack_steered,
        title="Steered language model",
        text='Complete, from the folder of the run: `tacit complete . --prompts "Once"`. The base model is the file '
        "with the SHA-256 `{value.plan.base}`, which is not in this folder.\n\nIn `model.safetensors`, `iterates` "
        "holds the adapter's parameters at the start and after each round, and `words` the public vocabulary. What "
        "they are not: evidence about any one {unit}.\n\n{value.opinion}",
    ),
}
