"""Releases as input of other statistics packages: moments in raw units, as programs of SAS, SPSS, Stata and lavaan."""
