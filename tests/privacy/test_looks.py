"""Files of the curator's looks: names, and reasons that begin alike."""

from __future__ import annotations

import json
from pathlib import Path

from tacit.privacy.looks import keep


def test_long_reasons_that_begin_alike_have_files_of_their_own(tmp_path: Path) -> None:
    long = "how many of those who came in spring were given the second treatment "
    for value, reason in enumerate(("A look!", long + "first", long + "later", long + "later")):
        keep(value, reason, tmp_path)
    files = sorted((tmp_path / "private").iterdir())
    assert next(path.name for path in files) == "a-look.json"
    assert [json.loads(path.read_text())["result"] for path in files] in ([0, 1, 3], [0, 3, 1])
