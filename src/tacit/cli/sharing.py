"""`tacit hub`: publish a release with its certificate, and fetch one that is verified before it is there."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, subcommand

from tacit import plain_files
from tacit.cli.console import say
from tacit.errors import FileError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True, kw_only=True)
class HubPush:
    """Publish a release on a hub: rows or model, card, datasheet and certificate, never what is private.

    The certificate is recomputed first. Void certificates, ledgers, registers, keys and unknown files are refused.

    Args:
        folder: of a finished run, or of a release.
        name: OWNER/NAME of the repository, which is made where it is missing.
        license: of the release, such as cc-by-4.0.
        private_key: PEM file of an Ed25519 key that signs the certificate and the manifest.
        private: make a new repository private.
        dry_run: print what would be sent, and send nothing.
    """

    folder: Positional[Path]
    name: Positional[str]
    license: str | None = None
    private_key: Path | None = None
    private: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class HubPull:
    """Fetch a release from a hub; its certificate is recomputed before the folder is there.

    Args:
        name: OWNER/NAME of the repository.
        out: folder of the release; a name that is still free.
        kind: rows are a dataset.
        revision: branch, tag or commit; the newest without it.
        public_key: the Ed25519 key (64 hex digits) that must have signed the certificate and the manifest.
    """

    name: Positional[str]
    out: Path
    kind: Literal["model", "dataset"] = "model"
    revision: str | None = None
    public_key: str | None = None


Hub = Annotated[HubPush, subcommand("push")] | Annotated[HubPull, subcommand("pull")]


def push(command: HubPush) -> None:
    """Publish.

    Raises:
        FileError, CertificateError: the folder may not be published.
    """
    from tacit.hub import sharing

    key = None if command.private_key is None else signing_key(command.private_key)
    prepared = sharing.prepare(command.folder, name=command.name, license=command.license, key=key)
    say(prepared.certificate.sentence)
    say(f"Sent as a {prepared.kind}: {', '.join(sorted(prepared.files))}.")
    if prepared.excluded_names:
        say(f"Kept here: {', '.join(prepared.excluded_names)}.")
    if command.dry_run:
        say("Nothing was sent.")
        return
    say(sharing.send(prepared, private=command.private))


def pull(command: HubPull) -> None:
    """Fetch and verify.

    Raises:
        FileError, CertificateError: the release does not hold.
    """
    from tacit.hub import sharing

    pulled = sharing.pull(
        command.name, command.out, kind=command.kind, revision=command.revision, public_key=command.public_key
    )
    say(pulled.certificate.sentence)
    check = pulled.verification
    say(f"Recomputed: epsilon = {check.epsilon:.6g} at delta = {check.delta:.3g}, as the certificate states.")
    say(f"Signed by {check.signed_by}." if check.signed_by else "Not signed: this shows no author.")
    say(f"The release is in {pulled.path}.")


def signing_key(path: Path) -> Ed25519PrivateKey:
    """The key in a PEM file.

    Raises:
        FileError: the key is not a readable Ed25519 key.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = None
    with suppress(OSError, ValueError, TypeError, UnsupportedAlgorithm):
        key = load_pem_private_key(plain_files.read(path), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        what = "the file is missing or holds no Ed25519 private key without a password"
        expected, remedy = "a PEM file", "make one with: openssl genpkey -algorithm ed25519 -out key.pem"
        raise FileError(what, where=str(path), expected=expected, remedy=remedy)
    return key
