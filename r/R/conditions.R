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
    warning(curator_condition(class, one$message, kind = "warning"))
  }
}

signal_error <- function(error, key = NULL) {
  class <- setdiff(chr(error$class), "curator")
  notes <- chr(error$notes)
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
  fail(class, paste(c(error$message, notes), collapse = "\n"), fields = fields)
}

fail_interrupted <- function(notes = character(), key = NULL, why = "the call was interrupted", class = "interrupted") {
  if (length(notes) == 0) {
    notes <- "what was charged is stored: the same call finds it, and nothing is charged twice"
  }
  named <- if (is.null(key)) NULL else sprintf("its idempotency key is %s", key)
  fail(class, paste(c(why, notes, named), collapse = "\n"), fields = list(notes = notes, key = key))
}

# Say what was charged, and what is left; nothing where it was free.
say_charge <- function(told) {
  if (!is.null(told$charge)) message(curator_condition("charge", paste0(told$charge, "\n"), kind = "message"))
}

# Return which of the known names was meant, if one is near.
nearest <- function(name, known) {
  bare <- function(names) tolower(gsub("[^[:alnum:]]", "", names))
  far <- utils::adist(bare(name), bare(known))
  if (length(known) && min(far) <= max(1, nchar(name) / 3)) known[which.min(far)]
}

did_you_mean <- function(name, known) {
  found <- nearest(name, known)
  if (is.null(found)) paste0("; there are ", toString(known)) else paste0(": did you mean ", found, "?")
}
