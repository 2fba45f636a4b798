# A formula of R in the language of formulas of the library: docs/formulas.md.

REFUSED <- c(
  s = "ns(x, df = 4) is a smooth of x, with knots at equal distances", te = "ns(x, df = 3) * ns(z, df = 3)",
  lo = "ns(x, df = 4)", pspline = "ns(x, df = 4)", rcs = "ns(x, knots = c(60, 70))",
  scale = "x itself: terms are scaled by declared bounds, and coefficients are raw",
  Surv = "curator_counts(~ cut(time, breaks) + event, ...), or glm of events with offset(log(time))",
  cbind = "one model for each target", strata = "the column as a term", cluster = "a dataset of persons",
  ifelse = "I(condition), which is 0 or 1", as.numeric = "I(condition), which is 0 or 1", lag = "a column of it"
)
PLAIN <- c("log", "log1p", "log2", "log10", "exp", "sqrt", "abs", "pmin", "pmax", "min", "max", "between")
JOINS <- c("&" = "and", "&&" = "and", "|" = "or", "||" = "or")
COMPARISONS <- c("<", "<=", ">", ">=", "==", "!=")

# Return the text of a formula, and that of its offset, or NULL.
read_formula <- function(formula) {
  if (!inherits(formula, "formula") || length(formula) != 3) {
    fail("formula", "a model is a formula with a target, such as y ~ age + sex")
  }
  found <- new.env()
  found$offsets <- character()
  where <- environment(formula)
  right <- term_text(formula[[3]], where, found)
  if (is.null(right)) fail("formula", "a formula names a column that explains")
  offset <- if (length(found$offsets)) paste(found$offsets, collapse = " + ")
  list(text = paste(factor_text(formula[[2]], where), "~", right), offset = offset)
}

# Return the text of a condition or a number: a formula of one side, or a text, which stands as it is.
read_expression <- function(given, name) {
  if (is.null(given) || is.character(given)) return(given)
  if (!inherits(given, "formula") || length(given) != 2) {
    fail("formula", name, " is a formula of one side, such as ", name, " = ~ age > 60, or a text")
  }
  expression_text(given[[2]], environment(given))
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

function_text <- function(part, name, where) {
  if (name %in% names(REFUSED)) refuse(part, paste("in its place:", REFUSED[[name]]))
  given <- as.list(part)[-1]
  read <- function(k) expression_text(given[[k]], where)
  value <- function(wanted, place) {
    at <- if (wanted %in% names(given)) wanted else if (length(given) >= place && !nzchar(names(given)[place] %||% "")) place
    if (!is.null(at)) eval(given[[at]], where)
  }
  only <- function(...) {
    unknown <- setdiff(names(given), c("", "x", ...))
    if (length(unknown)) refuse(part, paste0("there is no argument ", unknown[1], " of ", name, "()"))
  }
  if (name == "is.na") return(sprintf("missing(%s)", read(1)))
  if (name %in% c("factor", "as.factor")) {
    only()
    return(sprintf("C(%s)", read(1)))
  }
  if (name == "relevel") return(sprintf("C(%s, Treatment(%s))", sub("^C\\((.*)\\)$", "\\1", read(1)), quoted(value("ref", 2))))
  if (name == "poly") {
    if (isTRUE(value("raw", 4))) refuse(part, "powers are nearly multiples of each other: write poly(x, 2) without raw")
    return(sprintf("poly(%s, %d)", read(1), as.integer(value("degree", 2))))
  }
  if (name %in% c("ns", "bs")) {
    only("df", "knots", "degree")
    knots <- value("knots", 3)
    degree <- if (name == "bs") value("degree", 4)
    df <- value("df", 2)
    said <- c(if (!is.null(df)) paste0("df=", df), if (!is.null(knots)) paste0("knots=", listed(knots)), if (!is.null(degree)) paste0("degree=", degree))
    return(sprintf("%s(%s)", name, paste(c(read(1), said), collapse = ", ")))
  }
  if (name == "cut") {
    only("breaks", "right")
    points <- value("breaks", 2)
    if (!identical(value("right", 5), FALSE) || length(points) < 3 || any(is.finite(range(points)))) {
      refuse(part, "levels begin with their break, and the outer ones have no end: cut(x, c(-Inf, 60, 70, Inf), right = FALSE)")
    }
    return(sprintf("cut(%s, %s)", read(1), listed(points[is.finite(points)])))
  }
  if (name == "log" && length(given) == 2) {
    base <- value("base", 2)
    if (!base %in% c(2, 10)) refuse(part, "a logarithm is log(x), log2(x) or log10(x)")
    return(sprintf("log%d(%s)", as.integer(base), read(1)))
  }
  if (!name %in% PLAIN) {
    refuse(part, paste("a curator computes factor, relevel, cut, poly, ns, bs, I and", paste(PLAIN, collapse = ", ")))
  }
  sprintf("%s(%s)", name, paste(vapply(seq_along(given), read, ""), collapse = ", "))
}

`%||%` <- function(one, other) if (is.null(one) || is.na(one)) other else one
