"""Alignment as a verb of a study: of a file of texts, by a reward and by preferences, without a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.agents.language.small_files import encoder_written, model_written

import tacit
from tacit.agents.language.judges import TextEncoder, TextJudge
from tacit.errors import DataError, PlanError
from tacit.methods.alignment import Steered
from tacit.privacy.vault import isolation

PEOPLE = 12
BUDGET: dict[str, Any] = {"budget_epsilon": 4.0, "budget_sampled": 1}


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Words of the verb, with their public files."""
    monkeypatch.setattr(isolation, "CROWDS", (1, 2, 5))
    model_written(tmp_path / "model.gguf")
    encoder_written(tmp_path)
    texts = ["good film", "very good", "bad film", "very bad"]
    TextJudge.fit(TextEncoder.load(tmp_path), texts, [1, 1, 0, 0]).save(tmp_path / "head.json")
    return {"model": tmp_path / "model.gguf", "epsilon": 4.0, "layer": 0, "rounds": 2, "tokens": 5}


def study_of(folder: Path, header: str, row: str, **more: Any) -> tacit.Study:
    rows = [row.replace("#", str(i)) for i in range(PEOPLE)]
    (folder / "reviews.csv").write_text("\n".join([header, *rows]) + "\n")
    return tacit.Study(folder / "reviews.csv", unit="author", population=PEOPLE, text="text", **BUDGET, **more)


def test_a_reward_steers_without_a_folder(words: dict[str, Any], tmp_path: Path) -> None:
    study = study_of(tmp_path, "author,text", "p#,the film number # of them all")
    with pytest.raises(PlanError, match=r"reward= is missing"):
        study.plan("align", **words)
    with pytest.raises(PlanError, match=r"population= and reward= are missing; expected population=, how many"):
        tacit.Study(tmp_path / "reviews.csv", unit="author", text="text").plan("align", **words)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(PlanError, match="15 contributions are more than the population can fill"):
        study.align(reward=tmp_path, people=6, **words)
    release = study.align(reward=tmp_path, people=4, seed=1, **words)
    assert isinstance(release.value, Steered)
    assert release.certificate.unit["name"] == "author"
    assert release.value.judgement is not None
    assert study.ledger is not None
    assert study.ledger.spent()[0] == pytest.approx(4.0, rel=1e-3)
    new = {path.name for path in tmp_path.iterdir()} - set(before)
    assert {name for name in new if "ledger" not in name} == set()


def test_preferences_steer_without_a_reward(words: dict[str, Any], tmp_path: Path) -> None:
    study = study_of(tmp_path, "author,text,one,other", "p#,ask #,good film of it,sad bad film", simulated=True)
    more = {**words, "prompt_tokens": 4, "step": 9.0}
    with pytest.raises(PlanError, match="both columns of a pair, or both of a rating"):
        study.plan("align", chosen="one", **more)
    release = study.align(chosen="one", rejected="other", **more)
    assert release.certificate.simulated
    assert np.diff(release.value.iterates, axis=0).any(axis=1).all()
    assert release.value.judgement is not None


def test_texts_have_no_columns_for_other_verbs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no records"):
        study_of(tmp_path, "author,text", "p#,a").plan("improve", epsilon=1.0, gamma=1.0, horizon=2)


def test_texts_are_read_as_their_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("author;text\np1;\u00e9t\u00e9\n", encoding="cp1252")
    (tmp_path / "study.toml").write_text(
        'records = "a.csv"\nunit = "author"\npopulation = 60\nbudget_epsilon = 4.0\nbudget_sampled = 1\n[reading]\n'
        'text = "text"\nseparator = ";"\nencoding = "cp1252"\n'
    )
    texts = tacit.Study.open(tmp_path / "study.toml").curator.source.texts
    assert texts is not None
    assert texts.rows() == [("p1", ("\u00e9t\u00e9",))]
    with pytest.raises(DataError, match="decimal= has no meaning for such records"):
        study_of(tmp_path, "author,text", "p#,a", decimal=",")
