"""The register: the chain of the curator's own acts, and what is asked of principals and tokens over HTTP."""
