"""A worker process that can't do its job, each in the way that the job says."""

import sys

from headwise.errors import DataError
from headwise.training.workers import orders, report_error, report_ready

job = next(orders())
if job["way"] == "mistake":
    report_error(DataError("line 3: expected text, found none"))
    sys.exit(2)
if job["way"] == "exit":
    sys.exit(7)
report_ready()
