"""Entry point of `python -m headwise`, the same as the command `headwise`; torchrun starts it this way."""

import os
import sys

if not sys.flags.safe_path and sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(os.curdir):
    del sys.path[0]  # `python -m` puts the working directory first; a numpy.py there would shadow the package

from headwise.cli.main import main

if __name__ == "__main__":
    main()
