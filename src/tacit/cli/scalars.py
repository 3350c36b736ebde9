"""TensorBoard scalars of a release: functions of released values, and returns on simulated people."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tacit.evaluation.report import PolicyReport
from tacit.methods.policy_gradient import Learned
from tacit.privacy.certificate.certificate import Release


def write(folder: Path, release: Release[Learned], report: PolicyReport) -> None:
    """Write one event file.

    Steps are rounds for the length of a released mean, and people met for everything else.
    """
    from torch.utils.tensorboard import SummaryWriter

    value = release.value
    with SummaryWriter(log_dir=str(folder)) as writer:
        for round_, length in enumerate(value.norms[:, 0], start=1):
            _scalar(writer, "round/length_of_released_mean", length, round_)
        for people, theta in zip(value.people, value.iterates[:, 0], strict=True):
            _scalar(writer, "policy/length_of_parameters", float(np.linalg.norm(theta)), people)
        for curve in report.curves:
            for people, mean in zip(curve.people, curve.mean, strict=True):
                _scalar(writer, f"return/{curve.label.replace(' ', '_')}", mean, people)
        writer.add_text("certificate", release.certificate.sentence)


def _scalar(writer: object, name: str, value: float, step: int) -> None:
    writer.add_scalar(name, float(value), int(step))  # type: ignore[attr-defined]
