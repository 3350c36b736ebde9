"""The manifest of a release: every file with its SHA-256 beside the certificate's digest, and a signature over both. A
certificate does not hash what was released, so that its signature alone covers no weights and no rows. What is made
again from a certificate (`README.md`, `datasheet.md`, `croissant.json`) is not in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit import plain_files
from tacit.errors import FileError, PlanError
from tacit.privacy.certificate import canonical
from tacit.serialization import from_json, to_json

MANIFEST = "manifest.json"
_SIGNATURE_PREFIX = b"tacit manifest, format 1\n"
_MAX_BYTES = 2**20


@dataclass(frozen=True)
class Manifest:
    """What a release consists of."""

    certificate: str  # digest of its certificate
    files: Mapping[str, str]  # names, with "/" between folders, and their SHA-256
    public_key: str | None = None  # public_key, signature: Ed25519, in hex digits; None where nobody signed
    signature: str | None = None

    @classmethod
    def of(cls, files: Mapping[str, Path | bytes], certificate: str, key: Ed25519PrivateKey | None = None) -> Manifest:
        """The manifest of these files, signed where there is a key."""
        manifest = cls(certificate, {name: _digest(one) for name, one in sorted(files.items())})
        if key is None:
            return manifest
        public_key = key.public_key().public_bytes_raw().hex()
        return cls(manifest.certificate, manifest.files, public_key, key.sign(manifest.signed_bytes).hex())

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """The manifest in a file. Raises FileError where it is missing or no manifest."""
        try:
            return from_json(cls, canonical.parse(plain_files.read_text(path, _MAX_BYTES)))
        except (OSError, ValueError, RecursionError, PlanError) as error:
            raise _file_error(path, "there is no manifest, or it cannot be read") from error

    @property
    def signed_bytes(self) -> bytes:
        """What a signature covers."""
        content = {"certificate": self.certificate, "files": dict(self.files)}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return _SIGNATURE_PREFIX + hashlib.sha256(text.encode()).digest()

    def text(self) -> str:
        """The content of its file."""
        return json.dumps(to_json(self), indent=1) + "\n"

    def require(
        self, folder: Path, files: Mapping[str, Path], certificate: str, *, public_key: str | None = None
    ) -> None:
        """Refuse files that are not those of the manifest, or a manifest that is not signed by the key.

        Args:
            folder: named in errors.
            files: all that are there, but for those that are made again from the certificate.
            certificate: digest of the certificate that lies beside them.
            public_key: 64 hex digits; None asks for no signature, and checks one that is there.

        Raises:
            FileError: there is another file, another content, another certificate, or no such signature.
        """
        self._require_signature(folder, public_key)
        if self.certificate != certificate:
            raise _file_error(folder, "the manifest is that of another certificate")
        for name, path in files.items():
            if name not in self.files:
                raise _file_error(folder / name, "the file is not in the manifest")
            if self.files[name] != _digest(path):
                raise _file_error(folder / name, "the file has another content than the manifest says")
        for name in self.files.keys() - files.keys():
            if not name.endswith(".html"):  # pages are not fetched
                raise _file_error(folder, f"the manifest has a file {name[:80]!r} that is not there")

    def _require_signature(self, folder: Path, public_key: str | None) -> None:
        if public_key is not None and (self.signature is None or self.public_key != public_key.lower()):
            raise _file_error(folder / MANIFEST, "the manifest is not signed by that key")
        if self.signature is None:
            return
        try:
            signer = Ed25519PublicKey.from_public_bytes(bytes.fromhex(str(self.public_key)))
            signer.verify(bytes.fromhex(self.signature), self.signed_bytes)
        except (InvalidSignature, ValueError):
            raise _file_error(folder / MANIFEST, "the manifest's signature is not valid") from None


def _digest(file: Path | bytes) -> str:
    if isinstance(file, bytes):
        return hashlib.sha256(file).hexdigest()
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _file_error(path: Path, what: str) -> FileError:
    expected = "the very files of a release, and the manifest that tacit wrote of them"
    return FileError(what, where=str(path), expected=expected, remedy="fetch or write the release again")
