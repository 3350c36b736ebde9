"""Publishing and fetching: what leaves a folder, what is refused, and that nothing is kept before it is verified.

The hub is a stand-in on this machine: it speaks the few calls of the HTTP API that the official client makes.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import runpy
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tacit import hub
from tacit.cli import main
from tacit.data.spec import Box, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import CertificateError, FileError
from tacit.hub import sharing
from tacit.methods.synthesis import Synthesizer, TransitionsPlan, fit
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

Repositories = dict[str, dict[str, bytes]]
SHA = "0123456789abcdef0123456789abcdef01234567"


class StandIn(BaseHTTPRequestHandler):
    """A hub whose repositories are dictionaries: "models/owner/name" -> path -> content."""

    repositories: Repositories
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: Any) -> None:
        """Be quiet."""

    def _answer(self, value: Any, status: int = 200) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = "/".join(part for part in (asked.get("organization"), asked["name"]) if part)
            kind = asked.get("type") or "model"
            self.repositories.setdefault(f"{kind}s/{name}", {})
            where = f"http://{self.headers['Host']}/{'datasets/' if kind == 'dataset' else ''}{name}"
            self._answer({"url": where, "id": name, "name": name})
        elif path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            files = [
                {"path": one["path"], "uploadMode": "regular", "shouldIgnore": False}
                for one in json.loads(body)["files"]
            ]
            self._answer({"files": files})
        else:
            found = re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)/commit/main", path)
            assert found, path
            lines = [json.loads(line) for line in body.splitlines()]
            for line in lines:
                if line["key"] == "file":
                    value = line["value"]
                    self.repositories[f"{found[1]}/{found[2]}"][value["path"]] = base64.b64decode(value["content"])
            where = f"http://{self.headers['Host']}/{'datasets/' if found[1] == 'datasets' else ''}{found[2]}"
            self._answer({"commitUrl": f"{where}/commit/{SHA}", "commitOid": SHA})

    def do_GET(self, *, body: bool = True) -> None:
        path = self.path.partition("?")[0]
        about = re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)(/revision/.*)?", path)
        if about:
            files = self.repositories[f"{about[1]}/{about[2]}"]
            siblings = [{"rfilename": name, "size": len(content)} for name, content in files.items()]
            self._answer(
                {"id": about[2], "sha": SHA, "siblings": siblings, "private": False, "downloads": 0, "tags": []}
            )
            return
        found = re.fullmatch(rf"/(datasets/)?([^/]+/[^/]+)/resolve/{SHA}/(.+)", path)
        assert found, path
        content = self.repositories[f"{(found[1] or 'models/')}{found[2]}"][found[3]]
        self.send_response(200)
        self.send_header("X-Repo-Commit", SHA)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def do_HEAD(self) -> None:
        self.do_GET(body=False)


@pytest.fixture
def stand_in() -> Iterator[tuple[str, Repositories]]:
    """Its address, and what is in it."""
    repositories: Repositories = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Hub", (StandIn,), {"repositories": repositories}))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", repositories
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release[Synthesizer]:
    return _release(tmp_path_factory.mktemp("hub"), noise=4.0)


def _release(folder: Path, noise: float) -> Release[Synthesizer]:
    generator = np.random.default_rng(0)
    box, unit = Box((0.0, 0.0), (1.0, 1.0)), Unit("person", "add_or_remove", 1_000)
    data = Trajectories.from_arrays(
        observations=generator.uniform(0.1, 0.9, (40, 2)),
        actions=generator.uniform(-0.9, 0.9, (40, 1)),
        rewards=generator.uniform(0.1, 0.9, 40),
        next_observations=generator.uniform(0.1, 0.9, (40, 2)),
        terminations=np.zeros(40, bool),
        unit_ids=":transition",
        spec=PublicSpec(box, Box((-1.0,), (1.0,)), Box((0.0,), (1.0,)), "declared", difference=(0.1, 0.1)),
        simulated=True,
    )
    plan = TransitionsPlan(steps=2, sampling_rate=1.0, warmup=0, width=8, depth=1, noise_multiplier=noise)
    with Ledger(folder / "ledger", unit, epsilon=99.0, delta=1e-4, composition=SUM) as ledger:
        return fit(plan.account(unit=unit, delta=1e-5), Vault(data, ledger))


@pytest.fixture(scope="module")
def finished(release: Release[Synthesizer], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run: a model, rows, and what stays at home."""
    folder = tmp_path_factory.mktemp("finished")
    hub.save(release, folder / "model")
    release.certificate.save(folder / "certificate.json")
    rows = release.value.sample(20, seed=1)
    rows.to_parquet(folder / "rows.parquet", certificate=release.certificate.to_json())
    (folder / "run.json").write_text('{"command": "synthesize", "settings": {"data": "/home/me/patients.csv"}}')
    (folder / "private").mkdir()
    (folder / "private" / "register").write_text("met person 17")
    (folder / "ledger").write_text("spent")
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of the run's folder."""
    return shutil.copytree(finished, tmp_path / "run")


def test_rows_come_back_verified_and_what_is_private_stays(
    run: Path, tmp_path: Path, stand_in: tuple[str, Repositories], release: Release[Synthesizer]
) -> None:
    address, repositories = stand_in
    url = sharing.push(run, "clinic/visits", endpoint=address, license="cc-by-4.0", token="none")
    assert url.endswith(f"/commit/{SHA}")
    sent = repositories["datasets/clinic/visits"]
    model = {f"model/{name}" for name in ("model.safetensors", "config.json", "certificate.json", "manifest.json")}
    made = {"README.md", "datasheet.md", "croissant.json", "manifest.json"}
    assert set(sent) == {"certificate.json", "rows.parquet", *made, *model}
    assert not any(word in content for content in sent.values() for word in (b"person 17", b"/home/me"))
    fetched = sharing.pull("clinic/visits", tmp_path / "got", kind="dataset", endpoint=address, token="none")
    assert fetched.certificate.digest == release.certificate.digest
    assert fetched.verification.epsilon == release.certificate.epsilon
    assert (fetched.path / "rows.parquet").read_bytes() == (run / "rows.parquet").read_bytes()
    assert hub.load(fetched.path / "model").certificate.digest == release.certificate.digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["got", "run"]


def test_the_card_the_datasheet_and_croissant_say_what_the_certificate_says(run: Path) -> None:
    prepared = sharing.prepare(run, name="clinic/visits", license="cc-by-4.0")
    assert (prepared.kind, list(prepared.excluded_names)) == ("dataset", ["ledger", "private", "run.json"])
    card, datasheet, croissant = (
        prepared.files[name].decode() for name in ("README.md", "datasheet.md", "croissant.json")
    )  # type: ignore[union-attr]
    _, front, body = card.split("---\n", 2)
    values = {key: json.loads(value) for key, value in (line.split(": ", 1) for line in front.splitlines())}
    promise = values["differential_privacy"]
    assert (promise["epsilon"], promise["delta"]) == (prepared.certificate.epsilon, 1e-5)
    assert (promise["unit"], promise["population"], promise["simulated"]) == ("person", 1_000, True)
    assert values["license"] == "cc-by-4.0"
    assert values["configs"] == [{"config_name": "default", "data_files": "rows.parquet"}]
    assert prepared.certificate.sentence in body
    assert prepared.certificate.sentence in datasheet
    assert "Nobody: the records were simulated." in datasheet
    weigh = "a share of synthetic rows is a mean over people, and differs from the share of rows in the records"
    assert weigh in body
    assert weigh in datasheet
    described = json.loads(croissant)
    assert described["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    assert described["distribution"][0]["sha256"] == hashlib.sha256((run / "rows.parquet").read_bytes()).hexdigest()
    types = {field["name"]: field["dataType"] for field in described["recordSet"][0]["field"]}
    assert types["reward"] == "sc:Float"
    assert types["termination"] == "sc:Boolean"


def code_of(folder: Path) -> str:
    """The code on the card of a folder."""
    return (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]


def test_the_code_on_the_card_runs(
    run: Path, stand_in: tuple[str, Repositories], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, fetch = stand_in[0], sharing.pull
    monkeypatch.setattr(sharing, "pull", lambda *names, kind: fetch(*names, kind=kind, endpoint=address, token="none"))
    sharing.push(run / "model", "clinic/model", endpoint=address, token="none")
    sharing.push(run, "clinic/visits", endpoint=address, token="none")
    (run / "rows.parquet").unlink()
    sharing.push(run, "clinic/run", endpoint=address, token="none")
    for name, kind in (("visits", "dataset"), ("model", "model"), ("run", "model")):
        (tmp_path / "at" / name).mkdir(parents=True)
        monkeypatch.chdir(tmp_path / "at" / name)
        Path("code.py").write_text(code_of(sharing.pull(f"clinic/{name}", "first", kind=kind).path))
        space = runpy.run_path("code.py")
        if kind == "dataset":
            assert len(space["rows"]) == len(pandas.read_parquet(Path("first") / "rows.parquet"))
        else:
            assert space["release"].value.sample(3, seed=0).counts()["transitions"] == 3


def test_the_datasheet_states_the_declared_population_as_such(tmp_path: Path) -> None:
    unit = {"name": "patient", "relation": "add_or_remove", "population": 400}
    certificate = dataclasses.replace(_release(tmp_path, noise=5.0).certificate, simulated=False, unit=unit)
    sheet = sharing._datasheet(certificate, "dataset")
    assert "Records of units, each one patient, of a declared population of at most 400. How many there were" in sheet
    assert "400 units" not in sheet


def test_a_release_alone_is_a_model(run: Path, stand_in: tuple[str, Repositories], tmp_path: Path) -> None:
    address, repositories = stand_in
    sharing.push(run / "model", "clinic/model", endpoint=address, token="none")
    assert "croissant.json" not in repositories["models/clinic/model"]
    fetched = sharing.pull("clinic/model", tmp_path / "got", endpoint=address, token="none")
    assert hub.load(fetched.path).value.sample(3, seed=0).counts()["transitions"] == 3


@pytest.mark.parametrize("name", ["key.pem", "register", "patients.csv", "model/ledger", "model/private.csv"])
def test_a_file_that_is_no_part_of_a_release_is_refused(run: Path, name: str) -> None:
    (run / name).write_text("secret 4711")
    with pytest.raises(FileError, match="no part of a release") as refused:
        sharing.prepare(run, name="clinic/visits")
    assert "4711" not in str(refused.value)


def test_ledgers_and_private_folders_outside_a_run_are_refused(run: Path) -> None:
    (run / "run.json").unlink()
    with pytest.raises(FileError, match="no part of a release"):
        sharing.prepare(run, name="clinic/visits")
    with pytest.raises(FileError, match="no part of a release"):
        sharing.prepare(run / "private", name="clinic/visits")


def test_a_link_is_refused(run: Path, tmp_path: Path) -> None:
    shutil.move(run / "rows.parquet", tmp_path / "elsewhere")
    (run / "rows.parquet").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match="link or no plain file"):
        sharing.prepare(run, name="clinic/visits")


def test_what_promises_nothing_is_refused(tmp_path: Path) -> None:
    void = _release(tmp_path, noise=0.0)
    hub.save(void, tmp_path / "model")
    with pytest.raises(CertificateError, match="nothing is promised"):
        sharing.prepare(tmp_path / "model", name="clinic/visits")


def test_a_release_without_or_with_another_certificate_is_refused(run: Path, tmp_path: Path) -> None:
    other = _release(tmp_path, noise=5.0)
    (run / "certificate.json").unlink()
    with pytest.raises(CertificateError, match="no certificate"):
        sharing.prepare(run, name="clinic/visits")
    other.certificate.save(run / "certificate.json")
    with pytest.raises(CertificateError, match="another one"):
        sharing.prepare(run, name="clinic/visits")


@pytest.mark.parametrize("name", ["visits", "a/b/c", "../x", "clinic/", "clinic/a b"])
def test_a_repository_has_an_owner_and_a_name(run: Path, name: str) -> None:
    with pytest.raises(FileError, match="no name of a repository"):
        sharing.prepare(run, name=name)


def test_an_edited_repository_leaves_nothing_behind(
    run: Path, tmp_path: Path, stand_in: tuple[str, Repositories]
) -> None:
    address, repositories = stand_in
    sharing.push(run, "clinic/visits", endpoint=address, token="none")
    sent = repositories["datasets/clinic/visits"]
    whole = dict(sent)
    edited = json.loads(sent["certificate.json"]) | {"epsilon": 0.001}
    for change in (
        {"certificate.json": json.dumps(edited).encode()},
        {"model/model.safetensors": sent["model/model.safetensors"][:-4] + b"\0\0\0\0"},
        {"rows.parquet": b"PAR1"},
    ):
        sent.clear()
        sent.update(whole | change)
        with pytest.raises((CertificateError, FileError)):
            sharing.pull("clinic/visits", tmp_path / "got", kind="dataset", endpoint=address, token="none")
        assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_files_that_are_no_release_are_not_fetched_and_a_signature_can_be_required(
    run: Path, tmp_path: Path, stand_in: tuple[str, Repositories], release: Release[Synthesizer]
) -> None:
    address, repositories = stand_in
    sharing.push(run, "clinic/visits", endpoint=address, token="none")
    sent = repositories["datasets/clinic/visits"]
    sent |= {"setup.py": b"evil", "../../evil": b"evil", "model/evil.pkl": b"evil", ".gitattributes": b"x"}
    key = Ed25519PrivateKey.generate()
    signed = release.certificate.sign(key)
    public = signed.to_json()["signature"]["public_key"]
    with pytest.raises(CertificateError):
        sharing.pull("clinic/visits", tmp_path / "a", kind="dataset", public_key=public, endpoint=address, token="none")
    sent["certificate.json"] = json.dumps(signed.to_json()).encode()
    with pytest.raises(FileError, match="not signed by that key"):
        sharing.pull("clinic/visits", tmp_path / "a", kind="dataset", public_key=public, endpoint=address, token="none")
    sharing.push(run, "clinic/visits", key=key, endpoint=address, token="none")
    got = sharing.pull(
        "clinic/visits", tmp_path / "b", kind="dataset", public_key=public, endpoint=address, token="none"
    )
    assert got.verification.signed_by == public
    names = {path.relative_to(got.path).as_posix() for path in got.path.rglob("*") if path.is_file()}
    assert not {name for name in names if "evil" in name or name in ("setup.py", ".gitattributes")}


@pytest.fixture
def signed(run: Path, stand_in: tuple[str, Repositories]) -> tuple[str, dict[str, bytes], str]:
    """The address of a hub with a signed release, its files, and the public key."""
    (run / "report.html").write_text("<script>alert(1)</script>")
    key = Ed25519PrivateKey.generate()
    sharing.push(run, "clinic/visits", key=key, endpoint=stand_in[0], token="none")
    return stand_in[0], stand_in[1]["datasets/clinic/visits"], key.public_key().public_bytes_raw().hex()


def fetched(signed: tuple[str, dict[str, bytes], str], folder: Path) -> Path:
    """What is fetched with the key."""
    address, _, public = signed
    return sharing.pull("clinic/visits", folder, kind="dataset", public_key=public, endpoint=address, token="none").path


def test_no_page_is_fetched_and_cards_are_made_again(
    signed: tuple[str, dict[str, bytes], str], tmp_path: Path, release: Release[Synthesizer]
) -> None:
    sent = signed[1]
    assert "report.html" in sent
    honest = {name: sent[name] for name in ("README.md", "datasheet.md", "croissant.json")}
    for name in honest:
        sent[name] = b"<script>alert(1)</script> epsilon 0.001"
    folder = fetched(signed, tmp_path / "got")
    assert not list(folder.rglob("*.html"))
    assert {name: (folder / name).read_bytes() for name in honest} == honest
    assert hub.load(folder / "model").certificate.digest == release.certificate.digest


def other_weights(sent: dict[str, bytes], run: Path, release: Release[Synthesizer]) -> None:
    """The same model with other weights, consistently saved, beside the signed certificate."""
    weights = {name: tensor + 1.0 for name, tensor in release.value.weights.items()}
    other = Release(dataclasses.replace(release.value, weights=weights), release.certificate)
    hub.save(other, run / "other")
    sent |= {f"model/{path.name}": path.read_bytes() for path in (run / "other").iterdir() if path.suffix != ".md"}


def a_raw_table(sent: dict[str, bytes], run: Path, release: Release[Synthesizer]) -> None:
    """Other rows under the same certificate."""
    release.value.sample(5, seed=9).to_parquet(run / "raw.parquet", certificate=release.certificate.to_json())
    sent["rows.parquet"] = (run / "raw.parquet").read_bytes()


def a_file_more(sent: dict[str, bytes], run: Path, release: Release[Synthesizer]) -> None:
    """A finding that the manifest does not know."""
    sent["evaluation.json"] = b"{}"


def a_file_less(sent: dict[str, bytes], run: Path, release: Release[Synthesizer]) -> None:
    """The rows are gone."""
    del sent["rows.parquet"]


def no_manifest(sent: dict[str, bytes], run: Path, release: Release[Synthesizer]) -> None:
    """Nobody says what belongs to the release."""
    del sent["manifest.json"]


def another_manifest(sent: dict[str, bytes], run: Path, release: Release[Synthesizer]) -> None:
    """A manifest that fits other rows, with the signature of the real one."""
    a_raw_table(sent, run, release)
    manifest = json.loads(sent["manifest.json"])
    manifest["files"]["rows.parquet"] = hashlib.sha256(sent["rows.parquet"]).hexdigest()
    sent["manifest.json"] = json.dumps(manifest).encode()


@pytest.mark.parametrize(
    "change", [other_weights, a_raw_table, a_file_more, a_file_less, no_manifest, another_manifest]
)
def test_other_files_beside_a_signed_certificate_are_refused(
    change: Any, signed: tuple[str, dict[str, bytes], str], run: Path, tmp_path: Path, release: Release[Synthesizer]
) -> None:
    change(signed[1], run, release)
    with pytest.raises(FileError, match="manifest"):
        fetched(signed, tmp_path / "got")
    assert not (tmp_path / "got").exists()


def test_a_folder_with_other_weights_is_neither_loaded_nor_published(
    run: Path, tmp_path: Path, release: Release[Synthesizer]
) -> None:
    sent: dict[str, bytes] = {}
    other_weights(sent, tmp_path, release)
    for name in ("model.safetensors", "config.json"):
        (run / "model" / name).write_bytes(sent[f"model/{name}"])
    with pytest.raises(FileError, match="manifest"):
        hub.load(run / "model")
    with pytest.raises(FileError, match="manifest"):
        sharing.prepare(run, name="clinic/visits")
    with pytest.raises(FileError, match="manifest"):
        sharing.prepare(run / "model", name="clinic/visits")


def test_too_many_bytes_are_refused_before_they_are_fetched(
    run: Path, tmp_path: Path, stand_in: tuple[str, Repositories], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, _ = stand_in
    sharing.push(run, "clinic/visits", endpoint=address, token="none")
    monkeypatch.setattr(sharing, "_MAX_BYTES", 1_000)
    with pytest.raises(FileError, match="more files or bytes"):
        sharing.pull("clinic/visits", tmp_path / "got", kind="dataset", endpoint=address, token="none")


def test_the_command_line_says_what_goes_and_what_stays(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hub", "push", str(run), "clinic/visits", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "Kept here: ledger, private, run.json." in said
    assert "Nothing was sent." in said
    assert main(["hub", "push", str(run / "private"), "clinic/visits", "--dry-run"]) == 6
