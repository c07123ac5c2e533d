"""The state of a sharded training on disk: PyTorch's distributed checkpoint, to which every rank
writes its parts. Torch only.

The checkpoint file has everything but the parts, and names their folder. So replacing this file
replaces the parts as well, and any number of processes may resume from file and parts.
"""

import importlib
import shutil
import socket
import uuid
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed
from torch import Tensor

from fathom.objectives.files.durable import sync_folder
from fathom.search.run_folder import PARTS, forget_parts
from fathom.search.training.ranks.data_parallel import Ranks
from fathom.search.training.saving import checkpoint
from fathom.search.training.saving.state_copy import mapped

FOLDER, PART = "folder of parts", "in parts"
"""Key in a state for the name of the folder of parts; and placeholder in a state for each tensor
that is kept in parts."""
BOOT = Path("/proc/sys/kernel/random/boot_id")
"""File with a random id that the machine gets at each start."""
State = dict[str, Any]


class ShardedSaver(checkpoint.BackgroundSaver):
    """Saves states of a sharded training; all ranks call `start` and `finish` at the same step.

    Ranks on one machine copy their parts and go on training while the copies are written; ranks on
    several machines wait until their parts are written. The leader alone asks `is_writing`.
    """

    def __init__(self, path: Path, ranks: Ranks) -> None:
        super().__init__(path)
        self._ranks = ranks
        self._writer = _thread_on_this_device()
        self._copy_of_parts = _copy_of_parts()
        self._beside = _group_beside(ranks)

    def start(self, state: State) -> None:
        """Begins to save a state; if saving fails, the previous state is still there.

        Raises:
            DiskFullError: when there was no room for it or for the state before.
        """
        self.finish()
        name = self._ranks.broadcast(lambda: f"{self._path.stem}.{uuid.uuid4().hex[:8]}{PARTS}")
        parts, folder = dict[str, Tensor](), self._path.with_name(name)

        def take(name: str, leaf: Any) -> Any:
            if not hasattr(leaf, "to_local"):
                return leaf
            parts[name] = leaf
            return PART

        rest = self._copy.take(mapped(state, take) | {FOLDER: name})
        kept = parts if self._beside is None else self._copy_of_parts(parts)
        self._written = self._writer.submit(self._put, kept, rest, folder)
        if self._beside is None:
            self.finish()

    def _put(self, parts: dict[str, Tensor], rest: State, folder: Path) -> None:
        """Writes the parts of all ranks; then the leader makes the checkpoint file name their
        folder."""
        module: Any = importlib.import_module("fathom.search.training.saving.parts_writer")
        where = {"storage_writer": module.PartsWriter(folder), "process_group": self._beside}
        try:
            _with_own_error(partial(_library().save, parts, **where))
            if self._ranks.is_leader:
                self._copy.wait()
                sync_folder(folder)  # the files in it are on the disk already
                checkpoint.save(rest, self._path)
                forget_parts(self._path, but=folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # half a state would fill the disk
            raise


def _copy_of_parts() -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    """Returns a function that copies parts into the machine's memory, not the GPU's."""
    staging: Any = importlib.import_module("torch.distributed.checkpoint.staging")
    stager = staging.DefaultStager(staging.StagingOptions(False, False, False, False))
    copy: Callable[[dict[str, Tensor]], dict[str, Tensor]] = stager.stage
    return copy


def _thread_on_this_device() -> ThreadPoolExecutor:
    """Returns a pool of one thread that uses the GPU of this thread: PyTorch needs a thread's GPU
    even to write a copy."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return ThreadPoolExecutor(1)
    device = torch.cuda.current_device()
    return ThreadPoolExecutor(1, initializer=torch.cuda.set_device, initargs=(device,))


def _group_beside(ranks: Ranks) -> Any:
    """A gloo group of the same ranks, for threads that save while the ranks train. None if ranks
    are on several machines: gloo can't reach another machine whose name resolves to its loopback
    address, as on Debian."""
    machines: list[Any] = [None] * ranks.size
    torch.distributed.all_gather_object(machines, (socket.gethostname(), _start_of_machine()))
    return torch.distributed.new_group(backend="gloo") if len({*machines}) == 1 else None


def _start_of_machine() -> str:
    """The random id of this machine's last start, by which machines of the same name differ; empty
    if the system has none."""
    try:
        return BOOT.read_text()
    except OSError:
        return ""


def with_parts(state: State, path: Path, like: Callable[[], State]) -> State:
    """Completes a state read from the checkpoint file: reads its sharded tensors into the tensors
    of a similar state, which `like` makes; all ranks must call this.

    Raises:
        Exception: when parts are missing or damaged.
    """
    if FOLDER not in state:
        return state
    there, wanted = dict[str, Any](), dict[str, Any]()
    mapped(like(), there.setdefault)

    def want(name: str, leaf: Any) -> None:
        if isinstance(leaf, str) and leaf == PART:
            wanted[name] = there[name]

    mapped(state, want)
    # Another user may have written the metadata, which PyTorch's own reader would unpickle.
    reader: Any = importlib.import_module("fathom.search.training.saving.parts_reader")
    folder = path.with_name(state[FOLDER])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is .* in a single process")
        _with_own_error(partial(_library().load, wanted, storage_reader=reader.PartsReader(folder)))
    whole: State = mapped(state, wanted.get)
    return whole


def _library() -> Any:
    """Imports and returns PyTorch's distributed checkpoints; the import takes a second."""
    return importlib.import_module("torch.distributed.checkpoint")


def _with_own_error(work: Callable[[], object]) -> None:
    """Saves or loads parts, by `work`, on all ranks; on every rank raises the error of the first
    rank that failed."""
    try:
        work()
    except _library().CheckpointException as error:  # which is no Exception
        first, _ = next(iter(error.failures.values()))
        if isinstance(first, OSError | RuntimeError):
            raise first from None
        raise RuntimeError(f"{type(first).__name__}: {first}") from None
