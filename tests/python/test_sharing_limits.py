"""Sharing on limited systems: older kernels, no free file descriptors, no /proc."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import saeta as sa
from share_wire import limits
from sharing_peer import Peer, descriptors, few_descriptors, received, sent

pytestmark = pytest.mark.usefixtures("nothing_left")

# Emulates Linux before 6.7, where a file sealed against writing can't be mapped shared, even read-only.
OLDER_KERNEL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/types.h>

static void* refuse_or_map(const char* name, void* at, size_t bytes, int access, int flags, int file,
                           off_t begin) {
  void* (*map)(void*, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, name);
  const int seals = flags & MAP_SHARED && file >= 0 ? fcntl(file, F_GET_SEALS) : -1;
  if (seals != -1 && seals & F_SEAL_WRITE) {
    errno = EPERM;
    return MAP_FAILED;
  }
  return map(at, bytes, access, flags, file, begin);
}
void* mmap(void* at, size_t bytes, int access, int flags, int file, off_t begin) {
  return refuse_or_map("mmap", at, bytes, access, flags, file, begin);
}
void* mmap64(void* at, size_t bytes, int access, int flags, int file, off_t begin) {
  return refuse_or_map("mmap64", at, bytes, access, flags, file, begin);
}
"""

OPEN = """
import fcntl, mmap, os, pickle, sys
import saeta as sa
file = os.memfd_create("x", os.MFD_ALLOW_SEALING)
os.ftruncate(file, 4096)
fcntl.fcntl(file, 1033, 8)
try:
    mmap.mmap(file, 4096, mmap.MAP_SHARED, mmap.PROT_READ)
except PermissionError:
    print("refused")
here = sa.table({"a": [3]}, "host").share()
for token in (pickle.loads(bytes.fromhex(sys.argv[1])), here):
    print(sa.open_shared(token)["a"].to_pylist())
"""


def test_shared_tables_are_opened_on_kernels_before_6_7(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the preloaded library")
    (tmp_path / "refuse.c").write_text(OLDER_KERNEL)
    library = tmp_path / "refuse.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "refuse.c"), "-ldl"], check=True
    )
    token = sa.table({"a": [1, 2]}, "host").share()
    found = subprocess.run(
        [sys.executable, "-c", OPEN, sent(token)],
        env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert found.stdout.split("\n")[:3] == ["refused", "[1, 2]", "[3]"], found.stderr


def test_an_open_table_uses_one_descriptor(peer: Peer) -> None:
    texts = peer.run(
        "kept = [sa.table({'a': [i]}, 'host').share() for i in range(5)]; [show(x) for x in kept]"
    )
    before = descriptors()
    found = [sa.open_shared(received(each)) for each in texts]
    assert descriptors() == before + 5
    del found


@pytest.mark.parametrize("left", [0, 1])
def test_the_error_of_a_consumer_without_descriptors(peer: Peer, left: int) -> None:
    """One descriptor is enough for the connection, but not for the file in the reply."""
    (text,) = peer.run("kept = sa.table({'a': [1]}, 'host').share(); show(kept)")
    with (
        few_descriptors(left),
        pytest.raises(sa.FileError, match="can't be opened: Too many open") as refused,
    ):
        sa.open_shared(received(text))
    assert refused.value.errno == errno.EMFILE
    del refused
    assert sa.open_shared(received(text))["a"].to_pylist() == [1]


def test_the_error_of_a_first_share_without_descriptors() -> None:
    with Peer() as other:
        assert other.run("""
import resource
table = sa.table({'a': [1]}, 'host')
table.pack()
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
files = []
try:
    while True: files.append(os.dup(0))
except OSError:
    pass
for left in range(5):
    try:
        kept = table.share()
        print(left, flush=True)
        break
    except sa.FileError as refused:
        assert 'Too many open files (errno 24)' in str(refused), refused
    os.close(files.pop())
else:
    print("four are too few", flush=True)
while files: os.close(files.pop())
kept = table.share()
assert opened(pickle.dumps(kept).hex())['a'].to_pylist() == [1]
""") == ["four are too few"]


def test_consumers_get_the_error_of_a_producer_without_descriptors() -> None:
    with Peer() as other:
        (text,) = other.run("""
import resource
from saeta import _core
_core._share_limits(starvation=0.05)
kept = sa.table({'a': [1]}, 'host').share()
show(kept)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
files = []
try:
    while True: files.append(os.dup(0))
except OSError:
    pass
""")
        for _ in range(2):
            with pytest.raises(sa.ExchangeError, match=r"can't open a connection: Too many open files"):
                sa.open_shared(received(text))
        other.run("while files: os.close(files.pop())")
        assert sa.open_shared(received(text))["a"].to_pylist() == [1]


def test_the_error_without_proc_names_it(tmp_path: Path) -> None:
    token = sa.table({"a": [1]}, "host").share()
    with limits(machine_id=str(tmp_path / "boot_id")):
        for call in (sa.table({"a": [1]}, "host").share, lambda: sa.open_shared(token)):
            with pytest.raises(sa.FileError, match=r"boot_id, .* can't be read: No such file") as refused:
                call()
            assert refused.value.errno == errno.ENOENT
    assert sa.open_shared(token)["a"].to_pylist() == [1]


def test_starting_the_broker_is_retried() -> None:
    with Peer() as other:
        assert other.run("""
from sharing_peer import few_descriptors
table = sa.table({'a': [1]}, 'host')
table.pack()
for _ in range(2):
    with few_descriptors(1):
        try:
            table.share()
        except sa.FileError as refused:
            print(refused.errno, flush=True)
kept = table.share()
print(opened(pickle.dumps(kept).hex())['a'].to_pylist(), flush=True)
""") == ["24", "24", "[1]"]
