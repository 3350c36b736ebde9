"""tacit: differentially private reinforcement learning, with guarantees that anyone can recompute."""
