#!/bin/sh
# Builds `translate` beside this file (or where the first argument says) against
# the TensorFlow of a Python installation, python3 or $PYTHON.
set -eu
here=$(dirname "$0")
output=${1:-$here/translate}

folder() {
    "${PYTHON:-python3}" -c "
import importlib.util, sys
spec = importlib.util.find_spec('$1')
if spec is None:
    sys.exit('build.sh: Python has no package $1. Install it, or set PYTHON.')
print(spec.submodule_search_locations[0])"
}

tensorflow=$(folder tensorflow)
text=$(folder tensorflow_text)
${CC:-cc} -std=c11 -O2 -Wall -Wextra -o "$output" "$here/translate.c" \
    -isystem "$tensorflow/include" \
    -DTEXT_OPS="\"$text/python/ops/_sentencepiece_tokenizer.so\"" \
    "$tensorflow/libtensorflow_cc.so.2" \
    "$tensorflow/libtensorflow_framework.so.2" \
    -Wl,-rpath,"$tensorflow"
echo "Wrote $output. Next: $output MODEL/1 \"A sentence.\""
