#!/usr/bin/env bash
# List datasets, ask for a price, buy a release, save it, and ask again with the same key.
#
#   CURATOR_URL=https://… CURATOR_TOKEN=… ./release.sh DATASET REQUEST.json RELEASE.json
#
# RELEASE.json.key keeps the idempotency key: run this again after a crash or a lost answer, and nothing is paid twice.
set -euo pipefail

usage="usage: CURATOR_URL=… CURATOR_TOKEN=… $0 DATASET REQUEST.json RELEASE.json"
dataset=${1:?$usage} request=${2:?$usage} release=${3:?$usage}
url=${CURATOR_URL:?$usage} token=${CURATOR_TOKEN:?$usage}
url=${url%/}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf '%s\n' "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

# A token that travels in clear is a token lost.
[[ $url =~ ^https:// || $url =~ ^http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?(/|$) ]] ||
  die "CURATOR_URL must begin with https://, or be http:// on this machine"

# The last value of a header of the answer; empty if it has none.
header() {
  tr -d '\r' <"$work/headers" | awk -v name="$1:" 'tolower($1) == tolower(name) { value = $2 } END { print value }'
}

# Say why the curator refused (RFC 9457), and end.
refuse() {
  jq -r '"error: \(.title): \(.detail)",
    (.errors[]? | "  \(.pointer): \(.detail)"),
    "  \(.type), request \(.instance)"' "$work/body" >&2 2>/dev/null || say "error: HTTP $1 without a problem document"
  exit 1
}

# ask METHOD PATH [curl's options]: send a request until it is answered; the body is then in $work/body.
#
# Where asking again helps, the curator says so by Retry-After: it is busy, or a job works on this request, whose answer
# this key will have. Where no answer came, the request may have been charged, and the same key tells.
ask() {
  local method=$1 path=$2 end=$((SECONDS + ${CURATOR_WAIT_S:-600})) backoff=1 status pause
  shift 2
  while :; do
    # The token is given by a file descriptor: arguments can be read by everybody on this machine.
    if status=$(curl --silent --show-error --max-time 60 --request "$method" \
      --header @<(printf 'Authorization: Bearer %s\n' "$token") --header 'Accept: application/json' \
      --dump-header "$work/headers" --output "$work/body" --write-out '%{http_code}' "$@" "$url$path"); then
      pause=$(header Retry-After)
      case $status in
      2??) [[ -n $pause ]] || return 0 ;;
      502 | 504) pause=$backoff ;; # a proxy's: nobody knows what the curator did
      *) [[ -n $pause ]] || refuse "$status" ;;
      esac
      [[ $pause =~ ^[0-9]{1,3}$ ]] || pause=$backoff
    else
      pause=$backoff
    fi
    ((SECONDS + pause < end)) || die "no answer in time; what was asked may have been charged: run this again"
    sleep "$pause"
    backoff=$((backoff < 16 ? 2 * backoff : 16))
  done
}

# 1. What there is.
ask GET /v1/datasets
jq -r '.datasets[] | "\(.name): \(.description)",
  (.columns[] | "  \(.name): " + if .levels then .levels | join(", ") else "\(.lower) to \(.upper) \(.unit // "")" end)' \
  "$work/body"

# 2. What it costs. Free, and reads no row.
path=/v1/datasets/$(jq -nr --arg name "$dataset" '$name | @uri')
json=(--header 'Content-Type: application/json' --data-binary @"$request")
ask POST "$path/quotes" "${json[@]}"
jq -r '"price: \(.cost.share_of_budget * 10000 | round / 100)% of the budget" +
    " (epsilon \(.cost.epsilon) at delta \(.cost.delta)), affordable: \(.affordable)",
  "noise: \(.noise.sd | to_entries | map("\(.key) \(.value * 100 | round / 100)") | join(", "))" +
    " (standard deviations, in scaled units)",
  "answer shows after \(.duration_s * 1000 | round / 1000) s; free from: \(.stored_release // .derivable_from // "nothing stored")"' "$work/body"

# 3. Buy it. The key is on disk before the request leaves.
if [[ ! -s $release.key ]]; then
  head -c 24 /dev/urandom | base64 | tr '+/' '-_' >"$release.key"
fi
buy=("${json[@]}" --header "Idempotency-Key: $(<"$release.key")")
ask POST "$path/releases" "${buy[@]}"
mv "$work/body" "$release" # byte for byte: the receipt's digest covers every character
jq -r --arg answer "$(header Curator-Answer)" '"bought: \(.id), answered as \($answer)"' "$release"

# 4. The same key again: the same bytes, and nothing is paid.
ask POST "$path/releases" "${buy[@]}"
cmp "$work/body" "$release"
printf 'again: the same bytes, answered as %s\n' "$(header Curator-Answer)"
