#!/usr/bin/env bash
# Builds and runs every test, after installing what they need (apt, only when something is missing).
#
#   packaging/test.sh          style, the release build's tests (units, kernels on the SIMT
#                              executor, each front end from the outside), what reads files under
#                              ASan and UBSan
#   packaging/test.sh --full   that, every end-to-end test, a sixth of the planted faults (which one
#                              the commit says), sanitizers by clang, fuzzers, the CUDA build
#   packaging/test.sh --all    that with all planted faults and what needs the network: nightly
#
# One line a stage, then `N passed, N failed, N skipped`; exit status 1 when anything failed. A
# stage that fails stops no other. A stage counts as one, or, when it runs a list of tests, as these
# tests (see count_results.py). Logs and builds stay under build/.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root" || exit 1
logs="$root/build/test-logs"
fuzz_seconds=30  # each fuzzer; two run at a time
# Material that may not lie in the repository (the Llama 3 vocabulary), where it lies beside it.
if [ -z "${SPECBOUND_SHARED:-}" ] && [ -d "$root/../shared/data" ]; then
  export SPECBOUND_SHARED="$root/../shared"
fi
# What was compiled in one clone need not be compiled again in another.
export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1

say() { echo "test: $*"; }
. packaging/dependencies.sh

case "$*" in
  "") extent=default faults=OFF ;;
  --full) extent=full faults=ROTATE ;;
  --all) extent=all faults=ALL ;;
  *)
    echo "usage: packaging/test.sh [--full|--all]" >&2
    exit 2
    ;;
esac
# What takes turns but by night, by the second of the commit, in shallow clones too: a sixth of the
# planted faults, the PTX of one of two architectures, the check for spills on three of six, and of
# what sanitizers take longest over one under ASan and UBSan. At the turn of kernels on the executor
# TSan has neither readers nor the window, at the window's it has the tests of exactness too.
turn=$(($(git log -1 --format=%ct 2>/dev/null || date +%s) % 6))
longest=(simt exactness gui)
sanitized=${longest[turn % 3]}
other_archs="ptx90|spills80"
if [ $((turn % 2)) = 1 ]; then other_archs="ptx75|spills75"; fi
# What the README's command builds.
quick=(specbound specbound_tests exactness_tests reader_tests gui_tests simt_tests capi_test
  capi_example)

# ---- stages: exit status 0 is a pass; file `counts` (passed failed skipped, then notes) says more

skip() {
  echo "0 0 1" >"$counts"
  echo "SKIP $*" >>"$counts"
}

stage_lint() { python3 tests/lint.py; }

# Another major version formats differently, so only the one the tree is kept with can judge it.
stage_format() {
  local formatter breaches
  formatter=$(command -v clang-format-14 || command -v clang-format)
  if ! "$formatter" --version | grep -q 'version 14\.'; then
    skip "format: needs clang-format 14, found $("$formatter" --version | tr -d '\n')"
    return
  fi
  breaches=$(find . -path './build*' -prune -o -regex '.*\.\(h\|cpp\|cuh\|cu\)' -print0 |
    xargs -0 "$formatter" --dry-run -Werror 2>&1) && return
  echo "not as clang-format would have it; $formatter -i FILE puts it right:"
  grep -o '^[^ :]*:[0-9]*:[0-9]*: error:' <<<"$breaches" | cut -d: -f1 | sort -u | grep . ||
    echo "$breaches"
  return 1
}

# Address-space randomization with more entropy than the sanitizers of gcc 12 and clang 14 expect
# makes programs abort at start, tests and what a build runs; where the system allows it, they run
# without.
fixed_addresses() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    setarch "$(uname -m)" -R "$@"
  else
    "$@"
  fi
}

# build PRESET [--set VARIABLE=VALUE]... [TARGETS and ninja's arguments]
build() {
  local preset=$1 settings=()
  shift
  while [ "${1-}" = --set ]; do
    settings+=(-D "$2")
    shift 2
  done
  forget_moved_build "build/$preset"
  cmake --preset "$preset" "${settings[@]}" &&
    fixed_addresses cmake --build --preset "$preset" "$@" -- -k 0
}

# run_tests PRESET [ctest's arguments]: those of a build, two at a time.
run_tests() {
  local preset=$1 status junit="$logs/$1.xml"
  shift
  rm -f "$junit"
  fixed_addresses ctest --preset "$preset" "$@" --parallel 2 --no-tests=error --timeout 1800 \
    --output-junit "$junit" --test-output-size-passed 4194304 --test-output-size-failed 4194304
  status=$?
  python3 packaging/count_results.py "$junit" >"$counts" && return $status
}

# The label `quick` is on what the README's command runs; tests/CMakeLists.txt puts it there.
stage_release() {
  local settings=(--set "SPECBOUND_FAULTS=$faults" --set "SPECBOUND_FAULT_TURN=$turn")
  if [ $extent = default ]; then
    build release "${settings[@]}" --target "${quick[@]}" && run_tests release -L quick
  else
    build release "${settings[@]}" && run_tests release
  fi
}
sanitizer_options() {
  export ASAN_OPTIONS=strict_string_checks=1
  # Takes three times as long.
  if [ $extent = all ]; then ASAN_OPTIONS+=:detect_stack_use_after_return=1; fi
  export UBSAN_OPTIONS=print_stacktrace=1
}

# Whatever reads files, prompts and JSON of others, against hostile ones.
stage_readers() {
  sanitizer_options
  build asan-ubsan --target reader_tests && run_tests asan-ubsan -L readers
}

stage_asan_ubsan() {
  local targets=() left_out="e2e_(docs|gui|repl|train_heads)_test" target
  sanitizer_options
  if [ $extent = all ]; then
    build asan-ubsan && run_tests asan-ubsan
    return
  fi
  # Not what holds the documents, what REPL and window do with keys, nor whole trainings: text from
  # outside is in `unit` and `gui` too, and so are a training's parts.
  for target in "${quick[@]}"; do
    if [[ " ${longest[*]/%/_tests} " == *" $target "* && $target != "${sanitized}_tests" ]]; then
      left_out+="|${target%_tests}"
    else
      targets+=("$target")
    fi
  done
  build asan-ubsan --target "${targets[@]}" &&
    run_tests asan-ubsan -L "quick|hostile" -E "^($left_out)\$"
}

# What threads have to do with, of the server its replies, its refusals and what it keeps; by night
# also the kernels, whose missing barriers are races, and whole trainings and tunings, whose
# parts `unit` has.
stage_tsan() {
  local targets=(specbound specbound_tests capi_test)
  local tests="unit|capi|e2e_(chat|run|stop|verify)_test|e2e_serve(_cache|_errors)?_test"
  if [ $extent = all ] || [ "$sanitized" != simt ]; then
    targets+=(reader_tests gui_tests)
    tests+="|readers|gui"
  fi
  if [ $extent = all ] || [ "$sanitized" = gui ]; then
    targets+=(exactness_tests)
    tests+="|exactness"
  fi
  if [ $extent = all ]; then
    targets+=(simt_tests)
    tests+="|simt|e2e_(train_heads|tune)_test"
  fi
  export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1"
  TSAN_OPTIONS+=":suppressions='$root/tests/tsan.supp'"
  build tsan --target "${targets[@]}" && run_tests tsan -R "^($tests)\$"
}

# The fuzzers of files (GGUF, split, heads, safetensors, datastores) and of tool calls fill an empty
# corpus by themselves, fuzz_round needs none. fuzz_tokenizer starts from texts (0, 1, 4, 5), the
# small GGUF files of fuzz_gguf (2) and merges (6); fuzz_template from chat templates (0) and a
# conversation (1). The first byte of an input says which it is. fuzz_http_body starts from bodies
# of all routes (chat 0, completion 1, tokenize 2, detokenize 3, embeddings 4), by the ASCII code of
# that digit. fuzz_grammar starts from a grammar (0) and the schemas of tests/golden (1, 2).
fuzz_tokenizer_seeds() {
  local file name
  for file in tests/data/tokenizer/*.inp build/fuzz-runs/fuzz_gguf/corpus/seed-*; do
    name=$(basename "$file")
    case $file in
      *.inp)
        (printf 0 && cat "$file") >"$1/0-$name"
        (printf 1 && cat "$file") >"$1/1-$name"
        (printf 4 && cat "$file") >"$1/4-$name"
        (printf 5 && cat "$file") >"$1/5-$name"
        ;;
      *) (printf 2 && cat "$file") >"$1/2-$name" ;;
    esac
  done
  printf '6\001ab\001bc\001abc\n\na b\nb c\na bc\n' >"$1/6-merges"
}

fuzz_template_seeds() {
  local file
  for file in tests/data/chat-templates/*.jinja; do
    (printf 0 && cat "$file") >"$1/0-$(basename "$file")"
  done
  printf '1\001S<|im_end|>\000{{ x }}</s>\000<think>a</think>b\000c' >"$1/1-conversation"
}

fuzz_grammar_seeds() {
  printf '\000root ::= "a" x{0,3} | [^b-d\\x41] ("e" | .)* # c\nx ::= "[" root? "]"\n' >"$1/0-gbnf"
  python3 - "$1" <<'PYTHON'
import json, sys
for i, entry in enumerate(json.load(open("tests/golden/schema_golden.json"))):
    with open(f"{sys.argv[1]}/1-{i}", "wb") as file:
        file.write(bytes([1 + i % 2]) + entry["schema"].encode())
PYTHON
}

fuzz_http_body_seeds() {
  local common='"stream":true,"stream_options":{"include_usage":true},"max_tokens":5,'
  common+='"temperature":0.5,"top_p":0.9,"top_k":3,"min_p":0.1,"repeat_penalty":1.1,"seed":7,'
  common+='"stop":["a","b"],"speculation":false,"n":2,"frequency_penalty":0.5,'
  common+='"presence_penalty":-0.5,"logit_bias":{"5":-1.5,"511":3},'
  common+='"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"null"}}}'
  printf '0{"messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text",'\
'"text":"U\\u0000\\ud83d\\ude00"}]}],"model":"m","logprobs":true,"top_logprobs":2,%s}' "$common" \
    >"$1/0-chat"
  local call='{"id":"1","type":"function","function":{"name":"f","arguments":"{\\"a\\":1}"}}'
  local tool='{"type":"function","function":{"name":"f","parameters":{"type":"object",'
  tool+='"properties":{"a":{"type":"string"}}}}}'
  printf '0{"messages":[{"role":"user","content":"U"},{"role":"assistant","tool_calls":[%b]},'\
'{"role":"tool","content":"r","tool_call_id":"1"}],"tools":[%s],"tool_choice":"auto",'\
'"parallel_tool_calls":false,"chat_template_kwargs":{"enable_thinking":false}}' "$call" "$tool" \
    >"$1/0-tools"
  printf '1{"prompt":["P"],"echo":false,"suffix":"","logprobs":2,%s}' "$common" >"$1/1-prompt"
  printf '1{"prompt":[1,2,511],%s}' "$common" >"$1/1-ids"
  printf '2{"content":"a\303\244","add_special":true,"with_pieces":true}' >"$1/2-tokenize"
  printf '3{"tokens":[0,255,511]}' >"$1/3-detokenize"
  printf '4{"input":["a","b",[1,511]],"encoding_format":"base64","dimensions":3,"model":"m"}' \
    >"$1/4-embeddings"
}

# run_fuzzer TARGET SECONDS; a new corpus each time, so that every run can be repeated.
run_fuzzer() {
  local target=$1 seconds=$2 work="$root/build/fuzz-runs/$1" longest=16384
  rm -rf "$work/corpus"
  mkdir -p "$work/corpus"
  if [ "$target" = fuzz_tokenizer ]; then fuzz_tokenizer_seeds "$work/corpus"; fi
  if [ "$target" = fuzz_template ]; then fuzz_template_seeds "$work/corpus"; fi
  if [ "$target" = fuzz_grammar ]; then fuzz_grammar_seeds "$work/corpus"; fi
  if [ "$target" = fuzz_http_body ]; then fuzz_http_body_seeds "$work/corpus"; fi
  if [ "$target" = fuzz_safetensors ]; then longest=32768; fi  # a layer with its config.json
  echo "== $target, $seconds s"
  (cd "$work" && fixed_addresses "$root/build/asan-ubsan/tests/$target" -seed=1 \
    -max_len="$longest" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2560 \
    -print_final_stats=1 corpus)
}

# Two at a time, in the order of their names: fuzz_gguf's corpus is there when it is needed.
stage_fuzz() {
  local source target i pids passed=0 failed=0 targets=()
  for source in tests/fuzz/fuzz_*.cpp; do
    targets+=("$(basename "$source" .cpp)")
  done
  build asan-ubsan --target fuzzers || return 1
  for ((i = 0; i < ${#targets[@]}; i += 2)); do
    pids=()
    for target in "${targets[@]:i:2}"; do
      run_fuzzer "$target" "$fuzz_seconds" >"$logs/$target.log" 2>&1 &
      pids+=($!)
    done
    for target in "${targets[@]:i:2}"; do
      if wait "${pids[0]}"; then
        passed=$((passed + 1))
      else
        failed=$((failed + 1))
      fi
      pids=("${pids[@]:1}")
      cat "$logs/$target.log"
    done
  done
  echo "$passed $failed 0" >"$counts"
  [ $failed = 0 ]
}

# What nvcc makes of the kernels. Their tests run where there is a GPU and skip elsewhere; without
# one they run on the CPU, the PTX of what decodes and of prefill's attention here, the source in
# every suite.
stage_cuda() {
  local version other=()
  if [ $extent != all ]; then other=(-E "^($other_archs)"); fi
  version=$(cuda_version)
  if [ -z "$version" ]; then
    skip "cuda: no nvcc on PATH or in /usr/local/cuda/bin"
  elif [ "${version%%.*}" -lt 13 ]; then
    skip "cuda: needs CUDA toolkit 13, found $version"
  else
    build cuda && run_tests cuda "${other[@]}"
  fi
}

# ---- running them ----

passed=0 failed=0 skipped=0

# Runs stage_NAME in a subshell, adds its counts, prints its line, and its log when it failed.
run_stage() {
  local name=$1 start=$EPOCHREALTIME status p=0 f=0 s=0 verdict=ok seconds log="$logs/$1.log"
  counts="$logs/$name.counts"
  rm -f "$counts"
  ("stage_${name//-/_}") </dev/null >"$log" 2>&1
  status=$?
  if [ -s "$counts" ]; then
    read -r p f s <"$counts"
  elif [ $status = 0 ]; then
    p=1
  fi
  # A build that breaks leaves no counts, and a failure is never lost.
  if [ $status != 0 ] && [ "$f" = 0 ]; then f=1; fi
  if [ "$f" != 0 ]; then
    verdict=FAILED
  elif [ "$p" = 0 ]; then
    verdict=none
  fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  seconds=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
  printf '%-7s %-11s %4d passed, %d failed, %d skipped %8s s\n' \
    $verdict "$name" "$p" "$f" "$s" "$seconds"
  [ ! -s "$counts" ] || sed '1d; s/^/        /' "$counts"
  if [ "$f" != 0 ]; then
    echo "---- end of $log"
    grep -v '^\[[0-9]*/[0-9]*\] ' "$log" | tail -n 150
    echo "----"
  fi
}

# clang comes without its sanitizer and fuzzer runtimes, in a package named after its version.
ensure_clang_runtimes() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    clang++ -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null 2>/dev/null ||
    apt_install "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev"
}

# The official Python package that the server is tested with, in a folder of its own that later runs
# find. Without a network there is none, and its tests count as skipped.
ensure_clients() {
  local folder="$root/build/openai"
  compgen -G "$folder/lib/python3*/site-packages/litellm/__init__.py" >/dev/null && return
  say "installing openai, langchain-openai and litellm into build/openai"
  {
    python3 -c 'import ensurepip' || apt_install python3-venv
    python3 -m venv "$folder" &&
      timeout 300 "$folder/bin/python" -m pip install --retries 1 --timeout 15 openai &&
      timeout 600 "$folder/bin/python" -m pip install --retries 1 --timeout 15 \
        langchain-openai litellm
  } </dev/null >"$logs/openai.log" 2>&1 || say "that failed; see $logs/openai.log"
}

mkdir -p "$logs"
ensure_installed $build_needs $test_needs && ensure_clang_runtimes || exit 1
if [ $extent != default ]; then ensure_clients; fi
if [ $extent = all ]; then export SPECBOUND_NETWORK=1; fi
describe_system
if [ -n "$(gpu_architectures)" ] &&
  grep -qs '^SPECBOUND_CUDA:[A-Z]*=AUTO$' build/release/CMakeCache.txt; then
  say "build/release is built without the GPU engine now; packaging/quickstart.sh puts it back"
fi
begin=$SECONDS
stages=(lint format release)
if [ $extent = default ]; then
  stages+=(readers)
else
  stages+=(asan-ubsan tsan fuzz cuda)
fi
for stage in "${stages[@]}"; do
  run_stage "$stage"
done
echo "$((SECONDS - begin)) s in all; logs in $logs"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
