# One Python process for each R session. It keeps nothing: a request says all that its answer depends on.
session <- new.env(parent = emptyenv())

curator_install <- function(wheelhouse = NULL, source = NULL, python = Sys.which("python3"), quiet = FALSE) {
  if (!nzchar(python)) {
    fail("no_python", "there is no python3: install Python 3.11 or newer, or name one by python =")
  }
  run <- function(program, ...) {
    done <- processx::run(program, c(...), error_on_status = FALSE, echo = !quiet, env = ENVIRONMENT)
    if (done$status != 0) {
      fail("no_python", "this did not end well: ", paste(c(program, ...), collapse = " "), "\n", done$stderr)
    }
  }
  from <- if (!is.null(wheelhouse)) c("--no-index", "--find-links", existing_folder(wheelhouse, "wheelhouse"))
  library <- if (is.null(source)) "dp-curator-client" else existing_folder(source, "source")
  done <- FALSE
  on.exit(if (!done) unlink(own_folder(), recursive = TRUE)) # half an environment would be taken for a whole one
  stop_python()
  run(python, "-m", "venv", "--clear", own_folder())
  run(own_python(), "-m", "pip", "install", "--disable-pip-version-check", from, paste0(library, "[formula]"))
  done <- TRUE
  invisible(own_python())
}

existing_folder <- function(path, name) {
  if (!dir.exists(path)) fail("value", "there is no folder ", path, ", which ", name, " names")
  normalizePath(path)
}

# R puts folders of its own into this variable, and Python would take libraries of another Python from there.
ENVIRONMENT <- c("current", LD_LIBRARY_PATH = "")

own_folder <- function() file.path(tools::R_user_dir("curator", "data"), "python")

own_python <- function() {
  place <- if (.Platform$OS.type == "windows") c("Scripts", "python.exe") else c("bin", "python")
  do.call(file.path, as.list(c(own_folder(), place)))
}

find_python <- function() {
  named <- Sys.getenv("CURATOR_PYTHON")
  if (nzchar(named)) {
    if (nzchar(Sys.which(named))) return(named)
    fail("no_python", "the environment variable CURATOR_PYTHON names ", named, ", which is no program here")
  }
  if (file.exists(own_python())) return(own_python())
  found <- Sys.which("python3")
  test <- c("-c", "import analyst_client.r_adapter")
  if (nzchar(found)) {
    tried <- processx::run(found, test, error_on_status = FALSE, env = ENVIRONMENT)
    if (tried$status == 0) return(unname(found))
  }
  fail(
    "no_python", "no Python here has the library dp-curator-client: curator_install() makes an environment with it; ",
    "or name a Python that has it in the environment variable CURATOR_PYTHON"
  )
}

start_python <- function() {
  if (is.null(session$python) || !session$python$is_alive()) {
    session$python <- processx::process$new(
      find_python(), c("-X", "utf8", "-m", "analyst_client.r_adapter", if (interactive()) "attended", shown_as()),
      stdin = "|", stdout = "|", stderr = "|", encoding = "UTF-8", env = ENVIRONMENT
    )
    session$answered <- FALSE
  }
  session$python
}

# Texts are in ASCII where R shows no more: <U+2500> stands there else.
shown_as <- function() if (!isTRUE(l10n_info()[["UTF-8"]])) "ascii"

stop_python <- function() {
  if (!is.null(session$python)) session$python$kill()
  session$python <- NULL
}

# Ask Python to do something; return its answer as lists.
ask <- function(do, ..., key = NULL) {
  request <- list(do = do, with = as_object(c(list(...), if (!is.null(key)) list(key = key))))
  text <- enc2utf8(as.character(jsonlite::toJSON(request, auto_unbox = TRUE, null = "null", na = "null", digits = NA)))
  by <- if (isTRUE(getOption("curator.reticulate"))) call_reticulate else call_process
  answer <- jsonlite::fromJSON(by(text, key), simplifyVector = FALSE)
  signal_warnings(answer$warnings)
  if (!is.null(answer$error)) signal_error(answer$error, key)
  answer$value
}

# A list with names, of which JSON makes an object even where it is empty.
as_object <- function(values) if (length(values)) values else stats::setNames(list(), character())

call_reticulate <- function(text, key) {
  adapter <- reticulate::import("analyst_client.r_adapter", convert = FALSE)
  reticulate::py_to_r(adapter$call(text))
}

call_process <- function(text, key) {
  python <- start_python()
  rest <- charToRaw(paste0(text, "\n"))
  while (length(rest) > 0 && python$is_alive()) rest <- python$write_input(rest)
  tryCatch(wait_for(python, key), interrupt = function(signalled) {
    python$interrupt()
    answer <- tryCatch(wait_for(python, key, 30), interrupt = function(again) NULL)
    if (is.null(answer)) {
      stop_python()
      fail_interrupted(key = key)
    }
    if (!startsWith(answer, '{"error"')) fail_interrupted(key = key)
    answer
  })
}

# Return the line that Python answers, and show what it writes on its error stream as it comes.
wait_for <- function(python, key, seconds = Inf) {
  end <- Sys.time() + seconds
  said <- character()
  repeat {
    python$poll_io(200)
    line <- python$read_output_lines(1)
    told <- python$read_error() # after the answer: what was said before it is here then
    if (nzchar(told)) {
      said <- c(said, told)
      cat(told, file = stderr())
    }
    if (identical(line, '{"question": true}')) {
      python$write_input(paste0(readline(), "\n"))
    } else if (length(line) == 1) {
      session$answered <- TRUE
      return(line)
    }
    if (!python$is_alive()) {
      session$python <- NULL
      last <- utils::tail(strsplit(paste(c(said, python$read_all_error()), collapse = ""), "\n")[[1]], 1)
      why <- paste(c("Python ended before it answered", last), collapse = ": ")
      if (!session$answered) {
        named <- Sys.getenv("CURATOR_PYTHON")
        if (nzchar(named)) why <- paste0(why, "\nthe environment variable CURATOR_PYTHON names it: ", named)
        fail("no_python", why, "\ncurator_install() makes an environment that has all it needs")
      }
      fail_interrupted(key = key, why = why, class = "process_ended")
    }
    if (Sys.time() > end) return(NULL)
  }
}

# Lists of JSON as vectors. What is not finite comes as a text, and what is missing as NULL.
num <- function(values) vapply(values, function(one) if (is.null(one)) NA_real_ else as.numeric(one), 0)
chr <- function(values) vapply(values, function(one) if (is.null(one)) NA_character_ else as.character(one), "")

as_column <- function(values) {
  there <- Filter(Negate(is.null), values)
  is_text <- vapply(there, function(one) is.character(one) && !one %in% c("NaN", "Inf", "-Inf"), TRUE)
  if (any(is_text)) chr(values) else num(values)
}

as_rows <- function(values, names) {
  matrix(num(unlist(values, recursive = FALSE)), ncol = length(names[[2]]), byrow = TRUE, dimnames = names)
}

as_frame <- function(columns, names = base::names(columns)) {
  frame <- as.data.frame(lapply(columns, as_column), stringsAsFactors = FALSE)
  stats::setNames(frame, names)
}

in_broom <- function(names) gsub("_", ".", names, fixed = TRUE)
