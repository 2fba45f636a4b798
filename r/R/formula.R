# A formula of R in the language of formulas of the library: docs/formulas.md.

REFUSED <- c(
  s = "ns(x, df = 4) is a smooth of x, with knots at equal distances", te = "ns(x, df = 3) * ns(z, df = 3)",
  lo = "ns(x, df = 4)", pspline = "ns(x, df = 4)", rcs = "ns(x, knots = c(60, 70))",
  scale = "x itself: terms are scaled by declared bounds, and coefficients are raw",
  Surv = "curator_counts(~ cut(time, breaks) + event, ...), or glm of events with offset(log(time))",
  cbind = "one model for each target", strata = "the column as a term", cluster = "a dataset of persons",
  ifelse = "I(condition), which is 0 or 1", as.numeric = "I(condition), which is 0 or 1", lag = "a column of it"
)
PLAIN <- c("log1p", "log2", "log10", "exp", "sqrt", "abs", "pmin", "pmax", "min", "max", "between")
JOINS <- c("&" = "and", "&&" = "and", "|" = "or", "||" = "or")
COMPARISONS <- c("<", "<=", ">", ">=", "==", "!=")

# Return the text of a formula, and that of its offset, or NULL.
read_formula <- function(formula, columns = character) {
  if (!inherits(formula, "formula") || length(formula) != 3) {
    fail("formula", "a model is a formula with a target, such as y ~ age + sex")
  }
  found <- new.env()
  found$offsets <- character()
  where <- environment(formula)
  formula <- put_numbers(formula, where, columns)
  right <- term_text(formula[[3]], where, found)
  if (is.null(right)) fail("formula", "a formula names a column that explains")
  offset <- if (length(found$offsets)) paste(found$offsets, collapse = " + ")
  list(text = paste(factor_text(formula[[2]], where), "~", right), offset = offset)
}

# Return the text of a condition or a number: a formula of one side, or a text, which stands as it is.
read_expression <- function(given, name, columns = character) {
  if (is.null(given) || is.character(given)) return(given)
  if (!inherits(given, "formula") || length(given) != 2) {
    fail("formula", name, " is a formula of one side, such as ", name, " = ~ age > 60, or a text")
  }
  expression_text(put_numbers(given[[2]], environment(given), columns, within = TRUE), environment(given))
}

# Return an argument that is a formula of one side. As lm has it, `where = age > 30`, it would be of R's own columns.
lazily <- function(given) {
  name <- substitute(given)
  written <- deparse1(eval.parent(call("substitute", name)))
  refuse_written <- function(e) {
    fail("formula", name, " is a formula of one side, as rows are not in R: ", name, " = ~ ", written)
  }
  value <- tryCatch(given, error = refuse_written)
  if (is.logical(value) || is.numeric(value)) refuse_written()
  value
}

MORE <- c("rho", "guess", "max_epsilon", "expected_rows", "even_so")
MORE_OF_COUNTS <- c("rho", "mechanism", "fresh", "even_so")
OTHERS <- c(subset = "where", filter = "where", eps = "epsilon", weight = "weights")

# Return further options. One that is not known is refused, and not evaluated: `subset = age > 30` is of no object.
more_options <- function(..., known = MORE, own) {
  given <- as.list(substitute(list(...)))[-1]
  if (length(given) && (is.null(names(given)) || !all(nzchar(names(given))))) {
    fail("value", "formula, curator and data come first; others have a name, such as epsilon = 1")
  }
  for (name in setdiff(names(given), known)) {
    meant <- if (name %in% names(OTHERS)) OTHERS[[name]]
    said <- if (identical(meant, "where")) paste0(": say where = ~ ", deparse1(given[[name]]))
    if (!is.null(meant) && is.null(said)) said <- paste0(": did you mean ", meant, "?")
    if (name == "family") said <- ": the model is linear. curator_glm(..., family = ) has others"
    if (is.null(said)) said <- did_you_mean(name, setdiff(c(own, known), "..."))
    fail("value", "there is no argument ", name, said)
  }
  list(...)
}

# Put numbers and texts of R, such as the k of I(age - k), into what is within functions. A column goes before them.
put_numbers <- function(part, where, columns, within = FALSE) {
  if (is.name(part) && within && nzchar(part)) {
    found <- get0(as.character(part), where, mode = "numeric")
    if (is.null(found)) found <- get0(as.character(part), where, mode = "character")
    is_one <- length(found) == 1 && !is.na(found) && !is.factor(found)
    return(if (is_one && !as.character(part) %in% columns()) as.vector(found) else part)
  }
  if (!is.call(part)) return(part)
  within <- within || !name_of(part) %in% c("~", "+", "-", "*", ":", "^", "/", "(", "%in%", "|")
  part[-1] <- lapply(as.list(part)[-1], put_numbers, where = where, columns = columns, within = within)
  part
}

refuse <- function(part, why) fail("formula", "`", deparse1(part), "` is not possible here: ", why)

name_of <- function(call) {
  head <- call[[1]]
  if (is.call(head) && deparse1(head[[1]]) %in% c("::", ":::")) head <- head[[3]]
  deparse1(head)
}

# One side of a formula: sums, products and interactions of factors.
term_text <- function(part, where, found) {
  if (!is.call(part)) return(factor_text(part, where))
  name <- name_of(part)
  if (name == "offset") {
    found$offsets <- c(found$offsets, expression_text(part[[2]], where))
    return(NULL)
  }
  if (name == "^") return(crossing_text(part, where, found))
  if (name %in% c("|", "||")) {
    refuse(part, "there are no random effects. Write a group of few levels as a term of its own, such as + g")
  }
  if (name %in% c("%in%", "/")) refuse(part, "write nested terms out, such as a + a:b")
  if (!name %in% c("+", "-", "*", ":", "(")) return(factor_text(part, where))
  parts <- lapply(as.list(part)[-1], term_text, where = where, found = found)
  if (name == "(") return(if (!is.null(parts[[1]])) paste0("(", parts[[1]], ")"))
  if (length(parts) == 1) return(if (!is.null(parts[[1]])) paste0(name, parts[[1]]))
  kept <- Filter(Negate(is.null), parts)
  if (length(kept) < 2 && name != "+" && !(name == "-" && length(kept))) refuse(part, "an offset is added")
  if (length(kept)) paste(kept, collapse = paste0(" ", name, " "))
}

crossing_text <- function(part, where, found) {
  power <- part[[3]]
  if (!is.call(part[[2]]) || !is.numeric(power)) {
    said <- deparse1(part[[2]])
    refuse(part, sprintf("in a formula of R it is %s alone. Write poly(%s, 2), or I(%s^2)", said, said, said))
  }
  sprintf("%s**%d", term_text(part[[2]], where, found), as.integer(power))
}

# A factor of a term: a column, or a function of some.
factor_text <- function(part, where) {
  if (is.name(part)) return(if (part == ".") "." else column_text(part, within = FALSE))
  if (is.numeric(part)) return(format(part, digits = 15))
  if (!is.call(part)) refuse(part, "terms are columns and functions of them")
  text <- expression_text(part, where)
  if (name_of(part) %in% c(COMPARISONS, names(JOINS), "!", "%in%", "is.na", "+", "-", "*", "/", "^", "(")) {
    return(paste0("I(", text, ")"))
  }
  if (name_of(part) == "I") paste0("I(", text, ")") else text
}

column_text <- function(part, within) {
  name <- as.character(part)
  if (make.names(name) == name) name else if (within) sprintf("Q(%s)", quoted(name)) else paste0("`", name, "`")
}

quoted <- function(text) paste0("'", gsub("'", "\\\\'", gsub("\\", "\\\\", text, fixed = TRUE)), "'")

listed <- function(values) {
  text <- if (is.character(values)) quoted(values) else format(as.numeric(values), digits = 15, trim = TRUE)
  paste0("[", paste(text, collapse = ", "), "]")
}

# An expression within a function, as Python writes it.
expression_text <- function(part, where) {
  if (is.name(part)) return(column_text(part, within = TRUE))
  if (is.logical(part)) return(if (part) "True" else "False")
  if (is.numeric(part)) return(format(part, digits = 15))
  if (is.character(part)) return(quoted(part))
  name <- name_of(part)
  sides <- as.list(part)[-1]
  read <- function(side) expression_text(side, where)
  if (name == "(") return(paste0("(", read(sides[[1]]), ")"))
  if (name == "I") return(read(sides[[1]]))
  within <- function(side) {
    is_within <- is.call(side) && name_of(side) %in% c(names(JOINS), "!", "%in%", "(")
    if (is_within || is.name(side)) read(side) else paste0("(", read(side), ")")
  }
  if (name %in% names(JOINS)) return(sprintf("(%s %s %s)", within(sides[[1]]), JOINS[[name]], within(sides[[2]])))
  if (name == "!") return(sprintf("(not %s)", within(sides[[1]])))
  if (name == "%in%") return(sprintf("(%s in %s)", read(sides[[1]]), listed(eval(sides[[2]], where))))
  if (name %in% c(COMPARISONS, "+", "-", "*", "/", "^")) {
    sign <- if (name == "^") "**" else name
    if (length(sides) == 1) return(paste0(sign, read(sides[[1]])))
    return(paste(read(sides[[1]]), sign, read(sides[[2]])))
  }
  function_text(part, name, where)
}

# What is taken of the arguments of these functions.
SIGNATURES <- list(
  is.na = function(x) NULL, factor = function(x) NULL, as.factor = function(x) NULL, relevel = function(x, ref) NULL,
  poly = function(x, degree, raw) NULL, ns = function(x, df, knots) NULL, bs = function(x, df, knots, degree) NULL,
  cut = function(x, breaks, right) NULL, log = function(x, base) NULL
)

function_text <- function(part, name, where) {
  if (name %in% names(REFUSED)) refuse(part, paste("in its place:", REFUSED[[name]]))
  if (!name %in% c(PLAIN, names(SIGNATURES))) {
    known <- unique(c(names(SIGNATURES), PLAIN))
    refuse(part, paste("a curator computes I and", paste(known, collapse = ", ")))
  }
  if (!name %in% names(SIGNATURES)) {
    parts <- vapply(as.list(part)[-1], expression_text, "", where = where)
    return(sprintf("%s(%s)", name, paste(parts, collapse = ", ")))
  }
  given <- tryCatch(
    as.list(match.call(SIGNATURES[[name]], part))[-1],
    error = function(e) refuse(part, paste(name, "takes", toString(names(formals(SIGNATURES[[name]])))))
  )
  x <- expression_text(given$x, where)
  values <- lapply(given[names(given) != "x"], eval, where)
  switch(name,
    is.na = sprintf("missing(%s)", x),
    factor = , as.factor = sprintf("C(%s)", x),
    relevel = sprintf("C(%s, Treatment(%s))", sub("^C\\((.*)\\)$", "\\1", x), quoted(values$ref)),
    poly = poly_text(part, x, values),
    cut = cut_text(part, x, values),
    log = log_text(part, x, values$base),
    sprintf("%s(%s)", name, toString(c(x, paste0(names(values), "=", lapply(values, spline_value)))))
  )
}

spline_value <- function(value) if (length(value) > 1) listed(value) else format(value, digits = 15)

poly_text <- function(part, x, values) {
  if (isTRUE(values$raw)) {
    refuse(part, "powers are nearly multiples of each other: write poly(x, 2) without raw")
  }
  sprintf("poly(%s, %d)", x, if (is.null(values$degree)) 1L else as.integer(values$degree))
}

cut_text <- function(part, x, values) {
  points <- values$breaks
  if (!identical(values$right, FALSE) || length(points) < 3 || any(is.finite(range(points)))) {
    refuse(part, paste(
      "levels begin with their break, and the outer ones have no end:",
      "cut(x, c(-Inf, 60, 70, Inf), right = FALSE)"
    ))
  }
  sprintf("cut(%s, %s)", x, listed(points[is.finite(points)]))
}

log_text <- function(part, x, base) {
  if (is.null(base)) return(sprintf("log(%s)", x))
  if (!base %in% c(2, 10)) refuse(part, "a logarithm is log(x), log2(x) or log10(x)")
  sprintf("log%d(%s)", as.integer(base), x)
}
