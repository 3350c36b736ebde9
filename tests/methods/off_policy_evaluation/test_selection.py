"""A private choice among candidates: scores, the chosen candidate, what is refused."""

import dataclasses

import numpy as np
import pytest
from small_mdp import PROBLEM, SPEC, TARGET, enumerate_episodes, exact_value, open_vault, padded, unit_of

from tacit.errors import PlanError, PlanExhausted
from tacit.methods.off_policy_evaluation import selection
from tacit.methods.off_policy_evaluation.logged import cut_episodes
from tacit.methods.off_policy_evaluation.policies import Behaviour, Tabular, Uniform
from tacit.methods.off_policy_evaluation.scores import bound_scores, returns
from tacit.methods.off_policy_evaluation.selection import Candidate, CandidateScores, PolicySelection
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.sentences import clause

WORST = Tabular(np.array([[0.1, 0.9], [0.9, 0.1]]))
CANDIDATES = (
    Candidate(name="worst", policy=WORST),
    Candidate(name="target", policy=TARGET),
    Candidate(name="as now", policy=Behaviour()),
    Candidate(name="uniform", policy=Uniform(2)),
)


def plan_for(vault, epsilon=1.0, **fields):
    plan = PolicySelection(problem=PROBLEM, candidates=CANDIDATES, spec=SPEC, **fields)
    return plan.calibrate(unit=vault.unit, epsilon=epsilon, delta=1e-5)


def test_the_best_candidate_is_chosen_when_there_is_enough_data(tmp_path):
    values = [exact_value(WORST), exact_value(TARGET)]
    assert values[1] > values[0] + 1
    vault = open_vault(tmp_path, units=3000)
    released = selection.fit(plan_for(vault, epsilon=2.0), vault)
    assert (released.value.index, released.value.name) == (1, "target")
    assert released.value.candidates == ("worst", "target", "as now", "uniform")
    assert released.certificate.epsilon <= 2.0
    assert released.certificate.parts[0]["kind"] == "noisy_max"
    released.certificate.verify()


def test_at_a_tiny_epsilon_it_is_a_lottery(tmp_path):
    seen = set()
    for i in range(20):
        vault = open_vault(tmp_path, units=100, name=str(i))
        seen.add(selection.fit(plan_for(vault, epsilon=1e-4), vault).value.index)
    assert len(seen) >= 3


def test_scores_are_the_clipped_returns_of_each_candidate():
    rows = padded(enumerate_episodes()[0])
    policies = tuple(candidate.target for candidate in CANDIDATES)
    scores = CandidateScores(PROBLEM, policies, None, SPEC, 2.0)(rows)["scores"]
    low, _ = bound_scores(cut_episodes(rows, PROBLEM, WORST), PROBLEM, SPEC)
    length = PROBLEM.discounted_length
    np.testing.assert_allclose(scores[:, 0], low / (2 * 3 * length))
    ended = rows["terminations"].any(axis=1) | rows["mask"][:, -1]
    plain = returns(cut_episodes(rows, PROBLEM, Behaviour()), 0.9) + 2 * length
    np.testing.assert_allclose(scores[ended, 2], plain[ended] / (2 * 3 * length), rtol=1e-6, atol=1e-12)


def test_the_plan_names_each_policy_by_its_whole_content():
    other = np.array(WORST.table)
    other[0] = [0.1 + 1e-9, 0.9 - 1e-9]
    digests = [Candidate(name="a", policy=policy).digest for policy in (WORST, Tabular(other), WORST)]
    assert digests[0] == digests[2] != digests[1]


def test_a_release_counts_as_a_candidate_of_its_own_ledger_only(tmp_path):
    vault, other = open_vault(tmp_path, units=2000), open_vault(tmp_path, units=2000, name="b")
    earlier = plan_for(other, epsilon=2.0)
    run = other.reserve(earlier)
    other.release_once(run, "choice")
    made = other.release(run, TARGET, label=earlier.label((clause("candidate", words="target", policy="released"),)))
    foreign = Candidate(name="learned", policy=made)
    assert foreign.target is TARGET
    plan = dataclasses.replace(plan_for(vault), candidates=(foreign, CANDIDATES[0]))
    with pytest.raises(PlanError, match="another ledger"):
        selection.fit(plan, vault)
    again = dataclasses.replace(plan_for(other, epsilon=3.0), candidates=(foreign, CANDIDATES[0]))
    assert selection.fit(again, other).value.name == "learned"
    paired = Candidate(name="learned", policy=Release(WORST, made.certificate))
    with pytest.raises(PlanError, match="released another policy"):
        selection.fit(dataclasses.replace(again, candidates=(paired, CANDIDATES[0])), other)


def test_one_plan_one_choice_and_bounds_as_recorded(tmp_path):
    vault = open_vault(tmp_path)
    plan = plan_for(vault)
    selection.fit(plan, vault)
    with pytest.raises(PlanExhausted):
        selection.fit(plan, vault)
    spec = dataclasses.replace(SPEC, terminals=False)
    with pytest.raises(PlanError, match="bounds"):
        selection.fit(dataclasses.replace(plan, spec=spec), vault)


def test_bad_plans_are_refused():
    for candidates in ((), CANDIDATES[:1], (CANDIDATES[0], CANDIDATES[0])):
        with pytest.raises(PlanError, match="candidates"):
            PolicySelection(problem=PROBLEM, candidates=candidates, spec=SPEC)
    with pytest.raises(PlanError, match="name"):
        Candidate(name=" ", policy=TARGET)
    plan = PolicySelection(problem=PROBLEM, candidates=CANDIDATES, spec=SPEC)
    with pytest.raises(PlanError, match="epsilon"):
        plan.calibrate(unit=unit_of(100), epsilon=0.0, delta=1e-5)
    with pytest.raises(PlanError, match="calibrated"):
        plan.parts()
