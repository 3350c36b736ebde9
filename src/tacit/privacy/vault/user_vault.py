"""The vault of people who are enrolled online: each is served with what was released, and contributes a bounded number
of times.

A round lets people arrive, enters them in the register of contributions *before* anything of theirs is seen, serves
them with a public actor and keeps their rows inside. A mechanism then sums clipped contributions of that round, each
part of the plan at most once, and adds noise that may be correlated with that of earlier sums; or it turns everybody's
answers round, each by itself. The next round forgets the rows.

Of a plan with two folds all rounds of fold 0 come first. A round is of one fold, and only this fold's parts are summed
over it; since nobody contributes to two rounds, nobody is in both folds.

Proof pages: `proofs/policy_gradient.md`, `proofs/correlated_noise.md`, `proofs/ledger.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from tacit.data import unit_keys
from tacit.data.spec import PublicSpec
from tacit.errors import LedgerError, MechanismError, PlanError
from tacit.privacy import deals
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.gradients import clipping
from tacit.privacy.ledger.folds import FOLDS, Fold
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.ledger.store import MUTEX
from tacit.privacy.mechanisms.base import Contribution, Part, Plan, Sum
from tacit.privacy.mechanisms.contribution_sets import move_inside
from tacit.privacy.mechanisms.kinds import VisitorPart
from tacit.privacy.mechanisms.responses import RandomizedResponses
from tacit.privacy.mechanisms.sums import PoissonSum, UserSum
from tacit.privacy.mechanisms.tallies import Tally, contribution_vectors
from tacit.privacy.noise.correlated import CorrelatedNoise, sensitivity
from tacit.privacy.noise.lattice import round_to_lattice
from tacit.privacy.noise.secret import SecretNoise, poisson_sample
from tacit.privacy.sentences import Label, clause
from tacit.privacy.vault import arrivals
from tacit.privacy.vault.arrivals import enrolled_rows
from tacit.privacy.vault.base import BaseVault, Run, vault_error
from tacit.privacy.vault.isolation import IsolationChecks, Value, foreign_names, require_pure_form, run_silently
from tacit.privacy.vault.memory import copy_plain_state
from tacit.tracking import Tracker

# Who is enrolled online, and what they are served with: what a `UserVault` asks of both.


class UserActor(Protocol):
    """What people are served with: a function of released values alone; for real people a frozen dataclass.

    Where it has `places`, `episodes` and `length`, each person is to play so many episodes, every one from a fresh
    start and of at most so many decisions. In place of replicates it then takes (r places + u) episodes + e for episode
    e of the person in place u of replicate r. Position i among those who came is place i modulo places.
    """

    def __call__(
        self, observations: npt.NDArray[Any], replicate: npt.NDArray[np.int64], generator: np.random.Generator
    ) -> npt.NDArray[Any]:
        """Observations [N, ...] of N people and their replicates [N] -> actions [N] or [N, a]."""


class Users(Protocol):
    """People, and the curator's way to serve them.

    Their random numbers are secret and fresh, or each person's own: a function of the id, not of who is served beside.
    """

    @property
    def spec(self) -> PublicSpec:
        """Public bounds of their rows."""

    @property
    def simulated(self) -> bool:
        """Whether no person is behind them."""

    @property
    def replicates(self) -> int:
        """R, how many independent populations come at once (more than one for simulated people only)."""

    def serve(self, people: Sequence[Sequence[str]], actor: UserActor) -> Mapping[str, npt.NDArray[Any]]:
        """What happened with these people, in this order: the columns of `enrolled_rows`."""


class Pooled(Users, Protocol):
    """People who are known beforehand: the vault deals them into rounds, or draws them."""

    @property
    def pool(self) -> Sequence[Sequence[str]]:
        """For each replicate the ids of everybody there is."""


class Arriving(Users, Protocol):
    """People who come by themselves. Whether one is there must not change who else comes, when and in which place."""

    def arrive(self, expected: int, /) -> Sequence[Sequence[str]]:
        """For each replicate the ids of all who came for the next round, each in a place of their own; "" where nobody
        stands, or somebody whom nobody knows. So many are expected; who comes beyond them is served as well."""


NOTE, ACTOR = "register", "actor"
"""Under which kinds of note a ledger holds the newest head of the register that it saw, and users' own actors."""


@dataclass(repr=False)
class _EnrolledBatch:
    plan_id: str
    rows: dict[str, npt.NDArray[Any]]
    fold: Fold | None
    released_parts: set[str] = field(default_factory=set)


class UserVault(BaseVault):
    """People enrolled one after another, the register of who contributed, and the ledger that pays.

    Args:
        users: how they are served, and their pool or how they arrive. The vault deals a pool into rounds by a public
            hash of each id; for a plan of `PoissonSum`, which needs one, it draws from it in secret.
        ledger: the budget. Simulated people may have R ledgers, one a replicate.
        register: who contributed to which plan how often. It outlives the process, its key lies outside the ledger's
            folder, and the ledger refuses one that is older than the newest it has seen.
        noise: a seeded source for tests only; it voids the ledgers.
        tracker: is shown figures of what is released (`tacit.tracking`).

    Guarantee: whatever leaves through the mechanism under plans admitted by a ledger satisfies that ledger's
    (epsilon, delta) for its unit: one person, with all that happened in the rounds where the register let them
    contribute, however people respond to what was released, under the assumptions that every certificate prints.

    Edge cases:
        | case | what happens |
        |---|---|
        | somebody comes again, or without an id | is served like everyone and contributes zero |
        | the pool changes after a plan was admitted | for this plan it is as it was checked then |
        | nobody comes, or fewer than expected | the divisor stays; noise is released |
        | more come than expected | all are served and contribute; answers have as many places as are expected |
        | no answer, or one after the round | zero; the contribution counts as made |
        | rows that are not finite or outside a discrete space | that person contributes zero |
        | rows outside the public bounds | clipped to them |
        | more rows than the plan's cap | those beyond are not read |
        | a crash | who was reserved has contributed; a resumed run opens a fresh block of correlated noise |
        | two threads | one of them releases a part of a round, the other is refused |

    Raises:
        LedgerError: several ledgers for people who are not simulated, another number of ledgers than replicates, or the
            register's key in a ledger's folder.
    """

    def __init__(
        self,
        users: Pooled | Arriving,
        ledger: Ledger | Sequence[Ledger],
        register: Register,
        *,
        noise: SecretNoise | None = None,
        tracker: Tracker | None = None,
    ) -> None:
        coming = "arrive" if not hasattr(users, "pool") else "pool"
        missing = [name for name in ("spec", "simulated", "replicates", coming, "serve") if not hasattr(users, name)]
        if missing:
            raise vault_error(f"the users have no {', '.join(missing)}", "what privacy.users.Users lists")
        kinds = (UserSum, RandomizedResponses, PoissonSum)
        super().__init__(ledger, simulated=users.simulated, kinds=kinds, noise=noise, tracker=tracker)
        if users.replicates != len(self.ledgers):
            raise vault_error(f"{len(self.ledgers)} ledger(s) for {users.replicates} population(s)", "one ledger each")
        for replicate_ledger in self.ledgers:
            folder = replicate_ledger.path.resolve().parent
            if folder == register.key_folder or folder in register.key_folder.parents:
                raise vault_error("the register's key lies in a ledger's folder", "a key that is stored elsewhere")
        self.spec = users.spec
        self._users, self._register = users, register
        self._exact_ids = getattr(users, "unit_key", None) == "exact"  # whether twins are different people
        self._void_if_seeded()
        self._checks = IsolationChecks(users.spec)
        self._batch: _EnrolledBatch | None = None
        # who is known beforehand, by the plan that was admitted; what `_require_pool` read last belongs to none yet
        self._plan_pools: dict[str, list[list[str]]] = {}
        self._latest_pools: list[list[str]] = []
        self._streams: dict[tuple[str, str], CorrelatedNoise] = {}

    @property
    def replicates(self) -> int:
        """R, how many independent populations are enrolled at once."""
        return len(self.ledgers)

    def reserve(self, plan: Plan) -> Run:
        """As `BaseVault.reserve`; from now on the ledger needs this register, at least as new as it is now."""
        with MUTEX:
            run = super().reserve(plan)
            self._plan_pools.setdefault(run.plan_id, self._latest_pools)  # of a plan that was refused nothing is kept
            for ledger in self.ledgers:
                if self._exact_ids and not arrivals.read_notes(ledger, arrivals.LAW):
                    ledger.note(arrivals.LAW, "exact")
            self._note()
        return run

    def enroll(self, run: Run, actor: UserActor) -> None:
        """One round: people arrive, enter the register, and are served; what they did stays inside.

        Args:
            run: what `reserve` returned.
            actor: made of released values and public ones.

        Raises:
            PlanExhausted: no part of the plan has a step left.
            LedgerError: the run is not one that this vault admitted, or the actor has places and people are of a pool.
            MechanismError: the users' answer has not the columns and shapes of `enrolled_rows`; or people are not
                simulated, and the actor could keep what it sees.
        """
        every = [self._part(run, part.name, UserSum, RandomizedResponses, PoissonSum) for part in run.plan.parts()]
        if not self.simulated:
            require_pure_form(actor, where="enroll")
        self._remember(run, foreign_names(actor), ACTOR)
        self._batch = None
        begun = [part.fold for part in every if self.steps_left(run, part.name)] or [every[-1].fold]
        fold = min(begun, key=lambda fold: fold or 0)  # all rounds of fold 0 come first
        parts = [part for part in every if part.fold == fold]
        open_parts = [part for part in parts if self.steps_left(run, part.name)]
        if not open_parts:
            self.next_step(run, parts[0].name)  # raises PlanExhausted
        pools = self._plan_pools[run.plan_id]
        placed = isinstance(parts[0], VisitorPart) and not pools
        if hasattr(actor, "places") and not placed:
            raise vault_error("people of a pool have no places", "users who arrive, each in a place of their own")
        people, admitted = self._admit_arrivals(run, parts[0], pools)
        if not self.simulated or any(self.is_block_end(run, part.name) for part in open_parts):
            self._note()

        def serve() -> dict[str, npt.NDArray[Any]]:
            replicate = np.repeat(np.arange(self.replicates), [len(those) for those in people])
            places = None
            if placed:
                places = np.concatenate([np.arange(len(those)) for those in people]) % parts[0].users
            served = self._users.serve(people, actor)
            return enrolled_rows(served, self.spec, parts[0].rows_per_unit, replicate, admitted, places)

        self._batch = _EnrolledBatch(run.plan_id, self._run_hidden(serve), fold)

    def noisy_sum(
        self, run: Run, part: str, contribution: Contribution | Tally, state: Any = None
    ) -> npt.NDArray[np.float64]:
        """One noisy mean of the clipped contributions of the last round, shape [R, d], float64.

        Guarantee: each replicate is one step of the part's event. The contribution of everyone whom the register let
        contribute is clipped to norm `clip` (a non-finite one counts as zero); the sum gets the next step of the part's
        noise, also where nobody came; the divisor is the part's public number of users.

        Raises:
            PlanExhausted: no step is left. LedgerError: there was no round, or this part of it was released before.
            MechanismError: the callback couples people or has the wrong shape.
        """
        spec, state = self._part(run, part, UserSum, PoissonSum), copy_plain_state(state, where=part)
        d = self._width(run, spec, contribution, state)
        with self._lock:  # of two threads one gets the batch
            batch = self._unreleased_batch(run, part)
            self.next_step(run, part)  # raises PlanExhausted
            stream = self._stream(run, spec)
            self._claim(run, spec, batch)

        replicate = batch.rows["replicate"].copy()

        def step() -> npt.NDArray[np.float64]:
            rows = {name: column.copy() for name, column in batch.rows.items()}  # into which a callback may write
            vectors = _vectors(self._checks.limit_units(spec, contribution, d), rows, state, d)
            vectors = move_inside(spec.blocks, vectors, spec.clip_norm, part)
            return clipping.clipped_sums(vectors, spec.clip_norm, replicate, self.replicates)

        assert spec.noise_multiplier is not None
        scale = spec.noise_multiplier * spec.clip_norm
        noise = stream.next_noise(self.replicates * d, scale).reshape(self.replicates, d)
        with self._checks.watch_step(part, contribution, state):
            total = run_silently(part, step)
        return self._track_release(run, part, round_to_lattice(total, noise, scale) / spec.divisor(self.unit))

    def randomized(
        self, run: Run, part: str, contribution: Contribution | Tally, state: Any = None
    ) -> npt.NDArray[np.int8]:
        """What everybody of the last round answers, each answer turned round by itself: 1 or -1, [R, N, d].

        Guarantee: each replicate is one step of the part's event, and each answer alone costs what the part says. The
        callback is asked for one person at a time. The signs of a contribution [U, d] count, d at most the part's
        `answers`; a zero, a number that is not finite, and a place where nobody came or may answer get a fair coin.

        Raises:
            PlanExhausted: no step is left. LedgerError: there was no round, or this part of it was released before.
            MechanismError: the callback couples people, has the wrong shape or gives too many answers.
        """
        spec, state = self._part(run, part, RandomizedResponses), copy_plain_state(state, where=part)
        d = self._width(run, spec, contribution, state)
        if d > spec.answers:
            what, expected = f"{d} answers of one person", f"at most {spec.answers}, which the plan pays for"
            remedy = "declare more answers in the plan, or give fewer"
            raise MechanismError(what, where=part, expected=expected, remedy=remedy)
        with self._lock:  # of two threads one gets the batch
            batch = self._unreleased_batch(run, part)
            self.next_step(run, part)  # raises PlanExhausted
            self._claim(run, spec, batch)

        replicate, place = (batch.rows[name].copy() for name in ("replicate", "place"))
        limited = self._checks.limit_units(spec, contribution, d)

        def step() -> npt.NDArray[np.float64]:
            answers = np.zeros((self.replicates, spec.users, d))
            for i in range(len(place)):  # each alone: a sign shows the least trace of somebody else
                rows = {name: column[i : i + 1].copy() for name, column in batch.rows.items()}
                answers[replicate[i], place[i]] = _vectors(limited, rows, state, d)[0]
            return answers

        with self._checks.watch_step(part, contribution, state):
            responses = run_silently(part, step)
        return self._track_release(run, part, spec.randomize(responses, self._noise))

    def release(self, run: Run, value: Value, *, label: Label) -> Release[Value]:
        """Put a value that came out of the run together with its certificate."""
        actors = sorted(self._remembered_names(run, ACTOR))
        pooled = any(isinstance(part, PoissonSum) for part in run.plan.parts())
        assumptions = (
            *(clause("coming"), clause("pool_secret" if pooled else "register_kept")),
            *(clause(code, words=actor) for actor in actors for code in ("served_by", "failure_shows")),
            *([clause("exact_ids")] if self._exact_ids else []),
        )
        return self._certify(run, value, label, assumptions)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _require_fit(self, plan: Plan) -> None:
        """The parts agree on who is enrolled, the population can fill the rounds, and the register is no older one."""
        super()._require_fit(plan)
        parts = plan.parts()
        enrolled = [part for part in parts if isinstance(part, VisitorPart)]
        folds = {part.fold for part in enrolled}
        agreed = len({(part.fold, part.users) for part in enrolled}) == len(folds)
        agreed &= len({(part.participations, part.rows_per_unit) for part in enrolled}) == 1
        agreed &= folds in ({None}, set(FOLDS)) and len(enrolled) == len(parts)
        if (len(parts) > 1 or folds) and not agreed:
            expected = "equal users, rows_per_unit and participations, and both folds or none"
            raise _plan_error(plan, "the parts disagree on who is enrolled", expected)
        for part in enrolled:
            if isinstance(part, UserSum):  # decays without proof are refused
                sensitivity(part.correlation, part.steps, part.participations, part.decay)
        needed = sum(max(part.users * part.steps for part in enrolled if part.fold == fold) for fold in folds)
        participations = max((part.participations for part in enrolled), default=1)
        if needed > self.unit.size * participations:
            raise _plan_error(
                plan,
                f"{needed:,} contributions are more than the population can fill",
                f"at most {self.unit.size * participations:,}: population times participations",
            )
        self._require_pool(plan)
        for ledger in self.ledgers:
            if heads := arrivals.read_notes(ledger, NOTE):
                self._register.require(heads[-1])
                arrivals.require_law(ledger, exact=self._exact_ids)
        self._register.bind([ledger.dataset_id for ledger in self.ledgers])

    def _note(self) -> None:
        """Record the register's newest line in the ledgers, so that an older register is noticed."""
        for ledger in self.ledgers:
            ledger.note(NOTE, self._register.head)

    def _run_hidden(self, step: Callable[[], Value]) -> Value:
        """Run the users' own code; what it fails with is shown for simulated people only."""
        return step() if self.simulated else run_silently("enroll", step, make_error=_users_error)

    def _unreleased_batch(self, run: Run, part: str) -> _EnrolledBatch:
        """The last batch, if this part of it was not released yet."""
        batch = self._batch
        folds = {one.name: one.fold for one in run.plan.parts()}
        other = batch is None or batch.plan_id != run.plan_id or folds[part] != batch.fold
        if batch is None or other or part in batch.released_parts:
            what = "there is no round of which this part was not released yet"
            expected = "one round for each release of a part: a second one would double what a person adds"
            remedy = "call meet(run, actor) first"
            raise LedgerError(what, where=f"{run.plan.method} plan, part {part!r}", expected=expected, remedy=remedy)
        return batch

    def _width(self, run: Run, part: Any, contribution: Contribution | Tally, state: Any) -> int:
        """Of the vectors of a callback, which is tried on invented rows first."""
        width = self._checks.try_contribution(part, contribution, state)
        self._remember(run, self._checks.foreign_names)
        return width

    def _claim(self, run: Run, part: Part, batch: _EnrolledBatch) -> None:
        self._take(run, part)
        if not batch.released_parts and isinstance(part, VisitorPart):
            self._register.commit()
        batch.released_parts.add(part.name)

    def _part(self, run: Run, name: str, *kinds: type[Any]) -> Any:
        part = run.part(name, *kinds)
        if self._admitted.get((run.plan_id, name)) != part:
            raise vault_error("the run is not as this vault admitted it", "the run that reserve returned, unchanged")
        return part

    def _admit_arrivals(
        self, run: Run, part: Part, pools: Sequence[Sequence[str]]
    ) -> tuple[list[list[str]], npt.NDArray[np.bool_]]:
        """Who comes, by replicate, and who of them may contribute; durable in the register before it returns."""
        if isinstance(part, PoissonSum):
            people = [[pool[i] for i in poisson_sample(len(pool), part.sampling_rate, self._noise)] for pool in pools]
            return people, np.ones(sum(map(len, people)), bool)
        assert isinstance(part, VisitorPart)
        dealt = [self._deal_round(run, pool, part.participations) for pool in pools]
        people = dealt or self._receive_arrivals(part.users)
        most = part.users if isinstance(part, RandomizedResponses) else None  # an answer needs a place of its own
        # Twins who come have one cap; if they are several people, nobody's coming may depend on who is called alike.
        spell = str if self._exact_ids else unit_keys.fold_key
        keys = [
            f"{ledger.dataset_id}/{spell(key)}" if key and (most is None or place < most) else ""
            for ledger, those in zip(self.ledgers, people, strict=True)
            for place, key in enumerate(map(arrivals.person_key, those))
        ]
        return people, self._register.reserve(run.plan_id, keys, part.participations)

    def _deal_round(self, run: Run, pool: Sequence[str], participations: int) -> list[str]:
        """Those of a pool whose round is the next one, a public function of each one's own id."""
        # a round's share of the people is that of those whom it expects
        expected, done = list[int](), 0
        for fold in sorted({part.fold or 0 for part in run.plan.parts()}):
            parts = [cast(VisitorPart, part) for part in run.plan.parts() if (part.fold or 0) == fold]
            expected += [parts[0].users] * -(-max(part.steps for part in parts) // participations)
            done += max(part.steps - self.steps_left(run, part.name) for part in parts)
        ends = np.cumsum(expected) // math.gcd(*expected)
        names = unit_keys.names(map(arrivals.person_key, pool))
        rounds = np.searchsorted(ends, deals.choose(names, run.plan_id, int(ends[-1]), purpose="round"), side="right")
        return [person for person, turn in zip(pool, rounds, strict=True) if turn == done % len(expected)]

    def _receive_arrivals(self, expected: int) -> list[list[str]]:
        """Everybody who came by themselves: nobody is cut off, so that nobody's leaving lets another one in."""

        def arrive() -> list[list[str]]:
            return [list(map(arrivals.person_text, those)) for those in cast(Arriving, self._users).arrive(expected)]

        people = self._run_hidden(arrive)
        if len(people) != self.replicates:
            raise vault_error("the users came in another number of populations than replicates", "one list a replicate")
        return people

    def _pools(self) -> list[list[str]]:
        """Everybody who is known beforehand, each once, by replicate; nothing where people come by themselves."""

        def known() -> list[list[str]]:
            pools = [list(map(arrivals.person_text, pool)) for pool in getattr(self._users, "pool", ())]
            spelled = [dict(zip(map(arrivals.person_key, pool), pool, strict=True)) for pool in pools]
            return [[by_key[key] for key in sorted(by_key) if key] for by_key in spelled]

        return self._run_hidden(known)

    def _require_pool(self, plan: Plan) -> None:
        """The pool, read once for all rounds: if there is one, the plan can deal or draw from it."""
        part, pools = plan.parts()[0], self._pools()
        sampled = isinstance(part, PoissonSum)
        if isinstance(part, PoissonSum) and (
            part.rows != "first" or part.fold is not None or part.held_out or not pools
        ):
            raise _plan_error(
                plan,
                "a Poisson sum needs a pool of people",
                'users with a pool, rows="first", no fold and nothing held out',
            )
        if pools and any(isinstance(part, RandomizedResponses) for part in plan.parts()):
            raise _plan_error(plan, "two people of a pool could get one place for their answers", "users who arrive")
        if (pools or sampled) and len(pools) != self.replicates:
            raise _plan_error(plan, "there is another number of pools than replicates", "one pool a replicate")
        for pool in pools:
            keys = map(arrivals.person_key, pool)
            unit_keys.require_no_twins(keys, "UserVault", "exact" if self._exact_ids else None)
        if max(map(len, pools), default=0) > self.unit.size:
            raise _plan_error(plan, "the pool is larger than the declared population", f"at most {self.unit.size:,}")
        self._latest_pools = pools

    def _stream(self, run: Run, part: Sum) -> CorrelatedNoise:
        """The part's noise: a block of its own in every process, over the steps that were left when it began."""
        key, steps = (run.plan_id, part.name), self.steps_left(run, part.name)
        if key not in self._streams and isinstance(part, UserSum):
            self._streams[key] = CorrelatedNoise(part.correlation, steps, part.participations, part.decay, self._noise)
        elif key not in self._streams:
            self._streams[key] = CorrelatedNoise("independent", steps, 1, (1.0,), self._noise)
        return self._streams[key]


def _vectors(
    contribution: Contribution | Tally, rows: Mapping[str, npt.NDArray[Any]], state: Any, d: int
) -> npt.NDArray[np.float64]:
    """One vector [d] a person, [U, d]."""
    people = len(rows["replicate"])
    if not people:
        return np.zeros((0, d))
    vectors = contribution_vectors(contribution, rows, state)
    if vectors.shape != (people, d):
        raise ValueError("not one vector a person")
    return vectors


def _users_error(part: str, kind: str) -> MechanismError:
    what = f"the users' own arrive or serve failed ({kind}); who was let in has contributed, and nothing was released"
    expected = "an answer for any people; those who do not answer have no rows"
    remedy = "mend it on invented people, where its whole message can be seen, and resume the plan"
    return MechanismError(what, where=f"UserVault.{part}", expected=expected, remedy=remedy)


def _plan_error(plan: Plan, what: str, expected: str) -> PlanError:
    return PlanError(what, where=f"{plan.method} plan", expected=expected, remedy="change the plan or the users")
