"""The whole algorithm through a vault: what is released, resumed, refused and certified."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from user_cases import open_user_vault

from tacit.agents.features import OneHot
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy, ValueFunction
from tacit.envs.serving import SimulatedUsers
from tacit.errors import PlanError, PlanExhausted
from tacit.methods.policy_gradient import recipes
from tacit.methods.policy_gradient.algorithm import fit
from tacit.methods.policy_gradient.fisher import PrivateFisher, PublicFisher
from tacit.methods.policy_gradient.plan import Local, PolicyGradientPlan
from tacit.methods.policy_gradient.state import State
from tacit.methods.policy_gradient.trust_region import KL, L2
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.user_vault import UserVault
from tacit.units import Unit
from tacit_worlds.river_swim import RiverSwim, policy_values
from tacit_worlds.river_swim import spec as river

UNIT = Unit("swimmer", "add_or_remove", 10_000)
SOFTMAX = Policy(OneHot(6), Mlp((6, 2), gain=0.0), Categorical(2))
CRITIC = ValueFunction(OneHot(6), Mlp((6, 1), gain=0.0))


class Silent(SecretNoise):
    """No noise at all: voids the ledger, of course."""

    seeded = True

    def gaussian(self, size: int, scale: float = 1.0, out: Any = None) -> Any:
        del scale, out
        return np.zeros(size, np.float32)


def plan(**fields: Any) -> PolicyGradientPlan:
    few: dict[str, Any] = {"rounds": 4, "users": 6, "horizon": 20, "critic": "none", "noise_multiplier": 2.0}
    return PolicyGradientPlan(**few | fields).account(unit=UNIT, delta=1e-5)


def vault(folder: Path, *, replicates: int = 1, rounds: int = 0, noise: SecretNoise | None = None) -> UserVault:
    users = SimulatedUsers(RiverSwim(), river(), horizon=20, replicates=replicates, seed=5, rounds=rounds)
    return open_user_vault(folder, users, noise=noise, unit=UNIT)  # type: ignore[arg-type]


def test_the_recipe_finds_the_far_bank_in_private(tmp_path: Path) -> None:
    recipe = recipes.river_swim()
    users = SimulatedUsers(RiverSwim(), river(), horizon=20, repeat=recipe.repeat, replicates=4, seed=11)
    opened = open_user_vault(tmp_path, users, unit=UNIT)  # type: ignore[arg-type]
    release = fit(recipe.plan.calibrate(unit=UNIT, epsilon=1.0, delta=1e-5), opened, recipe.policy)
    greedy = release.value.actor(greedy=True)(
        np.tile(np.arange(6), 4), np.repeat(np.arange(4), 6), np.random.default_rng(0)
    )
    found = [policy_values(np.eye(2)[actions], RiverSwim())[0, 0] > 3.1 for actions in greedy.reshape(4, 6)]
    assert sum(found) >= 3  # the noise is secret, and leads one in about fifty astray
    release.certificate.verify()
    assert release.certificate.epsilon <= 1.0


def test_an_update_is_the_clipped_mean_times_the_step(tmp_path: Path) -> None:
    opened = vault(tmp_path, replicates=3, noise=Silent())
    value = fit(
        plan(rounds=2, clip_norm=0.3, step=2.0, average=1.0, standardised=False, return_scale=1e6), opened, SOFTMAX
    ).value
    first, second = np.diff(value.iterates, axis=0)
    assert value.iterates.shape == (3, 3, SOFTMAX.parameters)
    assert value.people.tolist() == [0, 6, 12]
    assert np.linalg.norm(first, axis=1) == pytest.approx(2.0 * value.norms[0])
    assert np.linalg.norm(second, axis=1) == pytest.approx(1.0 * value.norms[1])  # the linear schedule's second step
    assert (value.norms <= 0.3).all()
    assert (value.norms > 0).all()
    assert np.array_equal(value.iterates[-1], value.last)
    assert value.average == pytest.approx(value.iterates[1:].mean(axis=0), abs=1e-6)
    assert not np.array_equal(value.last[0], value.last[1])


def test_the_average_is_of_the_last_rounds(tmp_path: Path) -> None:
    value = fit(plan(average=0.5), vault(tmp_path), SOFTMAX).value
    assert value.average == pytest.approx(value.iterates[3:].mean(axis=0), abs=1e-6)
    assert np.array_equal(value.replicate(0).last, value.last)
    assert value.replicate(-1).norms.shape == (4, 1)
    assert value.actor(average=True).theta is value.average


def test_noise_alone_moves_a_policy_that_learns_nothing(tmp_path: Path) -> None:
    still = fit(plan(return_scale=0.0, standardised=False), vault(tmp_path, noise=Silent()), SOFTMAX).value
    assert not still.last.any()
    (tmp_path / "other").mkdir()
    moved = fit(plan(return_scale=0.0, standardised=False), vault(tmp_path / "other"), SOFTMAX).value
    assert (moved.last != 0).mean() > 0.8  # one may fall on the zero of its lattice


def test_given_starts_are_used_for_all_replicates_or_each(tmp_path: Path) -> None:
    alike = np.arange(SOFTMAX.parameters) / 10.0
    opened = vault(tmp_path, replicates=2)
    for wrong in (alike[:-1], np.stack([alike] * 3), alike * np.nan):
        with pytest.raises(PlanError, match="start has shape"):
            fit(plan(rounds=1), opened, SOFTMAX, start=wrong)
    assert opened.ledger.spent() == (0.0, 0.0)
    value = fit(plan(rounds=1), opened, SOFTMAX, start=alike).value
    assert value.iterates[0] == pytest.approx(np.stack([alike, alike]))


class Stopped(Exception):
    pass


def stop_after(rounds: int) -> Any:
    def progress(done: int, total: int) -> None:
        assert total == 4
        if done == rounds:
            raise Stopped

    return progress


def close(opened: UserVault) -> None:
    opened.ledger.close()
    opened._register.close()


@pytest.mark.parametrize(
    "fields", [{}, {"critic": "private"}, {"local": Local(epochs=1)}], ids=["plain", "critic", "local"]
)
def test_a_resumed_run_goes_on_as_if_it_had_not_been_stopped(tmp_path: Path, fields: dict[str, Any]) -> None:
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    priced = plan(clip_norm=0.3, standardised=False, return_scale=10.0, **fields)
    whole = fit(priced, vault(tmp_path / "whole", noise=Silent()), SOFTMAX).value
    folder = tmp_path / "checkpoints"
    opened = vault(tmp_path / "parts", noise=Silent())
    with pytest.raises(Stopped):
        fit(priced, opened, SOFTMAX, folder=folder, progress=stop_after(2))
    close(opened)
    opened = vault(tmp_path / "parts", noise=Silent(), rounds=2)
    with pytest.raises(PlanExhausted):
        fit(priced, opened, SOFTMAX, folder=folder)
    with pytest.raises(PlanError, match="another policy"):
        fit(priced, opened, dataclasses.replace(SOFTMAX, network=Mlp((6, 3, 2))), folder=folder, resume=True)
    rest = fit(priced, opened, SOFTMAX, folder=folder, resume=True).value
    assert rest.last == pytest.approx(whole.last, abs=1e-6)
    assert rest.average == pytest.approx(whole.average, abs=1e-6)
    assert rest.iterates == pytest.approx(whole.iterates, abs=1e-6)
    assert rest.norms == pytest.approx(whole.norms)
    with pytest.raises(PlanExhausted):
        fit(priced, opened, SOFTMAX)


def test_a_run_that_was_stopped_in_its_first_round_starts_again_with_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, priced, folder = vault(tmp_path), plan(), str(tmp_path / "checkpoints")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(opened, "enroll", stop)
        with pytest.raises(KeyboardInterrupt):
            fit(priced, opened, SOFTMAX, folder=folder)
    begun = State(priced, SOFTMAX, None, 1, None, None, seed=0)
    begun.load(tmp_path / "checkpoints" / "checkpoint.safetensors", opened)
    assert begun.previous is None  # nothing was released yet: Adam has no moments to begin with
    run = opened.reserve(priced)
    opened.enroll(run, lambda seen, replicate, generator: np.zeros(len(seen), np.int64))
    opened.noisy_sum(run, "policy", Zeros())  # claimed and lost
    with pytest.raises(PlanError, match="without the folder"):
        fit(priced, opened, SOFTMAX, resume=True)
    with pytest.raises(PlanExhausted):  # somebody lost the checkpoint: nothing starts from the beginning unasked
        fit(priced, opened, SOFTMAX, folder=tmp_path / "elsewhere", resume=True)
    value = fit(priced, opened, SOFTMAX, folder=folder, resume=True).value
    assert not value.norms[0].any()
    assert value.norms[1:].all()
    assert repr(value) == "Learned(14 parameters, from 24 people, 1 replicate(s))"


def test_a_policy_that_is_none_is_refused_with_what_to_do(tmp_path: Path) -> None:
    module: Any = object()
    with pytest.raises(PlanError, match="TorchNetwork"):
        fit(plan(), vault(tmp_path), module)
    with pytest.raises(PlanError, match="wrap it"):
        dataclasses.replace(SOFTMAX, network=module)


@dataclasses.dataclass(frozen=True)
class Zeros:
    def __call__(self, rows: Any, state: Any) -> np.ndarray:
        return np.zeros((len(rows["mask"]), SOFTMAX.parameters))


def test_a_trust_region_sets_the_clip_of_every_round(tmp_path: Path) -> None:
    region = L2(radius=0.02, confidence=0.6)
    priced = plan(trust_region=region, step=2.0, users=1, standardised=False, return_scale=1e6, noise_multiplier=0.0)
    value = fit(priced, vault(tmp_path), SOFTMAX).value
    clips = [region.clip(learning_rate=priced.step_at(k), noise=0.0, dimension=14, users=1) for k in range(4)]
    assert clips[0] < clips[3]
    assert value.norms[:, 0] == pytest.approx(clips, rel=1e-3)
    steps = np.linalg.norm(np.diff(value.iterates[:, 0], axis=0), axis=1)
    assert (0.5 * steps**2 <= 0.02 * (1 + 1e-6)).all()


def test_a_region_in_the_policy_needs_public_or_private_information(tmp_path: Path) -> None:
    region = KL(radius=0.05)
    opened = vault(tmp_path)
    public = PublicFisher(tuple(range(6)))
    for priced, information in ((plan(trust_region=region), None), (plan(), public)):
        with pytest.raises(PlanError, match="information="):
            fit(priced, opened, SOFTMAX, information=information)
    for wrong in (lambda policy, theta: theta[10**6], lambda policy, theta: [-1.0], lambda policy, theta: [np.nan]):
        with pytest.raises(PlanError, match=r"lambda.* gives no eigenvalues"):
            fit(plan(trust_region=region), opened, SOFTMAX, information=wrong)
    assert opened.ledger.plans() == []
    value = fit(plan(trust_region=region), opened, SOFTMAX, information=public).value
    assert np.isfinite(value.last).all()
    private = plan(trust_region=region, fisher=PrivateFisher(share=0.2))
    assert [part.name for part in private.parts()] == ["policy", "fisher"]
    assert private.epsilon == pytest.approx(plan().epsilon, rel=1e-6)
    assert np.isfinite(fit(private, opened, SOFTMAX).value.last).all()


@pytest.mark.parametrize("critic", ["none", "local", "private", "public"])
def test_critics_that_keep_the_promise(tmp_path: Path, critic: Any) -> None:
    given = {"critic": CRITIC, "critic_start": np.full(7, 0.1)} if critic == "public" else {}
    release = fit(plan(critic=critic), vault(tmp_path), SOFTMAX, **given)  # type: ignore[arg-type]
    assert release.certificate.epsilon == pytest.approx(1.993, rel=1e-3)
    joint = [text for text in release.certificate.lines("covered") if "joint privacy" in text]
    assert len(joint) == 1


def test_critics_are_given_where_they_are_used(tmp_path: Path) -> None:
    opened = vault(tmp_path)
    for name, given in (("none", {"critic": CRITIC}), ("public", {}), ("public", {"critic": CRITIC})):
        with pytest.raises(PlanError, match="critic"):
            fit(plan(critic=name), opened, SOFTMAX, **given)


def test_the_papers_critic_is_certified_as_no_privacy_at_all(tmp_path: Path) -> None:
    paper = dataclasses.replace(PolicyGradientPlan.paper(rounds=2, noise_multiplier=4.0), horizon=20).account(
        unit=UNIT, delta=1e-5
    )
    release = fit(paper, vault(tmp_path), SOFTMAX)
    assert release.certificate.epsilon == math.inf
    assert any("taught by everybody without noise" in text for text in release.certificate.lines("not_covered"))
    assert release.certificate.lines("covered")[0].startswith("nothing")


def test_policies_of_other_people_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="these people's observations"):
        fit(plan(), vault(tmp_path), Policy(OneHot(5), Mlp((5, 2)), Categorical(2)))
