"""What happens to a UE's direction between its computation and the sum: a chain of steps by name. None is shipped."""

from typing import Any

from hpfl.registry import Registry

UPLINKS: Registry[Any] = Registry("uplink step", plural="uplinks")
