"""Scheduling: sentences of many clients are submitted at any time, and each is handed back when it is finished."""
