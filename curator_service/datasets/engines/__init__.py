"""Engines: each maps stored rows and adds what they contribute, exactly."""
