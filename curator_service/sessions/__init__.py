"""Threshold sessions: many yes-or-no questions, charged whole when the session is opened."""
