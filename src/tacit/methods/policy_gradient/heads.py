"""The heads of policies, which live in `tacit.agents.heads`."""

from tacit.agents.heads import Categorical, Gaussian, Head

__all__ = ["Categorical", "Gaussian", "Head"]
