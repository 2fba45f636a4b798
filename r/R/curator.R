curator <- function(url, token = Sys.getenv("CURATOR_TOKEN"), key = NULL) {
  if (!nzchar(token)) fail("no_token", "give a token, or set the environment variable CURATOR_TOKEN")
  new_curator(url, key, token)
}

curator_recorded <- function() new_curator(NULL, NULL, NULL)

# The token stays in this session: a curator that is saved, printed or sent has none.
new_curator <- function(url, key, token) {
  session$count <- if (is.null(session$count)) 1L else session$count + 1L
  id <- sprintf("%d.%d", Sys.getpid(), session$count)
  if (!is.null(token)) assign(paste0("token.", id), token, envir = session)
  structure(list(url = url, key = key, session = id), class = "curator")
}

# A curator as a request names it.
named <- function(curator) {
  if (!inherits(curator, "curator")) {
    fail("value", "this is no curator: curator(url) is one, and curator_recorded()")
  }
  held <- session[[paste0("token.", curator$session)]]
  token <- if (!is.null(curator$url)) if (is.null(held)) Sys.getenv("CURATOR_TOKEN") else held
  list(url = curator$url, key = curator$key, session = curator$session, token = token)
}

print.curator <- function(x, ...) {
  cat("<curator ", if (is.null(x$url)) "of the tutorial, recorded" else x$url, ">\n", sep = "")
  invisible(x)
}

datasets <- function(curator, data = NULL) {
  as_frame(ask("datasets", curator = named(curator), data = data))
}

budget <- function(curator, data) {
  structure(ask("budget", curator = named(curator), data = data), class = "curator_told")
}

reservations <- function(curator) {
  structure(ask("reservations", curator = named(curator)), class = "curator_told")
}

close_reservation <- function(curator, id) {
  structure(ask("reservations", curator = named(curator), close = id), class = "curator_told")
}

print.curator_told <- function(x, ...) {
  cat(in_r(x$text), "\n", sep = "")
  invisible(x)
}

curator_counts <- function(formula, curator, data, epsilon = NULL, delta = NULL, mu = NULL, where = NULL,
                           weights = NULL, project = NULL, key = NULL, ...) {
  if (!inherits(formula, "formula") || length(formula) != 2) {
    fail("formula", "a table is a formula of one side, such as ~ sex + cut(age, c(50, 65, 80, 101))")
  }
  options <- list(
    epsilon = epsilon, delta = delta, mu = mu, project = project, ...,
    where = read_expression(where, "where"), weights = read_expression(weights, "weights")
  )
  axes <- lapply(summands(formula[[2]]), read_axis, where = environment(formula))
  if (is.null(key)) key <- ask("key")
  told <- ask("counts", curator = named(curator), data = data, axes = axes, options = options, key = key)
  as_table(told, told$source)
}

summands <- function(part) {
  if (is.call(part) && identical(part[[1]], as.name("+"))) c(summands(part[[2]]), summands(part[[3]])) else list(part)
}

# An axis of a table: a category, or a number between breaks.
read_axis <- function(part, where) {
  if (!is.call(part) || name_of(part) != "cut") return(list(column = expression_text(part, where)))
  given <- match.call(cut.default, part)
  list(column = expression_text(given$x, where), edges = I(eval(given$breaks, where)))
}

as_table <- function(told, source) {
  labels <- lapply(told$labels, chr)
  table <- array(num(told$count), lengths(labels, use.names = FALSE), labels)
  cells <- as_frame(told[c("count", "sd", "conf_low", "conf_high")], c("count", "sd", "conf.low", "conf.high"))
  structure(table, class = c("curator_counts", "table"), cells = cells, source = source, text = told$text)
}

print.curator_counts <- function(x, ...) {
  cat(attr(x, "text"), "\n", sep = "")
  invisible(x)
}

as.data.frame.curator_counts <- function(x, row.names = NULL, optional = FALSE, ..., level = 0.95) {
  if (level != 0.95) x <- as_table(ask("table", source = attr(x, "source"), level = level), attr(x, "source"))
  cbind(expand.grid(dimnames(x), stringsAsFactors = TRUE), attr(x, "cells"))
}

summary.curator_counts <- function(object, ...) {
  structure(ask("independence", source = attr(object, "source")), class = "curator_told")
}
