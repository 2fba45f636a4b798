library(testthat)
library(curator)

test_check("curator")
