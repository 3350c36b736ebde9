"""Detectors of what leaves beside a release: warnings of steps in several threads, files of the curator's."""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
import warnings
from pathlib import Path
from typing import Any

from tests.certificate_edits import identified, redigested
from vault_cases import open_vault, unit_of

from tacit import hub
from tacit.errors import AccountingError, CertificateError, FileError, MechanismError
from tacit.hub.manifest import Manifest
from tacit.privacy.accounting.events import ComposedEvent, GaussianEvent, PoissonSampledEvent, flatten
from tacit.privacy.certificate import fields
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.vault.isolation import run_silently


def warnings_stay_inside(folder: Path) -> None:
    """Of two steps in two threads, the first to end lets no warning of the other one out."""
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))
    failed = []

    def first() -> None:
        first_is_in.set()
        second_is_in.wait(10)

    def second() -> None:
        second_is_in.set()
        first_is_out.wait(10)
        warnings.warn("a value of a record", UserWarning, stacklevel=1)

    def later() -> None:
        first_is_in.wait(10)
        try:
            run_silently("step", second)
        except MechanismError:
            failed.append("raised")

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        thread = threading.Thread(target=later)
        thread.start()
        run_silently("step", first)
        first_is_out.set()
        thread.join()
    assert not shown, f"{len(shown)} warnings of a step were shown"
    assert not failed, "a warning of a step was raised"


def files_are_the_curators(folder: Path) -> None:
    """What a look writes is for its owner alone, whatever the umask is and whoever made the folder."""
    vault, before = open_vault(folder, [[1.0], [0.5]], unit=unit_of(1_000)), os.umask(0)
    try:
        for made in (False, True):
            out = folder / f"out-{made}"
            if made:
                (out / "private").mkdir(parents=True)
            vault.nonprivate(lambda rows: 1.0, reason="to see", folder=out)
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in out.rglob("*")}
            assert modes == {"private": 0o700, "to-see.json": 0o600}, f"{modes} in octal digits"
    finally:
        os.umask(before)


KEPT = Path(__file__).parents[1] / "golden" / "certificates"
MODEL = Path(__file__).parents[1] / "net" / "fixtures" / "models" / "transitions"


SAFE = {"code": "own_words", "words": "everything, and everybody is safe"}


def policies() -> dict[str, Any]:
    """A certificate of a method of tacit's."""
    record: dict[str, Any] = json.loads((KEPT / "policies.json").read_text(encoding="utf-8"))
    return record | {"signature": None}


def require_refused(record: dict[str, Any], what: str) -> None:
    """Raise an alarm where an edited certificate verifies."""
    try:
        Certificate.from_json(redigested(record)).verify()
    except CertificateError:
        return
    raise AssertionError(f"{what} verifies")


def weights_are_the_manifests(folder: Path) -> None:
    """Weights that are not those of the manifest are not loaded, be they consistent with their configuration."""
    shutil.copytree(MODEL, folder / "model")
    certificate = Certificate.load(folder / "model" / "certificate.json")
    names = ("model.safetensors", "config.json", "certificate.json")
    other = Manifest(certificate.digest, dict.fromkeys(names, "0" * 64))
    (folder / "model" / "manifest.json").write_text(other.text())
    try:
        hub.load(folder / "model")
    except FileError:
        return
    raise AssertionError("other weights than the manifest's are loaded")


def own_charges_are_certified(folder: Path) -> None:
    """A certificate whose own charge is another epsilon than it certifies does not verify."""
    record = policies()
    for epsilon in (0.01, 100.0):
        total = {**record["total"], "epsilon": epsilon, "budget_epsilon": 100.0, "ceiling_epsilon": 100.0}
        releases = [row | {"epsilon": epsilon} for row in record["releases"]]
        require_refused({**record, "releases": releases, "total": total}, f"an own charge of {epsilon}")


def plans_have_no_other_field(folder: Path) -> None:
    """One unknown field in a plan of tacit's own does not free the lines for people."""
    record = policies()
    other = {**record, "plan": record["plan"] | {"unknown": 1}, "covered": [SAFE]}
    require_refused(identified(other), "a plan with an unknown field")


def clauses_are_the_plans(folder: Path) -> None:
    """A certificate of a method of tacit's whose clauses say other numbers than its plan, or more, does not verify."""
    record = policies()
    more = [{name: 10**6 if type(value) is int else value for name, value in one.items()} for one in record["covered"]]
    for covered in (more, [*record["covered"], SAFE], record["covered"][1:]):
        require_refused({**record, "covered": covered}, f"clauses {covered}")


def texts_are_plain(folder: Path) -> None:
    """What hides something from whoever reads it is no text of a certificate."""
    record = policies()
    for hidden in ("\x1b[8m", "\u202e", "\ud800"):
        require_refused({**record, "ledger_head": record["ledger_head"] + hidden}, f"a text with {hidden!a}")


def events_are_small(folder: Path) -> None:
    """An event of many kinds of sampled steps is refused before it is priced."""
    steps = [PoissonSampledEvent(0.01 + 0.01 * i, GaussianEvent(4.0)) for i in range(12)]
    try:
        fields.require_few_kinds(flatten(ComposedEvent(steps)))
    except AccountingError:
        return
    raise AssertionError("an event of 12 kinds of sampled steps is priced")


PAPER_DETECTORS = (
    warnings_stay_inside,
    files_are_the_curators,
    weights_are_the_manifests,
    own_charges_are_certified,
    plans_have_no_other_field,
    clauses_are_the_plans,
    texts_are_plain,
    events_are_small,
)
