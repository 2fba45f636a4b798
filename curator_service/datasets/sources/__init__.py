"""Sources of rows: each yields batches of stored integers, checked against a manifest."""
