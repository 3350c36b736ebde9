"""Expert-level privacy: policies learned from the logs of experts."""
