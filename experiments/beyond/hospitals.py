"""Two simulated hospitals whose truth is known: visits of patients with high blood pressure, and nobody in them.

`Linear`: the next pressure is linear in this one and the drug (half the effect above a creatinine of 1.5), and depends
on nothing before. `Hidden` is neither linear nor Markov: effects saturate with the pressure, fall with creatinine, wear
off (ACE inhibitor) or build up (beta blocker) with the visits in a row that had the drug. How severe a patient's
disease is, and after which visit it gets worse, nobody sees. Doctors keep to a drug, and give more after a rise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.data import Column, PublicSpec, Trajectories
from tacit.data.spec import space_of

State = dict[str, np.ndarray]
Rule = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From pressure and creatinine, as last seen, to one of four drugs."""
DRUGS, UNKNOWN, GOAL, LONGEST = ("none", "ACE inhibitor", "beta blocker", "both"), 4, 130.0, 40
SPEC = PublicSpec(
    space_of(
        Column("ward", "category", labels=("internal", "heart", "kidney"), static=True),
        Column("sex", "category", labels=("m", "w", "d"), missing="flag", static=True),
        Column("age", "integer", low=18, high=110, static=True),
        Column("pressure", "integer", low=60, high=260, step=10, missing="flag"),
        Column("creatinine", low=0.2, high=15, step=0.1, missing="flag"),
        Column("gap", "duration", low=0, high=730, step=30, time_unit="days"),
    ),
    space_of(Column("drug", "category", labels=(*DRUGS, "unknown"))),
    space_of(Column("reward", low=-1, high=0)),
    "declared",
    terminals=False,
    reward_expression="coalesce(-abs(pressure - 130) / 130, 0)",
)
PLACES = {  # where a column's number is among those of an observation, and its flag
    "ward": (0, None),
    "sex": (1, 2),
    "age": (3, None),
    "pressure": (4, 5),
    "creatinine": (6, 7),
    "gap": (8, None),
}


@dataclass(frozen=True)
class Linear:
    """What follows depends on the visit alone."""

    effects: tuple[float, ...] = (0.0, -8.0, -6.0, -14.0)  # mmHg until the next visit
    back: float = 0.1  # share of the way home between two visits
    home: float = 145.0
    noise: float = 6.0
    starts: tuple[float, float] = (150.0, 15.0)
    wards: tuple[float, ...] = (0.6, 0.3, 0.1)
    creatinine: tuple[float, ...] = (-0.05, 0.3, 0.08, 0.02)  # log mean and spread, drift, what both drugs add to it
    doctors: tuple[tuple[float, float], ...] = ((0.8, -1.0), (0.2, 0.2), (0.0, 0.1), (-1.0, 0.9))
    missing: tuple[float, ...] = (0.04, 0.12, 0.01)
    gaps: tuple[float, float] = (2.0, 20.0)
    ages: tuple[int, int] = (30, 90)
    habit: tuple[float, float] = (0.0, 0.0)  # log odds of the same drug, and of both after a rise
    sooner: float = 0.0  # by how much gaps are shorter for 20 mmHg, as a logarithm
    lasting: float = 0.0  # chance that creatinine which missed misses again

    def _begin(self, patients: int, rng: np.random.Generator) -> State:
        ward, age = rng.choice(3, patients, p=self.wards), rng.integers(*self.ages, patients)
        sex = rng.choice([0, 1, 2, np.nan], patients, p=[0.47, 0.5, 0.01, 0.02])
        pressure, creatinine = rng.normal(*self.starts, patients), rng.lognormal(*self.creatinine[:2], patients)
        seen = {"ward": ward, "age": age, "sex": sex, "pressure": pressure, "creatinine": creatinine}
        hidden = {"visits": rng.integers(2, 12, patients), "severity": rng.normal(size=patients)}
        none = np.zeros(patients)
        past = {"visit": none, "same": none, "last": none - 1, "rise": none, "lost": none, "gap": none}
        return {**seen, **hidden, "worse": rng.integers(2, 8, patients), **past}

    def _prefer(self, s: State) -> np.ndarray:
        need = (s["pressure"] - 140) / 15  # [V, 4] log odds of the doctors' choice
        odds = np.stack([level + slope * need for level, slope in self.doctors], axis=1)
        odds[:, 2] -= 0.02 * (s["age"] - 60) / 10
        odds += self.habit[0] * (np.arange(4) == s["last"][:, None])
        odds[:, 3] += self.habit[1] * (s["rise"] > 0)
        return odds

    def expect(self, s: State, drug: np.ndarray) -> np.ndarray:
        acts = np.array(self.effects)[drug] * np.where(s["creatinine"] > 1.5, 0.5, 1.0)
        return s["pressure"] + self.back * (self.home - s["pressure"]) + acts

    def _stop(self, s: State, rng: np.random.Generator) -> np.ndarray:
        return s["visit"] + 1 >= s["visits"]

    def _wait(self, s: State, rng: np.random.Generator) -> np.ndarray:
        scale = self.gaps[1] * np.exp(-self.sooner * (s["pressure"] - 140) / 20)
        return np.ceil(rng.gamma(self.gaps[0], scale) + 1e-3)

    def _lose(self, s: State, rng: np.random.Generator) -> np.ndarray:
        lost = rng.random((len(s["age"]), 3)) < self.missing  # pressure, creatinine, drug
        lost[:, 1] |= (s["lost"] == 1) & (rng.random(len(lost)) < self.lasting)
        return lost

    def _choose(self, s: State, rng: np.random.Generator) -> np.ndarray:
        odds = self._prefer(s)
        shares = np.exp(odds - odds.max(axis=1, keepdims=True)).cumsum(axis=1)
        return (shares > shares[:, -1:] * rng.random((len(odds), 1))).argmax(axis=1)

    def _move(self, s: State, drug: np.ndarray, rng: np.random.Generator) -> State:
        count, (_, _, drift, added) = len(drug), self.creatinine
        pressure = self.expect(s, drug) + rng.normal(0, self.noise, count)
        creatinine = np.clip(s["creatinine"] * np.exp(rng.normal(0, drift, count) + added * (drug == 3)), 0.3, 9)
        same, rise = np.where(drug == s["last"], s["same"] + 1, 1), pressure - s["pressure"]
        now = {"pressure": pressure, "creatinine": creatinine, "visit": s["visit"] + 1}
        return {**s, **now, "same": same, "last": drug, "rise": rise}

    def draw(self, patients: int, seed: int) -> dict[str, Any]:
        """All visits of so many patients, as columns of `SPEC`; a patient's last one is a row that is cut."""
        rng, parts = np.random.default_rng(seed), list[tuple[np.ndarray, ...]]()
        s = self._begin(patients, rng) | {"owner": np.arange(patients)}
        while len(s["owner"]):
            drug, lost = self._choose(s, rng), self._lose(s, rng)
            seen = {"pressure": np.rint(s["pressure"]).clip(60, 260), "creatinine": s["creatinine"].round(2)}
            seen = {name: np.where(lost[:, i], np.nan, values) for i, (name, values) in enumerate(seen.items())}
            parts.append((s["owner"], encode({**s, **seen}), np.where(lost[:, 2], UNKNOWN, drug)))
            stay = ~self._stop(s, rng) & (s["visit"] + 1 < LONGEST)
            s |= {"lost": lost[:, 1], "gap": self._wait(s, rng)}
            s = {name: values[stay] for name, values in self._move(s, drug, rng).items()}
        order = np.argsort(np.concatenate([owner for owner, _, _ in parts]), kind="stable")
        owner, numbers, drugs = (np.concatenate(column)[order] for column in zip(*parts, strict=True))
        last = np.append(np.diff(owner) != 0, True)
        return {
            "observations": numbers,
            "next_observations": np.where(last[:, None], numbers, np.roll(numbers, -1, axis=0)),
            "actions": drugs,
            "rewards": np.where(numbers[:, 5] == 1, 0.0, -np.abs(numbers[:, 4] - GOAL) / GOAL).astype(np.float32),
            "terminations": np.zeros(len(owner), bool),
            "truncations": last,
            "unit_ids": owner,
        }

    def value(self, rule: Rule | None, *, patients: int, seed: int, visits: int = 11) -> float:
        """Mean reward of a visit under a rule, or the doctors (None), if everybody came so often."""
        rng = np.random.default_rng(seed)
        s, total = self._begin(patients, rng), 0.0
        pressure, creatinine = s["pressure"], s["creatinine"]
        for _ in range(visits):
            lost, drug = self._lose(s, rng), self._choose(s, rng)
            pressure = np.where(lost[:, 0], pressure, np.rint(s["pressure"]))
            creatinine = np.where(lost[:, 1], creatinine, s["creatinine"])
            total -= float(np.abs(s["pressure"] - GOAL).mean()) / GOAL
            drug = drug if rule is None else rule(pressure, creatinine)
            s = self._move({**s, "lost": lost[:, 1]}, drug, rng)
        return total / visits


@dataclass(frozen=True)
class Hidden(Linear):
    """What follows depends on what nobody sees, and on visits before."""

    effects: tuple[float, ...] = (2.0, -11.0, -9.0, -17.0)
    saturates: tuple[float, float] = (138.0, 9.0)  # an effect is half of its most at this pressure; how steeply
    wears: float = 0.75  # an ACE inhibitor has so much of its effect in each further visit in a row
    builds: tuple[float, float] = (0.4, 0.3)  # of a beta blocker's effect at once, and more a visit
    severe: tuple[float, float] = (9.0, 0.25)  # mmHg of home a unit of severity, and how much less drugs do
    worse_by: float = 14.0
    back: float = 0.18
    home: float = 147.0
    starts: tuple[float, float] = (152.0, 14.0)
    wards: tuple[float, ...] = (0.4, 0.35, 0.25)
    habit: tuple[float, float] = (1.1, 0.8)
    sooner: float = 0.3
    lasting: float = 0.5
    missing: tuple[float, ...] = (0.06, 0.12, 0.02)
    ages: tuple[int, int] = (22, 96)
    stops: tuple[float, ...] = (0.09, 0.05, 0.05)  # at a pressure of 140, more for 20 mmHg, more at the first visit

    def _begin(self, patients: int, rng: np.random.Generator) -> State:
        s = super()._begin(patients, rng)
        severity, older = s["severity"] + 0.8 * (s["ward"] == 2), s["age"] - 60
        pressure = s["pressure"] + 7 * severity + 0.15 * older + 4 * (s["sex"] == 1)
        return {**s, "severity": severity, "pressure": pressure, "creatinine": s["creatinine"] * np.exp(0.006 * older)}

    def expect(self, s: State, drug: np.ndarray) -> np.ndarray:
        same, (middle, width) = np.where(drug == s["last"], s["same"], 0), self.saturates
        high = 1 / (1 + np.exp(-(s["pressure"] - middle) / width))
        acts = high * (1.2 - 0.7 / (1 + np.exp(-(s["creatinine"] - 1.4) / 0.15)))
        acts *= np.where(drug == 1, self.wears**same, 1) * np.exp(-self.severe[1] * s["severity"])
        acts *= np.where(drug == 2, np.minimum(self.builds[0] + self.builds[1] * same, 1.3), 1)
        home = self.home + self.severe[0] * s["severity"] + self.worse_by * (s["visit"] >= s["worse"])
        effect = np.array(self.effects)[drug] * np.where(drug == 0, 1, acts)
        return s["pressure"] + self.back * (home - s["pressure"]) + effect

    def _stop(self, s: State, rng: np.random.Generator) -> np.ndarray:
        level, slope, first = self.stops
        chance = level + slope * (s["pressure"] - 140) / 20 + first * (s["visit"] == 0)
        return rng.random(len(chance)) < chance.clip(0.01, 0.9)


def encode(seen: State) -> np.ndarray:
    """Columns by name, NaN where they miss, as numbers [V, 9] of `SPEC`."""
    wide = np.zeros((len(seen["age"]), SPEC.observation.size), np.float32)
    low, high = SPEC.observation.float32_bounds()
    for name, (place, flag) in PLACES.items():
        wide[:, place] = np.clip(np.nan_to_num(seen[name], nan=low[place]), low[place], high[place])
        if flag is not None:
            wide[:, flag] = np.isnan(seen[name])
    return wide


def to_records(visits: dict[str, Any], *, whole: bool) -> Trajectories:
    """Visits of whole people, whose last ones are rows; or steps, two consecutive visits a row."""
    if not whole:
        visits = {name: column[~visits["truncations"]] for name, column in visits.items()}
        visits["truncations"] = np.append(np.diff(visits["unit_ids"]) != 0, True)
    return Trajectories.from_arrays(**visits, spec=SPEC, unit_name="patient", simulated=True, copied_ends=whole)


HOSPITALS: dict[str, Linear] = {"linear": Linear(), "nonlinear": Hidden()}
