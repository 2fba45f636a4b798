"""HTTP: requests, retries, refusals, and the purchase of a release."""
