"""Networks of fragments by noisy gradients without tacit's histograms: the rivals of PrivORL, in what is published.

unet            the temporal U-Net (PrivORL-j-U)
dp_transformer  rows drawn one by one (DP-Transformer), by one fragment a person and step: four cost four times as much

Their guarantee is tacit's, as are the public worlds that they begin with, and all settings are those of
`trajectories.TrajectoriesPlan.for_people`. All of the promise is spent on their gradients. What histograms add to noisy
gradients is shown by `by_gradients`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from experiments.privorl.parts.synthesis_fits import Scale
from experiments.privorl.parts.trajectory_domains import People
from experiments.privorl.parts.trajectory_fragments import Fragments
from tacit.methods.synthesis import trajectories


@dataclass(frozen=True)
class Published(Fragments):
    """Whole trajectories as they are drawn."""

    def plan(self, here: People, scale: Scale, *, public_seed: int | None = 0) -> trajectories.TrajectoriesPlan:
        plan = dataclasses.replace(super().plan(here, scale, public_seed=public_seed), matching=None)
        return dataclasses.replace(plan, fragments_per_unit=1) if self.network == "autoregressive" else plan


RIVALS: dict[str, Published] = {"unet": Published("unet"), "dp_transformer": Published("autoregressive")}
