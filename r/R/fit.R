curator_lm <- function(formula, curator, data, ..., epsilon = NULL, delta = NULL, mu = NULL, half_width = NULL,
                       where = NULL, weights = NULL, project = NULL, yes = FALSE, progress = interactive()) {
  options <- c(
    list(epsilon = epsilon, delta = delta, mu = mu, half_width = half_width, project = project),
    list(where = lazily(where), weights = lazily(weights)), more_options(..., own = names(formals(curator_lm)))
  )
  asked <- read_asked(formula, "gaussian", options, columns_of(curator, data))
  buy(asked, curator, data, yes, progress, match.call())
}

curator_glm <- function(formula, curator, data, family = stats::binomial, ..., epsilon = NULL, delta = NULL, mu = NULL,
                        half_width = NULL, offset = NULL, exposure = NULL, where = NULL, weights = NULL,
                        project = NULL, yes = FALSE, progress = interactive()) {
  options <- c(
    list(epsilon = epsilon, delta = delta, mu = mu, half_width = half_width, project = project),
    list(where = lazily(where), weights = lazily(weights), offset = lazily(offset), exposure = lazily(exposure)),
    more_options(..., own = names(formals(curator_glm)))
  )
  asked <- read_asked(formula, family, options, columns_of(curator, data))
  buy(asked, curator, data, yes, progress, match.call())
}

curator_quote <- function(formula, curator, data, family = stats::gaussian, ..., epsilon = NULL, delta = NULL,
                          mu = NULL, half_width = NULL, offset = NULL, exposure = NULL, where = NULL, weights = NULL,
                          project = NULL) {
  is_table <- inherits(formula, "formula") && length(formula) == 2
  price <- list(epsilon = epsilon, delta = delta, mu = mu, project = project)
  more <- more_options(..., known = if (is_table) MORE_OF_COUNTS else MORE, own = names(formals(curator_quote)))
  options <- c(price, list(where = lazily(where), weights = lazily(weights)), more)
  if (is_table) {
    asked <- read_table(formula, options, columns_of(curator, data))
    told <- ask("quote_counts", curator = named(curator), data = data, axes = asked$axes, options = asked$options)
  } else {
    of_models <- list(half_width = half_width, offset = lazily(offset), exposure = lazily(exposure))
    asked <- read_asked(formula, family, c(options, of_models), columns_of(curator, data))
    told <- ask("quote", curator = named(curator), formula = asked$text, data = data, options = asked$options)
  }
  structure(told, class = c("curator_quote", "curator_told"))
}

# Return the text of a model, and its options as the library takes them.
read_asked <- function(formula, family, options, columns) {
  read <- read_formula(formula, columns)
  for (name in intersect(names(options), c("where", "weights", "offset", "exposure"))) {
    options[name] <- list(read_expression(options[[name]], name, columns))
  }
  if (!is.null(options$exposure)) options$offset <- c(options$offset, sprintf("log(%s)", options$exposure))
  options$exposure <- NULL
  offset <- c(read$offset, options$offset)
  options["offset"] <- list(if (length(offset)) paste(offset, collapse = " + "))
  options$family <- family_name(family)
  if (!is.null(options$half_width)) options$half_width <- read_half_width(options$half_width)
  list(formula = formula, text = read$text, options = options)
}

read_half_width <- function(given) {
  given <- as.list(given)
  is_positive <- vapply(given, function(one) is.numeric(one) && length(one) == 1 && isTRUE(one > 0), TRUE)
  if (is.null(names(given)) || !all(nzchar(names(given)), is_positive)) {
    fail("value", "half_width names coefficients, each with a positive number: half_width = c(age = 0.01)")
  }
  given
}

family_name <- function(family) {
  if (is.character(family)) family <- get(family, envir = asNamespace("stats"), mode = "function")
  if (is.function(family)) family <- family()
  links <- c(gaussian = "identity", binomial = "logit", poisson = "log")
  if (!family$family %in% names(links)) {
    fail("family", "the families are gaussian, binomial and poisson, not ", family$family, ". Standard errors of ",
      "binomial and poisson fits are robust, as those of quasi families are")
  }
  if (links[[family$family]] != family$link) {
    fail("family", "the link of ", family$family, " is ", links[[family$family]], ", not ", family$link)
  }
  family$family
}

buy <- function(asked, curator, data, yes, progress, call) {
  told <- ask(
    "fit", curator = named(curator), formula = asked$text, data = data, options = asked$options, yes = yes,
    progress = progress
  )
  say_charge(told)
  new_fit(told, list(call = call, formula = asked$formula, data = data, family = asked$options$family))
}

curator_refit <- function(fit, estimator = NULL, ...) {
  told <- ask("refit", source = fit$source, estimator = estimator, params = as_object(list(...)))
  new_fit(told, fit[c("call", "formula", "data", "family")])
}

new_fit <- function(told, asked) {
  names <- sub("^\\(constant\\)$", "(Intercept)", chr(told$terms))
  vcov <- num(unlist(told$vcov, recursive = FALSE))
  structure(c(asked, list(
    coefficients = stats::setNames(num(told$coefficients), names), target = told$target, columns = chr(told$columns),
    vcov = if (length(vcov)) matrix(vcov, length(names), dimnames = list(names, names)), caveats = chr(told$caveats)
  ), told[c("source", "summary", "tidy", "glance")]), class = c("curator_fit", paste0("curator_", asked$family)))
}

print.curator_fit <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat("\nCall:\n", paste(deparse(x$call), collapse = "\n"), "\n\nCoefficients:\n", sep = "")
  print.default(format(x$coefficients, digits = digits), print.gap = 2L, quote = FALSE)
  if (length(x$caveats)) cat("", strwrap(paste("Warning:", x$caveats)), sep = "\n")
  invisible(x)
}

summary.curator_fit <- function(object, level = 0.95, ...) {
  told <- if (level == 0.95) object else ask("show", source = object$source, level = level)
  structure(
    c(list(
      text = told$summary, call = object$call,
      coefficients = if (!is.null(told$tidy)) coefficients_of(told, object$family)
    ), if (!is.null(told$glance)) as.list(glance.curator_fit(told))[c("r.squared", "adj.r.squared", "sigma", "df")]),
    class = "summary.curator_fit"
  )
}

coefficients_of <- function(told, family) {
  frame <- as_tidy(told)
  found <- as.matrix(frame[c("estimate", "std.error", "statistic", "p.value")])
  heads <- if (family == "gaussian") c("t value", "Pr(>|t|)") else c("z value", "Pr(>|z|)")
  dimnames(found) <- list(frame$term, c("Estimate", "Std. Error", heads))
  found
}

print.summary.curator_fit <- function(x, ...) {
  cat(x$text, "\n", sep = "")
  invisible(x)
}

as_tidy <- function(told) {
  if (is.null(told$tidy)) fail("estimation", "the fit has coefficients alone: summary() says why")
  frame <- as_frame(told$tidy, in_broom(names(told$tidy)))
  frame$term <- sub("^\\(constant\\)$", "(Intercept)", frame$term)
  frame
}

coef.curator_fit <- function(object, ...) object$coefficients

vcov.curator_fit <- function(object, ...) {
  if (is.null(object$vcov)) fail("estimation", "the fit has coefficients alone: summary() says why")
  object$vcov
}

nobs.curator_fit <- function(object, ...) if (is.null(object$glance)) NA_real_ else num(object$glance$nobs)

formula.curator_fit <- function(x, ...) x$formula

sigma.curator_fit <- function(object, ...) glanced(object, "sigma", "sigma is of linear fits alone")

df.residual.curator_fit <- function(object, ...) {
  glanced(object, "df.residual", "residual degrees of freedom are of linear fits alone")
}

glanced <- function(object, name, why) {
  found <- glance.curator_fit(object)[[name]]
  if (is.na(found)) fail("estimation", why)
  found
}

logLik.curator_fit <- function(object, ...) {
  fail(
    "value", "the curator releases noisy sums, and no likelihood of rows: there is no logLik, AIC, BIC or deviance. ",
    "anova(fit) tests columns, and glance(fit) tells how well a linear model fits"
  )
}

deviance.curator_fit <- logLik.curator_fit

toLatex.curator_fit <- function(object, level = 0.95, ...) {
  text <- ask("latex", source = object$source, level = level)
  structure(strsplit(text, "\n", fixed = TRUE)[[1]], class = "Latex")
}

confint.curator_fit <- function(object, parm, level = 0.95, simultaneous = FALSE, ...) {
  ends <- ask("intervals", source = object$source, level = level, simultaneous = simultaneous)
  tails <- c(1 - level, 1 + level) / 2
  heads <- paste(format(100 * tails, trim = TRUE, digits = 3), "%")
  known <- names(object$coefficients)
  found <- as_rows(ends, list(known, heads))
  if (missing(parm)) return(found)
  unknown <- if (is.character(parm)) setdiff(parm, known)
  if (length(unknown)) fail("value", "there is no coefficient ", unknown[1], did_you_mean(unknown[1], known))
  found[parm, , drop = FALSE]
}

predict.curator_fit <- function(object, newdata, type = c("response", "link"),
                                interval = c("none", "confidence", "prediction"), level = 0.95, clip = NULL,
                                se.fit = FALSE, ...) {
  if (!isFALSE(se.fit)) fail("value", "intervals need not be symmetric: interval = \"confidence\" has them")
  if (missing(newdata)) fail("value", "predictions are of newdata: the rows of the fit stay with the curator")
  missed <- setdiff(object$columns, names(newdata))
  if (length(missed)) fail("value", "newdata has no column ", paste(missed, collapse = ", "))
  rows <- lapply(newdata[object$columns], function(column) I(if (is.numeric(column)) column else as.character(column)))
  interval <- match.arg(interval)
  found <- ask(
    "predict", source = object$source, rows = rows, scale = match.arg(type), interval = interval, level = level,
    clip = clip
  )
  if (interval == "none") return(stats::setNames(num(found), row.names(newdata)))
  as_rows(found, list(row.names(newdata), c("fit", "lwr", "upr")))
}

anova.curator_fit <- function(object, ...) {
  if (...length()) fail("value", "anova() is of one fit: each row is a column given all others (type III)")
  told <- ask("anova", source = object$source)
  table <- as_frame(told[c("df", "residual_df", "statistic", "p_value")], c("Df", "Residual Df", "F value", "Pr(>F)"))
  row.names(table) <- chr(told$terms)
  heading <- paste0(told$title, "\nEach column given all others (type III), privacy noise included\n")
  structure(table, heading = heading, class = c("anova", "data.frame"))
}

plot.curator_fit <- function(x, level = 0.95, xlab = "coefficient, with its interval", main = deparse1(x$formula),
                             ...) {
  ends <- confint.curator_fit(x, level = level)
  slopes <- row.names(ends) != "(Intercept)"
  ends <- ends[slopes, , drop = FALSE]
  points <- x$coefficients[slopes]
  finite <- c(ends, points, 0)
  range <- range(finite[is.finite(finite)])
  wide <- grDevices::extendrange(range, f = 0.08)
  at <- rev(seq_along(points))
  margins <- graphics::par(mar = c(5, 1 + max(nchar(names(points))) * 0.6, 4, 2))
  on.exit(graphics::par(margins))
  high <- c(0.5, length(at) + 0.5)
  graphics::plot(points, at, xlim = wide, ylim = high, yaxt = "n", ylab = "", xlab = xlab, main = main, pch = 19, ...)
  graphics::axis(2, at, names(points), las = 1)
  graphics::abline(v = 0, lty = 3)
  graphics::segments(pmax(ends[, 1], wide[1]), at, pmin(ends[, 2], wide[2]), at)
  for (end in 1:2) { # an interval without an end goes on
    open <- at[!is.finite(ends[, end])]
    if (length(open)) graphics::text(wide[end], open, c("<", ">")[end])
  }
  invisible(ends)
}

fitted.curator_fit <- function(object, ...) {
  fail(
    "value", "fitted values and residuals are of rows, which stay with the curator: predict(fit, newdata) is of ",
    "rows of yours"
  )
}

residuals.curator_fit <- fitted.curator_fit

tidy.curator_fit <- function(x, conf.int = FALSE, conf.level = 0.95, exponentiate = FALSE, all = FALSE, ...) {
  frame <- as_tidy(if (conf.level == 0.95) x else ask("show", source = x$source, level = conf.level))
  ends <- c("conf.low", "conf.high")
  if (exponentiate) frame[c("estimate", ends)] <- exp(frame[c("estimate", ends)])
  first <- c("term", "estimate", "std.error", "statistic", "p.value", if (conf.int) ends)
  frame[c(first, if (all) setdiff(names(frame), c(first, ends)))]
}

glance.curator_fit <- function(x, ...) {
  if (is.null(x$glance)) fail("estimation", "the fit has coefficients alone: summary() says why")
  as_frame(x$glance, in_broom(names(x$glance)))
}
