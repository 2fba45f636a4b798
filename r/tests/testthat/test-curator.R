test_that("a token is neither shown nor kept", {
  hospital <- curator("https://curator.hospital.example", token = "a-secret")
  expect_output(print(hospital), "<curator https://curator.hospital.example>", fixed = TRUE)
  shown <- utils::capture.output(utils::str(hospital), print(unclass(hospital)))
  expect_false(any(grepl("a-secret", shown)))
  expect_equal(curator:::named(hospital)$token, "a-secret")
  expect_error(curator("https://curator.hospital.example", token = ""), "CURATOR_TOKEN", class = "curator_no_token")
})

test_that("a Python that cannot be used is said, with the way out", {
  curator:::stop_python()
  before <- Sys.getenv("CURATOR_PYTHON", NA)
  on.exit(if (is.na(before)) Sys.unsetenv("CURATOR_PYTHON") else Sys.setenv(CURATOR_PYTHON = before))
  Sys.setenv(CURATOR_PYTHON = "/bin/false")
  expect_error(datasets(curator_recorded(), "flchain"), "curator_install()", fixed = TRUE, class = "curator_no_python")
})

test_that("an environment is made in a folder of the user, and a failure is told", {
  Sys.setenv(R_USER_DATA_DIR = folder <- tempfile())
  on.exit(Sys.unsetenv("R_USER_DATA_DIR"))
  expect_true(startsWith(curator:::own_python(), folder))
  expect_error(curator_install(python = ""), "no python3", class = "curator_no_python")
  expect_error(curator_install(python = "/bin/false", quiet = TRUE), "did not end well", class = "curator_no_python")
})

test_that("a curator tells its datasets and budgets", {
  need_python()
  hospital <- curator_recorded()
  expect_error(datasets(hospital), "recorded", class = "curator_transport")
  columns <- datasets(hospital, "flchain")
  expect_equal(columns$upper[columns$name == "age"], 100)
  left <- budget(hospital, "flchain")
  expect_equal(left$limit$epsilon, 3, tolerance = 1e-6)
  expect_output(print(left), "Budget of olmsted")
  told <- curator_quote(MODEL, hospital, "flchain", epsilon = 1)
  expect_equal(told$share_of_budget, 0.1335, tolerance = 1e-3)
  expect_output(print(told), "affordable")
})

test_that("a price is shown and asked for, unless that is not wanted", {
  need_python()
  shown <- utils::capture.output(type = "message", {
    said <- tryCatch(
      curator_lm(MODEL, curator_recorded(), "flchain", epsilon = 1),
      curator_not_confirmed = conditionMessage
    )
  })
  expect_match(paste(shown, collapse = " "), "of the budget")
  expect_match(said, "say yes = TRUE", fixed = TRUE)
  expect_length(utils::capture.output(type = "message", bought()), 0)
})

test_that("errors have classes, fields and a key", {
  need_python()
  found <- tryCatch(
    curator_lm(MODEL, curator_recorded(), "flchain", epsilon = 5, yes = TRUE),
    curator_budget_exceeded = identity
  )
  expect_s3_class(found, c("curator_budget_exceeded", "curator_error", "error", "condition"), exact = TRUE)
  expect_equal(found$largest$epsilon, 2.77, tolerance = 1e-2)
  expect_gt(nchar(found$key), 20)
  misspelt <- function() curator_lm(kappa ~ agee, curator_recorded(), "flchain", epsilon = 1, yes = TRUE)
  expect_error(misspelt(), "did you mean 'age'", class = "curator_formula")
  expect_error(budget("flchain", "flchain"), "no curator", class = "curator_value")
})

test_that("a process that has ended is replaced, and a fit goes on", {
  need_python()
  fit <- bought()
  curator:::session$python$kill()
  expect_equal(dim(confint(fit)), c(5L, 2L))
})

test_that("reticulate answers as the process does", {
  need_python()
  skip_if_not_installed("reticulate")
  suppressWarnings(reticulate::use_python(curator:::find_python(), required = TRUE))
  expected <- confint(bought())
  old <- options(curator.reticulate = TRUE)
  on.exit(options(old))
  started <- tryCatch(suppressWarnings(datasets(curator_recorded(), "flchain")), error = identity)
  if (inherits(started, "error")) {
    skip(paste("NOT tested: reticulate does not start this Python:", conditionMessage(started)))
  }
  expect_equal(confint(bought()), expected)
})
