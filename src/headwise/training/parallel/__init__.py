"""Data parallelism: processes that train one model together, on one machine or several.

`world` has the process group, `workers` the processes that `headwise train` starts on this machine, and `replica` the
model on each rank: whole in every process (DDP), or sharded over them (FSDP2).
"""
