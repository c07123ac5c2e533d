"""Writes the parts of a sharded training, and reports a full disk. Takes a second to import."""

from typing import Any

from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.futures import Future


class PartsWriter(FileSystemWriter):
    """PyTorch's writer of a distributed checkpoint."""

    def write_data(self, *given: Any, **options: Any) -> Future[Any]:
        """Writes the parts of this process.

        Raises:
            OSError: the disk's own error, which the error of PyTorch's archive hides.
        """
        try:
            return super().write_data(*given, **options)
        except Exception as error:
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise
