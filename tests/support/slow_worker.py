"""A worker process that imports for ten minutes."""

import time

time.sleep(600)
