"""What a release already knows, at no further cost: descriptions, tests and models of its moments or its cells."""
