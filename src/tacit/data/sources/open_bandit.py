"""Reader of the Open Bandit Dataset: real logs of a fashion shop's recommendations, with logged propensities.

Saito et al., *Open Bandit Dataset and Pipeline* (arXiv:2008.07146). The Python package `obp` 0.4.1 (Apache-2.0) carries
a sample of 10,000 impressions a log; only its CSV files are read, none of its modules. The whole dataset, where it was
downloaded, has the same layout: `POLICY/CAMPAIGN/CAMPAIGN.csv`.

For a week in November 2019 each of three campaigns showed its items under one of two policies, chosen at random:
`random` gives every item the same probability; `bts` is Bernoulli Thompson sampling, which takes no account of the
visitor and whose propensities drift over the week. Three items are shown side by side; a row of a log is one of them.
"""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from tacit.data.ingest import EACH_TRANSITION, Ingest
from tacit.data.sources.files import csv_chunks
from tacit.data.sources.tables import unreadable_error
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError, FileError
from tacit.plain_files import is_inside

Campaign = Literal["all", "men", "women"]
Policy = Literal["random", "bts"]

POSITIONS = 3
ITEMS: dict[Campaign, int] = {"all": 80, "men": 34, "women": 46}
"""Number of items of each campaign (table 1 of the paper)."""

_COLUMNS = ("item_id", "position", "click", "propensity_score")


def spec(campaign: Campaign = "men") -> PublicSpec:
    """Public bounds of a campaign's logs: three positions, its items, a click or none."""
    if campaign not in ITEMS:
        raise _choice_error("campaign", get_args(Campaign))
    return PublicSpec(
        observation=Discrete(POSITIONS),
        action=Discrete(ITEMS[campaign]),
        reward=Box((0.0,), (1.0,)),
        source="public_data",
        propensities=True,
    )


def read(
    campaign: Campaign = "men",
    policy: Policy = "random",
    *,
    folder: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
) -> Trajectories:
    """One log as episodes of a single step, in the log's order of time.

    - observation: the position (0, 1, 2) in which the item was shown. The visitor's hashed features are left out:
      neither policy looked at them, and how many values they have is known from the records only.
    - action: the item. Reward: 1 for a click, else 0. Every episode terminates after its step.
    - propensity: the probability that the logging policy gave to this item in this position at that time
      (`propensity_score`: it adds up to 1 over the items of a position, never over positions).
    - unit: every impression is a unit of its own (`unit_kind` is "transition"). The logs name no visitor, so a promise
      about these units covers one impression, and not a person who came twice.

    The set is not `simulated`: its records are those of real visitors. That they are published lets anybody compare an
    estimate with them, and is no reason to call them nobody's; look at `columns` before a vault takes the set.

    Args:
        campaign: `all`, `men` or `women`.
        policy: which policy wrote the log.
        folder: the unpacked dataset; None takes the sample that the installed package `obp` carries.
        store: see `Trajectories.from_arrays`.

    Raises:
        DataError: there is no such campaign or policy, or a row is out of range.
        FileError: `obp` is not installed and no folder is given, or the file is missing or damaged.
    """
    bounds = spec(campaign)
    if policy not in get_args(Policy):
        raise _choice_error("policy", get_args(Policy))
    root, name = _find_installed() if folder is None else Path(folder), f"{policy}/{campaign}/{campaign}.csv"
    path = root / name
    if not is_inside(root, name):
        raise unreadable_error(path, "a CSV file in the folder itself")
    with Ingest(bounds, simulated=False, store=store) as ingest:
        ingest.start(f"open_bandit.read({path.name!r})")
        for table in csv_chunks(path, _COLUMNS, ()):
            missing = [name for name in _COLUMNS if name not in table]
            if missing:
                what, expected = f"there is no column {missing[0]!r}", f"the columns {', '.join(_COLUMNS)}"
                remedy = "give the folder of the Open Bandit Dataset, with its logs in POLICY/CAMPAIGN/CAMPAIGN.csv"
                raise DataError(what, where=path.name, expected=expected, remedy=remedy)
            position = np.asarray(table["position"]) - 1  # the files count from 1
            columns = {
                "observations": position,
                "actions": table["item_id"],
                "rewards": table["click"],
                "next_observations": position,
                "terminations": np.ones(len(position), dtype=np.bool_),
                "propensities": table["propensity_score"],
            }
            ingest.add(columns, EACH_TRANSITION)
        return Trajectories(ingest.finish(), bounds, simulated=False)


def _find_installed() -> Path:
    try:
        return Path(str(importlib.metadata.distribution("obp").locate_file("obp/dataset/obd")))
    except importlib.metadata.PackageNotFoundError:
        pass
    what = "the package obp, which carries the sample, is not installed"
    expected = "obp 0.4.1, or folder= the unpacked Open Bandit Dataset"
    remedy = "run `pip install --no-deps obp==0.4.1` (only its CSV files are read)"
    raise FileError(what, where="open_bandit.read", expected=expected, remedy=remedy)


def _choice_error(what: str, choices: tuple[str, ...]) -> DataError:
    expected, remedy = f"one of {', '.join(choices)}", f"choose one of these as the {what}"
    return DataError(f"the {what} is unknown", where="open_bandit", expected=expected, remedy=remedy)
