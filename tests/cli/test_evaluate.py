"""`tacit evaluate`: the promise comes first, the answer is right, the budget holds, and nothing private gets out."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.private_files import open_to_others

from stored_pages import charts
from tacit import hub
from tacit.agents.features import OneHot
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.cli import main
from tacit.data.store import read_spec
from tacit.data.trajectories import Trajectories
from tacit.envs.serving import SimulatedUsers
from tacit.errors import MechanismError
from tacit.evaluation.letter import FILES
from tacit.hub import onnx_graph
from tacit.methods import experts, off_policy_evaluation, policy_gradient
from tacit.methods.off_policy_evaluation import Estimator, Evaluation, OverlapPlan
from tacit.privacy.certificate.certificate import Certificate, Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.vault.user_vault import UserVault
from tacit.privacy.vault.vault import Vault
from tacit.study.policies import resolve_policy
from tacit.units import Unit
from tacit_worlds.chain import Chain, values
from tacit_worlds.chain import spec as chain_spec

CANARY = "Ursula-4711"
TRUTH = float(values().mean())
"""A person starts at each state but the last with the same probability."""
PROMISE = (
    *("--unit", "person", "--relation", "add_or_remove", "--population", "400", "--epsilon", "2", "--delta", "1e-4"),
    *("--gamma", "0.99", "--horizon", "160", "--range", "0", "1"),
    *("--budget-epsilon", "2", "--budget-sampled", "1"),
)
USERS_MODULE = """
import numpy as np

def likes_one(states):
    return np.tile([0.1, 0.9], (len(states), 1))

def three(states):
    return np.full((len(states), 3), 1 / 3)

def fails(states):
    raise ValueError("states")

def ramp(states):
    return states[:, None] / 39

def flat(states):
    return states / 39
"""


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulated records of 400 people on the chain."""
    folder = tmp_path_factory.mktemp("chain") / "records"
    assert main(["data", "chain", "--people", "400", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a user's module, whose name no other test has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "walkers.py").write_text(USERS_MODULE)
    return tmp_path


def evaluate(data: Path, folder: Path, *words: str) -> int:
    ledger = () if "--ledger" in words else ("--ledger", str(folder / "ledger"))
    return main(["evaluate", str(data), "--out", str(folder / "run"), *PROMISE, *ledger, *words])


def write_visits(path: Path, spec: Path, **changes: Any) -> None:
    """Visits of invented patients: two numbers seen, two actions, propensities; the ids are canaries."""
    declared = {
        "observation": {"kind": "box", "low": [0.0, 0.0], "high": [200.0, 100.0]},
        "action": {"kind": "discrete", "n": 2},
        "reward": {"kind": "box", "low": [-1.0], "high": [1.0]},
        "source": "physics",
        "terminals": True,
        "difference": None,
        "propensities": True,
        **changes,
    }
    spec.write_text(json.dumps(declared))
    generator = np.random.default_rng(0)
    one = ["0", "1"] if declared["observation"]["kind"] == "box" else [""]
    names = [f"{stem}{'_' if k else ''}{k}" for stem in ("observation", "next_observation") for k in one]
    continuous = declared["action"]["kind"] == "box"
    names += ["action_0" if continuous else "action"]
    names += ["propensity"] if declared["propensities"] else []
    lines = [",".join(["patient", "reward", "termination", *names])]
    for person in range(60):
        for visit in range(3):
            cells = [f"{v:.4f}" for v in generator.uniform(20, 90, 4)]
            cells += [str(visit % 2)] + (["0.5"] if declared["propensities"] else [])
            lines.append(",".join([f"{CANARY}-{person}", "0.5", str(visit == 2), *cells]))
    path.write_text("\n".join(lines) + "\n")


def imported(folder: Path, **changes: Any) -> Path:
    """A folder of imported private records."""
    write_visits(folder / "visits.csv", folder / "spec.json", **changes)
    words = ["data", "import", str(folder / "visits.csv"), "--unit", "patient", "--spec", str(folder / "spec.json")]
    assert main([*words, "--out", str(folder / "visits")]) == 0
    return folder / "visits"


def written(out: str, run: Path) -> tuple[str, str, str]:
    """Terminal, certificate and report."""
    return out, (run / "certificate.md").read_text(), (run / "report.html").read_text()


def test_a_simulated_chain_has_propensities_and_is_declared_simulated(
    chain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = Trajectories.open(chain)
    assert data.simulated
    assert data.counts()["units"] == 400
    actions, chances = data.columns["actions"], data.columns["propensities"]
    np.testing.assert_allclose(chances, np.where(actions == 1, 0.55, 0.45), rtol=1e-6)
    assert main(["data", "chain", "--people", "0", "--out", str(tmp_path / "none")]) == 2
    assert "there are no people" in capsys.readouterr().err


def test_a_dry_run_prints_the_promise_and_reads_what_is_public(
    chain: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "data").mkdir()
    shutil.copy(chain / "spec.json", here / "data")
    os.mkfifo(here / "data" / "rewards.npy")  # opening it would block for ever
    for more in ((), ("--features", "walkers:ramp"), ("--method", "wpdis")):
        assert main(["evaluate", "data", "--out", "run", *PROMISE, *more, "--dry-run"]) == 0
        out = capsys.readouterr().out
        assert "promises (2, 0.0001)-differential privacy to every person." in out
        assert "one person adds to one sum a vector of norm at most 1 made from its first 160 rows" in out
        assert out.endswith("Dry run: no private record was read and nothing was spent.\n")
    assert sorted(path.name for path in here.iterdir() if path.name != "__pycache__") == ["data", "walkers.py"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--policy", "missing.safetensors"), 6, "missing.safetensors: there is no such file"),
        (("--policy", "missing.onnx"), 6, "missing.onnx: there is no such file"),
        (("--policy", "pole/policy"), 6, "pole/policy: there is no such file"),
        (("--policy", "."), 6, "there is no policy in this folder"),
        (("--policy", "q.pt"), 6, "it is of a kind that can run code when it is read"),
        (("--policy", "greedy"), 2, "'greedy' is of no known form"),
        (("--policy", "walkers:missing"), 2, "'walkers:missing' cannot be imported"),
        (
            ("--policy", "uniform", "--behaviour", "nobody.onnx", "--behaviour-source", "declared"),
            6,
            "nobody.onnx: there is no such file",
        ),
        (("--features", "nowhere:phi"), 2, "'nowhere:phi' cannot be imported"),
    ],
)
def test_a_dry_run_names_policies_and_features_that_are_not_there(
    words: tuple[str, ...], code: int, message: str, chain: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(chain), "--out", "run", *PROMISE, *words, "--dry-run"]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert "promises" not in captured.out


def test_the_chain_is_valued_and_its_report_can_be_made_again(
    chain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(chain, tmp_path) == 0
    out = capsys.readouterr().out
    assert out.index("promises (2, 0.0001)") < out.index("Value ")
    assert "95 % interval: " in out
    run = tmp_path / "run"
    figures = [re.findall("catches at most ([0-9.]+) % of true", text) for text in written(out, run)]
    assert figures == [figures[0]] * 3  # one figure for the best attack, in the terminal, the certificate, the report
    assert 5.0 < float(figures[0][0]) < 100 * (0.05 * np.exp(2) + 1e-4)  # the Gaussian's own is below the general bound
    names = {"run.json", "report.html", "certificate.json", "certificate.md", *FILES.values(), "evaluation.json"}
    assert {path.name for path in run.iterdir()} == names
    evaluation = Evaluation.from_json(json.loads((run / "evaluation.json").read_text()))
    assert evaluation.value is not None
    assert abs(evaluation.value - TRUTH) < 0.08
    assert np.sqrt(np.mean((evaluation.values(np.arange(39)) - values()) ** 2)) < 0.15
    assert Certificate.load(run / "certificate.json").verify().epsilon <= 2.0
    costs = dict(json.loads((run / "run.json").read_text())["report"]["costs"])
    assert "Peak memory" in costs
    assert "0 s" not in costs.values()
    before = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").read_bytes() == before


@pytest.mark.parametrize("method", ["residual", "pdis", "wpdis", "fqe", "dr", "gpope", "ssp"])
def test_every_method_with_a_value_has_the_truth_near_its_interval(
    method: str, chain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--clip-norm", "1") if method == "ssp" else ()
    assert evaluate(chain, tmp_path, "--method", method, "--policy", "uniform", "--level", "0.99", *more) == 0
    evaluation = Evaluation.from_json(json.loads((tmp_path / "run" / "evaluation.json").read_text()))
    assert evaluation.interval is not None
    assert evaluation.interval.level == 0.99
    low, high = evaluation.interval.low, evaluation.interval.high
    assert abs(TRUTH - (low + high) / 2) <= high - low  # with room: the noise is real and differs each time
    assert "99 % interval" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["lsw", "lsl"])
def test_a_method_without_a_value_says_so(
    method: str, chain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(chain, tmp_path, "--method", method) == 0
    out = capsys.readouterr().out
    assert "Value    none for the start of an episode" in out
    assert "estimates the values of states alone" in out
    assert "What each state is worth" in (tmp_path / "run" / "report.html").read_text()


def test_policies_and_features_of_the_users_own(chain: Path, here: Path) -> None:
    words = ("--policy", "walkers:likes_one", "--features", "walkers:ramp")
    assert evaluate(chain, here, *words) == 0
    evaluation = Evaluation.from_json(json.loads((here / "run" / "evaluation.json").read_text()))
    assert evaluation.features is not None
    assert evaluation.features.size == 2
    certificate = Certificate.load(here / "run" / "certificate.json")
    assert any("walkers:likes_one" in line for line in certificate.lines("assumptions"))
    assert any("walkers:ramp" in line for line in certificate.lines("assumptions"))


LEANING = Policy(OneHot(40), Mlp((40, 2), gain=0.0), Categorical(2))
"""A policy of the chain whose probabilities are the parameters' softmax: 0.3 and 0.7 in every state."""
THETA = np.concatenate([np.zeros(80), np.log([0.3, 0.7])]).astype(np.float32)[None]


def exported(folder: Path) -> str:
    path = folder / "policy.onnx"
    onnx_graph.write(LEANING, THETA[0], path, ())
    return str(path)


def saved(folder: Path) -> str:
    """What `tacit train` writes of such a policy; its people are those of another dataset."""
    plan = policy_gradient.PolicyGradientPlan(rounds=1, users=3, horizon=2, reward_rate=1.0)
    unit = Unit("person", "add_or_remove", 100)
    users = SimulatedUsers(Chain(), chain_spec(), horizon=2, seed=0)
    (folder / "other").mkdir()
    with (
        Ledger(folder / "other" / "ledger", unit, epsilon=4.0, delta=1e-4, composition=SUM) as ledger,
        Register(folder / "other" / "register", key=folder / "key") as register,
    ):
        vault = UserVault(users, ledger, register)
        release = policy_gradient.fit(
            plan.calibrate(unit=unit, epsilon=4.0, delta=1e-4), vault, LEANING, start=THETA[0]
        )
    hub.save(Release(dataclasses.replace(release.value, last=THETA), release.certificate), folder / "policy")
    return str(folder / "policy")


@pytest.mark.parametrize("kind", [exported, saved])
def test_a_policy_of_tacits_own_is_valued_by_its_own_probabilities(
    kind: Callable[[Path], str], chain: Path, here: Path
) -> None:
    (here / "walkers.py").write_text(
        "import numpy as np\n\ndef leans(s):\n    return np.tile([0.3, 0.7], (len(s), 1))\n"
    )
    words = kind(here)
    spec = read_spec(chain)[0]
    found = resolve_policy(words, spec, "--policy", None)
    np.testing.assert_allclose(found.probabilities(np.arange(40)), [[0.3, 0.7]] * 40, atol=1e-6)
    elsewhere = Path(words).is_dir()  # its certificate names another ledger: whose people taught it is declared
    assert not elsewhere or evaluate(chain, here, "--policy", words, "--method", "wpdis") == 2
    declared = ("--policy-from", "public") if elsewhere else ()
    assert evaluate(chain, here, "--policy", words, "--method", "wpdis", *declared) == 0
    assert main(["evaluate", str(chain), "--out", "dry", *PROMISE, "--policy", words, "--dry-run"]) == 0
    certificate = Certificate.load(here / "run" / "certificate.json")
    assert any("evaluated: a public Network policy over 2 actions" in line for line in certificate.lines("assumptions"))


def test_a_policy_that_the_same_ledger_released_is_named_as_such(chain: Path, here: Path) -> None:
    """Experts taught it from these very records: nobody may say that it was fixed without them."""
    unit = Unit("person", "add_or_remove", 400)
    with Ledger(here / "ledger", unit, epsilon=4.0, delta=2e-4, composition=SUM) as ledger:
        vault = Vault(Trajectories.open(chain), ledger)
        plan = experts.ReturnWeighted(policy=LEANING, steps=2, rows=4).calibrate(unit=unit, epsilon=2.0, delta=1e-4)
        hub.save(experts.fit(plan, vault), here / "policy")
    assert evaluate(chain, here, "--policy", "policy", "--method", "wpdis", "--budget-epsilon", "4") == 0
    certificate = Certificate.load(here / "run" / "certificate.json")
    assert "evaluated: a policy released under this ledger, taught by everybody" in certificate.lines("assumptions")
    assert Evaluation.from_json(json.loads((here / "run" / "evaluation.json").read_text())).interval is None
    assert not any(
        "fixed without these records" in line and "evaluated" in line for line in certificate.lines("assumptions")
    )
    assert "a policy released under this ledger" in (here / "run" / "report.html").read_text()


def test_a_policy_is_declared_once_the_ledger_holds_a_release(
    chain: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    budget = ("--budget-epsilon", "20", "--budget-delta", "2e-3", "--method", "wpdis")

    def run(name: str, *words: str) -> tuple[int, Evaluation | None]:
        code = main(["evaluate", str(chain), "--out", str(here / name), *PROMISE, *budget, *words])
        found = here / name / "evaluation.json"
        return code, Evaluation.from_json(json.loads(found.read_text())) if found.exists() else None

    ledger = ("--ledger", str(here / "ledger"))
    assert run("own", *ledger)[0] == 0
    capsys.readouterr()
    assert run("undeclared", *ledger, "--policy", "uniform") == (2, None)
    assert "where the policy comes from is not declared" in capsys.readouterr().err
    assert run("undeclared", *ledger, "--policy", "uniform", "--dry-run") == (2, None)
    assert "where the policy comes from is not declared" in capsys.readouterr().err
    declared = ("--policy", "uniform", "--policy-from", "public")
    assert run("planned", *ledger, *declared, "--dry-run") == (0, None)
    assert run("planned", *ledger, *declared, "--dry-run", "--epsilon", "100") == (3, None)
    assert "does not cover this evaluation" in capsys.readouterr().err
    assert len(Ledger.read(here / "ledger").plans()) == 1
    assert run("declared", *ledger, "--policy-from", "public") == (2, None)  # the records' own comes from nowhere

    code, public = run("public", *ledger, "--policy", "uniform", "--policy-from", "public")
    assert code == 0
    assert public is not None
    assert public.interval is not None
    assert public.interval.level == pytest.approx(0.975)
    shown = capsys.readouterr().out
    assert "97.5 % interval" in shown
    assert "1 evaluation on the same people came before" in shown
    assert "1 evaluation on the same people came before" in (here / "public" / "report.html").read_text()

    plan = Ledger.read(here / "ledger").plans()[0].id
    for name, origin in (("made", plan), ("made again", str(here / "own"))):
        code, made = run(name, *ledger, "--policy", "walkers:likes_one", "--policy-from", origin, "--epsilon", "1.5")
        assert (code, made and made.interval) == (0 if name == "made" else 3, None)  # the second is the same plan
    certificate = Certificate.load(here / "made" / "certificate.json")
    assert any(f"made from the release {plan} of this ledger" in line for line in certificate.lines("assumptions"))
    assert "everybody taught the policy" in (here / "made" / "report.html").read_text()
    assert run("elsewhere", *ledger, "--policy", "uniform", "--policy-from", "elsewhere")[0] == 2


def test_a_policy_that_fold_0_taught_is_judged_by_fold_1(
    chain: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An evaluation of fold 0 stands for whatever learns from it; the folder of the policy holds its certificate."""
    unit = Unit("person", "add_or_remove", 400)
    with Ledger(here / "ledger", unit, epsilon=2.0, delta=1e-4, composition=SUM) as ledger:
        problem = off_policy_evaluation.Problem(gamma=0.99, horizon=160, return_range=(0.0, 1.0))
        plan = off_policy_evaluation.ImportanceSampling(problem=problem, fold=0)
        vault = Vault(Trajectories.open(chain), ledger)
        behaviour = off_policy_evaluation.Behaviour()
        taught = off_policy_evaluation.fit(plan.calibrate(unit=unit, epsilon=1.5, delta=1e-4), vault, behaviour)
        assert ledger.spent(1) == (0.0, 0.0)
    words = ("--policy", "uniform", "--policy-from", taught.certificate.plan_id, "--method", "wpdis")
    assert evaluate(chain, here, *words) == 0
    assert "Judged   by fold 1 of the persons, who taught nothing of the policy" in capsys.readouterr().out
    own = Certificate.load(here / "run" / "certificate.json")
    assert own.verify().epsilon == pytest.approx(2.0, rel=1e-3)
    assert own.total["epsilon"] == pytest.approx(2.0, rel=1e-3)  # of fold 1: fold 0 has paid 1.5 of its own
    assert Evaluation.from_json(json.loads((here / "run" / "evaluation.json").read_text())).interval is not None
    assert main(["ledger", "show", str(here / "ledger")]) == 0
    shown = capsys.readouterr().out
    folds = re.findall(r"of fold (\d) \((\w+)\): \(([\d.]+), 0.0001\)", shown)
    assert [(fold, name, round(float(epsilon), 3)) for fold, name, epsilon in folds] == [
        ("0", "learning", 1.5),
        ("1", "judging", 2.0),
    ]
    assert "charged to fold 1, taught by fold 1" in shown


def test_a_network_and_a_declared_behaviour_policy(chain: Path, tmp_path: Path) -> None:
    weights = {"0.weight": np.zeros((4, 40), np.float32), "0.bias": np.zeros(4, np.float32)}
    weights |= {"2.weight": np.zeros((2, 4), np.float32), "2.bias": np.log([0.3, 0.7]).astype(np.float32)}
    save_file(weights, tmp_path / "policy.safetensors")
    words = ("--policy", str(tmp_path / "policy.safetensors"), "--method", "wpdis")
    known = ("--behaviour", "uniform", "--behaviour-source", "environment")
    assert evaluate(chain, tmp_path, *words, *known) == 0
    certificate = Certificate.load(tmp_path / "run" / "certificate.json")
    assert any("the behaviour policy is a public Uniform policy" in line for line in certificate.lines("assumptions"))


@pytest.mark.parametrize(
    ("words", "extent"),
    [
        ((), "in 5 % of the visits"),
        (("--follow", "0.2", "--method", "wpdis"), "in 20 % of the visits"),
        (("--follow-visits", "2"), "in the first 2 visits"),
        (("--follow", "0"), None),
        (("--method", "gpope"), None),
    ],
)
def test_another_policy_is_compared_with_practice(
    words: tuple[str, ...], extent: str | None, chain: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert evaluate(chain, here, "--policy", "walkers:likes_one", *words) == 0
    said, found = capsys.readouterr().out, Evaluation.from_json(json.loads((here / "run/evaluation.json").read_text()))
    page = (here / "run" / "report.html").read_text()
    if extent is None:
        assert found.difference is None
        assert "Practice" not in said
        assert "Difference to today" not in page
    else:
        assert found.difference.extent == extent
        assert f"Practice following it {extent} changes an episode by" in said
        assert "Difference to today" in page


def test_private_records_leave_nothing_private_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    visits = imported(tmp_path)
    words = ["evaluate", str(visits), "--out", str(tmp_path / "run"), "--unit", "patient"]
    words += ["--relation", "replace_one", "--population", "500", "--epsilon", "1", "--delta", "1e-4"]
    words += ["--gamma", "0.9", "--horizon", "3", "--policy", "uniform", "--features", "fourier:1"]
    words += ["--budget-epsilon", "1", "--budget-sampled", "1"]
    assert main(words) == 0
    captured = capsys.readouterr()
    assert CANARY not in captured.out + captured.err
    assert not (tmp_path / "run" / "private").exists()
    for path in (tmp_path / "run").rglob("*"):
        assert CANARY.encode() not in path.read_bytes(), path.name
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["report"]
    assert stored["costs"] == []  # times could depend on records
    assert "Value over the public bounds" in charts(tmp_path / "run", "states")

    # The ledger lies beside the data; the same plan cannot run twice, and another one is beyond the budget.
    assert Ledger.read(tmp_path / "visits.ledger").spent()[0] == pytest.approx(1.0, rel=1e-3)
    words[3] = str(tmp_path / "again")
    assert main(words) == 3
    assert "this very evaluation was begun before and is paid for" in capsys.readouterr().err
    assert main([*words[:3], str(tmp_path / "more"), *words[4:], "--level", "0.9"]) == 3
    assert "budget" in capsys.readouterr().err


def test_overlap_shares_the_budget_and_has_a_certificate_of_its_own(
    chain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(chain, tmp_path, "--policy", "uniform", "--method", "wpdis", "--overlap", "0.3") == 0
    assert "Before it, a release of its own from the same budget:" in capsys.readouterr().out
    run = tmp_path / "run"
    own, other = (Certificate.load(run / name) for name in ("certificate.json", "overlap-certificate.json"))
    assert own.verify().epsilon == pytest.approx(1.4, rel=1e-3)
    assert other.verify().epsilon == pytest.approx(0.6, rel=1e-3)
    assert own.total["epsilon"] == pytest.approx(2.0, rel=1e-3)  # the whole budget, both releases
    page = (run / "report.html").read_text()
    assert "How alike the two policies are" in page
    assert "tacit certificate verify overlap-certificate.json" in page
    assert json.loads((run / "overlap.json").read_text())["diagnostics"]["log10_weights"]["shares"]


def test_diagnostics_without_privacy_stay_with_the_curator(
    chain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(chain, tmp_path, "--policy", "uniform", "--nonprivate-diagnostics") == 0
    out = capsys.readouterr().out
    assert "NOT PRIVATE" in out
    assert "Publishing them voids the promise of this ledger" in out
    assert open_to_others(tmp_path / "run" / "private") == []
    (found,) = (tmp_path / "run" / "private").iterdir()
    written = json.loads(found.read_text())
    assert "do not publish" in written["banner"]
    assert 0.98 < written["result"]["mean_ratio"] < 1.02
    for name in ("report.html", "evaluation.json", "certificate.json", "run.json"):
        assert "mspbe" not in (tmp_path / "run" / name).read_text(), name
    entries = Ledger.read(tmp_path / "ledger").entries()
    assert [entry.payload["text"] for entry in entries if entry.kind == "note"] == ["diagnostics of an evaluation"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--population", "1"), "the public population is missing or below 2"),
        (("--delta", "0.01"), "delta 0.01 is not below 1 / population = 0.0025"),
        (("--epsilon", "-1"), "epsilon is -1.0; expected a finite number > 0"),
        (("--gamma", "1.5"), "gamma is 1.5; expected a number in [0, 1]"),
        (("--horizon", "0"), "horizon is 0; expected a whole number >= 1"),
        (("--range", "0", "1"), "--range stands twice; expected each option once"),
        (("--level", "1"), "level is 1.0"),
        (("--overlap", "0.5"), "--overlap has no meaning here"),
        (("--overlap", "1", "--policy", "uniform"), "overlap is 1.0; expected a share of epsilon and delta"),
        (("--find-range",), "--find-range has no meaning here"),
        (("--method", "lsw", "--clip-norm", "1"), "--clip-norm has no meaning here"),
        (("--method", "ssp"), "--clip-norm is missing"),
        (("--method", "pdis", "--features", "one-hot"), "--features has no meaning here"),
        (("--method", "lsl", "--policy", "uniform"), "--method lsl does not evaluate this policy"),
        (("--method", "fqe"), "--method fqe does not evaluate this policy"),
        (("--features", "wavelets"), "'wavelets' is of no known form"),
        (("--features", "fourier:high"), "'high' is of no known form"),
        (("--features", "one-hot:0"), "n is 0; expected a whole number >= 1"),
        (("--features", "walkers:flat"), "does not fit the observations; expected numbers [N, n]"),
        (("--features", "walkers:missing"), "'walkers:missing' cannot be imported"),
        (("--policy", "greedy"), "'greedy' is of no known form"),
        (("--policy", "walkers.safetensors"), "it is damaged, or no state dict of numbered linear layers"),
        (("--policy", "nobody.safetensors"), "nobody.safetensors: there is no such file"),
        (("--policy", "uniform", "--activation", "tanh"), "--activation has no meaning here"),
        (("--policy", "walkers:three"), "the policy does not return distributions over the actions"),
        (("--policy", "walkers:fails"), "does not fit the observations (ValueError); expected a function"),
        (("--behaviour", "uniform"), "--behaviour has no meaning here"),
        (("--behaviour-source", "physics"), "--behaviour-source has no meaning here"),
        (("--policy", "uniform", "--behaviour", "uniform"), "--behaviour-source is missing"),
        (("--follow", "0.1"), "--follow or --follow-visits has no meaning here"),
        (("--policy", "uniform", "--follow", "1.5"), "share is 1.5; expected a number in (0, 1]"),
        (("--policy", "uniform", "--follow", "0", "--follow-visits", "2"), "--follow-visits has no meaning here"),
        (("--policy", "uniform", "--behaviour", "model", "--follow", "0.1"), "--follow-visits has no meaning here"),
    ],
)
def test_bad_input_costs_nothing(
    words: tuple[str, ...], message: str, chain: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "walkers.safetensors").write_bytes(b"no policy")
    capsys.readouterr()
    assert evaluate(chain, here, *words) in (2, 6)
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("tacit: ")
    assert message in error
    assert not (here / "run").exists()
    assert not (here / "ledger").exists()


def test_layers_without_numbers_are_refused_and_the_activation_counts(
    chain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "policy.safetensors"
    layers = {"0": np.full((1, 40), 2.0), "2": np.array([[1.0], [0.0]])}  # logits (activation(2), 0) in every state
    weights = {f"{name}.weight": weight.astype(np.float32) for name, weight in layers.items()}
    weights |= {f"{name}.bias": np.zeros(len(weight), np.float32) for name, weight in layers.items()}
    names = {"0.weight": "in.weight", "0.bias": "in.bias", "2.weight": "out.weight", "2.bias": "out.bias"}
    save_file({names[name]: tensor for name, tensor in weights.items()}, path)
    assert evaluate(chain, tmp_path, "--policy", str(path)) == 6
    assert "it is damaged, or no state dict of numbered linear layers" in capsys.readouterr().err
    save_file(weights, path)
    spec = read_spec(chain)[0]
    for activation, logit in (("relu", 2.0), (None, 2.0), ("tanh", np.tanh(2.0))):
        found = resolve_policy(str(path), spec, "--policy", activation).probabilities(np.arange(40))  # type: ignore[arg-type]
        np.testing.assert_allclose(found[:, 0], 1 / (1 + np.exp(-logit)))
    assert evaluate(chain, tmp_path, "--policy", str(path), "--method", "pdis", "--activation", "tanh") == 0


def test_a_network_for_other_actions_or_observations_is_refused(
    chain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for shape, message in (((3, 40), "the policy has 3 actions"), ((2, 7), "does not fit the observations")):
        weights = {"0.weight": np.zeros(shape, np.float32), "0.bias": np.zeros(shape[0], np.float32)}
        save_file(weights, tmp_path / "policy.safetensors")
        assert evaluate(chain, tmp_path, "--policy", str(tmp_path / "policy.safetensors")) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "words", "message"),
    [
        ({"propensities": False}, ("--policy", "uniform"), "the records have no propensities"),
        ({}, ("--features", "one-hot"), "one-hot features need a discrete observation"),
        (
            {"propensities": False, "action": {"kind": "box", "low": [0.0], "high": [1.0]}},
            ("--policy", "uniform"),
            "the actions are continuous",
        ),
        ({}, ("--population", "20"), "the data hold more patients than the declared population"),
        ({}, ("--method", "lsw"), "cells is None"),
    ],
)
def test_records_that_do_not_fit_are_refused(
    changes: dict[str, Any],
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    visits = imported(tmp_path, **changes)
    line = ["evaluate", str(visits), "--out", str(tmp_path / "run"), *PROMISE, "--unit", "patient", *words]
    assert main(line) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert CANARY not in captured.out + captured.err
    assert not (tmp_path / "run").exists()


def test_fitted_q_takes_records_without_propensities(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    visits = imported(tmp_path, propensities=False)
    line = ["evaluate", str(visits), "--out", str(tmp_path / "run"), *PROMISE, "--unit", "patient", "--yes"]
    line += ["--policy", "uniform", "--method", "fqe", "--features", "fourier:1", "--nonprivate-diagnostics"]
    assert main(line) == 0
    for text in written(capsys.readouterr().out, tmp_path / "run")[::2]:
        assert "There is no interval: the records have no propensities" in text
    assert main(["certificate", "verify", str(tmp_path / "run" / "certificate.json")]) == 0
    looked = json.loads((tmp_path / "run/private/diagnostics-of-an-evaluation.json").read_text())["result"]
    assert set(looked) == {"episodes", "returns_outside_range", "rewards_at_bounds"}


def test_a_private_model_stands_for_the_behaviour_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    visits = imported(tmp_path, propensities=False)
    line = ["evaluate", str(visits), "--out", str(tmp_path / "run"), *PROMISE, "--unit", "patient", "--horizon", "3"]
    line += ["--policy", "uniform", "--method", "wpdis", "--behaviour", "model", "--behaviour-share", "0.4"]
    for slip in (("--overlap", "0.1"), ("--behaviour-source", "physics"), ("--behaviour-features", "one-hot")):
        assert main([*line, *slip]) == 2
    assert main([*line, "--behaviour-features", "fourier:1", "--nonprivate-diagnostics"]) == 0
    out, certificate, report = written(capsys.readouterr().out, tmp_path / "run")
    assert "A model of the behaviour policy gets 40 % of this budget (1 / sigma^2)" in out
    assert "on which 40 % of the budget was spent, stands for the behaviour policy" in out
    assert "such intervals would hold the mean of the clipped returns as this model weighs them" in report
    assert "fitted to these same records with 40 % of the budget" in certificate
    assert main(["certificate", "verify", str(tmp_path / "run" / "certificate.json")]) == 0
    looked = json.loads((tmp_path / "run/private/diagnostics-of-an-evaluation.json").read_text())["result"]
    assert 0.5 < looked["mean_ratio"] < 2.0


def test_the_models_options_need_the_model(chain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(chain, tmp_path, "--policy", "uniform", "--behaviour-share", "0.4") == 2
    assert "--behaviour model" in capsys.readouterr().err
    assert evaluate(chain, tmp_path, "--behaviour", "model") == 2
    assert "another --policy than behaviour" in capsys.readouterr().err
    dry = ("--dry-run", "--policy", "uniform", "--behaviour", "model", "--nonprivate-diagnostics")
    assert main(["evaluate", str(chain), "--out", str(tmp_path / "run"), *PROMISE, *dry]) == 0
    assert "A model of the behaviour policy gets 30 % of this budget" in capsys.readouterr().out


def test_missing_records_are_said_to_be_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(tmp_path / "nowhere", tmp_path) == 6
    assert "there is no such folder; expected a folder that `tacit data`" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_run_has_no_report(chain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(chain, tmp_path, "--method", "pdis") == 0
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "finished": False}))
    assert main(["report", str(tmp_path / "run")]) == 6
    assert "evaluate again into another folder, within the ledger's budget" in capsys.readouterr().err


def test_a_slip_binds_no_ledger_and_takes_no_place(
    chain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(chain, tmp_path, "--population", "30") == 2
    assert "the data hold more persons than the declared population" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.lock"]
    assert (tmp_path / "ledger.lock").read_bytes() == b""
    assert evaluate(chain, tmp_path, "--method", "pdis", "--epsilon", "1") == 0  # the same --out and --ledger
    assert Ledger.read(tmp_path / "ledger").unit.size == 400


def test_a_ledger_that_was_there_before_stays(chain: Path, tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger", Unit("person", "add_or_remove", 30), epsilon=9.0, delta=1e-3, composition=SUM):
        pass
    before = (tmp_path / "ledger").read_bytes()
    assert evaluate(chain, tmp_path, "--population", "30", "--budget-epsilon", "9") == 2
    assert (tmp_path / "ledger").read_bytes() == before
    assert not (tmp_path / "run").exists()


def refusing(error: BaseException, *, charged: bool) -> Callable[..., Any]:
    """A `fit` that fails, before or after it was charged, but for the overlap."""

    real = off_policy_evaluation.fit

    def fit(plan: Estimator, vault: Vault, policy: Any, *, behaviour: Any, origin: Any) -> Any:
        if isinstance(plan, OverlapPlan):
            return real(plan, vault, policy, behaviour=behaviour, origin=origin)
        if charged:
            vault.reserve(plan)
        raise error

    return fit


def test_a_failed_evaluation_takes_no_place_and_a_charge_stays(
    chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = MechanismError("it failed", where="a door", expected="that it works", remedy="mend it")
    (tmp_path / "run").mkdir()  # an empty folder is free, and stays
    with monkeypatch.context() as patched:
        patched.setattr(off_policy_evaluation, "fit", refusing(error, charged=True))
        assert evaluate(chain, tmp_path, "--method", "pdis") == 4
    assert list((tmp_path / "run").iterdir()) == []
    assert len(Ledger.read(tmp_path / "ledger").plans()) == 1


def test_what_a_failed_evaluation_had_released_stays(
    chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = MechanismError("it failed", where="a door", expected="that it works", remedy="mend it")
    monkeypatch.setattr(off_policy_evaluation, "fit", refusing(error, charged=False))
    words = ("--method", "pdis", "--policy", "uniform", "--overlap", "0.3")
    assert evaluate(chain, tmp_path, *words) == 4
    names = {"run.json", "overlap.json", "overlap-certificate.json"}
    assert {path.name for path in (tmp_path / "run").iterdir()} == names
    assert evaluate(chain, tmp_path, *words) == 6
    taken = capsys.readouterr().err.splitlines()[-1]
    assert taken.endswith("expected a new or empty folder; choose another folder.")


@pytest.mark.parametrize("charged", [True, False])
def test_an_interruption_says_whether_something_was_charged(
    charged: bool,
    chain: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(off_policy_evaluation, "fit", refusing(KeyboardInterrupt(), charged=charged))
    assert evaluate(chain, tmp_path, "--method", "pdis") == 130
    ledger = tmp_path / "ledger"
    charge = f"tacit: Interrupted; what was charged stays charged (see tacit ledger show {ledger})."
    assert capsys.readouterr().err.splitlines()[-1] == (charge if charged else "tacit: Interrupted.")
    assert ledger.exists() == charged
    assert not (tmp_path / "run").exists()
