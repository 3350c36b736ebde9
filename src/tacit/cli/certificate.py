"""`tacit certificate`: read, recompute and sign; needs neither PyTorch nor data."""

from __future__ import annotations

import json
import os
from contextlib import suppress

from tacit.cli.commands import CertificateLabel, CertificateShow, CertificateSign, CertificateVerify
from tacit.cli.console import say
from tacit.errors import CertificateError, FileError
from tacit.evaluation import audits
from tacit.privacy.certificate import markdown as certificate_label
from tacit.privacy.certificate.certificate import Certificate


def run(command: CertificateShow | CertificateVerify | CertificateLabel | CertificateSign) -> None:
    """Dispatch to `show`, `verify`, `label` or `sign`."""
    match command:
        case CertificateShow():
            show(command)
        case CertificateVerify():
            verify(command)
        case CertificateLabel():
            label(command)
        case CertificateSign():
            sign(command)


def show(command: CertificateShow) -> None:
    """The certificate as Markdown, and the findings of audits that lie beside it; nothing is verified."""
    certificate = Certificate.load(command.path)
    say(certificate.to_markdown().rstrip())
    for audited in audits.beside(command.path, certificate.digest):
        say("\n".join(["", *audits.sentences(audited)]))


def verify(command: CertificateVerify) -> None:
    """Recompute the promise.

    Raises:
        CertificateError: the certificate does not hold.
    """
    certificate = Certificate.load(command.path)
    found = certificate.verify(command.public_key)
    if not found.private:
        raise CertificateError(
            f"the certificate is sound, and says that nothing is promised ({'; '.join(certificate.reasons)})",
            where=str(command.path),
            expected="a certificate of a private release",
            remedy="do not publish the release",
        )
    say(certificate.sentence)
    say(f"Recomputed: epsilon = {found.epsilon:.6g} at delta = {found.delta:.3g}, as the certificate states.")
    say(f"Independent check: epsilon = {found.check_epsilon:.6g} by another accountant.")
    say(f"Signed by {found.signed_by}." if found.signed_by else "Not signed: this shows no author.")
    if certificate.simulated:
        say("The records were declared simulated.")


def label(command: CertificateLabel) -> None:
    """The label of a certificate, as JSON, which YAML is too.

    Raises:
        CertificateError: the certificate does not hold.
    """
    certificate = Certificate.load(command.path)
    certificate.verify()
    say(json.dumps(certificate_label.label(certificate.to_json()), indent=1, ensure_ascii=False))


def sign(command: CertificateSign) -> None:
    """Write a signed copy.

    Raises:
        CertificateError: the certificate does not hold.
        FileError: the key is not a readable Ed25519 key, or the output exists.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    certificate = Certificate.load(command.path)
    certificate.verify()
    key = None
    with suppress(OSError, ValueError, TypeError, UnsupportedAlgorithm):
        key = load_pem_private_key(command.private_key.read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise FileError(
            "the file is missing or holds no Ed25519 private key without a password",
            where=str(command.private_key),
            expected="a PEM file",
            remedy="make one with: openssl genpkey -algorithm ed25519 -out key.pem",
        )
    if os.path.lexists(command.out):
        raise FileError(
            "the file exists already",
            where=str(command.out),
            expected="a name that is still free",
            remedy="choose another name",
        )
    signed = certificate.sign(key)
    signed.save(command.out)
    say(f"Signed. Others verify it with: tacit certificate verify {command.out} --public-key {_key(signed)}")


def _key(certificate: Certificate) -> str:
    assert certificate.signature is not None
    return str(certificate.signature["public_key"])
