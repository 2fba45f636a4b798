# Everything that goes wrong is a condition of class `curator_error`, and of a class of its own before that.
curator_condition <- function(class, message, ..., kind = "error") {
  classes <- unique(c(paste0("curator_", class), paste0("curator_", kind), kind, "condition"))
  structure(list(message = message, call = NULL, ...), class = classes)
}

fail <- function(class, ..., fields = list()) {
  stop(do.call(curator_condition, c(list(class, paste0(...)), fields)))
}

# Signal what Python said, as R says it. An error has the fields of Python's, and `key`: the idempotency key.
signal_warnings <- function(said) {
  for (one in said) {
    class <- setdiff(chr(one$class), "user_warning")
    warning(curator_condition(class, in_r(one$message), kind = "warning"))
  }
}

signal_error <- function(error, key = NULL) {
  class <- setdiff(chr(error$class), "curator")
  notes <- in_r(chr(error$notes))
  fields <- error$fields
  fields$key <- if (is.null(fields$idempotency_key)) key else fields$idempotency_key
  if ("keyboard_interrupt" %in% class) {
    fail_interrupted(notes, fields$key)
  }
  if ("transport" %in% class && !is.null(fields$key)) {
    notes <- c(notes, sprintf("its idempotency key is %s", fields$key))
  }
  fields$message <- NULL
  fields$notes <- notes
  fail(class, paste(c(in_r(error$message), notes), collapse = "\n"), fields = fields)
}

fail_interrupted <- function(notes = character(), key = NULL, why = "the call was interrupted", class = "interrupted") {
  if (length(notes) == 0) {
    notes <- "what was charged is stored: the same call finds it, and nothing is charged twice"
  }
  named <- if (is.null(key)) NULL else sprintf("its idempotency key is %s", key)
  fail(class, paste(c(why, notes, named), collapse = "\n"), fields = list(notes = notes, key = key))
}

# Words of Python's library in a text, as this package has them.
in_r <- function(text) {
  text <- gsub("client.close_reservation(", "close_reservation(curator, ", text, fixed = TRUE)
  text <- gsub("client.reservations()", "reservations(curator)", text, fixed = TRUE)
  text <- gsub("fit OLS()", 'try curator_refit(fit, "OLS")', text, fixed = TRUE)
  text <- gsub("conf_int(", "confint(", text, fixed = TRUE)
  text <- gsub("(\\w+)=True", "\\1 = TRUE", text)
  text <- gsub("(\\w+)=False", "\\1 = FALSE", text)
  gsub("(constant) ", "(Intercept)", text, fixed = TRUE)
}
