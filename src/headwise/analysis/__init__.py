"""Analysis of trained models: attention, heads, alignments, attribution, interventions, plots."""
