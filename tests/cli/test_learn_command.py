"""`tacit learn`: the promise comes first, experts' logs or policies go in, one policy comes out and plays."""

from __future__ import annotations

import html
import json
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from stored_pages import blocks, charts, table
from tacit import hub
from tacit.cli import main
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.store import FolderColumns
from tacit.data.trajectories import Trajectories
from tacit.evaluation.letter import FILES
from tacit.evaluation.report.experts import informative_dimensions
from tacit.methods.experts.consensus import Consensus
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.study import experts as players
from tacit.units import Unit
from tacit_worlds import populations

TINY = ("--experts", "40", "--episodes", "3", "--horizon", "30", "--evaluate", "4")
PROMISE = ("--epsilon", "8", "--delta", "1e-3", "--budget-epsilon", "8", "--budget-sampled", "1")
POLES = ("learn", "--world", "cart_pole", *TINY, *PROMISE)
QUERIED = ("--method", "consensus", "--queried", "--prefixes", "2", "--steps", "4", "--stable-fraction", "1")


def run(*words: str) -> int:
    return main([*words])


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny run of votes with simulated experts."""
    folder = tmp_path_factory.mktemp("learn") / "run"
    assert run(*POLES, "--out", str(folder)) == 0
    return folder


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty experts' own policies, one file each."""
    folder = tmp_path_factory.mktemp("policies") / "pilots"
    hub.save_experts(populations.population(populations.world("cart_pole"), "good", 40, seed=1), folder)
    return folder


def imported(folder: Path, *, discrete: bool = False, owners: int = 30, unit: object = None) -> Path:
    """Logs of doctors as `tacit data import` leaves them: two numbers or one of six states, three actions."""
    rng, rows = np.random.default_rng(0), 300
    seen = rng.integers(6, size=(2, rows)) if discrete else rng.uniform(-1, 1, (2, rows, 2))
    data = Trajectories.from_arrays(
        observations=seen[0],
        actions=rng.integers(3, size=rows),
        rewards=rng.random(rows),
        next_observations=seen[1],
        terminations=np.arange(rows) % 5 == 4,
        unit_ids=np.arange(rows) // 5 % owners if unit is None else unit,
        spec=PublicSpec(
            Discrete(6) if discrete else Box((-2.0, -2.0), (2.0, 2.0)), Discrete(3), Box((-1.0,), (2.0,)), "declared"
        ),
    )
    data.save(folder)
    return folder


def test_a_dry_run_prints_the_promise_and_opens_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = imported(tmp_path / "doctors")
    (logs / "rewards.npy").write_bytes(b"whoever reads this fails")
    words = ("learn", str(logs), "--out", str(tmp_path / "run"), "--population", "500", "--dry-run")
    budget = ("--budget-epsilon", "1", "--budget-sampled", "1")
    assert run(*words, "--epsilon", "1", "--delta", "1e-4", *budget, "--unit", "doctor") == 0
    out = capsys.readouterr().out
    assert "promises (1, 0.0001)-differential privacy to every doctor." in out
    assert "1 noisy sum(s) over every doctor" in out
    assert "Protected: everything in one expert's log." in out
    assert "simulated" not in out
    assert out.endswith("Dry run: no private record was read and nothing was spent.\n")
    assert list(tmp_path.iterdir()) == [logs]


def test_the_promise_of_a_consensus_names_the_threshold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("learn", "--world", "cart_pole", "--out", str(tmp_path / "run"), *PROMISE[:2], "--delta", "1e-5")
    assert run(*words, *QUERIED, "--experts", "3000", "--dry-run") == 0
    out = capsys.readouterr().out
    assert "2 time(s) one expert is drawn uniformly" in out
    assert "one of the 2 trajectories that are kept of each for this alone" in out
    assert "are fewer than 16.5645 of at least 3,000" in out
    assert "if all agreed on every step, a prefix would have 48.1 steps on average" in out
    assert "Protected: the experts' policies, and nothing else." in out
    assert run(*words, "--method", "consensus", "--experts", "40", "--dry-run") == 2
    assert "an unreachable threshold" in capsys.readouterr().err


def test_a_run_releases_a_policy_with_its_certificate(taught: Path) -> None:
    assert sorted(path.name for path in taught.iterdir() if not path.name.startswith("ledger")) == [
        *("certificate.json", "certificate.md", *sorted(FILES.values()), "policy", "report.html", "run.json"),
    ]
    certificate = Certificate.load(taught / "certificate.json")
    assert certificate.verify().private
    assert certificate.simulated
    assert (certificate.unit["name"], certificate.unit["population"]) == ("expert", 40)
    assert Ledger.read(taught / "ledger").spent()[0] == pytest.approx(certificate.epsilon, rel=1e-5)
    release = hub.load(taught / "policy")
    assert release.value.policy.network.sizes == (4, 2)
    assert hub.notes(taught / "policy") == {"environment": "cart_pole", "horizon": 1_000, "repeat": 1}


def test_the_report_shows_agreement_and_compares(taught: Path) -> None:
    assert list(table(taught, "returns")) == [
        *("the same without noise", "the experts themselves", "epsilon 8, released", "actions at random"),
    ]
    drawn, value = charts(taught, "agreement")["What they choose"], hub.load(taught / "policy").value
    title = re.findall(r'aria-label="The experts\' choice over ([\w ]+) and ([\w ]+): action 0 at (\d+) %', drawn)[0]
    assert {*title[:2]} <= {*populations.world("cart_pole").dimension_names}
    assert int(title[2]) == round(100 * float(np.mean(value.agreement.shares[0].argmax(axis=1) == 0)))
    marks = re.findall(r'class="vote [^"]*" stroke-opacity="[^"]*" d="([^"]*)"', drawn)
    assert sum(path.count("M") for path in marks) == 1_000
    page = (taught / "report.html").read_text()
    assert "Where the experts agree" in page
    assert "Protected: the experts' logs" in html.unescape(page)
    (taught / "report.html").unlink()
    assert run("report", str(taught)) == 0
    assert (taught / "report.html").read_text() == page


def test_logs_that_memory_does_not_hold_teach_the_same(
    taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise nothing is random but the public seeds."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    monkeypatch.setattr(players, "IN_MEMORY", 0)
    written: list[str] = []
    finish = FolderColumns.finish
    monkeypatch.setattr(
        FolderColumns,
        "finish",
        lambda self, *given, **named: written.append(self.folder.name) or finish(self, *given, **named),
    )
    assert run(*POLES, "--out", str(tmp_path / "run")) == 0
    assert list((tmp_path / "scratch").iterdir()) == []
    assert sorted(written) == ["logs", "random"]
    rows, others = (table(folder, "returns") for folder in (taught, tmp_path / "run"))
    for label in ("the same without noise", "the experts themselves"):
        assert rows[label] == others[label]


def test_it_plays_and_is_exported(taught: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = str(taught / "policy")
    assert run("play", policy, "--episodes", "2") == 0
    drawn = capsys.readouterr().out
    assert "Verified: " in drawn
    assert run("play", policy, "--episodes", "2", "--greedy") == 0
    assert capsys.readouterr().out == drawn  # it is greedy anyhow
    assert run("play", policy, "--episodes", "1", "--environment", "CartPole-v1") == 0
    assert run("play", policy, "--averaged") == 2
    assert "has no average" in capsys.readouterr().err
    assert run("play", policy, "--render") == 2
    assert "cart_pole has no pictures" in capsys.readouterr().err
    assert run("export", policy, str(tmp_path / "policy.onnx")) == 0
    seen = np.random.default_rng(0).uniform(-1, 1, (50, 4)).astype(np.float32)
    (greedy,) = onnxruntime.InferenceSession(tmp_path / "policy.onnx").run(["greedy"], {"observations": seen})
    actor = hub.load(taught / "policy").value.actor()
    assert np.array_equal(greedy, actor(seen, np.zeros(50, np.int64), np.random.default_rng(0)))
    assert run("sample", "--model", policy, "--count", "1", "--out", str(tmp_path / "rows")) == 6


def test_logs_of_real_experts_are_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs, out = imported(tmp_path / "doctors"), tmp_path / "run"
    words = (
        "learn",
        str(logs),
        "--out",
        str(out),
        "--population",
        "50",
        "--unit",
        "doctor",
        *PROMISE,
        "--anchors",
        "30",
    )
    assert run(*words) == 0
    assert f"Budget   tacit ledger show {tmp_path / 'doctors.ledger'}" in capsys.readouterr().out
    certificate = Certificate.load(out / "certificate.json")
    assert certificate.verify().private
    assert not certificate.simulated
    report = json.loads((out / "run.json").read_text())["report"]
    assert (blocks(out, "returns"), report["costs"]) == ([], [])
    assert "over observation_0 and observation_1:" in charts(out, "agreement")["What they choose"]
    assert hub.notes(out / "policy") == {}
    assert run("play", str(out / "policy")) == 2
    assert "the policy says no environment" in capsys.readouterr().err
    assert run(*words[:2], "--out", str(tmp_path / "again"), *words[4:]) == 3  # the budget is spent
    assert "give another --seed" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()
    assert run(*words[:2], "--out", str(tmp_path / "again"), *words[4:], "--seed", "1") == 3
    assert "does not cover another learning" in capsys.readouterr().err
    own = ("--ledger", str(tmp_path / "other.ledger"))
    assert run(*words[:2], "--out", str(tmp_path / "again"), *words[4:], *own) == 3
    assert "these records have a ledger already" in capsys.readouterr().err
    assert not (tmp_path / "other.ledger").exists()


def test_of_discrete_observations_every_state_is_asked_for(tmp_path: Path) -> None:
    logs, out = imported(tmp_path / "doctors", discrete=True), tmp_path / "run"
    assert run("learn", str(logs), "--out", str(out), "--population", "50", *PROMISE) == 0
    value = hub.load(out / "policy").value
    assert np.array_equal(value.agreement.states[0], np.arange(6))
    drawn = charts(out, "agreement")["What they choose"]
    marks = re.findall(r'class="vote [^"]*" stroke-opacity="[^"]*" d="([^"]*)"', drawn)
    assert sum(path.count("M") for path in marks) == 6


def test_policies_of_real_experts_are_played_in_secret(policies: Path, tmp_path: Path) -> None:
    thetas = []
    for name in ("one", "two"):
        own = shutil.copytree(policies, tmp_path / f"{name}-pilots")  # the same experts have one ledger alone
        words = ("learn", str(own), "--world", "cart_pole", *TINY[2:], "--population", "50", *PROMISE)
        words = (*words, "--method", "return-weighted", "--steps", "2", "--ledger", str(tmp_path / f"{name}.ledger"))
        assert run(*words, "--out", str(tmp_path / name)) == 0
        thetas.append(hub.load(tmp_path / name / "policy").value.theta)
        assert not Certificate.load(tmp_path / name / "certificate.json").simulated
        assert blocks(tmp_path / name, "returns") == []  # of real experts' policy nothing else is measured
        assert "an episode under this policy returns about" in (tmp_path / name / "report.html").read_text()
    assert not np.array_equal(*thetas)


def test_asked_policies_are_all_that_is_protected(policies: Path, tmp_path: Path) -> None:
    words = ("learn", str(policies), "--world", "cart_pole", "--population", "50", "--present", "40", "--simulated")
    sizes = (
        "--episodes",
        "8",
        "--horizon",
        "20",
        "--evaluate",
        "2",
        "--epsilon",
        "30",
        "--delta",
        "1e-3",
        "--stop",
        "0.05",
        "--budget-epsilon",
        "30",
        "--budget-sampled",
        "1",
    )
    assert run(*words, *sizes, *QUERIED, "--policy", "8", "--out", str(tmp_path / "run")) == 0
    value = hub.load(tmp_path / "run" / "policy").value
    assert isinstance(value.plan, Consensus)
    assert value.plan.clone is None
    lengths = value.prefixes[0].lengths
    drawn = charts(tmp_path / "run", "consensus")["Released prefixes"]
    assert f"Lengths of {len(lengths)} released prefixes, from {lengths.min()} to {lengths.max()} steps" in drawn
    assert list(table(tmp_path / "run", "returns")) == [
        *("the experts themselves", "epsilon 30, released", "actions at random"),
    ]
    assert "only the experts' policies" in html.unescape((tmp_path / "run" / "report.html").read_text())
    assert "not protected" in (tmp_path / "run" / "policy" / "README.md").read_text().lower()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--present", "45", "--episodes", "8"), "there are fewer policies than the consensus takes for granted"),
        (("--present", "40", "--episodes", "1"), "--episodes is 1; expected at least "),
    ],
)
def test_too_few_policies_or_episodes_are_found_before_a_ledger_is_begun(
    words: tuple[str, ...], message: str, policies: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    promise = ("--population", "50", "--epsilon", "30", "--delta", "1e-3", "--stop", "0.05", "--horizon", "20")
    promise += ("--budget-epsilon", "30", "--budget-sampled", "1")
    own = shutil.copytree(policies, tmp_path / "pilots")
    where = ("learn", str(own), "--world", "cart_pole", "--out", str(tmp_path / "run"))
    assert run(*where, *promise, *QUERIED, *words) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Playing episodes" not in told
    assert list(tmp_path.iterdir()) == [own]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--experts", "60", "--episodes", "1"), "--episodes is 1; expected at least "),
        (("--population", "100", "--experts", "60"), "there are fewer policies than the consensus takes for granted"),
        (("--population", "30", "--experts", "60"), "there are 60 policies in a population of 30"),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_of_simulated_experts_the_numbers_are_known_beforehand(
    words: tuple[str, ...], message: str, dry: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    promise = ("--epsilon", "60", "--delta", "1e-3", "--out", str(tmp_path / "run"))
    plan = QUERIED if "30" not in words else ()
    assert run("learn", "--world", "cart_pole", *promise, *plan, *words, *dry) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Simulating experts" not in told
    assert list(tmp_path.iterdir()) == []


def test_the_ledger_is_asked_before_the_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever it refuses is told before the promise; a run that is interrupted after the release has its report."""
    logs, own = imported(tmp_path / "doctors"), tmp_path / "doctors.ledger"
    unit = Unit("doctor", "add_or_remove", 50)
    words = ("learn", str(logs), "--delta", "1e-4", "--out", str(tmp_path / "run"))
    plain = (*words, "--unit", "doctor", "--population", "50")
    assert run(*plain, "--epsilon", "2", "--budget-epsilon", "1", "--budget-sampled", "1") == 3
    assert "at most what is left of it, (epsilon 1, delta 0.0001)" in capsys.readouterr().err
    assert not own.exists()
    with Ledger(own, unit, epsilon=3.0, delta=2e-4, composition=SUM) as ledger:
        ledger.reserve("an earlier one", {"method": "test"}, parts={"all": 1}, epsilon=2.0, delta=1e-4)
    for given, message in (
        (
            (*plain, "--epsilon", "2"),
            "at most what is left of it, (epsilon 1, delta 0.0001); learn with less --epsilon",
        ),
        ((*plain, "--epsilon", "1", "--budget-epsilon", "4"), "--budget-epsilon is 4, and the budget of these experts"),
        ((*words, "--epsilon", "1", "--population", "50"), 'give --unit "doctor" and --population 50'),
    ):
        assert run(*given) == 3
        shown = capsys.readouterr()
        assert message in shown.err
        assert (shown.out, "Opening" in shown.err) == ("", False)
    with Ledger(own) as ledger:
        ledger.void("too few of them")
    assert run(*plain, "--epsilon", "1") == 3
    assert "the ledger of these experts is void (too few of them)" in capsys.readouterr().err


def test_an_interruption_after_the_release_leaves_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(players, "compare", stopped)
    folder = tmp_path / "run"
    assert run(*POLES, "--out", str(folder)) == 130
    told = capsys.readouterr().err
    assert f"Interrupted; the policy is released and saved in {folder / 'policy'}, and " in told
    assert "lacks its returns alone" in told
    page = (folder / "report.html").read_text()
    assert "Where the experts agree" in page
    assert run("report", str(folder)) == 0
    assert (folder / "report.html").read_text() == page
    assert hub.load(folder / "policy").value.agreement is not None


def test_the_published_settings_state_both_epsilons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("learn", "--world", "acrobot", "--method", "consensus", "--paper", "--epsilon", "10", "--delta", "3e-4")
    assert run(*words, "--dry-run", "--out", str(tmp_path / "run")) == 0
    out = capsys.readouterr().out
    assert "The published accounting claims epsilon 10; what holds, and what the certificate states, is " in out
    assert "Protected: the experts' policies, and nothing else." in out
    for other, message in (
        ("--epsilon", "no setting for 'acrobot' at epsilon 9"),
        ("--clip-norm", "--clip-norm has no meaning"),
    ):
        changed = [*words, other, "9"] if other not in words else [*words[:6], other, "9", *words[8:]]
        assert run(*changed, "--dry-run", "--out", str(tmp_path / "run")) == 2
        assert message in capsys.readouterr().err


def test_the_published_recipe_runs_and_is_certified_at_what_holds(tmp_path: Path) -> None:
    words = ("learn", "--world", "cart_pole", "--method", "consensus", "--paper", "--epsilon", "5", "--delta", "1e-3")
    sizes = ("--experts", "300", "--episodes", "2", "--horizon", "10", "--evaluate", "2", "--steps", "3")
    assert run(*words, *sizes, "--out", str(tmp_path / "run")) == 0
    plan, certificate = (
        hub.load(tmp_path / "run" / "policy").value.plan,
        Certificate.load(tmp_path / "run/certificate.json"),
    )
    assert (plan.rows_per_expert, plan.noise_multiplier, plan.trajectories) == (1, 60.0, 0)
    assert certificate.verify().epsilon == pytest.approx(plan.epsilon, rel=1e-4)


def test_a_gymnasium_world_needs_bounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tacit.agents.features import Scaled
    from tacit.agents.stacked import StackedPolicies

    rng = np.random.default_rng(0)
    weights = rng.normal(size=(3, 2, 3)).astype(np.float32), np.zeros((3, 3), np.float32)
    hub.save_experts(StackedPolicies(Scaled((-1.2, -0.07), (0.6, 0.07)), (2, 3), (weights,)), tmp_path / "drivers")
    (tmp_path / "bounds.json").write_text('{"reward": [-1, 0]}')
    words = ("learn", str(tmp_path / "drivers"), "--world", "MountainCar-v0", "--population", "3", *PROMISE)
    assert run(*words, "--out", str(tmp_path / "run")) == 2
    assert "the reward has no public bounds" in capsys.readouterr().err
    sizes = ("--episodes", "2", "--horizon", "5", "--evaluate", "2", "--anchors", "20")
    assert run(*words, *sizes, "--bounds", str(tmp_path / "bounds.json"), "--out", str(tmp_path / "run")) == 0
    assert hub.notes(tmp_path / "run" / "policy")["environment"] == "MountainCar-v0"
    assert run("play", str(tmp_path / "run" / "policy"), "--episodes", "1") == 0


def test_the_telling_dimensions_are_those_that_decide() -> None:
    states = np.random.default_rng(0).uniform(-1, 1, (500, 4)) * [1.0, 100.0, 1.0, 1.0]
    push = 3 * states[:, 3] - 2 * states[:, 0] + 0.001 * states[:, 1]
    shares = np.stack([push > 0, push <= 0], axis=1).astype(float)
    assert informative_dimensions(states, shares) == (0, 3)
    assert informative_dimensions(states[:, :1], shares) == (0, 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "there are no experts; expected a folder, or --world cart_pole"),
        (("--world", "CartPole-v1", "--bounds", "BOUNDS"), "there are no experts of CartPole-v1 to simulate"),
        (("--world", "cart_pole", "--bounds", "BOUNDS"), "--bounds has no meaning here"),
        (("--world", "cart_pole", "--experts", "1"), "--experts is 1; expected a whole number >= 2"),
        (("--world", "cart_pole", "--evaluate", "1"), "--evaluate is 1; expected a whole number >= 2"),
        (("--world", "cart_pole", "--anchors", "0"), "--anchors is 0"),
        (("--world", "cart_pole", "--policy", "wide"), "--policy is 'wide'"),
        (("--world", "cart_pole", "--prefixes", "5"), "--prefixes has no meaning here"),
        (("--world", "cart_pole", "--queried"), "--queried has no meaning here"),
        (("--world", "cart_pole", "--sharpness", "3"), "--sharpness has no meaning here"),
        (("--world", "cart_pole", "--method", "return-weighted", "--clone", "mlp"), "--clone has no meaning here"),
        (("--world", "cart_pole", "--method", "return-weighted", "--clip-norm", "-1"), "--clip-norm is -1"),
        (("--world", "cart_pole", "--method", "consensus", "--floor", "0.1", "--stop", "0.1"), "exclude each other"),
        (("--world", "cart_pole", "--delta", "0.1"), "delta 0.1 is not below 1 / population"),
        (("FOLDER",), "--population and --world are missing"),
        (("FOLDER", "--population", "50", "--experts", "9"), "--experts has no meaning here"),
        (("LOGS", "--population", "50", "--method", "consensus"), "--world and --present are missing"),
        (("LOGS", "--population", "50", "--rounds", "2"), "--rounds needs --world"),
        (("LOGS", "--population", "50", "--method", "return-weighted"), "--returns is missing"),
        (("LOGS", "--population", "50", "--episodes", "3"), "--episodes has no meaning here"),
        (("LOGS", "--population", "50", "--anchor-bounds", "BOUNDS"), "has the unknown key 'reward'"),
        (("LOGS", "--population", "50", "--anchor-bounds", "WIDE"), "give --anchor-bounds with a box inside"),
        (("LOGS", "--population", "50", "--floor", "0.1"), "--floor has no meaning here"),
        (("LOGS", "--population", "50", "--world", "cart_pole"), "cart_pole is not the world of these logs"),
        (("POLICIES", "--population", "50"), "--world is missing; expected a public simulator, for the policies"),
        (
            ("POLICIES", "--population", "50", "--world", "cart_pole", "--method", "consensus"),
            "--present is missing",
        ),
        (("ONE", "--population", "50"), "all records belong to one unit"),
        (("EPISODES", "--population", "50"), "the logs say nothing of experts: every episode is a unit of its own"),
    ],
)
def test_bad_input_costs_nothing(
    words: tuple[str, ...], message: str, policies: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bounds.json").write_text('{"reward": [0, 1], "observation": [[-5, -5, -1, -5], [5, 5, 1, 5]]}')
    (tmp_path / "wide.json").write_text('{"observation": [[-9, -2], [9, 2]]}')
    places = {
        "BOUNDS": tmp_path / "bounds.json",
        "WIDE": tmp_path / "wide.json",
        "POLICIES": policies,
        "FOLDER": tmp_path,
    }
    for name, options in (("LOGS", {}), ("ONE", {"owners": 1}), ("EPISODES", {"unit": ":episode"})):
        if name in words:
            places[name] = imported(tmp_path / name.lower(), **options)  # type: ignore[arg-type]
    promise = PROMISE[:2] if "--delta" in words else PROMISE
    before = sorted(tmp_path.rglob("*"))
    given = [str(places.get(word, word)) for word in words]
    assert run("learn", *given, *promise, "--out", str(tmp_path / "run")) == 2
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_missing_folder_says_how_to_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("learn", str(tmp_path / "clinic"), "--population", "50", *PROMISE, "--out", str(tmp_path / "run"))
    assert run(*words) == 6
    assert "run `tacit data import` first" in capsys.readouterr().err


def test_continuous_actions_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    Trajectories.from_arrays(
        observations=rng.uniform(-1, 1, (20, 1)),
        actions=rng.uniform(-1, 1, (20, 1)),
        rewards=rng.random(20),
        next_observations=rng.uniform(-1, 1, (20, 1)),
        terminations=np.ones(20, bool),
        unit_ids=np.arange(20) // 2,
        spec=PublicSpec(Box((-2.0,), (2.0,)), Box((-2.0,), (2.0,)), Box((-1.0,), (2.0,)), "declared"),
    ).save(tmp_path / "logs")
    words = ("learn", str(tmp_path / "logs"), "--population", "50", *PROMISE, "--out", str(tmp_path / "run"))
    assert run(*words) == 2
    assert "the actions are continuous" in capsys.readouterr().err
