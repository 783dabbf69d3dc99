"""`python -m sim.cli`."""

import sys

from sim.cli.command import main

sys.exit(main())
