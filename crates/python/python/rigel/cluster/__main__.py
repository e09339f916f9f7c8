"""`python -m rigel.cluster`, which `rigel cluster` calls."""

import sys

from ._command import main

sys.exit(main(sys.argv[1:]))
