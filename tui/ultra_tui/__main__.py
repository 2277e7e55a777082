"""`python -m ultra_tui` is `ultra-chat`."""

import sys

from .cli import main

sys.exit(main())
