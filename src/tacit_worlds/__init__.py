"""Worlds to learn in, and agents that judge: simulators, their Gymnasium ids, and offline learners of one table."""
