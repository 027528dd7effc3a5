"""A worker process that can't do its job, each in the way that the job says."""

import json
import sys
import time

from headwise.errors import DataError
from headwise.training.parallel.workers import report_error, report_ready

job = json.loads(sys.stdin.readline())
if job["way"] == "mistake":
    report_error(DataError("line 3: expected text, found none"))
    sys.exit(2)
if job["way"] == "exit":
    sys.exit(7)
if job["way"] == "imports":
    time.sleep(600)  # without noticing the end of its input
report_ready()
if job["way"] == "never joins":
    time.sleep(600)
