"""One person less in the file: one round moves, by one clip at most, and all others are served with the same bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from small import UNIT, WRITER, Letters, plan_of, texts_of, vault_of

from tacit.methods.alignment.people import CompletionActor, People, PersonGradient, ReleasedSteering
from tacit.methods.alignment.plan import PART, AlignmentPlan
from tacit.privacy.noise.correlated import coefficients

Texts = Mapping[str, Sequence[str]]
ROUNDS, TEXTS = 4, texts_of(32)
SLACK = 2.0**-7


class Watched(People):
    """People of whom a test sees who was served in which round, and with what."""

    def serve(self, people: Sequence[Sequence[str]], actor: Any) -> dict[str, NDArray[Any]]:
        rows = super().serve(people, actor)
        self.seen: list[dict[str, bytes]] = [*getattr(self, "seen", []), {}]
        for place, person in enumerate(people[0]):
            self.seen[-1][person] = b"".join(rows[name][place].tobytes() for name in sorted(rows))
        return rows


def released(texts: Texts, plan: AlignmentPlan, folder: Path) -> tuple[NDArray[np.float64], list[dict[str, bytes]]]:
    """Every round's sum [T, P] at fixed parameters, over clips, and everybody's rows by round."""
    folder.mkdir()
    people = Watched(plan, WRITER, texts, simulated=False)
    vault = vault_of(people, folder)
    run, theta = vault.reserve(plan), np.zeros(32, np.float32)
    sums = []
    for _ in range(plan.rounds):
        vault.enroll(run, CompletionActor(plan, WRITER, Letters(), torch.from_numpy(theta)))
        sums.append(vault.noisy_sum(run, PART, PersonGradient(plan, WRITER), ReleasedSteering(theta))[0])
    vault._register.close()
    vault.ledger.close()
    return np.array(sums) * plan.people / plan.clip_norm, people.seen


def test_one_person_less_moves_one_round_by_one_clip(tmp_path: Path) -> None:
    few = {"rounds": ROUNDS, "people": 8, "noise_multiplier": 0.0, "clip_norm": 0.01, "step": 1.0, "completions": 8}
    plan = plan_of(**few).account(unit=UNIT, delta=1e-5)
    whole, rows = released(TEXTS, plan, tmp_path / "whole")
    column = coefficients(ROUNDS)
    strategy = np.array([[column[i - j] if i >= j else 0 for j in range(ROUNDS)] for i in range(ROUNDS)])
    most = 0.0
    for anna in ("p8", "p9", "p17"):
        rest = {person: texts for person, texts in TEXTS.items() if person != anna}
        gone, others = released(rest, plan, tmp_path / anna)
        assert [{p: b for p, b in round_.items() if p != anna} for round_ in rows] == others
        norms = np.linalg.norm(whole - gone, axis=1)
        assert (norms > SLACK).sum() <= 1
        assert norms.max() <= 1 + SLACK
        most = max(most, np.linalg.norm(strategy @ (whole - gone)) / np.linalg.norm(column))
    assert 0.5 < most <= 1 + SLACK  # of what the noise is scaled to
