"""Before torch is imported: its threads wait as the server's do, so that a busy machine slows tests less."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
