import contextlib
import copy
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ledger_cases import in_child, make, reserve

from tacit.errors import LedgerError
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.store import _record, file_system


def test_a_second_writer_is_refused_until_close(path: Path, ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="in use"):
        Ledger(path)
    code = (
        "import sys; from tacit.privacy.ledger.ledger import Ledger\n"
        "try: Ledger(sys.argv[1])\nexcept Exception as e: print(e)"
    )
    other = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert other.stdout.count("\n") == 1
    assert "the ledger is in use" in other.stdout
    ledger.close()
    Ledger(path).close()


def test_the_head_is_on_the_disk_when_a_claim_returns(
    path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve(ledger)
    flushed, real = [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: flushed.append(os.readlink(f"/proc/self/fd/{handle}")) or real(handle)
    )
    ledger.claim("p", "a", 1)
    assert flushed == [f"{path}.lock"]


def test_a_torn_head_is_no_head(path: Path, ledger: Ledger) -> None:
    reserve(ledger)
    lock = path.with_name(path.name + ".lock")
    before = lock.read_bytes()
    ledger.claim("p", "a", 1)
    after = lock.read_bytes()
    ledger.close()
    for place in range(1, len(after)):
        lock.write_bytes(after[:place] + before[place:])
        make(path).close()
    lock.write_bytes(after)
    shutil.copy(path, path.with_name("older"))
    with make(path) as newer:
        newer.claim("p", "a", 1)
        lock_of_newer = newer.head
    shutil.copy(path.with_name("older"), path)
    lock.write_text(_record(lock_of_newer))
    with pytest.raises(LedgerError, match="older than the head"):
        make(path)


def test_a_dropped_ledger_frees_its_lock(path: Path) -> None:
    make(path)
    Ledger(path).close()


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs symbolic links")
def test_another_name_is_the_same_ledger(path: Path, ledger: Ledger) -> None:
    alias = path.with_name("alias.ledger")
    alias.symlink_to(path)
    with pytest.raises(LedgerError, match="in use"):
        Ledger(alias)
    ledger.close()
    hard = path.with_name("hard.ledger")
    os.link(path, hard)
    for name in (path, hard):
        with pytest.raises(LedgerError, match="several names"):
            Ledger(name)


def test_without_the_lock_file_two_writers_still_cannot_both_claim(path: Path, ledger: Ledger) -> None:
    reserve(ledger, steps=10)
    path.with_name("x.ledger.lock").unlink()
    with Ledger(path) as second:
        assert second.claim("p", "a", 1) == range(0, 1)
        with pytest.raises(LedgerError, match="something else has written"):
            ledger.claim("p", "a", 1)
        assert ledger.claim("p", "a", 1) == range(1, 2)  # it has read the file again
        with pytest.raises(LedgerError, match="something else has written"):
            second.claim("p", "a", 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_refused(path: Path) -> None:
    ledger = make(path)
    reserve(ledger)
    assert in_child(lambda: ledger.claim("p", "a", 1) and None) == 3
    assert in_child(ledger.verify) == 3
    assert in_child(ledger.close) == 0  # does nothing
    assert ledger.claim("p", "a", 1) == range(0, 1)
    with pytest.raises(LedgerError, match="in use"):
        Ledger(path)
    ledger.close()
    Ledger(path).close()


ORPHAN = """
import os, sys, time
from tacit.privacy.ledger.ledger import Ledger
ledger = Ledger(sys.argv[1])
if os.fork() == 0:
    os.closerange(0, 3)
    time.sleep(float(sys.argv[2]))
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_lock_ends_with_its_owner_even_if_a_child_lives_on(path: Path) -> None:
    make(path).close()
    subprocess.run([sys.executable, "-c", ORPHAN, str(path), "8"], check=True, stdin=subprocess.DEVNULL)
    for _ in range(100):  # the child needs a moment to let go
        with contextlib.suppress(LedgerError):
            Ledger(path).close()
            return
        time.sleep(0.05)
    pytest.fail("the orphan keeps the lock")


def test_not_picklable_not_copyable(ledger: Ledger) -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(LedgerError, match="pickled"):
            attempt(ledger)


def test_a_closed_ledger_refuses(path: Path) -> None:
    ledger = make(path)
    ledger.close()
    ledger.close()
    for use in (lambda: ledger.claim("p", "a", 1), ledger.verify, lambda: ledger.head, ledger.spent):
        with pytest.raises(LedgerError, match="closed"):
            use()


def test_importing_the_ledger_loads_no_numerics() -> None:
    heavy = "{'torch', 'numpy', 'scipy', 'dp_accounting'}"
    code = f"import sys, tacit.privacy.ledger.ledger; print({heavy} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "set()\n"


MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb /home/me/local xfs rw 0 0
//nas/share /mnt/my\\040share cifs rw 0 0
me@host: /mnt/ssh fuse.sshfs rw 0 0
tmpfs /mnt/ssh tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/x.ledger", "ext4"),
        ("/home/me/x.ledger", "nfs4"),
        ("/home/me/local/x.ledger", "xfs"),
        ("/homeless/x.ledger", "ext4"),
        ("/mnt/my share/x.ledger", "cifs"),
        ("/mnt/ssh/x.ledger", "tmpfs"),  # the later mount covers the earlier one
    ],
)
def test_file_system_of_a_path(path: str, kind: str) -> None:
    assert file_system(path, MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "lustre"])
def test_network_file_systems_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("tacit.privacy.ledger.store.file_system", lambda *_: kind)
    with pytest.raises(LedgerError, match=f"network file system .{kind}."):
        make(path)
    assert list(path.parent.iterdir()) == []
