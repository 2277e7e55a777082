"""`python -m ultra_engine` is `ultra`."""

import sys

from .cli import main

sys.exit(main())
