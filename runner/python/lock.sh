#!/bin/sh
# Writes the hash-pinned locks from the *.in files. Locks hold no addresses, so that any index works.
set -eu
cd "$(dirname "$0")"
: "${UV:=uv}"
export UV_CUSTOM_COMPILE_COMMAND="make lock"
common="--quiet --generate-hashes --universal --python-version 3.11 --annotation-style line"
"$UV" pip compile $common --excludes excludes.txt requirements.in --output-file requirements.lock
"$UV" pip compile $common tools.in --output-file tools.lock
"$UV" pip compile $common installer.in --output-file installer.lock
