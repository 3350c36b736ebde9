"""PateGAIL++: private simulators of movement."""
