"""What every slice uses: clock, database, files, names, problems."""
