#!/usr/bin/env bash
# INS-02: build the wheels, install them into an empty environment, and use them from another
# folder. The plugins come without torch and simulators: listing them must need neither.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${PYTHON:-python3} -m venv "$work/build"
"$work/build/bin/python" -m pip install --quiet --upgrade pip build
for project in . plugins/l2bench-*; do
    "$work/build/bin/python" -m build --quiet --wheel --outdir "$work/dist" "$project" >/dev/null
done
ls "$work/dist"
${PYTHON:-python3} -m venv "$work/empty"
"$work/empty/bin/python" -m pip install --quiet --upgrade pip
"$work/empty/bin/python" -m pip install --quiet "$work"/dist/l2bench-[0-9]*.whl
"$work/empty/bin/python" -m pip install --quiet --no-deps "$work"/dist/l2bench_*.whl
cd "$work"
"$work/empty/bin/python" "$root/tests/wheel_check.py" "$root"
"$work/empty/bin/l2bench" suites
"$work/empty/bin/l2bench" plugins
"$work/empty/bin/l2bench" run quickstart profile=smoke -o "$work/run" </dev/null
