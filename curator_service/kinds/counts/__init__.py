"""The kind counts: joint histograms over declared columns."""
