"""Values as tables: one model, written for a terminal and for a notebook."""
