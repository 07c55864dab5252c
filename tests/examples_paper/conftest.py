"""The examples stand beside the package; their modules import each other."""

import sys
from pathlib import Path

PAPER = Path(__file__).parents[2] / "examples" / "paper"
sys.path.insert(0, str(PAPER))
