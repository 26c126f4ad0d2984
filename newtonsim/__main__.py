"""``python -m newtonsim`` is the command ``newtonsim``."""

import sys

from newtonsim.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
