"""`tacit synthesize --method`: every synthesizer keeps the same promises, and options that one has not are refused."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_synthesize import CANARY, PROMISE, SPEC, write_records
from tests.private_files import open_to_others

from stored_pages import blocks, table
from tacit import hub
from tacit.cli import main
from tacit.data.trajectories import Trajectories
from tacit.methods import list_baselines, list_names
from tacit.methods.synthesis.baselines.pate_gan_plan import GanPretraining
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import Ledger
from tacit.study.account import LOOK

METHODS = {
    "mst": ("--bins", "4"),
    "aim": ("--bins", "4"),
    "pgm": (),
    "privsyn": ("--bins", "4"),
    "pate-gan": ("--teachers", "2", "--steps", "3"),
}
"""The baselines, with options that make them small."""
FEW = ("--rows", "40")


def test_every_baseline_has_its_tests() -> None:
    assert {*list_baselines()} == {*METHODS}
    assert {*list_names("synthesize")} == {"privorl", "privorl-j", "people", "structured", "pre-pate-gan", *METHODS}


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Imported records: `visits` and `others` of private patients, `toys` and `more` that are declared simulated."""
    folder = tmp_path_factory.mktemp("imported")
    (folder / "spec.json").write_text(json.dumps(SPEC))
    for seed, (name, words) in enumerate(
        (("visits", ()), ("others", ()), ("toys", ("--simulated",)), ("more", ("--simulated",)))
    ):
        write_records(folder / f"{name}.csv", seed=seed)
        line = ["data", "import", str(folder / f"{name}.csv"), "--unit", "patient", *words]
        assert main([*line, "--spec", str(folder / "spec.json"), "--out", str(folder / name)]) == 0
    return folder


@pytest.fixture
def folders(imported: Path, tmp_path: Path) -> Path:
    """A copy of the imported records, for a test to run on."""
    return shutil.copytree(imported, tmp_path, dirs_exist_ok=True)


def synthesize(folders: Path, data: str, *words: str) -> int:
    return main(["synthesize", str(folders / data), *PROMISE, *FEW, *words, "--out", str(folders / "run")])


@pytest.mark.parametrize(
    "method",
    [pytest.param(name, marks=pytest.mark.slow if name in ("mst", "pgm") else ()) for name in METHODS],  # as aim, 10 s
)
def test_every_method_releases_rows_with_a_certificate(
    method: str, folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if method in ("mst", "aim", "pgm"):
        pytest.importorskip("mbi")
    assert synthesize(folders, "visits", "--method", method, *METHODS[method]) == 0
    captured = capsys.readouterr()
    assert captured.out.index("promises (4, 0.0001)") < captured.out.index("Open ")
    certificate = Certificate.load(folders / "run" / "certificate.json")
    assert certificate.verify().private
    assert 3.5 < certificate.epsilon <= 4.0
    assert Ledger.read(folders / "visits.ledger").spent()[0] == pytest.approx(certificate.epsilon, rel=1e-5)
    report = json.loads((folders / "run" / "run.json").read_text())["report"]
    assert not report["shows_records"]
    assert [name for name, _ in report["costs"]] == ["Released numbers"]  # times could depend on records
    for path in (folders / "run").rglob("*"):
        assert path.is_dir() or CANARY.encode() not in path.read_bytes(), path.name

    value = hub.load(folders / "run" / "model").value
    ours = value.sample_columns(40, seed=0)
    assert set(np.unique(ours["actions"])) <= {0, 1, 2}
    assert main(["sample", "--model", str(folders / "run" / "model"), "--count", "7", "--out", str(folders / "x")]) == 0
    assert Trajectories.open(folders / "x").counts()["transitions"] == 7
    words = ["sample", "--model", str(folders / "run" / "model"), "--count", "7", "--transitions"]
    assert main([*words, "--out", str(folders / "y")]) == 2
    assert "this model draws transitions anyway" in capsys.readouterr().err
    assert synthesize(folders, "visits", "--method", method, *METHODS[method], "--resume") == 0
    assert "The run was finished already." in capsys.readouterr().out


@pytest.mark.parametrize("public", [(), ("--public", "more", "--provenance", "made up")])
def test_structured_tables_with_public_records_and_without(
    public: tuple[str, ...], folders: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders)
    assert synthesize(folders, "visits", "--method", "structured", *public) == 0
    certificate = Certificate.load(folders / "run" / "certificate.json")
    assert certificate.verify().private
    assert ("made up" in (folders / "run" / "certificate.json").read_text()) == bool(public)
    value = hub.load(folders / "run" / "model").value
    assert set(np.unique(value.sample_columns(40, seed=0)["actions"])) <= {0, 1, 2}
    assert main(["sample", "--model", str(folders / "run" / "model"), "--count", "7", "--out", str(folders / "x")]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--method", "privsyn", "--steps", "3"), "--steps has no meaning here"),
        (("--method", "pate-gan", "--bins", "4"), "--bins has no meaning here"),
        (("--method", "pgm", "--bins", "4"), "--bins has no meaning here"),
        (("--bins", "4"), "--bins has no meaning here; expected it with a method that has it, not privorl"),
        (("--teachers", "4"), "--teachers has no meaning here"),
        (("--method", "pgm", "--public", "more", "--provenance", "made up"), "--public has no meaning here"),
        (("--method", "privsyn", "--public", "visits", "--provenance", "made up"), "records are the private ones"),
        (("--method", "privsyn", "--device", "cuda"), "--device has no meaning here"),
        (("--paper", "--steps", "3"), "--steps has no meaning here; expected it with our settings, not --paper"),
        (("--no-match", "--paper"), "--no-match has no meaning here"),
        (("--no-match", "--method", "pate-gan"), "--no-match has no meaning here"),
        (("--horizon", "8"), "--horizon has no meaning here"),
        (("--trajectories", "8"), "--trajectories has no meaning here"),
        (("--world", "nowhere"), "there is no world 'nowhere'"),
        (("--world", "clinic"), "the records have other bounds than clinic"),
        (("--paper", "--method", "privsyn"), "--paper has no meaning here"),
        (("--method", "structured", "--choose", "rows-per-unit=1,2"), "--choose has no meaning here"),
        (("--method", "pre-pate-gan"), "--public and --provenance are missing"),
        (("--method", "privsyn", "--bins", "1"), "bins is 1; expected a whole number >= 4"),
        (("--method", "pate-gan", "--teachers", "0"), "teachers is 0"),
        (("--device", "cuda:77"), "there is no device 'cuda:77'"),
        (("--holdout", "others"), "distances to private records are not differentially private"),
    ],
)
def test_options_that_mean_nothing_are_refused_and_cost_nothing(
    words: tuple[str, ...],
    message: str,
    folders: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folders)
    before = sorted(folders.rglob("*"))
    assert synthesize(folders, "visits", *words) != 0
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error
    assert error.startswith("tacit: ")
    assert sorted(folders.rglob("*")) == before


def test_the_promise_of_marginals_needs_the_public_bounds_alone(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folders / "visits" / "rewards.npy").unlink()
    assert synthesize(folders, "visits", "--method", "privsyn", "--dry-run") == 0
    assert capsys.readouterr().out.endswith("Dry run: no private record was read and nothing was spent.\n")


def test_the_papers_settings_keep_the_promise_too(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    public = ("--public", str(folders / "others"), "--provenance", "Invented for a test.")
    large = ["synthesize", str(folders / "visits"), "--unit", "patient", "--relation", "add_or_remove"]
    promise = ("--population", "100000", "--epsilon", "10", "--delta", "1e-6", "--out", str(folders / "run"))
    promise += ("--budget-epsilon", "10", "--budget-sampled", "1")
    assert main([*large, *promise, *public, "--paper", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "3,907 noisy sum(s) over a Poisson sample of patients at rate 0.00128 (about 128 of 100,000), fresh" in out
    assert out.endswith("Dry run: no private record was read and nothing was spent.\n")


def test_what_becomes_of_a_run_does_not_tell_who_is_among_the_public_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The public records hold one patient's visits; the private ones do or do not."""
    write_records(tmp_path / "visits.csv")
    header, *lines = (tmp_path / "visits.csv").read_text().splitlines()
    write_records(tmp_path / "others.csv", seed=1)
    others = (tmp_path / "others.csv").read_text().splitlines()[4:]  # all but the header and the first patient
    assert lines[0].startswith(f"{CANARY}-0,")
    assert lines[3].startswith(f"{CANARY}-1,")
    told = {}
    for name, private in (("with", lines), ("without", lines[3:])):
        home = tmp_path / name
        home.mkdir()
        monkeypatch.chdir(home)
        Path("spec.json").write_text(json.dumps(SPEC))
        for data, rows in (("visits", private), ("public", [*lines[:3], *others])):
            Path(f"{data}.csv").write_text("\n".join([header, *rows]) + "\n")
            line = ["data", "import", f"{data}.csv", "--unit", "patient", "--spec", "spec.json", "--out", data]
            assert main(line) == 0
        public = ("--public", "public", "--provenance", "Invented for a test.")
        capsys.readouterr()
        code = synthesize(Path(), "visits", *public, "--method", "privsyn", "--bins", "4")
        output = [text.replace(str(home), "").splitlines() for text in capsys.readouterr()]
        with Ledger(Path("visits.ledger")) as ledger:
            kinds = {entry.kind for entry in ledger.entries() if entry.payload.get("text") != LOOK}
        certificate = Certificate.load(Path("run/certificate.json")).to_json()
        stated = {key: certificate[key] for key in ("epsilon", "delta", "plan", "parts", "covered", "not_covered")}
        files = sorted(str(path) for path in Path().rglob("*") if path.suffix != ".csv")
        printed = [line for text in output for line in text if " ... " not in line]  # progress follows the noise
        told[name] = (code, printed, kinds, stated, files)
    assert told["with"] == told["without"]
    assert told["with"][0] == 0
    assert "note" not in told["with"][2]  # nobody looked at the private records after their import


def test_public_pre_training_looks_at_no_private_record(folders: Path) -> None:
    public = ("--public", str(folders / "others"), "--provenance", "Invented for a test.")
    gan = ("--method", "pre-pate-gan", "--teachers", "2", "--steps", "2")
    with shortened():
        assert synthesize(folders, "visits", *public, *gan) == 0
    notes = [entry.payload for entry in Ledger.read(folders / "visits.ledger").entries() if entry.kind == "note"]
    assert notes == [{"kind": "nonprivate", "text": LOOK}]  # of the import
    certificate = Certificate.load(folders / "run" / "certificate.json")
    assert any("Invented for a test." in line for line in certificate.lines("not_covered"))


def test_bins_are_chosen_by_public_records(folders: Path) -> None:
    public = ("--public", str(folders / "others"), "--provenance", "Invented for a test.")
    assert synthesize(folders, "visits", *public, "--method", "privsyn", "--bins", "4") == 0
    certificate = Certificate.load(folders / "run" / "certificate.json")
    cut = certificate.to_json()["plan"]["discretisation"]
    assert cut["provenance"] == "Invented for a test."
    assert cut["edges"]
    assert any("Invented for a test." in line for line in certificate.lines("not_covered"))
    assert hub.load(folders / "run" / "model").value.plan.discretisation.provenance == "Invented for a test."


@contextmanager
def shortened() -> Iterator[None]:
    """Public pre-training of a GAN in two steps."""
    whole = GanPretraining.__init__

    def brief(self: GanPretraining, **fields: Any) -> None:
        whole(self, **{"steps": 2, "batch": 8, **fields})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GanPretraining, "__init__", brief)
        yield


def test_a_run_on_simulated_records_compares_with_them(folders: Path) -> None:
    words = ("--method", "privsyn", "--bins", "4", "--holdout", str(folders / "more"))
    assert synthesize(folders, "toys", *words) == 0
    report = json.loads((folders / "run" / "run.json").read_text())["report"]
    assert report["shows_records"]
    (words,) = [block["lines"] for block in blocks(folders / "run", "copies") if "lines" in block]
    compared = re.search(r" of (\d+)\.$", words[2])  # of 40 rows, and chance may draw two alike, which count once
    assert compared
    assert 30 <= int(compared[1]) <= 40
    costs = table(folders / "run", "synthesizers")
    assert list(costs) == ["privsyn"]
    assert costs["privsyn"]["Peak memory"].endswith("B")
    page = (folders / "run" / "report.html").read_text()
    assert "Whether anybody was copied" in page


def test_the_curators_figures_stay_under_private(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--method", "privsyn", "--bins", "4", "--holdout", str(folders / "others"), "--nonprivate-diagnostics")
    assert synthesize(folders, "visits", *words) == 0
    assert "NOT PRIVATE" in capsys.readouterr().out
    assert open_to_others(folders / "run" / "private") == []
    (written,) = (folders / "run" / "private").iterdir()
    found = json.loads(written.read_text())
    assert found["banner"].startswith("PRIVATE")
    explained = {f"{real}{name} explained" for real in ("", "real ") for name in ("action", "next")}
    kept = {"action follows", "real action follows", "impossible"}
    near = {"marginal", "correlation", "nearer to a record that was learned from, from", "to"}
    assert set(found["result"]) == near | explained | kept
    notes = [
        entry.payload["text"] for entry in Ledger.read(folders / "visits.ledger").entries() if entry.kind == "note"
    ]
    assert notes == [LOOK, "closeness of the synthetic rows to the records"]
    assert blocks(folders / "run", "copies") == []


def test_an_interrupted_baseline_says_what_is_lost(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = importlib.import_module("tacit.methods.synthesis.baselines.privsyn")
    fit = home.fit

    def interrupted(plan: object, vault: object, **options: object) -> None:
        def stop(done: int, total: int) -> None:
            raise KeyboardInterrupt

        fit(plan, vault, **{**options, "progress": stop})

    monkeypatch.setattr(home, "fit", interrupted)
    assert synthesize(folders, "visits", "--method", "privsyn", "--bins", "4") == 130
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("tacit: Interrupted; what was charged stays charged (see tacit ledger show ")
    assert Ledger.read(folders / "visits.ledger").spent()[0] > 3.9


def test_matching_is_paid_within_the_same_promise(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--steps", "3", "--expected-batch-size", "200", "--width", "8", "--depth", "1")
    assert synthesize(folders, "visits", *words, "--dry-run") == 0
    promise = capsys.readouterr().out
    assert "histograms: 1 noisy sum(s) over every patient" in promise
    assert "no private record was read" in promise
    assert synthesize(folders, "visits", *words) == 0
    certificate = Certificate.load(folders / "run" / "certificate.json")
    assert [part["name"] for part in certificate.parts] == ["denoiser", "histograms"]
    assert certificate.epsilon <= 4.0
    assert hub.load(folders / "run" / "model").value.histograms is not None
