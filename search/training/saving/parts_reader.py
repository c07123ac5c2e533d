"""Reads the parts of a sharded training, without running code that their metadata may name. Takes a
second to import.

PyTorch itself unpickles the metadata of a distributed checkpoint and runs any code that the
metadata name; it loads tensors as weights only.
"""

import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, EnumType
from io import IOBase
from pathlib import Path, PosixPath
from typing import Any, cast

import torch
from torch import dtype
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata

from fathom.objectives.files.reading import open_regular

NAMES = {
    "torch": {"Size", *(name for name, value in vars(torch).items() if isinstance(value, dtype))},
    "torch.serialization": {"_get_layout"},
    "torch.distributed.checkpoint.metadata": {
        *("Metadata", "MetadataIndex", "StorageMeta", "ChunkStorageMetadata"),
        *("TensorStorageMetadata", "BytesStorageMetadata", "TensorProperties"),
        "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    PosixPath.__module__: {"PosixPath"},
}
"""Module -> the names in it that the metadata of tensors need."""


class PartsReader(FileSystemReader):
    """Reads a folder of parts, whose metadata may only name classes that tensors need."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fs = _RegularFiles()

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Returns the metadata of the folder.

        Raises:
            UnpicklingError: when they name anything else.
            OSError: when they are no regular file.
        """
        with open_regular(Path(self.path) / ".metadata") as file:
            metadata: Metadata = _Unpickler(file).load()
        return metadata


class _RegularFiles(FileSystem):
    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[IOBase]:
        """Opens a file for reading; refuses a pipe, since reading it might never end."""
        assert mode == "rb"
        with open_regular(Path(path)) as file:
            yield cast(IOBase, file)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Returns the class or function that a pickle names, if it is in `NAMES`."""
        if (module, name) == ("builtins", "getattr"):
            return _member
        if name not in NAMES.get(module, ()):
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no tensor needs")
        return super().find_class(module, name)


def _member(kind: object, name: str) -> Enum:
    """Returns the member of an enumeration by its name; Python 3.11.0 to 3.11.3 pickle members as
    attributes."""
    if not isinstance(kind, EnumType):
        raise pickle.UnpicklingError(f"it names {kind!r}.{name}, which no tensor needs")
    member: Enum = kind[name]
    return member
