"""One call from a model to a fit: which explicit way serves it best, by public numbers, and at what price."""
