"""The certificate's words for released synthesizers: what all of them have in common."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.privacy.vault.base import Label
from tacit.units import Unit

CHOICES = "the choice of hyper-parameters: it must have been made without looking at the private records"
BINS = "the bins and all other settings: they must have been chosen without looking at the private records"


def synthesizer_label(
    unit: Unit | None, *, touches: Sequence[str], sampled: str, public: Sequence[str], choices: str = CHOICES
) -> Label:
    """A synthesizer's label.

    Args:
        unit: whom the promise protects.
        touches: of private rows.
        sampled: what people get from it.
        public: where public rows came from.
        choices: what was chosen, and must not have been chosen by the private records.
    """
    return Label(
        covered=(
            *touches,
            f"{sampled}, and everything trained or computed on the samples",
        ),
        not_covered=(
            *public,
            choices,
            "whatever the curator computes from the records outside the doors (see the ledger's notes)",
        ),
        not_protected=(
            f"what is true of the population rather than of one {unit.name if unit else 'unit'}",
            "that these records were used at all, by whom, and every public parameter of the plan",
            "several units that belong to one person, where the declared unit is less than a person",
        ),
    )
