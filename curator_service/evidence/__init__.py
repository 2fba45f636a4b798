"""Evidence packs: what an officer, an output checker or a journal reads and checks without the curator."""
