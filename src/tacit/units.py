"""What one protected thing is, and what is promised to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from tacit.errors import PlanError
from tacit.plain_text import is_printable
from tacit.validation import require_valid

Relation = Literal["add_or_remove", "replace_one"]
RowsShape = Literal["pairs", "visits"]
"""Of tables: one row a step, with what was observed before and after it; or one row a visit."""
UnitKey = Literal["exact", "folded"]
"""What ids are that differ by case or form alone: different units, or one. Without a word they are refused."""

LONGEST_NAME, LARGEST_POPULATION = 200, 10**12
MAX_UNITS = 2 * 10**8
"""Of which statement 1 of `proofs/floating_point.md` holds."""
PERSONS = (
    *("author", "client", "clinician", "customer", "doctor", "driver", "expert", "guest", "member", "participant"),
    *("passenger", "patient", "person", "pilot", "player", "resident", "rider", "student", "subject", "teacher"),
    *("user", "visitor", "worker"),
)
"""Units that a letter may call a person."""
_THINGS = ("account", "case", "device", "episode", "household", "session", "stay", "trajectory", "transition", "visit")
_SHORT = {"cust": "customer", "mrn": "patient", "pat": "patient", "uid": "user"}
_IDS = ("code", "hash", "id", "ids", "key", "no", "nr", "num", "number", "uuid")


@dataclass(frozen=True)
class Unit:
    """One protected thing, what "neighbouring" means for it, and the public population it comes from.

    Args:
        name: what one unit is, in the singular ("patient", "transition", "trajectory").
        relation: `add_or_remove` (a unit and all its records are present or absent; equivalently zeroed out), or
            `replace_one` (a unit's records are exchanged for another's).
        population: how many units the public knows there could be. Denominators, `delta < 1 / population` and
            every "too few units" check use this number; it is declared, never counted from the data.

    Raises:
        PlanError: a name, relation or population is missing or invalid.
    """

    name: str
    relation: Relation
    population: int

    def __post_init__(self) -> None:
        if not self.name:
            what, expected = "the unit has no name", "what one protected thing is, such as 'patient'"
            raise PlanError(what, where="Unit", expected=expected, remedy="name the unit")
        if not is_printable(self.name) or len(self.name) > LONGEST_NAME:
            what = "the unit's name is too long, or has characters that are not seen as they are"
            expected = f"what one protected thing is, such as 'patient', in at most {LONGEST_NAME} characters"
            raise PlanError(what, where=f"Unit({self.name[:80]!r})", expected=expected, remedy="choose a plain name")
        if self.relation not in get_args(Relation):
            what = "the neighbouring relation is missing or unknown"
            expected = f"relation= one of {', '.join(get_args(Relation))}"
            remedy = "declare it: there is no default, because it decides what the promise means"
            raise PlanError(what, where=f"Unit({self.name!r})", expected=expected, remedy=remedy)
        population = self.population
        if not isinstance(population, int) or isinstance(population, bool) or population < 2:
            what = "the public population is missing or below 2"
            expected = "population= a whole number known without the data"
            remedy = "declare how many units there could be; it is never counted from the records"
            raise PlanError(what, where=f"Unit({self.name!r})", expected=expected, remedy=remedy)
        if population > LARGEST_POPULATION:
            what = f"the public population is {population:,}"
            expected, remedy = f"at most {LARGEST_POPULATION:,}", "declare how many units there could be"
            raise PlanError(what, where=f"Unit({self.name!r})", expected=expected, remedy=remedy)

    @property
    def size(self) -> int:
        """The public population."""
        return self.population

    @property
    def noun(self) -> str:
        """What a sentence calls one unit."""
        return noun(self.name)


def is_noun(name: str) -> bool:
    """Whether a sentence can call a unit by this name as it stands: words of letters."""
    return len(name) <= LONGEST_NAME and re.fullmatch(r"[^\W\d_]+([ -][^\W\d_]+)*", name) is not None


def noun(name: str) -> str:
    """What a sentence calls a unit of this name, in the singular.

    Columns of ids name units, too: `patient_id` and Pat-Nr. are patients, and of the column ref_no nothing but "ref_no
    holder" is known.
    """
    plain = re.sub("(?<=[a-z])(?=[A-Z])", " ", name.rpartition("/")[2])
    *kind, last = re.findall(r"[^\W\d_]+", plain.casefold()) or [""]
    if last not in _IDS and re.fullmatch(r"[^\W\d]+([ -][^\W\d]+)*", plain):
        return _SHORT.get(plain.casefold(), plain.replace("_", " "))
    found = _SHORT.get(" ".join(kind), " ".join(kind))
    return found if found in PERSONS or found in _THINGS else f"{name} holder"


@dataclass(frozen=True)
class Promise:
    """(epsilon, delta)-differential privacy to every unit.

    Args:
        unit: whom it is made to.
        epsilon: 0 or more; infinite where nothing is promised, for want of noise.
        delta: between 0 and 1 / population.

    Raises:
        PlanError: a number is out of range.
    """

    unit: Unit
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        require_valid("epsilon", self.epsilon, self.epsilon >= 0, "a number >= 0")
        require_delta(self.delta, self.unit)


def require_delta(delta: float, unit: Unit) -> None:
    """Raise a PlanError unless 0 < delta < 1 / population, and the population is one whose sums are proved."""
    require_valid("delta", delta, 0 < delta < 1, "a number in (0, 1)")
    if unit.size > MAX_UNITS:
        expected = f"at most {MAX_UNITS:,}: of more units a float64 sum is not proved to move by one clip at most"
        remedy = "declare those who could be in these records, or split them into several data sets"
        raise PlanError(f"the public population is {unit.size:,}", where="plan", expected=expected, remedy=remedy)
    if delta >= 1 / unit.size:
        what = f"delta {delta:.3g} is not below 1 / population = {1 / unit.size:.3g}"
        expected, remedy = f"delta < {1 / unit.size:.3g}, better a tenth of it", f"choose delta={0.1 / unit.size:.1g}"
        raise PlanError(what, where="plan", expected=expected, remedy=remedy)
