"""What was asked: releases as questions in words, for whoever may read the ledger."""
