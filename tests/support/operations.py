"""The operations that PyTorch computes."""

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Operations(TorchDispatchMode):
    """Context that lists the operations that PyTorch computes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []
        self.computed: list[str] = []
        """Those of them that are no views."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, returned = func.overloadpacket.__name__, func._schema.returns
        self.names.append(name)
        if not any(each.alias_info and not each.alias_info.is_write for each in returned):
            self.computed.append(name)
        return func(*args, **(kwargs or {}))
