"""Secure aggregation: exact sums, masked messages, lost devices, and servers that ask for too much."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import device_cases as cases
import numpy as np
import numpy.typing as npt
import pytest
from experiments.beyond.loop_grid import LoopGrid
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common import bytes_to_ndarray, ndarray_to_bytes
from scipy import stats
from tests.federation.loop_grid import Opener, masked

from tacit.errors import MechanismError, PlanError
from tacit.federation import FlowerDevices, client_app, server
from tacit.federation.guard import threshold, write_query
from tacit.privacy.mechanisms.device_sums import DeviceSum, largest_answer
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.devices import Answer, Query
from tacit.privacy.vault.federated_vault import FederatedVault

PEOPLE, FLOOR, WIDTH = 5, 3, 3
STAGES = ("setup", "share_keys", "collect_masked_vectors", "unmask")


@dataclass(frozen=True)
class Half:
    """Answers 1/2 in each of many numbers, no matter who is asked."""

    width: int

    def begin(self, rows: Any, seeds: npt.NDArray[np.uint64]) -> dict[str, npt.NDArray[Any]]:
        return {"none": np.zeros(len(seeds))}

    def __call__(self, own: Any, public: Any, seeds: Any) -> Any:
        return np.full((len(seeds), self.width), 0.5 / np.sqrt(self.width)), own


def shared_plan(noise: float = 0.0, **changed: Any) -> Any:
    part = replace(cases.PARTS["shared"], **({"devices": PEOPLE, "floor": FLOOR} | changed))
    plan = cases.OnePlan(part=part, noise_multiplier=noise)
    return plans.account(plan, unit=cases.UNIT, delta=cases.DELTA)


def part_of(plan: Any) -> DeviceSum:
    (part,) = plan.parts()
    assert isinstance(part, DeviceSum)
    return part


class Round:
    """A federation with one plan, and its rounds."""

    def __init__(self, folder: Path, plan: Any, count: int = PEOPLE, work: Any = None, **options: Any) -> None:
        self.plan, self.work = plan, work or cases.Remembering()
        opener = Opener(folder, plan, {"sum": self.work})
        self.grid = LoopGrid(client_app(opener), count, **options)
        self.devices = FlowerDevices(self.grid, cases.SPEC, devices=cases.PEOPLE, simulated=True)

    def query(self, step: int = 0, size: int = WIDTH) -> Query:
        return Query(plans.plan_id(self.plan), part_of(self.plan), step, self.work, cases.PUBLIC, size)

    def sums(self, step: int = 0, size: int = WIDTH) -> Answer:
        return self.devices.ask(self.query(step, size))

    def reasons(self) -> set[str | None]:
        return {message.error.reason for message in self.grid.received if message.has_error()}


def whole(plan: Any, count: int, step: int = 0) -> npt.NDArray[np.int64]:
    """The exact sum of the first people's answers in steps of the grid."""
    part = part_of(plan)
    rng = np.random.default_rng(7)
    rewards = rng.integers(0, 9, (cases.PEOPLE, 6)) / 8
    means = np.array([rewards[u, : 1 + u % 6].mean() for u in range(count)])
    each = np.concatenate([np.outer(means, cases.PUBLIC["weights"]), np.full((count, 1), (step + 1) / 8)], axis=1)
    return np.asarray(np.rint(each / part.clip_norm * 2**part.bits).sum(axis=0), np.int64)


def stage_of(message: Message) -> str:
    return str(message.content.config_records["secaggplus_configs"]["stage"])


def losing(grid: LoopGrid, node: int, stage: str) -> None:
    """The node is gone from this exchange on."""

    def before(batch: list[Message]) -> None:
        if stage_of(batch[0]) == stage:
            grid.dead = {node}

    grid.before = before


def test_the_sum_of_whole_numbers_is_exact(tmp_path: Path) -> None:
    plan = shared_plan()
    federation = Round(tmp_path, plan)
    for step in range(2):
        answer = federation.sums(step)
        assert answer.answered == PEOPLE
        assert answer.total.dtype == np.int64
        np.testing.assert_array_equal(answer.total, whole(plan, PEOPLE, step))


def test_the_noise_of_all_shares_is_in_the_sum(tmp_path: Path) -> None:
    plan, width = shared_plan(1.0), 2_000
    federation = Round(tmp_path, plan, work=Half(width))
    answer, part = federation.sums(size=width), part_of(plan)
    noise = answer.total - PEOPLE * np.rint(0.5 / np.sqrt(width) * 2**part.bits)
    spread = noise.std() / np.sqrt(PEOPLE * part.variance)
    assert 0.9 < spread < 1.1  # 2,000 numbers: a standard deviation of 0.016
    assert noise.var() > part.variance * FLOOR  # what the plan promises even with `FLOOR` answers


def test_what_the_server_sees_of_a_device_is_uniform(tmp_path: Path) -> None:
    """The messages carry nothing like the plain vectors, which are constant here, and no sum of some of them does."""
    width = 6000
    plan = shared_plan()
    federation = Round(tmp_path, plan, work=Half(width))
    answer = federation.sums(size=width)
    vectors = masked(federation.grid.received)
    assert [len(vector[1]) for vector in vectors] == [width] * PEOPLE
    assert answer.answered == PEOPLE
    plain = int(np.rint(0.5 / np.sqrt(width) * 2**16)) + int(largest_answer(part_of(plan)))
    together = sum(vector[1] for vector in vectors) % 2**32
    for seen in (*(vector[1] for vector in vectors), together):
        assert not (seen == plain).any()
        for shift in (0, 24):
            counts = np.bincount((seen >> shift) & 255, minlength=256)
            assert stats.chisquare(counts).pvalue > 1e-9
    for first, second in itertools.pairwise(vectors):
        assert abs(np.corrcoef(first[1], second[1])[0, 1]) < 0.08
    for message in federation.grid.received:
        assert not any(len(record) for record in message.content.array_records.values())


def test_the_same_vector_never_looks_the_same(tmp_path: Path) -> None:
    federation = Round(tmp_path, shared_plan(), work=Half(50))
    federation.sums(0, 50)
    federation.sums(1, 50)
    vectors = [vector[1] for vector in masked(federation.grid.received)]
    assert len(vectors) == 2 * PEOPLE
    assert not any((a == b).any() for i, a in enumerate(vectors) for b in vectors[:i])


@pytest.mark.parametrize("stage", ["setup", "share_keys"])
def test_a_round_begins_anew_without_whoever_is_lost_before_the_question(tmp_path: Path, stage: str) -> None:
    plan = shared_plan()
    federation = Round(tmp_path, plan)
    losing(federation.grid, 104, stage)
    answer = federation.sums()
    assert answer.answered == PEOPLE - 1
    np.testing.assert_array_equal(answer.total, whole(plan, PEOPLE - 1))


@pytest.mark.parametrize(("stage", "answered"), [("collect_masked_vectors", PEOPLE - 1), ("unmask", PEOPLE)])
def test_a_device_that_is_lost_after_the_question(tmp_path: Path, stage: str, answered: int) -> None:
    plan = shared_plan()
    federation = Round(tmp_path, plan)
    losing(federation.grid, 104, stage)
    answer = federation.sums()
    assert answer.answered == answered
    np.testing.assert_array_equal(answer.total, whole(plan, answered))


@pytest.mark.parametrize("stage", STAGES)
def test_below_the_floor_nothing_is_opened(tmp_path: Path, stage: str) -> None:
    plan = shared_plan(1.0, floor=PEOPLE)
    federation = Round(tmp_path, plan)
    losing(federation.grid, 104, stage)
    vault = FederatedVault(federation.devices, cases.ledger(tmp_path))
    run = vault.reserve(plan)
    with pytest.raises(MechanismError, match="0 devices answered"):
        vault.noisy_sum(run, "sum", federation.work, cases.PUBLIC)
    assert vault.steps_left(run, "sum") == 3  # charged all the same
    if stage in STAGES[:3]:
        assert not any(
            message.content.config_records["secaggplus_configs"].get("shares")
            for message in federation.grid.received
            if message.has_content()
        )


def test_with_fewer_nodes_than_the_floor_nobody_is_asked(tmp_path: Path) -> None:
    federation = Round(tmp_path, shared_plan(), FLOOR - 1)
    assert federation.sums().answered == 0
    assert federation.grid.sent == []


def test_a_repeated_step_is_answered_by_nobody(tmp_path: Path) -> None:
    federation = Round(tmp_path, shared_plan())
    assert federation.sums().answered == PEOPLE
    assert federation.sums().answered == 0
    assert "no answer: LedgerError" in federation.reasons()
    assert federation.sums(1).answered == PEOPLE


def test_answers_that_could_overflow_are_refused_in_the_plan() -> None:
    with pytest.raises(PlanError, match="fit 32 bits"):
        shared_plan(32.0, bits=20, devices=12)


def _other(reply: Message, vector: npt.NDArray[Any]) -> None:
    configs = reply.content.config_records["secaggplus_configs"]
    factor, _ = configs["masked_params"]
    configs["masked_params"] = [factor, ndarray_to_bytes(vector)]


@pytest.mark.parametrize("vector", [np.zeros(1, np.int64), np.zeros(3), np.zeros((3, 1), np.int64)])
def test_a_masked_vector_of_another_form_is_left_out(tmp_path: Path, vector: npt.NDArray[Any]) -> None:
    def reply(sent: Message, honest: Message) -> list[Message]:
        if stage_of(sent) == "collect_masked_vectors":
            _other(honest, vector)
        return [honest]

    plan = shared_plan()
    answer = Round(tmp_path, plan, replies={104: reply}).sums()
    assert answer.answered == PEOPLE - 1
    np.testing.assert_array_equal(answer.total, whole(plan, PEOPLE - 1))


def test_a_device_that_sends_everything_twice_counts_once(tmp_path: Path) -> None:
    plan = shared_plan()
    answer = Round(tmp_path, plan, replies={104: lambda sent, honest: [honest, honest]}).sums()
    assert answer.answered == PEOPLE
    np.testing.assert_array_equal(answer.total, whole(plan, PEOPLE))


def _configs(message: Message) -> ConfigRecord:
    return message.content.config_records["secaggplus_configs"]


def dishonest(grid: LoopGrid, stage: str, change: Callable[[Message], None]) -> None:
    """A server that changes its messages in one exchange."""

    def before(batch: list[Message]) -> None:
        for message in batch:
            if stage_of(message) == stage:
                change(message)

    grid.before = before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threshold", FLOOR - 1),
        ("clipping_range", 8.0),
        ("target_range", 2**22),
        ("mod_range", 2**31),
        ("max_weight", 1000.0),
        ("share_num", PEOPLE + 1),
        ("sample_num", PEOPLE + 1),
    ],
)
def test_devices_refuse_rounds_with_other_constants(tmp_path: Path, name: str, value: object) -> None:
    federation = Round(tmp_path, shared_plan())
    dishonest(federation.grid, "setup", lambda message: _configs(message).update({name: value}))
    assert federation.sums().answered == 0
    assert masked(federation.grid.received) == []
    with cases.ledger(tmp_path, "person0") as ledger:
        assert ledger.claimed(plans.plan_id(federation.plan), "sum") == 0


def test_a_threshold_of_half_the_devices_or_less_is_refused(tmp_path: Path) -> None:
    """Else the server could tell one half that a device is alive and the other half that it is not."""
    plan = shared_plan(floor=1)
    assert threshold(part_of(plan), PEOPLE) == 3
    federation = Round(tmp_path, plan)
    dishonest(federation.grid, "setup", lambda message: _configs(message).update({"threshold": 2}))
    assert federation.sums().answered == 0


@pytest.mark.parametrize("devices", [3, 5, 12, 83])
def test_of_drop_outs_told_differently_no_fewer_than_the_floor_are_left(devices: int) -> None:
    """Each of n devices gives shares of n - t others as dropped out, t of which open one: n (n - t) / t are opened."""
    for floor in range(1, devices + 1):
        opened = threshold(
            DeviceSum(name="sum", steps=1, devices=devices, clip_norm=1.0, noise="shared", floor=floor), devices
        )
        assert floor <= opened <= devices
        assert devices - devices * (devices - opened) // opened >= floor
        assert 2 * opened > devices


def test_nobody_answers_who_would_be_masked_with_fewer_than_took_part(tmp_path: Path) -> None:
    def left_out(message: Message) -> None:
        if message.metadata.dst_node_id == 100:
            for name in ("srcs", "ctxts"):
                values = _configs(message)[name]
                assert isinstance(values, list)
                del values[-1]

    federation = Round(tmp_path, shared_plan())
    dishonest(federation.grid, "collect_masked_vectors", left_out)
    assert federation.sums().answered == PEOPLE - 1
    assert len(masked(federation.grid.received)) == PEOPLE - 1
    with cases.ledger(tmp_path, "person0") as ledger:
        assert not ledger.plans()  # her records were not even opened


def _both_lists(message: Message) -> None:
    _configs(message)["dead_nids"] = [100]


def _few(message: Message) -> None:
    own = message.metadata.dst_node_id
    _configs(message)["active_nids"] = [own] * FLOOR


def _not_herself(message: Message) -> None:
    own = message.metadata.dst_node_id
    active = _configs(message)["active_nids"]
    assert isinstance(active, list)
    _configs(message)["active_nids"] = [node for node in active if node != own]
    _configs(message)["dead_nids"] = [own]


def _stranger(message: Message) -> None:
    _configs(message)["dead_nids"] = [999]


@pytest.mark.parametrize("change", [_both_lists, _few, _not_herself, _stranger])
def test_devices_do_not_help_to_open_a_single_answer(tmp_path: Path, change: Callable[[Message], None]) -> None:
    federation = Round(tmp_path, shared_plan())
    dishonest(federation.grid, "unmask", change)
    assert federation.sums().answered == 0
    assert "no answer: MechanismError" in federation.reasons()


def test_a_train_message_outside_the_protocol_gets_no_answer(tmp_path: Path) -> None:
    federation = Round(tmp_path, shared_plan())
    reply = federation.grid.ask(Message(write_query(federation.query()), 100, "train"))
    assert reply.has_error()
    late = RecordDict(
        {"secaggplus_configs": ConfigRecord({"stage": "collect_masked_vectors", "ctxts": [], "srcs": []})}
    )
    assert federation.grid.ask(Message(late, 100, "train")).has_error()


def test_a_sum_that_is_not_whole_is_not_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    federation = Round(tmp_path, shared_plan())
    monkeypatch.setattr(server, "parameters_to_ndarrays", lambda parameters: [np.full(WIDTH, 0.3)])
    assert federation.sums().answered == 0


def test_masked_vectors_are_read_as_the_server_reads_them(tmp_path: Path) -> None:
    """The factor that Flower sends along is masked too."""
    federation = Round(tmp_path, shared_plan())
    federation.sums()
    most = int(largest_answer(part_of(federation.plan)))
    factors = [vector[0][0] for vector in masked(federation.grid.received)]
    assert 2 * most not in factors
    assert bytes_to_ndarray(ndarray_to_bytes(np.array([2 * most])))[0] == 2 * most
