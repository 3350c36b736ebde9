"""Publish releases and fetch them, in the layout of the Hugging Face Hub: `push` and `pull`.

A repository holds what a folder of a release or of a run holds for others, a manifest of all of it, and three files
made from the certificate: `README.md` with the promise as YAML, `datasheet.md`, and for rows `croissant.json`
(MLCommons Croissant 1.0, JSON-LD). Who fetches makes these three again. Nothing is sent and nothing is kept before the
certificate was recomputed and found to be that of the rows and models, and every file to be the one of the manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tacit import plain_files
from tacit.errors import CertificateError, FileError
from tacit.hub import CARD, CERTIFICATE, CONFIG, MANIFEST, MODEL, load
from tacit.hub.manifest import Manifest
from tacit.privacy.certificate import canonical
from tacit.privacy.certificate.certificate import Certificate, Verification
from tacit.privacy.sentences import describe_weights

ROWS, DATASHEET, CROISSANT = "rows.parquet", "datasheet.md", "croissant.json"
MODELS = ("model", "policy", "simulator")
"""Folders of a run that hold a release of their own."""
_PARTS = {"": CONFIG} | {f' / "{name}"': f"{name}/{CONFIG}" for name in MODELS}
"""Where a release may lie in a folder, as code says it, and the file that is there then."""
_RELEASE = frozenset({MODEL, CONFIG, CERTIFICATE, MANIFEST, CARD})
_GENERATED = frozenset({CARD, DATASHEET, CROISSANT})
"""What is made from the certificate, wherever it is needed: it is in no manifest, and never fetched."""
_PAGES = frozenset({"report.html", "map.html", "letter.html", "letter.de.html"})
"""Sent to be looked at, and never fetched: a page may hold a script."""
_PUBLIC = frozenset({*_RELEASE, ROWS, DATASHEET, CROISSANT, *_PAGES, "certificate.md", "evaluation.json", "audit.json"})
_NEVER_SENT = frozenset({"run.json", "ledger", "private", "checkpoint", "tensorboard"})
"""Parts of a run folder that stay at home: some are private, none is a release."""
_MAX_FILES, _MAX_BYTES = 64, 64 * 2**30
_TYPES = {"float": "sc:Float", "double": "sc:Float", "int": "sc:Integer", "uint": "sc:Integer", "bool": "sc:Boolean"}


@dataclass(frozen=True)
class PreparedRelease:
    """What `push` sends."""

    name: str  # OWNER/NAME of the repository
    # names in the repository and the files here, those that are made from the certificate included
    files: Mapping[str, Path | bytes]
    excluded_names: Sequence[str]  # names in a run folder that stay at home
    certificate: Certificate  # of the release
    kind: str  # "dataset" where there are rows, "model" otherwise


@dataclass(frozen=True)
class FetchedRelease:
    """What `pull` brought: its folder, the certificate, and what was recomputed of it."""

    path: Path
    certificate: Certificate
    verification: Verification


def prepare(
    folder: str | os.PathLike[str], *, name: str, license: str | None = None, key: Ed25519PrivateKey | None = None
) -> PreparedRelease:
    """Check a folder and collect what others may see of it, with a manifest of these files.

    Args:
        folder: of a release (`tacit.hub.save`) or of a run of the command line.
        name: OWNER/NAME of the repository.
        license: identifier for the card, such as "cc-by-4.0".
        key: signs the certificate and the manifest that are sent.

    Raises:
        FileError: there is a file that is no part of a release or run, a link, or a damaged file.
        CertificateError: there is no certificate, it does not recompute, it promises nothing, or rows or a model have
            another one.
    """
    folder = Path(folder)
    _require_name(name)
    files, excluded = _collect_files(folder)
    certificate, _ = _verify_folder(folder, files)
    if MANIFEST in files:
        _require_manifest(folder, files, certificate)
    files = {path: one for path, one in files.items() if _is_in_manifest(path)}
    if key is not None:
        certificate = certificate.sign(key)
        files[CERTIFICATE] = canonical.text(certificate.to_json()).encode()
    files[MANIFEST] = Manifest.of(files, certificate.digest, key).text().encode()
    generated = _generated_files(folder, certificate, name, license, files)
    kind = "dataset" if ROWS in files else "model"
    return PreparedRelease(name, {**files, **generated}, tuple(excluded), certificate, kind)


def _generated_files(
    folder: Path, certificate: Certificate, name: str, license: str | None, files: Mapping[str, Path | bytes]
) -> dict[str, Path | bytes]:
    """What is made from the certificate."""
    kind = "dataset" if ROWS in files else "model"
    made = {CARD: _card(certificate, name, kind, license, files), DATASHEET: _datasheet(certificate, kind)}
    if kind == "dataset":
        made[CROISSANT] = _croissant(folder / ROWS, certificate, name, license)
    return {path: text.encode() for path, text in made.items()}


def _require_manifest(
    folder: Path, files: Mapping[str, Path | bytes], certificate: Certificate, public_key: str | None = None
) -> None:
    """Refuse a folder whose files are not those of its manifest."""
    listed_files = {name: one for name, one in files.items() if isinstance(one, Path) and _is_in_manifest(name)}
    Manifest.read(folder / MANIFEST).require(folder, listed_files, certificate.digest, public_key=public_key)


def push(
    folder: str | os.PathLike[str],
    name: str,
    *,
    license: str | None = None,
    key: Ed25519PrivateKey | None = None,
    private: bool = False,
    endpoint: str | None = None,
    token: str | None = None,
) -> str:
    """Check a folder and send what others may see of it: `prepare`, then `send`."""
    prepared = prepare(folder, name=name, license=license, key=key)
    return send(prepared, private=private, endpoint=endpoint, token=token)


def send(
    prepared: PreparedRelease, *, private: bool = False, endpoint: str | None = None, token: str | None = None
) -> str:
    """Send what was prepared to its repository, which is made where it is missing; returns the commit's address.

    Args:
        prepared: files that were checked.
        private: whether a new repository is private.
        endpoint: of the hub; None is the library's own, or HF_ENDPOINT.
        token: None takes that of the environment or of `hf auth login`.

    Raises:
        ModuleNotFoundError: huggingface_hub is not installed (extra `hub`).
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    api = HfApi(endpoint=endpoint, token=token)
    api.create_repo(prepared.name, repo_type=prepared.kind, private=private, exist_ok=True)
    operations = [
        CommitOperationAdd(path_in_repo=path, path_or_fileobj=source if isinstance(source, bytes) else str(source))
        for path, source in sorted(prepared.files.items())
    ]
    words = prepared.certificate.sentence
    commit = api.create_commit(prepared.name, operations, commit_message=words, repo_type=prepared.kind)
    return str(commit.commit_url)


def pull(
    name: str,
    folder: str | os.PathLike[str],
    *,
    kind: str = "model",
    revision: str | None = None,
    public_key: str | None = None,
    endpoint: str | None = None,
    token: str | None = None,
) -> FetchedRelease:
    """Fetch a release; the folder appears when its certificate has been recomputed and every file compared.

    Files are those of the manifest, but for pages of HTML. Card, datasheet and Croissant are made here, again.

    Args:
        name: OWNER/NAME.
        folder: a name that is still free.
        kind: "model" or "dataset".
        revision: branch, tag or commit; None is the newest.
        public_key: 64 hex digits; certificate and manifest must then be signed by its private key.
        endpoint, token: as for `send`.

    Raises:
        FileError: the folder exists already, or the repository holds too much, other parts of a release than its
            manifest says, or no manifest that is signed by the key.
        CertificateError: the certificate is missing, does not recompute, promises nothing, is not signed by the key, or
            is not that of the rows and models.
        ModuleNotFoundError: huggingface_hub is not installed (extra `hub`).
    """
    folder = Path(folder)
    _require_name(name)
    plain_files.require_free(folder, "folder")
    from huggingface_hub import HfApi

    api = HfApi(endpoint=endpoint, token=token)
    info = api.repo_info(name, revision=revision, repo_type=kind, files_metadata=True)
    listed = {one.rfilename: int(one.size or 0) for one in info.siblings or ()}
    public = [path for path in listed if _is_public(path) and path not in _PAGES]
    wanted = sorted(path for path in public if path == MANIFEST or _is_in_manifest(path))
    if len(wanted) > _MAX_FILES or sum(listed[path] for path in wanted) > _MAX_BYTES:
        raise _release_error(name, "the repository has more files or bytes than a release")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.partial-{secrets.token_hex(4)}")
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent) as cache:
            for path in wanted:
                downloaded = api.hf_hub_download(name, path, repo_type=kind, revision=info.sha, cache_dir=cache)
                target = partial / path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(downloaded, target)
        files, _ = _collect_files(partial) if partial.exists() else ({}, [])
        certificate, verification = _verify_folder(partial, files, public_key)
        _require_manifest(partial, files, certificate, public_key)
        for path, content in _generated_files(partial, certificate, name, None, files).items():
            assert isinstance(content, bytes)
            (partial / path).write_bytes(content)
        os.rename(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return FetchedRelease(folder, certificate, verification)


def _is_in_manifest(path: str) -> bool:
    """Whether a file belongs into the manifest: all but the manifest, and what is made from the certificate."""
    return path != MANIFEST and Path(path).name not in _GENERATED


def _is_public(path: str) -> bool:
    """Whether a repository's file is one of a release."""
    first, _, rest = path.partition("/")
    return path in _PUBLIC or (first in MODELS and rest in _RELEASE)


def _collect_files(folder: Path) -> tuple[dict[str, Path | bytes], list[str]]:
    """Names and files of a folder that others may see, and what stays at home."""
    files: dict[str, Path | bytes] = {}
    excluded = []
    is_run = plain_files.is_plain_file(folder / "run.json")
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if is_run and path.name in _NEVER_SENT:
            excluded.append(path.name)
        elif path.name in MODELS and path.is_dir() and not path.is_symlink():
            files |= {f"{path.name}/{one.name}": one for one in sorted(path.iterdir())}
        else:
            files[path.name] = path
    for name, one in files.items():
        if not _is_public(name):
            raise _release_error(f"{folder}/{name}", "the file is no part of a release")
        if not (isinstance(one, Path) and plain_files.has_single_link(os.lstat(one))):
            raise _release_error(f"{folder}/{name}", "this is a link or no plain file")
    return files, excluded


def _verify_folder(
    folder: Path, files: Mapping[str, Path | bytes], public_key: str | None = None
) -> tuple[Certificate, Verification]:
    """The certificate of a folder, recomputed, which is that of its rows and models."""
    if CERTIFICATE not in files:
        what, expected = "there is no certificate", "the folder of a release or of a finished run"
        remedy = "publish what a method released, with its certificate"
        raise CertificateError(what, where=str(folder), expected=expected, remedy=remedy)
    certificate = Certificate.load(folder / CERTIFICATE)
    verification = certificate.verify(public_key)
    if not verification.private:
        what = f"the certificate says that nothing is promised ({'; '.join(certificate.reasons)})"
        expected, remedy = "a certificate of a private release", "do not publish the release"
        raise CertificateError(what, where=str(folder / CERTIFICATE), expected=expected, remedy=remedy)
    others: list[Certificate | None] = [
        load(folder / name).certificate for name in MODELS if f"{name}/{CONFIG}" in files
    ]
    others += [load(folder).certificate] if CONFIG in files else []
    if ROWS in files:
        from tacit.data.sources.tables import parquet_description

        described = parquet_description(folder / ROWS).get("certificate")
        others.append(Certificate.from_json(described) if isinstance(described, Mapping) else None)
    if any(other is None or other.digest != certificate.digest for other in others):
        what = "rows or a model have no certificate or another one"
        expected = "one certificate for all parts of a release"
        remedy = "publish the folder as the run wrote it, one release a repository"
        raise CertificateError(what, where=str(folder), expected=expected, remedy=remedy)
    return certificate, verification


def _front_matter(certificate: Certificate, name: str, kind: str, license: str | None) -> dict[str, Any]:
    """Metadata of the card, as the hub and its search read them."""
    promise = {
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "unit": certificate.unit["name"],
        "relation": certificate.unit["relation"],
        "population": certificate.unit["population"],
        "method": certificate.method,
        "digest": certificate.digest,
        "simulated": certificate.simulated,
    }
    front: dict[str, Any] = {
        "pretty_name": name.split("/")[1],
        "tags": ["differential-privacy", "reinforcement-learning", "tacit", *(["croissant"] * (kind == "dataset"))],
        "differential_privacy": promise,
    }
    if license is not None:
        front["license"] = license
    if kind == "dataset":
        front["configs"] = [{"config_name": "default", "data_files": ROWS}]
    else:
        front["library_name"] = "tacit"
    return front


def _card(
    certificate: Certificate, name: str, kind: str, license: str | None, files: Mapping[str, Path | bytes]
) -> str:
    """README.md: metadata as YAML (each value as JSON, which YAML is too), and the label for people."""
    front = _front_matter(certificate, name, kind, license)
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in front.items()]
    loads = [f"release = tacit.hub.load(fetched.path{part})" for part, config in _PARTS.items() if config in files]
    use, said = (loads or ["print(fetched.certificate.sentence)"])[0], list[str]()
    if kind == "dataset":
        use, said = f'rows = pandas.read_parquet(fetched.path / "{ROWS}")', [describe_weights(certificate.plan), ""]
    code = [*["import pandas"] * (kind == "dataset"), "import tacit.hub.sharing", ""]
    code += [f'fetched = tacit.hub.sharing.pull("{name}", "here", kind="{kind}")', use]
    body = ["```python", *code, "```", "", *said, certificate.to_markdown().rstrip()]
    return "\n".join(["---", *lines, "---", "", f"# {front['pretty_name']}", "", *body, ""])


def _datasheet(certificate: Certificate, kind: str) -> str:
    """Answers to the questions of datasheets (Gebru et al. 2021, arXiv:1803.09010) that the certificate has."""
    unit = certificate.unit
    made = "synthetic rows" if kind == "dataset" else "a model"
    of = f"Records of units, each one {unit['name']}, of a declared population of at most {unit['population']:,}."
    people = f"{of} How many there were is private, and none of them is in this repository."
    people = "Nobody: the records were simulated." if certificate.simulated else people
    answers = {
        "What is this?": f"{made.capitalize()}, by {certificate.method} ({certificate.source}).",
        "Whom is it about?": people,
        **({"What does a row weigh?": describe_weights(certificate.plan)} if kind == "dataset" else {}),
        "What is promised?": certificate.sentence,
        "What does the promise cover?": _bullets(certificate.lines("covered")),
        "What does it not cover?": _bullets([*certificate.lines("not_covered"), *certificate.lines("not_protected")]),
        "What is assumed?": _bullets(certificate.lines("assumptions")),
        "How was it made?": f"tacit {certificate.tacit_version}, {certificate.date}, plan {certificate.plan_id}.",
        "How is it checked?": "`tacit certificate verify certificate.json` recomputes the promise.",
        "Collection, consent, licence of the records, upkeep": "To be written by the curator: no certificate says it.",
    }
    return "# Datasheet\n\n" + "\n\n".join(f"## {question}\n\n{answer}" for question, answer in answers.items()) + "\n"


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "Nothing."


def _croissant(rows: Path, certificate: Certificate, name: str, license: str | None) -> str:
    """Croissant 1.0: the file with its digest, and the columns with their types."""
    from pyarrow import parquet

    with open(rows, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"rows/{field.name}",
            "name": field.name,
            "dataType": next((found for stem, found in _TYPES.items() if str(field.type).startswith(stem)), "sc:Text"),
            "source": {"fileObject": {"@id": ROWS}, "extract": {"column": field.name}},
        }
        for field in parquet.read_schema(rows)
    ]
    file_object = {
        "@type": "cr:FileObject",
        "@id": ROWS,
        "name": ROWS,
        "contentUrl": ROWS,
        "encodingFormat": "application/x-parquet",
        "sha256": digest,
    }
    described: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": name.split("/")[1],
        "description": certificate.sentence,
        "datePublished": certificate.date[:10],
        "distribution": [file_object],
        "recordSet": [{"@type": "cr:RecordSet", "@id": "rows", "name": "rows", "field": fields}],
    }
    described |= {} if license is None else {"license": license}
    return json.dumps(described, indent=1, ensure_ascii=False) + "\n"


_CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "recordSet": "cr:recordSet",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "extract": "cr:extract",
    "column": "cr:column",
    "source": "cr:source",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
}


def _require_name(name: str) -> None:
    owner, _, own = name.partition("/")
    if not all(part.replace("-", "").replace("_", "").replace(".", "").isalnum() for part in (owner, own)):
        what, expected = f"{name!r} is no name of a repository", "OWNER/NAME, of letters, digits, '-', '_' and '.'"
        raise FileError(what, where="hub", expected=expected, remedy="give the repository such a name")


def _release_error(where: str, what: str) -> FileError:
    expected = "the files of a release: certificate, card, rows, model, policy, simulator, report"
    remedy = "move everything else out of the folder; keys, ledgers and registers are never published"
    return FileError(what, where=where, expected=expected, remedy=remedy)
