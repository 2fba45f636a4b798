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

# Return a function of the names of a dataset's columns: they are asked for only where they decide something.
columns_of <- function(curator, data) function() chr(ask("datasets", curator = named(curator), data = data)$name)

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
  cat(x$text, "\n", sep = "")
  invisible(x)
}

curator_counts <- function(formula, curator, data, ..., epsilon = NULL, delta = NULL, mu = NULL, where = NULL,
                           weights = NULL, project = NULL, yes = FALSE, key = NULL) {
  options <- c(
    list(epsilon = epsilon, delta = delta, mu = mu, project = project),
    list(where = lazily(where), weights = lazily(weights)),
    more_options(..., known = MORE_OF_COUNTS, own = names(formals(curator_counts)))
  )
  asked <- read_table(formula, options, columns_of(curator, data))
  if (is.null(key)) key <- ask("key")
  told <- ask(
    "counts", curator = named(curator), data = data, axes = asked$axes, options = asked$options, yes = yes, key = key
  )
  say_charge(told)
  as_table(told, told$source)
}

# Return the axes of a table, and its options as the library takes them.
read_table <- function(formula, options, columns) {
  if (!inherits(formula, "formula") || length(formula) != 2) {
    fail("formula", "a table is a formula of one side, such as ~ sex + cut(age, c(50, 65, 80, 101))")
  }
  for (name in c("where", "weights")) options[name] <- list(read_expression(options[[name]], name, columns))
  where <- environment(formula)
  axes <- lapply(summands(put_numbers(formula[[2]], where, columns)), read_axis, where = where)
  list(axes = axes, options = options)
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
  bought <- list(table = table, cells = cells, source = source, text = told$text)
  structure(table, class = c("curator_counts", "table"), bought = bought)
}

# Arithmetic keeps attributes: what is bought is told of a table that is as it was bought, and of no other.
bare <- function(x) array(x, if (is.null(dim(x))) length(x) else dim(x), if (is.null(dim(x))) NULL else dimnames(x))

bought_of <- function(x) {
  bought <- attr(x, "bought")
  if (identical(bare(x), bought$table)) bought
}

as_bare_table <- function(x) structure(bare(x), class = "table")

print.curator_counts <- function(x, ...) {
  bought <- bought_of(x)
  if (is.null(bought)) print(as_bare_table(x), ...) else cat(bought$text, "\n", sep = "")
  invisible(x)
}

as.data.frame.curator_counts <- function(x, row.names = NULL, optional = FALSE, ..., level = 0.95) {
  bought <- bought_of(x)
  if (is.null(bought)) return(as.data.frame(as_bare_table(x), ...))
  if (level != 0.95) {
    bought <- attr(as_table(ask("table", source = bought$source, level = level), bought$source), "bought")
  }
  cbind(expand.grid(dimnames(x), stringsAsFactors = TRUE), bought$cells)
}

summary.curator_counts <- function(object, ...) {
  bought <- bought_of(object)
  if (is.null(bought)) return(summary(as_bare_table(object), ...))
  structure(ask("independence", source = bought$source), class = "curator_told")
}
