"""The health of the curator, for operators: findings, tasks, cuts, jobs, and samples of the last day."""
