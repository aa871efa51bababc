#!/bin/sh
# Usage: tools/make_client_environment.sh   makes build/clients, a Python environment with the clients that
# tests/clients runs against the server. Needs python3-venv and a package index.
set -eu
cd "$(dirname "$0")/.."
python3 -m venv build/clients
build/clients/bin/pip install --quiet openai anthropic schemathesis
