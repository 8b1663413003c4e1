"""The makers of reference pages lie with the scripts, that of notebooks' pages with the docs."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "docs")]
