#!/usr/bin/env bash
# Prints the path of a Chromium: $FEDSVP_BROWSER, an installed one, or Debian's,
# installed now where the user may.
set -euo pipefail
find_browser() {
  for name in "${FEDSVP_BROWSER:-}" chromium chromium-browser google-chrome; do
    [ -n "$name" ] && command -v "$name" && return
  done
  return 1
}
find_browser && exit
if [ "$(id -u)" = 0 ] && command -v apt-get >&2; then
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends chromium >&2
fi
find_browser && exit
echo "no Chromium here: install one (apt-get install chromium), or name it by" \
  "FEDSVP_BROWSER=PATH" >&2
exit 1
