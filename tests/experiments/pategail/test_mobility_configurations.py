"""What rows of movement, audits, faults and hostile files are made with: changed settings are seen, seeds are not."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from experiments.lib.store import Store
from experiments.pategail.mobility_ways import Federated
from tests.faults import faults, faults_lives
from tests.faults.faults_trials import power_cuts
from tests.fuzz import fuzz, fuzz_worker

from experiments.beyond import audits
from experiments.pategail import (
    mobility_ablation,
    mobility_allocation,
    mobility_attack,
    mobility_frontier,
    mobility_noise,
    mobility_places,
    mobility_ways,
)
from tacit.evaluation.audits import library
from tacit.methods.mobility import baselines as baseline
from tacit.methods.mobility import pategail

MODULES: tuple[Any, ...] = (
    mobility_noise,
    mobility_frontier,
    mobility_attack,
    mobility_allocation,
    mobility_ablation,
    mobility_places,
)


def forget() -> None:
    """Configurations are computed once a process."""
    for cached in (mobility_frontier._guaranteed, mobility_attack._guaranteed, audits.configuration):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget()
    yield
    forget()


def setting(module: Any, key: str) -> str:
    """A row's name without its seed."""
    parts = key.split("/")
    if module is mobility_attack:
        return "/".join(parts[:2])  # sides and blocks are seeds
    return key if parts[0] in ("naive", "epsilon") or parts[-1] == "floor" else "/".join(parts[:-1])


def refused(results: Store, key: str, words: str) -> None:
    """The row does not count, and the setting is named."""
    assert key in results.rows
    assert not results.has(key)
    with pytest.raises(LookupError, match=words):
        results.values(key)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_configurations_are_equal_if_and_only_if_rows_differ_in_their_seed_alone(module: Any) -> None:
    keys, found = module.rows(), defaultdict(set)
    assert len(keys) == len(set(keys))
    for key in keys:
        found[setting(module, key)].add(json.dumps(module.configuration(key), sort_keys=True))
    assert all(len(one) == 1 for one in found.values())
    assert len(set().union(*found.values())) == len(found)


def test_every_row_of_audits_faults_and_files_has_a_configuration_of_its_own() -> None:
    for module in (audits, faults, fuzz):
        keys = module.rows()
        assert len({json.dumps(module.configuration(key), sort_keys=True) for key in keys}) == len(keys)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rounds": 7}, r"plan\.rounds: 60 stored, 7 asked"),
        ({"clip_norm": 0.5}, r"plan\.clip_norm: 1\.0 stored, 0\.5 asked"),
        ({"critic": pategail.Critic(rate=0.003, steps=5, hidden=(64, 32))}, r"plan\.critic\.hidden\[0\]: 32 stored"),
        ({"ppo": pategail.Ppo(average=0.95, hidden=(32,))}, r"plan\.ppo\.hidden\[0\]: 64 stored, 32 asked"),
    ],
)
def test_a_changed_plan_of_the_frontier_is_seen(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], words: str
) -> None:
    assert mobility_frontier.store().has("83/samples/2/0")
    monkeypatch.setitem(mobility_ways.WAYS, "samples", Federated("samples", tuple(changed.items())))
    forget()
    refused(mobility_frontier.store(), "83/samples/2/0", words)
    assert mobility_frontier.store().has("83/rewards/2/0")


def test_a_changed_clip_of_a_baseline_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mobility_frontier.store().has("83/epr/2/0")
    monkeypatch.setitem(baseline.CLIPS, "epr", 0.7)
    forget()
    refused(mobility_frontier.store(), "83/epr/2/0", r"sums\.moves\.clip_norm: 0\.65 stored, 0\.7 asked")


def test_changed_recipes_of_ablation_allocation_and_attack_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = pategail.recipe
    monkeypatch.setattr(pategail, "recipe", lambda *settings: replace(recipe(*settings), days=299))
    forget()
    refused(mobility_ablation.store(), "recipe/10/0", r"plan\.days: 300 stored, 299 asked")
    refused(mobility_allocation.store(), "paper/2/1", r"plan\.days: 300 stored, 299 asked")
    refused(mobility_attack.store(), "pategail/2/target/0", r"plan\.days: 300 stored, 299 asked")
    assert mobility_attack.store().has("table/2/target/0")


def test_a_changed_canary_or_effort_of_audits_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert audits.store().has("experts/8")
    monkeypatch.setattr(library, "SIGNS", 47)
    forget()
    refused(audits.store(), "experts/8", r"canaries\.SIGNS: 48 stored, 47 asked")
    monkeypatch.undo()
    monkeypatch.setattr(audits, "EFFORT", replace(audits.EFFORT, fused=400))
    forget()
    refused(audits.store(), "experts/8", r"effort\.fused: 800 stored, 400 asked")


def test_changed_faults_and_lives_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert faults.store().has("power/training")
    wider = replace(faults_lives.SYNTHESIS, width=9)
    life = replace(faults_lives.LIVES["training"], settings=faults_lives.TRAINED | {"plan": wider})
    monkeypatch.setattr(faults, "LIVES", {**faults_lives.LIVES, "training": life})
    refused(faults.store(), "power/training", r"life\.settings\.plan\.width: 8 stored, 9 asked")
    monkeypatch.undo()
    fewer = replace(faults.TRIALS["power"], lives={"training": 19})
    assert fewer.run.func is power_cuts
    monkeypatch.setattr(faults, "TRIALS", {**faults.TRIALS, "power": fewer})
    refused(faults.store(), "power/training", r"faults: 20 stored, 19 asked")


def test_a_changed_limit_of_hostile_files_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fuzz.store().has("csv")
    monkeypatch.setattr(fuzz_worker, "SECONDS", 30)
    refused(fuzz.store(), "csv", r"seconds of an input: 60 stored, 30 asked")


def test_quick_rows_are_no_full_ones() -> None:
    for module, key in ((faults, "power/training"), (fuzz, "csv")):
        full = module.store()
        assert full.has(key)
        refused(module.store(full.path, quick=True), key, "another configuration")
