"""Marian's own files: `.npz`, `.yml` and `.spm`, in and out."""
