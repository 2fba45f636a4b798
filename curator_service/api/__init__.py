"""Routes: endpoints, middleware, connections, readiness."""
