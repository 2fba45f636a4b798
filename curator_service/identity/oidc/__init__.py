"""OpenID Connect: whom an identity provider vouches for. The curator verifies what callers send, and logs nobody in."""
