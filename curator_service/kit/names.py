"""What populations, datasets, columns and principals may be called: safe in addresses, files, tables and logs."""

import re

NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$"
NAME = re.compile(NAME_PATTERN.strip("^$"))
NAME_RULE = "1 to 63 letters, digits, dots, hyphens or underscores, with a letter first"
