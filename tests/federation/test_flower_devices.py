"""The path in the clear: every device asked once, and what goes wrong on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import device_cases as cases
import numpy as np
import pytest
from experiments.beyond.loop_grid import LoopGrid, Reply
from flwr.app import Error, Message
from tests.federation.loop_grid import Opener

from tacit.errors import DataError, MechanismError
from tacit.federation import FlowerDevices, client_app
from tacit.federation.guard import QUERY, read_query, write_answer, write_query
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.sentences import say
from tacit.privacy.vault.devices import Query, StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.plan import plan_id


def federation(
    folder: Path, plan: Any, count: int = cases.PEOPLE, replies: dict[int, Reply] | None = None, **options: Any
) -> tuple[LoopGrid, FlowerDevices]:
    grid = LoopGrid(client_app(Opener(folder, plan)), count, replies)
    return grid, FlowerDevices(grid, cases.SPEC, devices=cases.PEOPLE, simulated=True, **options)


def ask(plan: Any, step: int = 0, **changed: Any) -> Query:
    (part,) = plan.parts()
    asked = {"public": cases.PUBLIC, "size": 3, **changed}
    return Query(plan_id(plan), part, step, cases.Remembering(), asked["public"], asked["size"])


@pytest.mark.parametrize("kind", ["server", "device", "laplace", "shared"])
def test_sums_are_those_of_devices_in_one_process(tmp_path: Path, kind: str) -> None:
    plan = cases.priced(kind, 0.0)
    _, devices = federation(tmp_path, plan)
    flower = FederatedVault(devices, cases.ledger(tmp_path, "flower"))
    stacked = FederatedVault(StackedDevices(cases.people()), cases.ledger(tmp_path, "stacked"))
    runs = flower.reserve(plan), stacked.reserve(plan)
    for step in range(2):
        there, here = (
            vault.noisy_sum(run, "sum", cases.Remembering(), cases.PUBLIC)
            for vault, run in zip((flower, stacked), runs, strict=True)
        )
        np.testing.assert_allclose(there, here, atol=1e-6, rtol=0)
        np.testing.assert_allclose(there[0], cases.exact(step), atol=2e-5)


def test_each_device_adds_its_own_noise(tmp_path: Path) -> None:
    plan = cases.priced("device", 1.0)
    grid, devices = federation(tmp_path, plan, 4)
    answer = devices.ask(ask(plan))
    vectors = np.array([reply.content.array_records["tacit.answer"]["vector"].numpy() for reply in grid.received])
    assert answer.answered == 4
    np.testing.assert_allclose(answer.total, vectors.sum(axis=0))
    assert len(np.unique(vectors[:, 2])) == 4  # all say 1/8 but for their noise


def test_a_certificate_says_who_is_trusted(tmp_path: Path) -> None:
    _, devices = federation(tmp_path, cases.priced("server", 1.0), 1)
    text = " ".join(say(clause, "person") for clause in devices.assumptions)
    assert "sees every device's answer" in text
    assert "runs no devices of its own" in text


def _changed(change: Callable[[Any], Any]) -> Reply:
    """Replies whose vector is changed on the way."""

    def reply(sent: Message, honest: Message) -> list[Message]:
        vector = change(honest.content.array_records["tacit.answer"]["vector"].numpy())
        return [Message(write_answer(read_query(sent.content), vector), reply_to=sent)]

    return reply


def _late(sent: Message, honest: Message) -> list[Message]:
    """What was asked for one step before."""
    asked = read_query(sent.content)
    old = type(asked)(asked.plan_id, asked.part, asked.step - 1, asked.size, {})
    return [Message(write_answer(old, np.zeros(3)), reply_to=sent)]


WRONG: dict[str, Reply] = {
    "not at all": lambda sent, honest: [],
    "with an error": lambda sent, honest: [Message(Error(code=1, reason="it died"), reply_to=sent)],
    "with NaN": _changed(lambda vector: np.full(3, np.nan)),
    "out of range": _changed(lambda vector: vector + 100),
    "of another width": _changed(lambda vector: np.append(vector, 0.0)),
    "with whole numbers": _changed(lambda vector: vector.astype(np.int64)),
    "late": _late,
    "with an empty message": lambda sent, honest: [
        Message(write_query(ask(cases.priced("server", 0.0))), reply_to=sent)
    ],
}


@pytest.mark.parametrize("how", list(WRONG))
def test_a_device_that_answers_wrongly_adds_nothing(tmp_path: Path, how: str) -> None:
    plan = cases.priced("server", 0.0)
    _, devices = federation(tmp_path, plan, 4, {103: WRONG[how]})
    answer = devices.ask(ask(plan))
    assert answer.answered == 3
    np.testing.assert_allclose(answer.total, cases.exact(0, 3) * cases.PEOPLE)


def test_a_device_that_answers_twice_counts_once(tmp_path: Path) -> None:
    def twice(sent: Message, honest: Message) -> list[Message]:
        return [honest, *_changed(lambda vector: np.ones(3) / 2)(sent, honest)]

    plan = cases.priced("server", 0.0)
    _, devices = federation(tmp_path, plan, 4, {103: twice})
    answer = devices.ask(ask(plan))
    assert answer.answered == 4
    np.testing.assert_allclose(answer.total, cases.exact(0, 4) * cases.PEOPLE)


def test_somebody_who_was_not_asked_counts_nothing(tmp_path: Path) -> None:
    def for_another(sent: Message, honest: Message) -> list[Message]:
        honest.metadata.__dict__["_src_node_id"] = 999
        return [honest]

    plan = cases.priced("server", 0.0)
    _, devices = federation(tmp_path, plan, 4, {103: for_another})
    assert devices.ask(ask(plan)).answered == 3


def test_a_repeated_query_is_answered_by_nobody(tmp_path: Path) -> None:
    plan = cases.priced("server", 0.0)
    grid, devices = federation(tmp_path, plan, 3)
    assert devices.ask(ask(plan)).answered == 3
    assert devices.ask(ask(plan)).answered == 0
    assert {reply.error.reason for reply in grid.received[3:]} == {"no answer: LedgerError"}
    assert devices.ask(ask(plan, 1)).answered == 3


def test_a_device_that_was_away_answers_the_next_step_and_no_earlier_one(tmp_path: Path) -> None:
    plan = cases.priced("server", 0.0)
    grid, devices = federation(tmp_path, plan, 3)
    grid.dead = {101}
    assert devices.ask(ask(plan)).answered == 2
    grid.dead = set()
    assert devices.ask(ask(plan, 1)).answered == 3
    grid.dead = {100, 102}
    assert devices.ask(ask(plan)).answered == 0


def spoilt(plan: Any, **changed: Any) -> Query:
    """A query of a server that does not check what it sends."""
    query = ask(plan)
    for name, value in changed.items():
        object.__setattr__(query, name, value)
    return query


@pytest.mark.parametrize("changed", [{"public": {"weights": np.array([np.nan, 0.0])}}, {"size": 2**40}, {"size": 0}])
def test_a_query_that_no_plan_needs_is_answered_by_nobody_and_costs_nothing(tmp_path: Path, changed: Any) -> None:
    plan = cases.priced("server", 0.0)
    grid, devices = federation(tmp_path, plan, 2)
    for message in (Message(write_query(spoilt(plan, **changed)), node, QUERY) for node in (100, 101)):
        assert grid.ask(message).error.reason == "no answer: MechanismError"
    assert devices.ask(ask(plan)).answered == 2


@pytest.mark.parametrize("changed", [{"public": {"weights": np.zeros(5)}}, {"public": {}}, {"size": 4}])
def test_a_query_that_the_work_cannot_answer_is_answered_with_zero(tmp_path: Path, changed: Any) -> None:
    plan = cases.priced("server", 0.0)
    _, devices = federation(tmp_path, plan, 2)
    answer = devices.ask(spoilt(plan, **changed))
    assert answer.answered == 2
    assert not answer.total.any()


def test_a_query_of_another_plan_is_answered_by_nobody(tmp_path: Path) -> None:
    _, devices = federation(tmp_path, cases.priced("server", 0.0), 2)
    assert devices.ask(ask(cases.priced("server", 1.0))).answered == 0


def test_shared_noise_is_never_answered_in_the_clear(tmp_path: Path) -> None:
    plan = cases.priced("shared", 1.0)
    grid, _ = federation(tmp_path, plan, 1)
    reply = grid.ask(Message(write_query(ask(plan)), 100, QUERY))
    assert reply.has_error()
    assert reply.error.reason == "no answer: MechanismError"
    with cases.ledger(tmp_path, "person0") as ledger:
        assert ledger.claimed(plan_id(plan), "sum") == 0


@pytest.mark.parametrize("kind", ["evaluate", "query", "query.other", "train.other", "get_parameters"])
def test_other_kinds_of_message_get_no_answer(tmp_path: Path, kind: str) -> None:
    plan = cases.priced("shared", 1.0)
    grid, _ = federation(tmp_path, plan, 1)
    assert grid.ask(Message(write_query(ask(plan)), 100, kind)).has_error()


@pytest.mark.parametrize(
    "error", [RuntimeError("her secret is 42"), DataError("no day is whole", where="a", expected="b", remedy="c")]
)
def test_a_failure_on_a_device_says_nothing_of_her(error: Exception, tmp_path: Path) -> None:
    def opened(context: Any, state: Any) -> Any:
        raise error

    grid = LoopGrid(client_app(opened), 1)
    reply = grid.ask(Message(write_query(ask(cases.priced("server", 0.0))), 100, QUERY))
    assert reply.error.reason == "no answer: it failed"


def test_more_devices_than_people_are_refused(tmp_path: Path) -> None:
    plan = cases.priced("server", 0.0)
    _, devices = federation(tmp_path, plan, cases.PEOPLE + 1)
    with pytest.raises(MechanismError, match="13 devices"):
        devices.ask(ask(plan))


def test_waiting_for_devices(tmp_path: Path) -> None:
    _, devices = federation(tmp_path, cases.priced("server", 0.0), 3)
    assert devices.wait(3) == 3
    with pytest.raises(MechanismError, match="3 devices are connected"):
        devices.wait(4, seconds=0.2)


def test_no_more_devices_than_people_of_the_population(tmp_path: Path) -> None:
    _, devices = federation(tmp_path, cases.priced("server", 1.0))
    few = dataclasses.replace(cases.UNIT, population=cases.PEOPLE - 1)
    with pytest.raises(DataError, match="there may be 12 devices"):
        FederatedVault(devices, Ledger(tmp_path / "few", few, epsilon=1.0, delta=cases.DELTA, composition=SUM))
