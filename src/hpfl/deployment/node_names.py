"""What a node may be called, in certificates and in rosters."""

import re

NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
NODE_NAME_IS = "lower-case letters, digits, dots and dashes, at most 63"
