#!/bin/sh
# Run the notebook from end to end, and keep it with its output (pip install nbclient ipykernel).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cp "$here/first_steps.ipynb" run.ipynb
jupyter execute --inplace run.ipynb
