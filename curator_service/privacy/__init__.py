"""Pure privacy mathematics: no input or output, no clock, no settings, nothing of the rest of the service."""
