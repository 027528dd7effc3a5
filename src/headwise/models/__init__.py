"""Architectures behind one protocol: `headwise.models.base.Seq2Seq`."""
