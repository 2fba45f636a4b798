"""Fits that are refined: several releases of one curator as measurements of one pair XᵀX, Xᵀy."""
