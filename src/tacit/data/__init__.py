"""Records of people as trajectories, and what is publicly known about them."""

from tacit.data.files import Fields, inspect
from tacit.data.ingest import EACH_EPISODE, EACH_TRANSITION
from tacit.data.spec import Box, Discrete, PublicSpec, Space
from tacit.data.trajectories import Trajectories

__all__ = [
    "EACH_EPISODE",
    "EACH_TRANSITION",
    "Box",
    "Discrete",
    "Fields",
    "PublicSpec",
    "Space",
    "Trajectories",
    "inspect",
]
