"""`python -m afferent` is the command `afferent`."""

import sys

from ._cli import main

sys.exit(main())
