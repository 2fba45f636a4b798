# List datasets, ask for a price, buy a release, save it, and fit least squares or ridge on it.
#
#   CURATOR_URL=https://… CURATOR_TOKEN=… Rscript release.R DATASET REQUEST.json RELEASE.json [PENALTY] > fit.csv
#
# RELEASE.json.key keeps the idempotency key: run this again after a crash or a lost answer, and nothing is paid twice.
# Coefficients go to the standard output as CSV, in raw units; everything else is said on the standard error.

library(httr2)
library(jsonlite)

fail <- function(...) {
  message("error: ", ...)
  quit(status = 1)
}

arguments <- commandArgs(trailingOnly = TRUE)
url <- sub("/$", "", Sys.getenv("CURATOR_URL"))
token <- Sys.getenv("CURATOR_TOKEN")
if (!length(arguments) %in% 3:4 || url == "" || token == "") {
  fail("usage: CURATOR_URL=… CURATOR_TOKEN=… Rscript release.R DATASET REQUEST.json RELEASE.json [PENALTY]")
}
dataset <- arguments[1]
request_file <- arguments[2]
release_file <- arguments[3]
penalty <- if (length(arguments) == 4) as.numeric(arguments[4]) else 0
if (is.na(penalty) || penalty < 0) fail("PENALTY must be a number, 0 or more")
# A token that travels in clear is a token lost.
if (!grepl("^https://|^http://(127\\.0\\.0\\.1|localhost|\\[::1\\])(:[0-9]+)?(/|$)", url)) {
  fail("CURATOR_URL must begin with https://, or be http:// on this machine")
}

# Send a request until it is answered; a body makes it a POST.
#
# Where asking again helps, the curator says so by Retry-After: it is busy, or a job works on this request, whose answer
# this key will have. Where no answer came, the request may have been charged, and the same key tells.
ask <- function(path, body = NULL, key = NULL, wait_s = 600) {
  req <- request(paste0(url, path)) |>
    req_auth_bearer_token(token) |>
    req_headers(Accept = "application/json") |>
    req_timeout(60) |>
    req_error(is_error = \(resp) FALSE)
  if (!is.null(body)) req <- req_body_raw(req, body, type = "application/json")
  if (!is.null(key)) req <- req_headers(req, `Idempotency-Key` = key)
  end <- Sys.time() + wait_s
  backoff <- 1
  repeat {
    pause <- backoff
    resp <- tryCatch(req_perform(req), error = identity)
    if (!inherits(resp, "error") && !resp_status(resp) %in% c(502, 504)) {
      pause <- suppressWarnings(as.numeric(resp_header(resp, "Retry-After")))
      if (length(pause) == 0) {
        if (resp_status(resp) >= 300) refuse(resp)
        return(resp)
      }
      if (is.na(pause)) pause <- backoff
    }
    if (Sys.time() + pause > end) fail("no answer in time; what was asked may have been charged: run this again")
    Sys.sleep(pause)
    backoff <- min(16, 2 * backoff)
  }
}

# Say why the curator refused (RFC 9457), and end.
refuse <- function(resp) {
  problem <- tryCatch(fromJSON(resp_body_string(resp)), error = \(failure) list())
  if (is.null(problem$title)) fail("HTTP ", resp_status(resp), " without a problem document")
  faults <- if (is.data.frame(problem$errors)) paste0("\n  ", problem$errors$pointer, ": ", problem$errors$detail)
  fail(problem$title, ": ", problem$detail, faults, "\n  ", problem$type, ", request ", problem$instance)
}

# A member of each term, with a default for terms that lack it.
member <- function(terms, name, default) {
  values <- terms[[name]]
  if (is.null(values)) rep(default, nrow(terms)) else ifelse(is.na(values), default, values)
}

# Solve the noisy normal equations, with a penalty on all but the constant, and go back to raw units.
fit <- function(release, penalty) {
  terms <- release$terms
  targets <- release$targets
  statistics <- release$statistics
  if (is.null(statistics$xtx) || is.null(statistics$xty)) fail("a fit needs xtx and xty: ask for them with a target")
  if (!release$request$rows$map %in% c("box", "ball")) fail("this example reads releases of box and ball")
  size <- nrow(terms)
  # The upper triangle row by row is the lower triangle column by column, and R counts by column.
  xtx <- matrix(0, size, size)
  xtx[lower.tri(xtx, diag = TRUE)] <- statistics$xtx$values
  xtx <- xtx + t(xtx) - diag(diag(xtx), size)
  xty <- matrix(statistics$xty$values, nrow = size, byrow = TRUE)
  equations <- xtx + diag(penalty * (terms$kind != "constant"), size)
  if (min(eigen(equations, symmetric = TRUE, only.values = TRUE)$values) <= 0) {
    fail("the noise outweighs the data in some direction: give a PENALTY, offer a larger price, or ask fewer features")
  }
  scaled <- solve(equations, xty)
  # A value x stands in the statistics as (x - center) / scale, so coef_j = s_y / s_j * beta_j.
  coef <- scaled * outer(1 / member(terms, "scale", 1), member(targets, "scale", 1))
  from_center <- colSums(coef * member(terms, "center", 0))
  is_constant <- terms$kind == "constant"
  intercept <- member(targets, "center", 0) + colSums(coef[is_constant, , drop = FALSE]) - from_center
  data.frame(
    target = rep(targets$name, each = 1 + sum(!is_constant)),
    term = rep(c("(intercept)", terms$name[!is_constant]), times = nrow(targets)),
    coefficient = as.vector(rbind(intercept, coef[!is_constant, , drop = FALSE]))
  )
}

# 1. What there is.
for (found in fromJSON(resp_body_string(ask("/v1/datasets")), simplifyDataFrame = FALSE)$datasets) {
  message(found$name, ": ", paste(vapply(found$columns, \(column) column$name, ""), collapse = ", "))
}

# 2. What it costs. Free, and reads no row.
path <- paste0("/v1/datasets/", URLencode(dataset, reserved = TRUE))
body <- readBin(request_file, "raw", file.size(request_file))
quote <- fromJSON(resp_body_string(ask(paste0(path, "/quotes"), body)))
message(sprintf(
  "price: %.2f%% of the budget (epsilon %.4g at delta %.3g), affordable: %s; answer shows after %.3g s",
  100 * quote$cost$share_of_budget, quote$cost$epsilon, quote$cost$delta, quote$affordable, quote$duration_s
))

# 3. Buy it. The key is on disk before the request leaves.
key_file <- paste0(release_file, ".key")
if (!isTRUE(file.size(key_file) > 0)) writeLines(paste(openssl::rand_bytes(24), collapse = ""), key_file)
answer <- ask(paste0(path, "/releases"), body, key = readLines(key_file))
writeBin(resp_body_raw(answer), release_file) # byte for byte: the receipt's digest covers every character
release <- fromJSON(resp_body_string(answer))
message("bought: ", release$id, ", answered as ", resp_header(answer, "Curator-Answer"))

# 4. Fit.
write.csv(fit(release, penalty), row.names = FALSE)
