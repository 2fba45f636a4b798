"""Datasets: manifests, the stored lattice, and who may see what is declared."""
