"""Architectures behind one protocol: `headwise.models.base.Seq2Seq`, and models of single texts and images."""
