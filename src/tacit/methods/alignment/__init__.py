"""Private alignment of a language model: `AlignmentPlan.of(...).calibrate(...)`, `fit` from a `UserVault` of `People`.

From preferences between completions: `PreferencePlan.of(...)`, `fit_preferences` from a `Vault` over `pair_records`.

See the README of this folder for the algorithm and its guarantee.
"""

from tacit.agents.language.adapters import Bias, LoRA
from tacit.methods.alignment.algorithm import fit
from tacit.methods.alignment.people import People
from tacit.methods.alignment.plan import AlignmentPlan
from tacit.methods.alignment.preferences import PreferencePlan, fit_preferences, pair_records, rated_pairs
from tacit.methods.alignment.steered import Steered

__all__ = [
    "AlignmentPlan",
    "Bias",
    "LoRA",
    "People",
    "PreferencePlan",
    "Steered",
    "fit",
    "fit_preferences",
    "pair_records",
    "rated_pairs",
]
