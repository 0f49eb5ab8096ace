#!/bin/sh
# Headless rendering needs two system libraries, tests of the pages a browser. Install them where that
# is allowed, else name them.
set -eu
wanted="libosmesa6 libegl1"
missing=""
for package in $wanted; do
    dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || missing="$missing chromium fonts-liberation"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "Tests of images and pages need system packages:$missing. Install them with: sudo apt-get install$missing" >&2
fi
