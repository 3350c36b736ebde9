"""What stood as a literal in the code of stored rows' own commits, for `experiments.migrations`.

Each value was computed by, or read in, the code of every commit that made rows which it is given to; today's code never
filled one in, and a change of today's code changes nothing here.
"""

from __future__ import annotations

from experiments.configuration import Json

CONSTANTS: dict[str, dict[str, Json]] = {
    "Acrobot": {"SECONDS": 0.2, "GRAVITY": 9.8, "FASTEST": [12.566370614359172, 28.274333882308138]},
    "CartPole": {"SECONDS": 0.02, "FARTHEST": 2.4, "STEEPEST": 0.20943951023931953},
    "Cut": {"_INNER": 2.0, "_EVEN": 0.25},
    "Dosing": {
        "TARGET": 80.0,
        "WIDTH": 7.0,
        "LOWEST": 65.0,
        "HIGHEST": 105.0,
        "MINUTES": 10.0,
        "SUBSTEPS": 20,
        "BASE": 1000.0,
        "PEAKS": [[7.5, 1632.0], [13.666666666666666, 1603.0], [19.5, 1593.0]],
        "RISE": 0.5,
        "BASES": [800.0, 1200.0],
        "MEALS": [
            [0.95, 7.0, 5.0, 9.0, 2500.0, 100.0],
            [0.2, 9.5, 9.0, 10.0, 1250.0, 50.0],
            [0.95, 12.0, 11.0, 13.0, 2800.0, 100.0],
            [0.2, 15.0, 14.0, 16.0, 1250.0, 50.0],
            [0.95, 18.0, 16.5, 19.5, 2800.0, 100.0],
            [0.2, 21.0, 20.0, 22.0, 1250.0, 50.0],
        ],
        "SPREAD": 1.6666666666666667,
    },
    "Hiv": {
        "DRUGS": [[0.0, 0.0], [0.7, 0.0], [0.0, 0.3], [0.7, 0.3]],
        "STEADY_STATE": [163573.0, 5.0, 11945.0, 46.0, 63919.0, 24.0],
        "SPREAD": 0.2,
        "SUBSTEP": 0.01,
        "REWARD": [-1.0, 5.0],
    },
    "ResidualRegression": {"LOW_BUDGET": 60.0, "INFLATION": 0.1, "LEAST_SHRINKAGE": 0.02, "RANGES": 24},
    "RiverSwim": {
        "STATES": 6,
        "LEFT_REWARD": 0.005,
        "RIGHT_REWARD": 1.0,
        "LEFT_BANK": 0.6,
        "FORWARD": 0.35,
        "BACK": 0.05,
    },
}
"""Constants of the modules of classes; each is verified in every commit of the rows that hold the class (of `Cut`, of
those that hold a `Raking`, too).
"""
WORLDS: dict[str, Json] = {
    "cart_pole": {
        "domain": {
            "type": "CartPole",
            "gravity": 9.8,
            "force": 10.0,
            "cart_mass": 1.0,
            "pole_mass": 0.1,
            "half_length": 0.5,
            "SECONDS": 0.02,
            "FARTHEST": 2.4,
            "STEEPEST": 0.20943951023931953,
        },
        "spec": {
            "type": "PublicSpec",
            "observation": {"type": "Box", "low": [-4.8, -4.0, -0.418, -4.0], "high": [4.8, 4.0, 0.418, 4.0]},
            "action": {"type": "Discrete", "n": 2},
            "reward": {"type": "Box", "low": [0.0], "high": [1.0]},
            "source": "physics",
            "terminals": True,
            "difference": None,
            "propensities": False,
        },
        "evaluation": 1000,
        "bounds": [0.0, 200.0],
        "gains": {
            "costs": [[[1.0, 1.0, 10.0, 1.0], 0.1], [[1.0, 1.0, 100.0, 10.0], 1.0], [[0.1, 0.1, 1.0, 0.1], 1.0]],
            "doublings": 16,
            "variations": [[8.75, 11.0, 10], [9.0, 11.25, 10], [0.8, 1.25, 10]],
        },
        "noise": {"good": 0.05, "worst": 1.2},
        "floor": 0.02,
    },
    "acrobot": {
        "domain": {
            "type": "Acrobot",
            "lengths": [1.0, 1.0],
            "masses": [1.0, 1.0],
            "SECONDS": 0.2,
            "GRAVITY": 9.8,
            "FASTEST": [12.566370614359172, 28.274333882308138],
        },
        "spec": {
            "type": "PublicSpec",
            "observation": {
                "type": "Box",
                "low": [-1.0, -1.0, -1.0, -1.0, -12.566370614359172, -28.274333882308138],
                "high": [1.0, 1.0, 1.0, 1.0, 12.566370614359172, 28.274333882308138],
            },
            "action": {"type": "Discrete", "n": 3},
            "reward": {"type": "Box", "low": [-1.0], "high": [0.0]},
            "source": "physics",
            "terminals": True,
            "difference": None,
            "propensities": False,
        },
        "evaluation": 500,
        "bounds": [-200.0, 0.0],
        "gains": {"shape": [50, 6, 3], "sha256": "d1bd9b535f5bfe20"},
        "noise": {"good": 0.05, "worst": 1.2},
        "floor": 0.02,
    },
    "lunar_lander": {
        "domain": {
            "type": "LunarLander",
            "name": "LunarLander-v3",
            "options": {"gravity": -10.0, "enable_wind": False, "wind_power": 0.0, "turbulence_power": 0.0},
        },
        "spec": {
            "type": "PublicSpec",
            "observation": {
                "type": "Box",
                "low": [-2.5, -2.5, -10.0, -10.0, -6.283185307179586, -10.0, 0.0, 0.0],
                "high": [2.5, 2.5, 10.0, 10.0, 6.283185307179586, 10.0, 1.0, 1.0],
            },
            "action": {"type": "Discrete", "n": 4},
            "reward": {"type": "Box", "low": [-100.0], "high": [100.0]},
            "source": "environment",
            "terminals": True,
            "difference": None,
            "propensities": False,
        },
        "evaluation": 1000,
        "bounds": [-500.0, 300.0],
        "gains": {"shape": [10, 10], "sha256": "8ecbd310404d8584"},
        "noise": {"good": 0.05, "worst": 1.2},
        "floor": 0.02,
    },
    "hiv": {
        "domain": {
            "type": "Hiv",
            "penalties": [20000.0, 2000.0],
            "efficacy_noise": 0.0,
            "days": 20.0,
            "DRUGS": [[0.0, 0.0], [0.7, 0.0], [0.0, 0.3], [0.7, 0.3]],
            "STEADY_STATE": [163573.0, 5.0, 11945.0, 46.0, 63919.0, 24.0],
            "SPREAD": 0.2,
            "SUBSTEP": 0.01,
            "REWARD": [-1.0, 5.0],
        },
        "spec": {
            "type": "PublicSpec",
            "observation": {
                "type": "Box",
                "low": [-5.0, -5.0, -5.0, -5.0, -5.0, -5.0],
                "high": [8.0, 8.0, 8.0, 8.0, 8.0, 8.0],
            },
            "action": {"type": "Discrete", "n": 4},
            "reward": {"type": "Box", "low": [-1.0], "high": [5.0]},
            "source": "physics",
            "terminals": False,
            "difference": None,
            "propensities": False,
        },
        "evaluation": 50,
        "bounds": [-50.0, 250.0],
        "gains": {"shape": [24, 7, 4], "sha256": "083b22081978dbcd"},
        "noise": {"good": 0.05, "worst": 1.2},
        "floor": 0.02,
    },
}
"""Worlds and experts of `experts_table` and `experts_histograms`; verified in all six commits of their rows (1c7983c,
47dc75f, 5bd1170, b002cd1, e82bf10, eb584f8).
"""
CAR: Json = [
    {
        "type": "learn",
        "simulator": {"type": "MountainCar"},
        "starts": "MountainCar.starts",
        "actions": 3,
        "low": [-1.2, -0.07],
        "high": [0.6, 0.07],
        "order": 5,
        "coupled": True,
        "gamma": 0.99,
        "rate": 0.3,
        "trace": 0.9,
        "epsilon": 0.2,
        "episodes": 32,
        "horizon": 500,
        "steps": 60000,
        "seed": 2,
    }
]
"""How mountain car's Q was learnt; verified in the eight commits of `gpope_mountain_car` and `ope_estimators`."""
PATIENTS: Json = [
    {"type": "uniform", "actions": 4},
    {"type": "collect", "policy": "uniform", "units": 150, "seed": 0, "horizon": 200},
    {
        "type": "fit",
        "tables": ["collect"],
        "actions": 4,
        "low": [4.0, -1.0, -2.0, -2.0, -1.0, 1.0],
        "high": [6.0, 3.5, 5.5, 3.0, 6.5, 4.0],
        "order": 5,
        "coupled": False,
        "gamma": 0.98,
        "value": [-49.99999999999996, 249.99999999999977],
        "ridge": 0.0001,
        "iterations": 80,
    },
    {"type": "epsilon_greedy", "q": "fit", "epsilon": 0.2},
    {"type": "collect", "policy": "epsilon_greedy", "units": 150, "seed": 1, "horizon": 200},
    {
        "type": "fit",
        "tables": ["collect", "collect"],
        "actions": 4,
        "low": [4.0, -1.0, -2.0, -2.0, -1.0, 1.0],
        "high": [6.0, 3.5, 5.5, 3.0, 6.5, 4.0],
        "order": 5,
        "coupled": False,
        "gamma": 0.98,
        "value": [-49.99999999999996, 249.99999999999977],
        "ridge": 0.0001,
        "iterations": 80,
    },
    {"type": "epsilon_greedy", "q": "fit", "epsilon": 0.2},
]
"""How the patients' Q was learnt; verified in the four commits of `gpope_hiv` and `ope_estimators`."""
JOINT: Json = {"trajectories": 25, "epsilon": 0.264, "sigma": 10.0, "steps": 22000}
"""Of `experts_accounting`; verified in the nine commits whose sources made its rows."""
CONTROLS: dict[str, Json] = {
    "ceiling": {"plan": {"noise_multiplier": 0.0, "most_noise": None}, "clip_of": 1},
    "no_noise": {"plan": {"noise_multiplier": 0.0}},
    "noise_only": {"plan": {"return_scale": 0.0, "horizon": 1}, "noise_of": 0},
    "paper": {"hidden": [64, 64], "gain": 0.01, "restarts": True},
}
"""Of `dppg_table1`; verified in the three commits of its rows (da766ea, 434437a, 005c92c), `ceiling` in the last two,
which made its rows.
"""
SPECTRA: dict[str, Json] = {
    "river": {"states": 6, "right": 1.5},
    "decaying": {"first": 1.0, "last": 0.0001, "eigenvalues": 24},
    "network": {
        "network": {"type": "Mlp", "sizes": [4, 64, 64, 2], "gain": 0.01},
        "states": 400,
        "spread": 0.25,
        "bounds": [4.8, 4.0, 0.418, 4.0],
    },
}
"""Of `trust_region_coverage`; verified in the three commits of its rows (65ff956, b8ee8c1, e82bf10)."""
