#!/usr/bin/env bash
# Train on real pairs, and on text of the target language that a run of the other direction translates back (Sennrich et
# al. 2016). The tag <bt>, a subword of its own, begins each synthetic source (Caswell et al. 2019).
#
#   examples/back_translate.sh RUN SOURCE TARGET MONOLINGUAL "REVERSE [options of translate]" [options of train]
#   examples/back_translate.sh runs/en-de train.en train.de news.de runs/de-en
#
# Samples instead of a beam search (Edunov et al. 2018): "runs/de-en -s sample=true -s seed=1". A quarter of the examples
# synthetic: `data.weights=[0.75,0.25]`. The same command resumes, at whatever it was interrupted.
set -euo pipefail
if [ $# -lt 5 ]; then
  echo "usage: examples/back_translate.sh RUN SOURCE TARGET MONOLINGUAL 'REVERSE [options]' [options of train]" >&2
  exit 2
fi
run=$1 source=$2 target=$3 monolingual=$4 reverse=$5
shift 5

mkdir -p "$run"
if [ ! -e "$run/synthetic.txt" ]; then
  # shellcheck disable=SC2086 # several options
  headwise translate $reverse "$monolingual" -o "$run/translating.txt" --on-bad-line empty
  LC_ALL=C sed 's/^./<bt> &/' "$run/translating.txt" > "$run/tagging.txt"
  mv "$run/tagging.txt" "$run/synthetic.txt"
fi
headwise train --source "$source" --source "$run/synthetic.txt" --target "$target" --target "$monolingual" \
  'subwords.symbols=[<bt>]' data.dev_files=1 -o "$run" "$@"
