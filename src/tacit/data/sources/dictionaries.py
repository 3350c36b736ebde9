"""Readers of the dictionaries in which libraries of off-policy evaluation keep their logs: scope-rl and OBP.

scope-rl (Kiyohara et al., arXiv:2311.18206, version 0.2.1): the "logged dataset" of `SyntheticDataset.obtain_episodes`,
trajectories one after another. OBP (Saito et al., arXiv:2008.07146, version 0.4.1): the "bandit feedback" of
`obtain_batch_bandit_feedback`, rounds of one step. Neither library is needed.

What a dictionary says of its own sizes (`n_actions`, `state_dim`, ...) is not read: bounds are those of the spec that
the user declares, and units are the user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from tacit.data import unit_keys
from tacit.data.columns import unmask
from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError

Last = Literal["keep", "drop"]
"""What becomes of the last row of a trajectory that was cut, whose next state no dictionary has."""
Seen = Literal["context", "position", "both"]
"""What the observation of a round is."""


def from_scope_rl(
    dataset: Mapping[str, Any],
    *,
    unit_ids: Any,
    spec: PublicSpec,
    padded: bool = False,
    last: Last = "keep",
    **named: Any,
) -> Trajectories:
    """From scope-rl's logged dataset: `state`, `action`, `reward`, `done`, `terminal` and, if declared, `pscore`.

    An episode ends with a row that is `done`: by the time limit where it is `terminal` too, else for good. So episodes
    may have any lengths. The next observation is the next row's; behind a true end it does not matter.

    Args:
        dataset: the dictionary, arrays of T rows.
        unit_ids, named: as for `Trajectories.from_arrays`; named are unit_name, unit_key, simulated and store.
        spec: public bounds; with `propensities`, `pscore` is read, otherwise it is left out.
        padded: every trajectory fills `step_per_trajectory` rows, and what lies behind its first `done` is no record
            (`obtain_episodes` goes on stepping there, without a reset).
        last: a trajectory that was cut keeps its last row, with its own observation as the next one, or drops it, and
            the row before it is the last.

    Raises:
        DataError: an entry is missing or has another length, or the records break a rule of `Trajectories`.
    """
    if last not in get_args(Last):
        raise _dictionary_error("the choice of last rows is unknown", "scope-rl", "last= keep or drop")
    names = ("state", "action", "reward", "done", "terminal", *(("pscore",) if spec.propensities else ()))
    columns, rows = _columns(dataset, names, "scope-rl")
    has_ids = not (unit_ids is None or isinstance(unit_ids, str))
    if has_ids:
        columns["unit_ids"] = _require_length(unit_keys.as_column(unit_ids), rows, "unit_ids", "scope-rl")
    done = columns["done"].astype(np.bool_)
    kept = _unpadded_rows(dataset, done) if padded else np.ones(rows, np.bool_)
    columns, done = {name: column[kept] for name, column in columns.items()}, done[kept]
    place = np.arange(len(done))
    ends = done | (place == len(done) - 1)  # a log that ends within an episode cuts it
    truncated = ends & (columns["terminal"].astype(np.bool_) | ~done)
    columns["next_state"] = columns["state"][np.where(ends, place, place + 1)]
    episodes = np.cumsum(np.append(False, ends[:-1]))
    columns |= {"terminations": ends & ~truncated, "truncations": truncated, "episodes": episodes}
    if last == "drop":
        columns["truncations"] = np.append(truncated[1:], False) & ~ends
        columns = {name: column[~truncated] for name, column in columns.items()}
    return Trajectories.from_arrays(
        observations=columns["state"],
        actions=columns["action"],
        rewards=columns["reward"],
        next_observations=columns["next_state"],
        terminations=columns["terminations"],
        truncations=columns["truncations"],
        propensities=columns.get("pscore"),
        unit_ids=columns["unit_ids"] if has_ids else unit_ids,
        episode_ids=columns["episodes"],
        spec=spec,
        **named,
    )


def from_obp(
    feedback: Mapping[str, Any],
    *,
    unit_ids: Any,
    spec: PublicSpec,
    seen: Seen = "context",
    **named: Any,
) -> Trajectories:
    """From OBP's bandit feedback: `context`, `action`, `reward`, `position` and, if declared, `pscore`."""
    # Every round is an episode of one step that terminates.
    # feedback: the dictionary, arrays of T rounds, `position` may be None where it is not seen; unit_ids: `(T,)` ids,
    # for instance of users, or `":transition"`, as for `Trajectories.from_arrays`
    if seen not in get_args(Seen):
        raise _dictionary_error("what is seen is unknown", "OBP", "seen= context, position or both")
    parts = {"context": ("context",), "position": ("position",), "both": ("context", "position")}[seen]
    names = (*parts, "action", "reward", *(("pscore",) if spec.propensities else ()))
    columns, rows = _columns(feedback, names, "OBP")
    observations = columns[parts[0]]
    if seen == "both":
        observations = np.column_stack([observations, columns["position"]])
    return Trajectories.from_arrays(
        observations=observations,
        actions=columns["action"],
        rewards=columns["reward"],
        next_observations=observations,
        terminations=np.ones(rows, np.bool_),
        propensities=columns.get("pscore"),
        unit_ids=unit_ids,
        spec=spec,
        **named,
    )


def _columns(dictionary: Mapping[str, Any], names: tuple[str, ...], where: str) -> tuple[dict[str, np.ndarray], int]:
    """The named entries, each an array of as many rows as the reward, and how many these are."""
    missing = [name for name in (*names, "reward") if dictionary.get(name) is None]
    if missing:
        raise _dictionary_error(f"there is no entry {missing[0]!r}", where, f"arrays under {', '.join(names)}")
    rows = len(np.asarray(dictionary["reward"]))
    return {name: _require_length(dictionary[name], rows, name, where) for name in names}, rows


def _require_length(values: Any, rows: int, name: str, where: str) -> np.ndarray:
    array = np.asarray(unmask(values))
    if array.shape[:1] != (rows,):
        what = f"the entry {name!r} is of another length than the reward"
        raise _dictionary_error(what, where, "one entry for each row")
    return array


def _unpadded_rows(dataset: Mapping[str, Any], done: np.ndarray) -> np.ndarray:
    """Which rows lie at or before the first end of their trajectory, [T]."""
    steps = dataset.get("step_per_trajectory")
    if not isinstance(steps, int | np.integer) or steps < 1 or len(done) % steps:
        expected = "step_per_trajectory rows of every trajectory"
        raise _dictionary_error("the rows are no whole trajectories", "scope-rl", expected)
    ended = done.reshape(-1, int(steps)).cumsum(axis=1)
    return np.asarray(ended - done.reshape(ended.shape) == 0).ravel()


def _dictionary_error(what: str, where: str, expected: str) -> DataError:
    remedy = "give the dictionary as it was made"
    return DataError(what, where=f"dictionary of {where}", expected=expected, remedy=remedy)
