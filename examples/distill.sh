#!/usr/bin/env bash
# Train a small, fast student on the translations of a trained run or ensemble (Kim and Rush 2016, section 3.2).
#
#   examples/distill.sh RUN SOURCE "TEACHER [options of translate]" [options of train]
#   examples/distill.sh runs/student train.en "runs/de --with runs/de2" --max-minutes 60 --languages en-de
#
# The student has the teacher's subwords, 6+2 layers, and at most the width 256. To learn from real translations, too,
# add `--source train.en --target train.de --dev-source dev.en --dev-target dev.de`. The same command resumes, at
# whatever it was interrupted.
set -euo pipefail
if [ $# -lt 3 ]; then
  echo "usage: examples/distill.sh RUN SOURCE 'TEACHER [options of translate]' [options of train]" >&2
  exit 2
fi
run=$1 source=$2 teacher=$3
shift 3

mkdir -p "$run"
if [ ! -e "$run/translations.txt" ]; then
  # shellcheck disable=SC2086 # several options
  headwise translate $teacher "$source" -o "$run/translating.txt" --on-bad-line empty
  mv "$run/translating.txt" "$run/translations.txt"
fi
headwise train --source "$source" --target "$run/translations.txt" --preset student \
  "subwords.copy_from=${teacher%% *}" -o "$run" "$@"
