# Sourced by the bench scripts that run llama.cpp, with the modules they need beside it: ends them
# unless LLAMACPP_PYTHON names a Python that has all of them.
if [[ -z ${LLAMACPP_PYTHON:-} ]]; then
  echo "LLAMACPP_PYTHON: expected the path of a Python that has llama-cpp-python, found nothing" >&2
  exit 2
fi
for module in llama_cpp "$@"; do
  if ! "$LLAMACPP_PYTHON" -c "import $module" >/dev/null; then
    echo "$LLAMACPP_PYTHON: expected module $module: CMAKE_ARGS=-DGGML_NATIVE=on pip install" \
      "llama-cpp-python numpy" >&2
    exit 2
  fi
done
