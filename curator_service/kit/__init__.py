"""Tools of every slice: clock, database, files, names, problems."""
