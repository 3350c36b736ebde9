"""A torch generator for an objective's draws, as secret as the noise."""

from __future__ import annotations

import numpy as np
import torch

from tacit.privacy.noise.secret import SecretNoise

_HEADER, _WORDS = 24, 624  # bytes before the state of the Mersenne twister in torch's CPU generator, and its words


def secret_generator(noise: SecretNoise) -> torch.Generator:
    """A fresh CPU generator whose whole state (19,968 bits) comes from the secret stream.

    `torch.Generator.manual_seed` keeps 32 bits of its seed on the CPU, few enough to try them all. Here nothing of the
    state can be guessed, and its outputs stay inside one step, where they are never released.

    Guarantee: given the secret stream, two generators share nothing; the state is used up and never saved.
    """
    generator = torch.Generator()
    state = generator.manual_seed(0).get_state().numpy().copy()
    words = state[_HEADER : _HEADER + 8 * _WORDS].view(np.uint64)
    words[:] = np.frombuffer(noise.bytes(4 * _WORDS), np.uint32)
    generator.set_state(torch.from_numpy(state))
    return generator
