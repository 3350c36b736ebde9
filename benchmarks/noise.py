"""Secret Gaussians against `torch.normal_`: 6.5M floats, about the parameters of the denoiser.

Run `python -m benchmarks.noise`. The last line is one JSON object: `ratio_torch` is the path that `SecretNoise()` takes
here (`path`), `ratio_torch_numpy` the one that it takes without a C compiler.
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
    default, plain = SecretNoise(), SecretNoise(box_muller_numpy)
    seconds = timing.cpu_seconds(
        {
            "torch": tensor.normal_,
            "default": lambda: default.gaussian(arguments.size, out=out),
            "numpy": lambda: plain.gaussian(arguments.size, out=out),
        },
        repeats=arguments.repeats,
    )
    path = "numpy" if box_muller_compiled is None else "compiled"
    for name, label in (
        ("torch", "torch.normal_"),
        ("default", f"SecretNoise, {path}"),
        ("numpy", "SecretNoise, numpy"),
    ):
        print(f"{label:24s}{1000 * statistics.median(seconds[name]):8.2f} ms")
    timing.report(
        {
            "benchmark": "noise",
            "ratio_torch": timing.ratio(seconds, "default", "torch"),
            "ratio_torch_numpy": timing.ratio(seconds, "numpy", "torch"),
            "path": path,
            "at_most": {"ratio_torch": 1.0 if path == "numpy" else 0.5, "ratio_torch_numpy": 1.0},
            "size": arguments.size,
        },
        packages=("numpy", "torch", "cryptography"),
    )


if __name__ == "__main__":
    main()
