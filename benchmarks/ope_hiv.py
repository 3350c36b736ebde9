"""The HIV simulator against SciPy's LSODA: 64 patients, 40 steps of five days, random treatment.

`python -m benchmarks.ope_hiv` prints the figures alone; `benchmarks.off_policy_evaluation` includes them. Both reach a
relative error of 1e-4 in every step (checked here against a tolerance of 1e-10); LSODA gets the loosest tolerances, by
powers of ten, that do.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import statistics

import numpy as np
import numpy.typing as npt
from scipy.integrate import solve_ivp

from tacit_worlds import hiv

FloatArray = npt.NDArray[np.float64]
PATIENTS, STEPS = 64, 40
DAYS = 5.0  # of a step, as `Hiv.days` by default
ACCURACY = 1e-4
SCIPY = {"rtol": 1e-6, "atol": 1e-5}
EXACT = {"rtol": 1e-10, "atol": 1e-9}


def rates(_: float, y: FloatArray, rti: float, pi: float) -> list[float]:
    """The equations for one patient, in plain Python: faster here than numpy on six numbers."""
    t1, t2, infected1, infected2, v, e = y.tolist()
    new1, new2, infected = (1.0 - rti) * 8e-7 * v * t1, (1.0 - 0.34 * rti) * 1e-4 * v * t2, infected1 + infected2
    return [
        1e4 - 0.01 * t1 - new1,
        31.98 - 0.01 * t2 - new2,
        new1 - 0.7 * infected1 - 1e-5 * e * infected1,
        new2 - 0.7 * infected2 - 1e-5 * e * infected2,
        (1.0 - pi) * 70.0 * infected - 13.0 * v - (new1 + new2),
        1.0 + (0.3 * infected / (infected + 100.0) - 0.25 * infected / (infected + 500.0) - 0.1) * e,
    ]


def scipy_step(state: FloatArray, action: npt.NDArray[np.int64], tolerances: dict[str, float]) -> FloatArray:
    """States [N, 6] five days later, patient by patient."""
    ends = [
        solve_ivp(rates, (0.0, DAYS), y, method="LSODA", args=tuple(hiv.DRUGS[a]), **tolerances).y[:, -1]
        for y, a in zip(state, action, strict=True)
    ]
    return np.stack(ends)


def figures(repeats: int = 5) -> dict[str, object]:
    """`hiv_speedup`, CPU time of SciPy over ours, and both errors."""
    rng = np.random.default_rng(0)
    patients, unused = hiv.Hiv(), np.random.default_rng(0)
    starts = patients.starts(PATIENTS, rng)
    actions = rng.integers(hiv.ACTIONS, size=(STEPS, PATIENTS))

    def tacit() -> list[FloatArray]:
        states = [starts]
        for action in actions:
            states.append(patients.step(states[-1], action, unused)[0])
        return states

    def scipy() -> None:
        state = starts
        for action in actions:
            state = scipy_step(state, action, SCIPY)

    path = tacit()
    error = {"tacit": 0.0, "scipy": 0.0}
    for before, after, action in zip(path[:-1], path[1:], actions, strict=True):
        exact = scipy_step(before, action, EXACT)
        for name, got in (("tacit", after), ("scipy", scipy_step(before, action, SCIPY))):
            error[name] = max(error[name], float(np.abs(got / exact - 1.0).max()))
    seconds = timing.cpu_seconds({"tacit": tacit, "scipy": scipy}, repeats=repeats, warmup=1)
    for name in ("scipy", "tacit"):
        print(f"{name:8s}{1000 * statistics.median(seconds[name]):10.1f} ms, relative error {error[name]:.0e}")
    return {
        "hiv_speedup": timing.ratio(seconds, "scipy", "tacit"),
        "hiv_error": error["tacit"],
        "hiv_error_scipy": error["scipy"],
        "hiv_path": "numpy" if hiv.integrate_compiled is None else "compiled",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    measured = figures(parser.parse_args().repeats)
    bounds = {"at_least": {"hiv_speedup": 20}, "at_most": {"hiv_error": ACCURACY, "hiv_error_scipy": ACCURACY}}
    timing.report({"benchmark": "ope_hiv", **measured, **bounds}, packages=("numpy", "scipy"))


if __name__ == "__main__":
    main()
