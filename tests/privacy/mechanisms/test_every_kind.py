"""Every kind of part has a proof page, an audit, an entry of the verifier and a planted mistake, or says why not."""

from __future__ import annotations

import dataclasses
import runpy
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tacit.evaluation.audits.running import CASES
from tacit.privacy.accounting.events import event_to_json
from tacit.privacy.certificate.certificate import schema
from tacit.privacy.mechanisms.base import ProvedMechanism, Sum
from tacit.privacy.mechanisms.kinds import PARTS

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "tests" / "mutations"))


@dataclass(frozen=True)
class Evidence:
    """What stands behind a kind of part.

    Args:
        page: of `proofs/`.
        audit: the name of an audit; "sums" where `tacit audit RUN` plants canaries in the sums of any certificate.
        verified: whether `verifier/tacit_verify.py` recomputes the epsilon of its event; it says so where it does not.
        mistake: the name of a planted mistake.
    """

    page: str
    audit: str
    verified: bool
    mistake: str


EVIDENCE: Mapping[str, Evidence] = {
    "poisson_sum": Evidence("noisy_sum.md", "sums", True, "no clip"),
    "fixed_size_sum": Evidence("fixed_size_sampling.md", "sums", True, "fixed size with replacement"),
    "user_sum": Evidence("correlated_noise.md", "sums", True, "sensitivity of one step"),
    "device_sum": Evidence("federated_sums.md", "sums", True, "shares for everybody"),
    "laplace_sum": Evidence("federated_sums.md", "sums", True, "laplace of the mean"),
    "noisy_histogram": Evidence("noisy_sum.md", "", True, "half the noise of a histogram"),
    "smooth_sensitivity": Evidence("smooth_sensitivity.md", "lsw", False, "a lattice of a private scale"),
    "noisy_max": Evidence("noisy_max.md", "choice", False, "scores of any size"),
    "above_threshold": Evidence("above_threshold.md", "consensus", False, "no noise on the threshold"),
    "marginals": Evidence("marginals.md", "mst", True, "quanta counted twice"),
    "teacher_votes": Evidence("teachers.md", "pate-gan", True, "dealt anew every batch"),
    "randomized_responses": Evidence("policy_gradient.md", "", True, "half of the chance"),
    "selection": Evidence("selection.md", "selection", True, "a fixed number of runs"),
}
NOT_AUDITED = ("noisy_histogram", "randomized_responses")
"""No method of tacit's releases the former; the law of the latter is tested against its exact probabilities."""


def test_every_kind_has_its_evidence() -> None:
    kinds = {kind.kind for kind in PARTS}  # type: ignore[attr-defined]
    assert set(EVIDENCE) == kinds, "a new kind of part needs a page, an audit, the verifier and a planted mistake"
    assert [kind for kind, evidence in EVIDENCE.items() if not evidence.audit] == list(NOT_AUDITED)


def test_the_form_of_every_kind_follows_from_its_fields() -> None:
    for kind in PARTS:
        names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
        assert {"kind", "name"} <= names
        assert not {"certified", "from_certified", "contribution", "sampler"} & set(dir(kind))
        assert schema()["$defs"].keys() >= {kind.__name__} or issubclass(kind, ProvedMechanism)


@pytest.mark.parametrize("kind", EVIDENCE)
def test_its_page_and_its_planted_mistake_are_there(kind: str) -> None:
    from mutations import MUTATIONS

    assert (ROOT / "proofs" / EVIDENCE[kind].page).is_file()
    assert EVIDENCE[kind].mistake in {mutation.name for mutation in MUTATIONS}


def audited(kind: str) -> Any:
    """The part of this kind in the plan of its audit."""
    case = CASES[EVIDENCE[kind].audit]()
    return next(part for part in case.plan(8.0, 1e-5, max(case.crowd, 1)).parts() if part.kind == kind)


@pytest.mark.parametrize("kind", [kind for kind in EVIDENCE if kind not in NOT_AUDITED])
def test_its_audit_runs_it(kind: str) -> None:
    if EVIDENCE[kind].audit == "sums":
        assert kind in {kind.kind for kind in PARTS if issubclass(kind, Sum)}  # type: ignore[attr-defined]
    else:
        assert audited(kind).kind == kind


@pytest.mark.parametrize("kind", list(EVIDENCE))
def test_the_verifier_recomputes_it_or_says_that_it_does_not(kind: str) -> None:
    verifier = runpy.run_path(str(ROOT / "verifier" / "tacit_verify.py"))
    if kind in verifier["PARTS"]:
        assert EVIDENCE[kind].verified
    elif EVIDENCE[kind].verified:
        assert verifier["steps_of"](event_to_json(audited(kind).event))
    else:
        with pytest.raises(verifier["NotRecomputable"]):
            verifier["steps_of"](event_to_json(audited(kind).event))
