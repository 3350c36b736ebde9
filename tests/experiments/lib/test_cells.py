"""A method of one's own in a cell of every paper's table, small; the synthesizer is that of docs/own-method.md."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from experiments.lib.store import ROOT

from experiments import __main__ as listing
from experiments.dppg import table1 as dppg
from experiments.experts import figure3 as experts
from experiments.gpope import figure1 as gpope
from experiments.gpope import ope_methods
from experiments.lib import cell
from experiments.pategail import table1 as pategail
from experiments.privorl import table1 as privorl
from tacit import off_policy_evaluation as ope
from tacit.methods.mobility.baselines import BaselinePlan, fit_replicates
from tacit.methods.synthesis.baselines import mst
from tacit.methods.synthesis.discretisation import Discretisation

PAGE = (ROOT / "docs" / "own-method.md").read_text(encoding="utf-8")
SYNTHESIZER = next(code for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S) if "def fit(task):" in code)
LEARNER = """
import numpy as np

def fit(task):
    rows = task.meet(lambda seen, generator: generator.integers(2, size=len(seen)), 3)
    assert rows["mask"].shape == (3, task.horizon)
    return lambda seen, generator: np.zeros(len(seen), int)
"""
ESTIMATOR = """
import numpy as np

def fit(task):
    assert len(set(task.rows["unit_ids"])) == task.unit.population == 100
    return np.full(len(task.states), 0.5)
"""
SIMULATOR = """
import numpy as np

def fit(task):
    assert set(task.person) == set(range(30))
    return np.repeat(task.cells[:1, :1], task.count, axis=0).repeat(48, axis=1)
"""
CLONE = """
import numpy as np

def fit(task):
    most = np.bincount(task.rows["actions"]).argmax()
    return lambda seen: np.full(len(seen), most)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `mine.py` lies, as for a user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path / "mine.py"


@pytest.mark.parametrize(
    ("entry", "words", "code", "measure"),
    [
        (privorl, ["--maze", "umaze", "--synthesizer"], SYNTHESIZER, "return"),
        (dppg, ["--task", "CartPole", "--learner"], LEARNER, "return"),
        (gpope, ["--domain", "chain", "--estimator"], ESTIMATOR, "rmse"),
        (pategail, ["--people", "1000", "--epsilon", "2", "--simulator"], SIMULATOR, "SEQ"),
        (experts, ["--world", "cart_pole", "--experts", "good", "--learner"], CLONE, "return"),
    ],
    ids=["privorl", "dppg", "gpope", "pategail", "experts"],
)
def test_a_method_of_ones_own_is_judged(
    entry: ModuleType, words: list[str], code: str, measure: str, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine.write_text(code)
    kept = mine.with_name("kept.json")
    found = entry.main([*words, "mine:fit", "--quick", "--keep", str(kept)])
    assert len(found[measure]) == 1
    assert np.isfinite(found[measure][0])
    assert json.loads(kept.read_text())["values"] == found
    printed = capsys.readouterr().out
    assert "| mine:fit | " in printed
    assert "compare with nothing" in printed


def test_the_error_of_a_constant_is_that_of_the_chain(mine: Path) -> None:
    mine.write_text(ESTIMATOR)
    truth = gpope.DOMAINS["chain"][0]().yardstick.truth
    found = gpope.main(["--estimator", "mine:fit", "--quick"])
    assert found["rmse"] == [pytest.approx(np.sqrt(np.mean((truth - 0.5) ** 2)))]


def test_known_lines_of_a_cell_stand_beside_it() -> None:
    lines = {line.name: line for line in privorl.others("umaze", "td3_bc_long", 1.0)}
    assert lines["PrivORL-n, as printed"].cells == {"return": "30.6"}
    assert np.mean(lines["**tacit**"].cells["return"]) == pytest.approx(83.4, abs=0.05)
    assert "PrivORL-n, as printed" not in {line.name for line in privorl.others("umaze", "td3_bc_long", 3.0)}
    assert any(line.name == "clone votes" for line in experts.others("hiv", "good", 1.0))
    assert any(
        line.name == "residual return regression" for line in gpope.others("chain", gpope.Setting(1_000, 1.0), ["rmse"])
    )
    assert any(line.name == "ours" for line in dppg.others(dppg.lines()[0], 1.0))
    assert any("as printed" in line.name for line in pategail.others(83, 2.0))


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("def fit(task):\n    return {'actions': []}\n", "your method returned no table"),
        ("def other(task):\n    return None\n", "mine:fit: not found"),
        ("fit = 3\n", "mine:fit: is no function"),
    ],
)
def test_a_method_that_does_not_fit_is_refused_in_a_sentence(code: str, sentence: str, mine: Path) -> None:
    mine.write_text(code)
    with pytest.raises(SystemExit, match=sentence):
        privorl.main(["--synthesizer", "mine:fit", "--quick"])


def test_nobody_meets_more_people_than_ours() -> None:
    line = dppg.small(dppg.lines()[0])
    task = dppg.Task(line, 1.0, 0)
    with pytest.raises(SystemExit, match="ours meets 24"):
        task.meet(lambda seen, generator: np.zeros(len(seen), int), 25)


def test_a_cell_prints_means_with_their_intervals_and_what_others_print(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine.write_text("def fit(task):\n    return task\n")
    options = cell.parser(None, "method").parse_args(["--method", "mine:fit", "--runs", "2"])
    others = [cell.Line("theirs", {"return": "3.0"}, "the paper")]
    one = cell.Cell("A cell", ("return",), lambda seed: seed, lambda task, made: {"return": made + 0.5}, (1, 2), others)
    assert cell.run(one, options) == {"return": [1.5, 2.5]}
    printed = capsys.readouterr().out
    assert "| mine:fit | 2.0 ± 6.4 | seeds 1, 2; epsilon by its own word |\n| theirs | 3.0 | the paper |" in printed
    assert "The first seed says what each costs." in printed


def test_papers_and_their_experiments_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    listing.main([])
    shown = capsys.readouterr().out
    for paper, (page, words) in listing.PAPERS.items():
        assert (ROOT / page).is_file()
        assert (ROOT / "experiments" / paper / f"{words.split()[0]}.py").is_file()
        assert f"python -m experiments.{paper}.{words}" in shown
    listing.main(["gpope"])
    assert (
        "python -m experiments.gpope.gpope_chain  # 44 rows. Private values of the 40-state chain"
        in capsys.readouterr().out
    )


def test_tasks_give_their_records_behind_a_vault() -> None:
    chain = gpope.Task(gpope.DOMAINS["chain"][0](), gpope.Setting(200, 1.0), 1)
    plan = ope_methods.residual(chain.domain).calibrate(unit=chain.unit, epsilon=chain.epsilon, delta=chain.delta)
    with chain.vault(plan) as vault:
        value = ope.fit(plan, vault, chain.domain.policy)
    assert value.certificate.verify().epsilon <= 1.0
    assert gpope.judge(chain, value.value.values(chain.states))["rmse"] < 0.5

    umaze = privorl.Task(privorl.Maze("umaze", 5_000, 5_000), 1.0, 10)
    cut = Discretisation(umaze.spec, 8)
    rows = mst.MstPlan(discretisation=cut).calibrate(unit=umaze.unit, epsilon=umaze.epsilon, delta=umaze.delta)
    with umaze.vault(rows) as vault:
        assert mst.fit(rows, vault, seed=0).certificate.verify().epsilon <= 1.0

    city = pategail.Task(pategail.world(30), 2.0, 0)
    days = BaselinePlan(model="epr").calibrate(unit=city.unit, epsilon=city.epsilon, delta=city.delta)
    with city.vault(days) as vault:
        assert fit_replicates(days, vault, grid=city.grid)
