"""Run the code of the chapters and insert what it prints: `make learn`; prints the files that changed.

With --record (`make learn RECORD=1`), what the model in the package says is recorded anew.
"""

from __future__ import annotations

import sys

from headwise.learn.chapters import PAGES, update

if __name__ == "__main__":
    for file in update(PAGES, record="--record" in sys.argv):
        print(file)
