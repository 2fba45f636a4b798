"""How a function becomes a route: endpoints, middleware, connections, readiness."""
