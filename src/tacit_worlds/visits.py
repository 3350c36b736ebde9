"""A file of visits as hospitals write it, with nobody in it: simulated patients with high blood pressure. Between two
visits the pressure (mmHg) goes a tenth of the way back to 145, changes by the effect of the drug that was given
(`EFFECTS`, alike for everybody) and by noise of 6. Creatinine drifts by a factor of about 1.08. Doctors give more where
the pressure is higher."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime, timedelta
from typing import Final

import numpy as np

EFFECTS: Final = {"keine": 0.0, "ACE-Hemmer": -8.0, "Betablocker": -6.0, "Kombination": -14.0}
"""What each drug changes the pressure by until the next visit, mmHg."""
PATIENTS, ENCODING = 5_000, "cp1252"
_HEADER = ("Patient", "Zeitpunkt", "Geschlecht", "Alter", "Blutdruck", "Kreatinin", "Medikation")
_SPEC = """\
# Public bounds of {records}, as its documentation would give them; never from the records.
source = "declared"
terminals = false
reward = {{kind = "columns", columns = [{{name = "near 125", low = -1, high = 0}}]}}

[observation]
kind = "columns"
columns = [
  {{name = "Geschlecht", kind = "category", labels = ["männlich", "weiblich"], missing = "flag", static = true}},
  {{name = "Alter", kind = "integer", low = 18, high = 110, static = true}},
  {{name = "Blutdruck", low = 60, high = 250, step = 12, missing = "flag"}},
  {{name = "Kreatinin", low = 0.2, high = 12, step = 0.1, missing = "flag"}},
  {{name = "Abstand", kind = "duration", low = 0, high = 400, step = 30, time_unit = "days"}},
]

[action]
kind = "columns"
columns = [{{name = "Medikation", kind = "category", labels = ["keine", "ACE-Hemmer", "Betablocker", "Kombination"]}}]
"""
_STUDY = """\
# Which records these are, whose, and what may be spent on them. Nobody is in this example.
records = {records}
unit = "Patient"            # the column that says whose a row is
population = 20000          # how many there could be, as the public knows; never counted from the records
budget_epsilon = 8          # what all releases together may cost; it is final
budget_sampled = 0          # the part of it for plans that sample, such as DP-SGD; it is final
spec = {spec}

[reading]
separator = ";"
decimal = ","
encoding = "cp1252"
missing = ["k.A."]
time = "try_strptime(Zeitpunkt, '%d.%m.%Y %H:%M')"
next = "keep"
reward = "-coalesce(abs(Blutdruck - 125), 20) / 125"
"""


def export(seed: int) -> bytes:
    """The file: semicolons, decimal commas, dates with the day first, rows in any order, cells that miss."""
    rng, rows = np.random.default_rng(seed), list[tuple[str, ...]]()
    for patient in range(PATIENTS):
        age, sex = int(rng.integers(30, 90)), str(rng.choice(["männlich", "weiblich", ""], p=[0.48, 0.5, 0.02]))
        pressure, creatinine = rng.normal(150, 15), rng.lognormal(-0.05, 0.3)
        time = datetime(2021, 1, 4, 8) + timedelta(minutes=int(rng.integers(0, 600 * 24 * 60)))
        for _ in range(int(rng.integers(2, 11))):
            need = (pressure - 140) / 15
            odds = np.exp([0.8 - need, 0.2 + 0.2 * need, 0.1 * need, 0.9 * need - 1])
            drug = str(rng.choice(list(EFFECTS), p=odds / odds.sum()))
            said = "" if rng.random() < 0.04 else f"{pressure:.0f}"
            measured = "k.A." if rng.random() < 0.12 else f"{creatinine:.2f}".replace(".", ",")
            rows.append((f"P{patient:05}", f"{time:%d.%m.%Y %H:%M}", sex, str(age), said, measured, drug))
            pressure += 0.1 * (145 - pressure) + EFFECTS[drug] + rng.normal(0, 6)
            creatinine = float(np.clip(creatinine * np.exp(rng.normal(0, 0.08)), 0.3, 9))
            time += timedelta(minutes=int(rng.gamma(2, 20) * 24 * 60) + 1)
    text = io.StringIO()
    writer = csv.writer(text, delimiter=";", lineterminator="\r\n")
    writer.writerow(_HEADER)
    writer.writerows(rows[i] for i in rng.permutation(len(rows)))
    return text.getvalue().encode(ENCODING)


def declarations(records: str, spec: str) -> tuple[str, str]:
    """The public bounds of the file, and a study of it, as texts of TOML files."""
    named = {"records": json.dumps(records), "spec": json.dumps(spec)}  # TOML has the escapes of JSON
    return _SPEC.format(**named), _STUDY.format(**named)
