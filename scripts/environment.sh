# Sourced by the README's commands: a virtual environment with everything they need.
# MARCONI_VENV names another folder for it, MARCONI_PYTHON another interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=${MARCONI_VENV:-.venv}
PYTHON=$VENV/bin/python

# What the installation depends on; unchanged, an existing environment is used as it is.
installation_stamp() {
  cat setup.py pyproject.toml $(find csrc -name '*.h' -o -name '*.cpp' | sort) | sha256sum | cut -d' ' -f1
}

ensure_environment() { # EXTRAS
  local stamp_file=$VENV/.sglang-marconi stamp
  stamp="$1 $(installation_stamp)"
  [ -f "$stamp_file" ] && [ "$(cat "$stamp_file")" = "$stamp" ] && return
  if [ ! -x "$PYTHON" ]; then
    echo "Making the virtual environment $VENV"
    "${MARCONI_PYTHON:-python3}" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
      { echo "Python 3.11, 3.12 or 3.13 is needed; name one in MARCONI_PYTHON" >&2; exit 1; }
    "${MARCONI_PYTHON:-python3}" -m venv "$VENV"
  fi
  echo "Installing sglang-marconi[$1] into $VENV (SGLang with PyTorch is about 11 GB the first time)"
  "$PYTHON" -m pip install -qq --disable-pip-version-check --upgrade pip
  "$PYTHON" -m pip install -qq --disable-pip-version-check --editable ".[$1]"
  "$PYTHON" -c 'import sglang_marconi._core'
  echo "$stamp" >"$stamp_file"
}
