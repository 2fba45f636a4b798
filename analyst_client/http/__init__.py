"""HTTP: requests, retries, refusals, and the request of a release."""
