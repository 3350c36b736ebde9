"""The dosing simulator against SciPy's LSODA (`odeint`): 256 people, 20 decisions of ten minutes, random doses.

`python -m benchmarks.dosing` prints the figures alone; `benchmarks.policy_gradient` includes them. Both keep within
0.01 mg/dL of blood glucose in every decision (checked here against a tolerance of 1e-10); LSODA gets the loosest
tolerances, by powers of ten, that do.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import statistics

import numpy as np
import numpy.typing as npt
from scipy.integrate import odeint

from tacit_worlds import dosing
from tacit_worlds.dosing import GB, KABS, KE, KEMP, MINUTES, P1, P2, SI, VG, F

FloatArray = npt.NDArray[np.float64]
PEOPLE, DECISIONS = 256, 20
ACCURACY = 1e-2
SCIPY = {"rtol": 1e-5, "atol": 1e-5}
EXACT = {"rtol": 1e-10, "atol": 1e-10}


def rates(y: FloatArray, _: float, dose: float, meal: float) -> tuple[float, ...]:
    """The equations for one person, in plain Python: faster here than numpy on six numbers."""
    g, x, i, s1, s2, q = y.tolist()
    return (
        -P1 * (g - GB) - SI * x * g + F * KABS / VG * q + F / VG * meal,
        P2 * (i - x),
        -KE * i + dose,
        dose - KEMP * s1,
        KEMP * (s1 - s2),
        KEMP * s2 - KABS * q,
    )


def scipy_step(body: FloatArray, dose: FloatArray, meal: FloatArray, tolerances: dict[str, float]) -> FloatArray:
    """Bodies [N, 6] ten minutes later, person by person."""
    ends = [
        odeint(rates, y, (0.0, MINUTES), args=(float(u), float(d)), **tolerances)[-1]
        for y, u, d in zip(body, dose, meal, strict=True)
    ]
    return np.stack(ends)


def figures(repeats: int = 3) -> dict[str, object]:
    """`dosing_speedup`, CPU time of SciPy over ours, and both errors in mg/dL."""
    rng = np.random.default_rng(0)
    start = dosing.Dosing().starts(PEOPLE, rng)[:, :6]
    doses, meals = rng.uniform(0.0, 6.0, (DECISIONS, PEOPLE)), rng.uniform(800.0, 1600.0, (DECISIONS, PEOPLE))

    def tacit() -> list[FloatArray]:
        path = [start]
        for dose, meal in zip(doses, meals, strict=True):
            path.append(dosing.integrate(path[-1], dose, meal))
        return path

    def scipy() -> None:
        body = start
        for dose, meal in zip(doses, meals, strict=True):
            body = scipy_step(body, dose, meal, SCIPY)

    path, error = tacit(), {"tacit": 0.0, "scipy": 0.0}
    for before, after, dose, meal in zip(path[:-1], path[1:], doses, meals, strict=True):
        exact = scipy_step(before, dose, meal, EXACT)
        for name, got in (("tacit", after), ("scipy", scipy_step(before, dose, meal, SCIPY))):
            error[name] = max(error[name], float(np.abs(got - exact)[:, 0].max()))
    seconds = timing.cpu_seconds({"tacit": tacit, "scipy": scipy}, repeats=repeats, warmup=1)
    for name in ("scipy", "tacit"):
        rate = PEOPLE * DECISIONS / statistics.median(seconds[name])
        print(f"dosing, {name:8s}{rate:12.0f} decisions/s, error {error[name]:.0e} mg/dL")
    return {
        "dosing_speedup": timing.ratio(seconds, "scipy", "tacit"),
        "dosing_error": error["tacit"],
        "dosing_error_scipy": error["scipy"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    measured = figures(parser.parse_args().repeats)
    bounds = {"at_least": {"dosing_speedup": 50}, "at_most": {"dosing_error": ACCURACY, "dosing_error_scipy": ACCURACY}}
    timing.report({"benchmark": "dosing", **measured, **bounds}, packages=("numpy", "scipy"))


if __name__ == "__main__":
    main()
