"""What a released Gram already knows, at no further cost: descriptions, tests and models read from its moments."""
