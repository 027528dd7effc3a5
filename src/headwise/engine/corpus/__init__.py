"""Translation of a corpus: chunk by chunk, on one machine or a cluster, with a manifest to resume from."""
