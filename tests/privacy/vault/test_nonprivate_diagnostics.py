"""Files of the curator's looks: names, and reasons that begin alike."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from vault_cases import Rewards, open_vault, priced

from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.vault.base import Label
from tacit.privacy.vault.vault import write_look


def test_long_reasons_that_begin_alike_have_files_of_their_own(tmp_path: Path) -> None:
    long = "how many of those who came in spring were given the second treatment "
    for value, reason in enumerate(("A look!", long + "first", long + "later", long + "later")):
        write_look(value, reason, tmp_path)
    files = sorted((tmp_path / "private").iterdir())
    assert next(path.name for path in files) == "a-look.json"
    assert [json.loads(path.read_text())["result"] for path in files] in ([0, 1, 3], [0, 3, 1])


def test_numbers_that_are_not_finite_are_null_with_their_places(tmp_path: Path) -> None:
    write_look(
        {"error": np.float64("nan"), "share": 0.5, "rows": np.array([1.0, np.inf]), "few": (1, None)},
        "a look",
        tmp_path,
    )

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    told = json.loads((tmp_path / "private" / "a-look.json").read_text(), parse_constant=refuse)
    assert told["result"] == {"error": None, "share": 0.5, "rows": [1.0, None], "few": [1, None]}
    assert told["null"] == "no finite number: result.error is nan, result.rows.1 is inf"
    with pytest.raises(TypeError, match="set cannot be written"):
        write_look({1}, "another", tmp_path)


def test_a_certificate_says_how_often_the_curator_had_looked(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    value, certificates = vault.noisy_sum(run, "sum", Rewards()), []
    for reason in ("a private reason", "another", ""):
        certificates.append(vault.release(run, value, label=Label((), (), ())).certificate)
        vault.nonprivate(lambda rows: rows["rewards"].max(), reason=reason)
    said = [certificate.lines("not_covered") for certificate in certificates]
    assert [line[0].split(" of the curator")[0] if line else "" for line in said] == ["", "1 look(s)", "2 look(s)"]
    assert "a private reason" not in json.dumps(certificates[-1].to_json())
    assert len({certificate.epsilon for certificate in certificates}) == 1
    Certificate.from_json(certificates[-1].to_json()).verify()
