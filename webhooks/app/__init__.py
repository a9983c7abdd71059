"""The ASGI application: review endpoints, ops routes, metrics, decision log and tracing."""
