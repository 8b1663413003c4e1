"""What a node may be called, in certificates and in rosters."""

import re

NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
NODE_NAME_IS = "lower-case letters, digits, dots and dashes, at most 63"


def default_name(ue: int) -> str:
    """What a UE is called where no roster says otherwise."""
    return f"ue-{ue}"
