"""Ray's own settings, which it reads when it is imported: a cluster lets nobody in without the token."""

import os
import secrets
import sys
from pathlib import Path

os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
sys.path.append(str(Path(__file__).parents[1] / "deployment"))  # for what reads the files in deploy/
