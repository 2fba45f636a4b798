MODEL <- kappa ~ age + sex + creatinine
DEATHS <- ~ cut(futime, c(365.25 * 0:14, 5500)) + death + I(kappa + lambda >= 4.72)

# Skip, and say so, where no Python has the library.
need_python <- function() {
  found <- tryCatch(curator:::find_python(), curator_no_python = function(e) NULL)
  if (is.null(found)) skip("NOT tested: no Python has dp-curator-client. Name one in CURATOR_PYTHON")
}

bought <- function(...) {
  suppressMessages(curator_lm(MODEL, curator_recorded(), data = "flchain", epsilon = 1, yes = TRUE, ...))
}
ROWS <- data.frame(age = c(60, 70), sex = factor(c("F", "M")), creatinine = 1)
