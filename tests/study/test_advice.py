"""Advice before spending: what is foreseen is what is then seen, what is hopeless is refused, and no record is read."""

from __future__ import annotations

import re
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

import tacit
from tacit.cli import main
from tacit.data.trajectories import Trajectories
from tacit.errors import PlanError
from tacit.methods.improvement.plan import SCORES, STATEMENT
from tacit.methods.off_policy_evaluation.intervals import NoisySums, bounds
from tacit.privacy.vault.vault import Vault
from tacit.study.advice import Advice, Figure, synthesis_notes
from tacit.study.check import check
from tacit_worlds.city import city

PEOPLE, VISITS = 4_000, 3
WORDS: dict[str, Any] = {"gamma": 1.0, "horizon": VISITS}


def records_of(folder: Path, *, simulated: bool = True, people: int = PEOPLE, alike: bool = False) -> Path:
    """People as advice supposes them: returns are a quarter or three quarters of their range, at three visits each,
    and practice takes one of four actions by chance. If they are `alike`, all rows are the same."""
    rng = np.random.default_rng(0)
    lucky = np.repeat(rng.permutation(np.arange(people) % 2), VISITS)
    sick = tacit.space_of(tacit.Column("sick", low=0.0, high=1.0, step=0.5))
    spec = tacit.PublicSpec(sick, tacit.Discrete(4), tacit.Box((0.0,), (1.0,)), "declared", propensities=True)
    last = np.tile(np.arange(VISITS) == VISITS - 1, people)
    columns: dict[str, Any] = {
        "observations": rng.uniform(size=(people * VISITS, 1)),
        "next_observations": rng.uniform(size=(people * VISITS, 1)),
        "actions": rng.integers(0, 4, people * VISITS),
        "rewards": np.where(lucky, 0.75, 0.25),
        "terminations": np.zeros(people * VISITS, bool),
        "truncations": last,
        "propensities": np.full(people * VISITS, 0.25),
        "unit_ids": np.repeat(np.arange(people), VISITS),
    }
    if alike:
        columns |= {name: np.zeros_like(columns[name]) for name in ("observations", "next_observations", "actions")}
        columns["rewards"][:] = 0.25
    Trajectories.from_arrays(**columns, spec=spec, unit_name="person", simulated=simulated).save(folder)
    return folder


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return records_of(tmp_path_factory.mktemp("advice") / "records")


def study_of(records: Path, ledger: Path, *, population: int = PEOPLE) -> tacit.Study:
    budget: dict[str, Any] = {"budget_epsilon": 50.0, "budget_sampled": 0}
    return tacit.Study(records, unit="person", population=population, ledger=ledger, **budget)


class First:
    """Whoever follows it always takes the first action."""

    actions = 4

    def probabilities(self, observations: np.ndarray) -> np.ndarray:
        return np.tile([1.0, 0.0, 0.0, 0.0], (len(observations), 1))


def width(interval: Any) -> float:
    return float(interval.high - interval.low) / 2


def test_the_half_width_of_a_value_is_as_foreseen(records: Path, tmp_path: Path) -> None:
    study, words = study_of(records, tmp_path / "ledger"), {"epsilon": 1.0, **WORDS}
    foreseen = study.request("evaluate", **words).advice.expected
    seen = study.evaluate(**words).value
    assert [round(figure.whole, 9) for figure in foreseen] == [1.5]
    assert width(seen.interval) == pytest.approx(foreseen[0].error, rel=0.15)


def test_the_half_width_of_following_a_policy_a_little_is_as_foreseen(records: Path, tmp_path: Path) -> None:
    study, words = study_of(records, tmp_path / "ledger"), {"epsilon": 4.0, "policy": First(), **WORDS}
    value, change = study.request("evaluate", **words, follow=0.2).advice.expected
    assert change.name == "half-width of what following it in 20 % of the visits changes"
    seen = study.evaluate(**words, follow=0.2).value
    assert width(seen.difference.interval) == pytest.approx(change.error, rel=0.25)
    # of a policy that is followed whole, weights are far larger than those of one that acts as the records do
    assert value.error < width(seen.interval) <= 1.5


def unlike(notes: tuple[str, ...], share: float) -> tuple[float, float]:
    """The half-width and the number of followers that notes tell of a share of the visits."""
    told = rf"  {100 * share:.0f} % of the visits: ([\d.]+) \(.* %\), as if ([\d,]+) of 4,000 persons had followed it"
    found = re.search(told, "\n".join(notes))
    assert found is not None
    return float(found[1]), float(found[2].replace(",", ""))


@pytest.mark.parametrize("share", [0.05, 0.25, 1.0])
def test_the_half_width_of_a_rule_unlike_the_records_is_that_of_all_its_paths(
    records: Path, tmp_path: Path, share: float
) -> None:
    """At each of three visits a rule of one action in four has the ratio 1, 4 or 0; the 27 paths are summed by hand."""
    request = study_of(records, tmp_path / "ledger").request(
        "evaluate", epsilon=4.0, policy=First(), method="wpdis", **WORDS
    )
    plan, means = request.plan, np.zeros((2, 2))
    part = next(part for part in plan.parts() if part.name == "scores")
    for path in product(((1 - share, 1.0), (share / 4, 4.0), (share * 3 / 4, 0.0)), repeat=VISITS):
        chances, ratios = zip(*path, strict=True)
        weight = sum(np.cumprod(ratios)) / VISITS
        for earned in (0.25, 0.75):
            pair = weight * np.array([earned, 1 - earned]) / plan.clip
            pair /= max(1.0, float(np.hypot(*pair)))
            means += np.prod(chances) / 2 * np.array([pair, pair**2])
    roots = np.sqrt([0.65, 0.25, 0.1]) * (1 - 2e-4)  # of the squared norm: scores, presence, squares
    noise: Any = tuple(part.noise_multiplier / roots)
    lows = []
    for mean, square in means.T:
        sums = NoisySums(
            total=PEOPLE * mean, count=PEOPLE, squares=PEOPLE * square, noise=noise, population=PEOPLE, floor=0
        )
        lows.append(plan.clip * bounds(sums, level=0.975, sides="lower")[0])
    error, followers = unlike(request.advice.notes, share)
    assert error == pytest.approx(VISITS * (1 - sum(lows)) / 2, rel=0.05)
    assert followers == pytest.approx(PEOPLE / (1 + 3 * share) ** VISITS, abs=0.6)  # it is a whole number


def test_the_half_width_of_a_rule_unlike_the_records_is_as_foreseen(records: Path, tmp_path: Path) -> None:
    study, words = study_of(records, tmp_path / "ledger"), {"epsilon": 4.0, "policy": First(), **WORDS}
    error, _ = unlike(study.request("evaluate", method="wpdis", **words).advice.notes, 1.0)
    assert error == pytest.approx(width(study.evaluate(method="wpdis", **words).value.interval), rel=0.3)


def test_a_rule_of_which_little_will_be_said_gets_a_way_out(records: Path, tmp_path: Path) -> None:
    study = study_of(records, tmp_path / "ledger")
    request = partial(study.request, "evaluate", epsilon=1.0, **WORDS)
    assert len(request(policy=First()).advice.notes) == 6  # of wpdis, which says something even of all visits
    notes = request(policy=First(), method="residual").advice.notes
    assert [re.findall(r"\d+ %", note)[0] for note in notes[1:-1]] == ["5 %", "10 %", "25 %", "50 %"]
    assert notes[-1] == (
        "Where that is too wide, take --method wpdis, whose interval is narrower, or read what following it changes: "
        "--follow 0.05, or --follow-visits 2."
    )
    assert request().advice.notes == ()  # whoever made the records is like them
    assert request(policy=First(), behaviour="model").advice.notes == ()  # whose weights have another interval
    longer = request(policy=First(), method="wpdis", horizon=40).advice.notes
    assert longer[-1].startswith("Where that is too wide, read what following it changes")


def test_the_default_method_is_the_one_with_the_narrowest_interval(records: Path, tmp_path: Path) -> None:
    study = study_of(records, tmp_path / "ledger")
    request = partial(study.request, "evaluate", epsilon=1.0, **WORDS)
    methods = [type(request(**words).plan).__name__ for words in ({}, {"policy": First()})]
    assert methods == ["ResidualRegression", "ImportanceSampling"]
    chosen = request(policy=First()).plan
    assert chosen == request(policy=First(), method="wpdis").plan
    assert type(request(policy=First(), features="fourier:2").plan).__name__ == "ResidualRegression"


def test_the_gain_that_can_be_proven_is_as_foreseen(records: Path, tmp_path: Path) -> None:
    study, words = study_of(records, tmp_path / "ledger"), {"epsilon": 4.0, "advice": 0.2, **WORDS}
    request = study.request("improve", **words)
    gain, returns = request.advice.expected
    statement = study.improve(**words).value.statement
    assert width(statement.returns_interval) == pytest.approx(returns.error, rel=0.15)
    assert statement.gain - statement.gain_interval.low == pytest.approx(gain.error, rel=0.4)
    # noise alone, by hand: z sigma / sqrt(share) over half of the people, of a range of 3
    floor = 3 * ndtri(0.95) * request.plan.noise_std(STATEMENT) / np.sqrt(SCORES[0]) / (PEOPLE / 2)
    assert gain.error > floor


def test_the_noise_of_a_cell_is_as_foreseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = records_of(tmp_path / "records", alike=True)  # whichever row of theirs counts
    noisy, tables = Vault.noisy_sum, list[np.ndarray]()

    def noisy_sum(vault: Vault, run: Any, part: str, *others: Any) -> np.ndarray:
        mean = noisy(vault, run, part, *others)
        if part == "tables":
            tables.append(mean[0] * PEOPLE)
        return mean

    monkeypatch.setattr(Vault, "noisy_sum", noisy_sum)
    for ledger in ("one", "another"):  # what two releases differ in is noise alone
        study = study_of(records, tmp_path / ledger)
        request = study.request("synthesize", method="structured", epsilon=2.0)
        study.synthesize(method="structured", epsilon=2.0)
    (cell,) = request.advice.expected
    assert (cell.whole, len(tables)) == (PEOPLE / 12, 2)
    seen = np.std(tables[0] - tables[1]) / np.sqrt(2)
    assert seen == pytest.approx(cell.error, rel=5 / np.sqrt(2 * tables[0].size))  # five standard deviations
    (told,) = synthesis_notes(request.plan, request.plan.spec)
    assert told.startswith(f"A table of at most {int(PEOPLE / (2 * cell.error)):,} cells can be read")


def test_what_is_hopeless_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    records = records_of(tmp_path / "records", simulated=False, people=60)
    study = study_of(records, tmp_path / "ledger", population=60)
    (tmp_path / "records" / "rewards.npy").write_bytes(b"whoever reads this fails")
    request = study.request("synthesize", method="structured", epsilon=0.02)
    assert request.advice.is_hopeless
    assert "This is hopeless, and refused unless you say --yes." in str(request)
    with pytest.raises(PlanError, match=r"nothing would be learned for this epsilon: noise in a cell.* with yes="):
        study.synthesize(method="structured", epsilon=0.02)
    with pytest.raises(PlanError, match=r"nothing would be learned"):
        study.evaluate(epsilon=0.01, **WORDS)
    assert not (tmp_path / "ledger").exists()


def test_who_insists_gets_it_and_nobody_is_asked_of_simulated_people(tmp_path: Path) -> None:
    real = records_of(tmp_path / "real", simulated=False, people=60)
    study = study_of(real, tmp_path / "ledger", population=60)
    assert study.evaluate(epsilon=0.01, yes=True, **WORDS).certificate.epsilon == pytest.approx(0.01, rel=1e-3)
    made = study_of(records_of(tmp_path / "made", people=60), tmp_path / "another", population=60)
    assert made.request("evaluate", epsilon=0.01, **WORDS).advice.is_hopeless
    made.evaluate(epsilon=0.01, **WORDS)


def test_a_command_refuses_likewise_and_says_what_would_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = records_of(tmp_path / "records", simulated=False, people=60)
    whom = ["--unit", "person", "--population", "60", "--budget-epsilon", "8", "--budget-sampled", "0"]
    asked = ["evaluate", str(records), *whom, "--gamma", "1", "--horizon", "3", "--out", str(tmp_path / "run")]
    assert main([*asked, "--epsilon", "0.01", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "Expected of all 60 persons (of half as many, an error up to twice as large):" in said
    assert "half-width of the value's interval: 1.5, where it can be at most 1.5 (100 %)" in said
    assert main([*asked, "--epsilon", "0.01"]) == 2
    assert "or ask for it all the same with --yes" in capsys.readouterr().err
    assert main([*asked, "--epsilon", "0.01", "--yes"]) == 0


def advice_of(error: float, **more: Any) -> Advice:
    return Advice(None, lambda plan: (Figure("error", error, 1.0, "at most"),), "fewer columns", **more)


@pytest.mark.parametrize(("error", "hopeless"), [(0.4, False), (0.998, False), (1.0, True), (30.0, True)])
def test_hopeless_is_an_error_as_large_as_the_answer(error: float, hopeless: bool) -> None:
    advice = advice_of(error)
    assert advice.is_hopeless is hopeless
    advice_of(error, accepted=True).require("evaluate")
    if hopeless:
        with pytest.raises(PlanError, match="take fewer columns, or more epsilon"):
            advice.require("evaluate")


def test_figures_are_said_with_what_they_are_compared_with() -> None:
    assert Figure("noise", 23.18, 20_000 / 12, "a mean cell holds").to_sentence() == (
        "noise: 23.2, where a mean cell holds 1,667 (1.4 %)"
    )
    assert Figure("width", 3.0, 1.5, "it can be at most").to_sentence().endswith("(200 %)")


def test_a_check_of_positions_says_which_maps_can_be_read(tmp_path: Path) -> None:
    days, lines = city(20, days=2, seed=0).days, ["user,time,lat,lon"]
    for row, (cells, person) in enumerate(zip(days.cells, days.person, strict=True)):
        for slot, (lat, lon) in enumerate(days.grid.centres(cells)):
            lines.append(f"{person},2024-03-0{4 + row % 2}T{slot // 2:02}:{30 * (slot % 2):02}:00,{lat:.5f},{lon:.5f}")
    (tmp_path / "points.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "study.toml").write_text(
        'records = "points.csv"\nunit = "user"\npopulation = 2000\nbudget_epsilon = 4\nbudget_sampled = 0\n[reading]\n'
        'box = [39.7, 116.1, 40.1, 116.7]\ncell = "auto"\nzone = "Asia/Shanghai"\nrecorded = "Asia/Shanghai"\n'
    )
    verdict = check(tmp_path / "study.toml")
    assert (verdict.faults, verdict.verb) == ((), "imitate")
    assert "`tacit imitate --epsilon 1`, of which --dry-run says all:" in verdict.notes
    assert any(
        re.match(r"  visits by half-hour \(\d+ cells\): .* it can be read by night\.$", note) for note in verdict.notes
    )
    assert not list(tmp_path.glob("*.ledger"))


def test_a_check_of_a_table_says_what_a_first_release_would_hold(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    assert main(["data", "example", str(tmp_path / "visits.csv")]) == 0
    verdict = check(tmp_path / "study.toml")
    assert verdict.faults == ()
    assert any(note.startswith("  noise in a cell of a table of 12 cells: ") for note in verdict.notes)
    assert any(note.startswith("Takes    about ") for note in verdict.notes)
