"""Finds the address of the Ray cluster that this machine belongs to, and trusts no other user."""

import os
import pwd
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from fathom.objectives.files.reading import open_regular
from fathom.search.cluster.ray_internals import ray_address_file

CONNECT_SECONDS = 5.0
"""Longest wait for a connection."""
BELIEVED = {0}
"""Ids of other users whose addresses of Ray are trusted: root, who can do anything anyway."""
LISTENING = "0A"
"""State of a socket that listens, in Linux's tables of sockets."""
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


@dataclass(frozen=True, slots=True)
class NamedCluster:
    """An address of a Ray cluster, and where it was found."""

    address: str | None
    """Address of the cluster; None if none is named, or if the place that names it is not
    trusted."""
    source: str = "RAY_ADDRESS"
    """The variable or the file that names the address."""
    doubt: str = ""
    """Reason why the file is not trusted."""

    @property
    def from_variable(self) -> bool:
        """True if the user named the address for this run, by the variable."""
        return self.source == "RAY_ADDRESS"


def named_cluster() -> NamedCluster:
    """The cluster that `RAY_ADDRESS` names, or that `ray start` on this machine belongs to.

    Ray's own `auto` would find any Ray on this machine, even one of another user, or one that ends
    with another search. Here `auto` means the address in the file that `ray start` wrote.
    """
    named = os.environ.get("RAY_ADDRESS")
    if named and named != "auto":
        return NamedCluster(None if named == "local" else named)
    path = ray_address_file()
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return NamedCluster(None, str(path))
    except OSError as error:
        return NamedCluster(None, str(path), f"it can't be read: {error.strerror}")
    with file:
        found = os.fstat(file.fileno())
        if found.st_uid not in BELIEVED | {os.getuid()}:
            return NamedCluster(None, str(path), f"it belongs to {_user(found.st_uid)}")
        if not os.path.samestat(path.lstat(), found):
            return NamedCluster(None, str(path), "it is a link")
        if found.st_mode & stat.S_IWOTH:
            return NamedCluster(None, str(path), "others can write to it")
        address = file.read(1000).decode(errors="replace").strip()
    strangers = _listeners(address) - BELIEVED - {os.getuid(), found.st_uid}
    if strangers:
        owner = _user(min(strangers))
        doubt = f"the program at {address}, which it names, belongs to {owner}"
        return NamedCluster(None, str(path), doubt)
    return NamedCluster(address or None, str(path))


def is_reachable(address: str) -> bool:
    """True if something listens at an address, or if the address does not have the form
    HOST:PORT."""
    host, _, port = address.rpartition(":")
    if "://" in address or not port.isdigit():
        return True
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _listeners(address: str) -> set[int]:
    """Ids of the users whose processes listen at an address of this machine; empty for another
    machine, and where the system has no tables of sockets."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or not _is_here(host.strip("[]")):
        return set()
    owners = set[int]()
    for table in TABLES:
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == int(port):
                owners.add(int(fields[7]))
    return owners


def _is_here(host: str) -> bool:
    """True if a host is a name or an address of this machine, so that a socket can be bound to
    it."""
    try:
        for family, kind, _, _, place in socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM):
            with socket.socket(family, kind) as probe:
                probe.bind(place)
    except OSError:
        return False
    return True
