"""Keys that sign certificates and manifests."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tacit import plain_files
from tacit.errors import FileError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


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
        raise FileError(
            "the file is missing or holds no Ed25519 private key without a password",
            where=str(path),
            expected="a PEM file",
            remedy="make one with: openssl genpkey -algorithm ed25519 -out key.pem",
        )
    return key
