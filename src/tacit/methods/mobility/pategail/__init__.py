"""PateGAIL++: imitation of movement from rewards that people's own critics give, on their devices.

    plan = pategail.recipe("table", people=83).calibrate(unit=unit, epsilon=10, delta=1e-5)
    release = pategail.fit(plan, FederatedVault(devices, ledger), grid=grid)
    days = release.value.generate(1_000, seed=1)

Its default rival, one release and imitation on the server, is `tacit.methods.mobility` itself.
"""

from tacit.methods.mobility.pategail.algorithm import build_contributions, fit
from tacit.methods.mobility.pategail.critics import Critic, Embedding
from tacit.methods.mobility.pategail.plan import Allocate, Allocation, Kind, PateGailPlan, recipe
from tacit.methods.mobility.pategail.rewards import Calibration
from tacit.methods.mobility.pategail.training import Ppo

__all__ = [
    "Allocate",
    "Allocation",
    "Calibration",
    "Critic",
    "Embedding",
    "Kind",
    "PateGailPlan",
    "Ppo",
    "build_contributions",
    "fit",
    "recipe",
]
