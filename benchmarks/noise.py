"""Secret Gaussians against `torch.normal_`: 6.5M floats, about the parameters of the denoiser.

Run `python -m benchmarks.noise`. The last line is one JSON object: `ratio_torch` is the path that `SecretNoise()` takes
here (`path`), `ratio_torch_numpy` the one that it takes without a C compiler. `ratio_lattice` is a sum's noise, lattice
and division in one pass, over the same noise and a division; `ratio_lattice_torch`, over `torch.normal_` and a
division.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import statistics

import numpy as np
import torch

from tacit.privacy.noise.box_muller import box_muller_compiled, box_muller_numpy
from tacit.privacy.noise.secret import SecretNoise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=6_500_000)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    tensor, out = torch.empty(arguments.size), np.empty(arguments.size, np.float32)
    default, plain, total = SecretNoise(), SecretNoise(box_muller_numpy), np.zeros(arguments.size, np.float32)

    def noise_and_division() -> None:
        default.gaussian(arguments.size, out=out)
        torch.from_numpy(out).div_(128.0)

    seconds = timing.cpu_seconds(
        {
            "torch": tensor.normal_,
            "default": lambda: default.gaussian(arguments.size, out=out),
            "numpy": lambda: plain.gaussian(arguments.size, out=out),
            "lattice": lambda: default.noisy_mean(total, 1.0, 128.0, total),
            "noise and division": noise_and_division,
            "torch and division": lambda: tensor.normal_().div_(128.0),
        },
        repeats=arguments.repeats,
    )
    path = "numpy" if box_muller_compiled is None else "compiled"
    for name, label in (
        ("torch", "torch.normal_"),
        ("default", f"SecretNoise, {path}"),
        ("numpy", "SecretNoise, numpy"),
        ("lattice", "sum on the lattice"),
        ("noise and division", "noise and division"),
        ("torch and division", "torch and division"),
    ):
        print(f"{label:24s}{1000 * statistics.median(seconds[name]):8.2f} ms")
    timing.report(
        {
            "benchmark": "noise",
            "ratio_torch": timing.ratio(seconds, "default", "torch"),
            "ratio_torch_numpy": timing.ratio(seconds, "numpy", "torch"),
            "ratio_lattice": timing.ratio(seconds, "lattice", "noise and division"),
            "ratio_lattice_torch": timing.ratio(seconds, "lattice", "torch and division"),
            "path": path,
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "at_most": {
                "ratio_torch": 1.0 if path == "numpy" else 0.45,
                "ratio_torch_numpy": 1.0,
                "ratio_lattice": 1.0,
            },
            "size": arguments.size,
        },
        packages=("numpy", "torch", "cryptography"),
    )


if __name__ == "__main__":
    main()
