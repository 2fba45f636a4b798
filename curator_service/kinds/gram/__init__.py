"""The kind gram: noisy sufficient statistics of linear models."""
