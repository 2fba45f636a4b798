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
  expect_error(datasets(curator_recorded(), "flchain"), "CURATOR_PYTHON names it.*\ncurator_install\\(\\)",
    class = "curator_no_python")
  Sys.setenv(CURATOR_PYTHON = "/no/such/python")
  expect_error(datasets(curator_recorded(), "flchain"), "variable CURATOR_PYTHON names /no/such/python",
    class = "curator_no_python")
})

test_that("an environment that was half made is removed", {
  skip_on_os("windows")
  Sys.setenv(R_USER_DATA_DIR = folder <- tempfile())
  on.exit(Sys.unsetenv("R_USER_DATA_DIR"))
  python <- tempfile()
  # python -m venv --clear FOLDER: a Python whose pip fails.
  writeLines(c("#!/bin/sh", 'mkdir -p "$4/bin"; printf "#!/bin/sh\\necho $* >&2; exit 1" > "$4/bin/python"',
    'chmod +x "$4/bin/python"'), python)
  Sys.chmod(python, "755")
  source <- tempfile()
  dir.create(source)
  expect_error(curator_install(source = source, python = python, quiet = TRUE),
    paste0(basename(source), "[formula]"), fixed = TRUE, class = "curator_no_python")
  expect_false(file.exists(curator:::own_folder()))
  expect_error(curator_install(source = "/no/checkout", python = python), "source names", class = "curator_value")
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
  expect_equal(datasets(hospital)$name, "flchain")
  columns <- datasets(hospital, "flchain")
  expect_equal(columns$upper[columns$name == "age"], 100)
  left <- budget(hospital, "flchain")
  expect_equal(left$limit$epsilon, 3, tolerance = 1e-6)
  expect_output(print(left), "Budget of olmsted")
  told <- curator_quote(MODEL, hospital, "flchain", epsilon = 1)
  expect_equal(told$share_of_budget, 0.1335, tolerance = 1e-3)
  expect_output(print(told), "a refinement, 12 steps")
  expect_false(grepl("client", told$text))
  expect_equal(curator_quote(DEATHS, hospital, "flchain", epsilon = 1)$share_of_budget, 0.1335, tolerance = 1e-3)
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
  shown <- utils::capture.output(type = "message", {
    said <- tryCatch(curator_counts(DEATHS, curator_recorded(), "flchain", epsilon = 1),
      curator_not_confirmed = conditionMessage
    )
  })
  expect_match(paste(shown, collapse = " "), "of the budget")
  expect_match(said, "say yes = TRUE", fixed = TRUE)
})

test_that("each charge is a message with what is left, and what is free is none", {
  need_python()
  hospital <- curator_recorded()
  expect_message(curator_lm(MODEL, hospital, "flchain", epsilon = 1, yes = TRUE), "left in the budget.*2.771",
    class = "curator_charge")
  expect_equal(budget(hospital, "flchain")$remaining$epsilon, 2.771, tolerance = 1e-3)
  curved <- kappa ~ poly(age, 2) + sex + creatinine
  expect_message(curator_lm(curved, hospital, "flchain", epsilon = 1, yes = TRUE), "2.526", class = "curator_charge")
  expect_message(curator_counts(DEATHS, hospital, "flchain", epsilon = 1, yes = TRUE), "charged",
    class = "curator_charge")
  expect_silent(curator:::say_charge(list(charge = NULL)))
})

test_that("a table that was computed with shows its own values", {
  need_python()
  bought <- suppressMessages(curator_counts(DEATHS, curator_recorded(), "flchain", epsilon = 1, yes = TRUE))
  expect_output(print(bought), "Release")
  expect_true(all(c("count", "conf.low") %in% names(as.data.frame(bought))))
  counts <- unclass(bought)
  attr(counts, "bought") <- NULL
  values <- as.table(counts)
  expect_output(print(round(bought)), utils::capture.output(print(round(values)))[5], fixed = TRUE)
  expect_equal(as.data.frame(prop.table(bought, 1)), as.data.frame(prop.table(values, 1)))
  flat <- margin.table(bought, 2:3)
  expect_output(print(flat), utils::capture.output(print(margin.table(values, 2:3)))[3], fixed = TRUE)
  expect_output(print(t(flat)), utils::capture.output(print(t(margin.table(values, 2:3))))[3], fixed = TRUE)
})

test_that("errors have classes, fields and a key", {
  need_python()
  amount <- list(epsilon = 2.77)
  told <- list(class = list("budget_exceeded", "curator"), message = "no", notes = list(),
    fields = list(largest = amount, idempotency_key = "one"))
  found <- tryCatch(curator:::signal_error(told), curator_budget_exceeded = identity)
  expect_s3_class(found, c("curator_budget_exceeded", "curator_error", "error", "condition"), exact = TRUE)
  expect_equal(found[c("largest", "key")], list(largest = amount, key = "one"))
  misspelt <- function() curator_lm(kappa ~ agee, curator_recorded(), "flchain", epsilon = 1, yes = TRUE)
  expect_error(misspelt(), "did you mean 'age'", class = "curator_formula")
  expect_error(budget("flchain", "flchain"), "no curator", class = "curator_value")
})

test_that("a process that has ended is replaced, and a fit goes on", {
  need_python()
  fit <- bought()
  curator:::session$python$kill()
  expect_equal(dim(confint(fit)), c(4L, 2L))
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
