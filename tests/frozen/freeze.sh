#!/usr/bin/env bash
# freeze.sh CHECKOUT VERSION: makes the frozen runs of a version in tests/frozen/VERSION, by that version's own command.
#
# Each run is trained to 800 steps with checkpoints; a copy is resumed to 820. expected.json has what that version then
# computed: the SHA-256 of the resumed parameters, their values' sums, and translations by the run of 800 steps.
set -euo pipefail
checkout=$1 folder=$(cd "$(dirname "$0")" && pwd)/$2
headwise=$checkout/.venv/bin/headwise
export OMP_NUM_THREADS=1
work=$(mktemp -d)
mkdir -p "$work/$2" && cp -r "$(dirname "$0")/text" "$work/text" && cd "$work/$2"

model="d_model: 16, d_ff: 32, heads: 2, max_length: 64, dropout: 0.1"
training="max_steps: 800, validate_every: 800, checkpoint_every: 400, average_last: 2, device: cpu, threads: 1, log_every: 200"
rest="batch: {tokens: 200}
schedule: {name: inverse_sqrt, warmup: 10, peak: 0.02}"
pairs="source: [../text/train.en], target: [../text/train.de], dev_source: ../text/dev.en, dev_target: ../text/dev.de, workers: 1"

cat > translation.yaml <<YAML
model: {$model, encoder_layers: 1, decoder_layers: 1}
data: {$pairs}
subwords: {size: 120, dropout: 0.1}
$rest
training: {$training, r_drop: 0.1}
YAML
cat > recurrent.yaml <<YAML
model: {$model, encoder_layers: 1, decoder_layers: 1, architecture: recurrent, share_embeddings: none}
data: {$pairs}
subwords: {size: 120, joint: false}
$rest
training: {$training, best_by: bleu}
YAML
cat > language.yaml <<YAML
task: language_model
model: {$model, decoder_layers: 1}
data: {text: [../text/train.en], dev_text: ../text/dev.en}
subwords: {size: 100}
$rest
training: {$training}
language_model: {window: 32}
YAML
runs="translation recurrent language"
if "$headwise" data prepare --help >/dev/null 2>&1; then
  "$headwise" data prepare --source ../text/train.en --target ../text/train.de --languages en-de --subwords 120 \
    --dev-pairs 10 --shard-pairs 40 --workers 1 -o corpus
  sed -e "s|^data: .*|data: {prepared: [corpus]}|" -e "s|r_drop: 0.1|r_drop: 0.0|" \
    -e "/^subwords/d" translation.yaml > streamed.yaml
  runs="$runs streamed"
fi

for run in $runs; do
  "$headwise" train -c $run.yaml -o $run
  rm -r $run/checkpoints/step-00000400
  cp -r $run resumed-$run && (sleep 1; "$headwise" train -c $run.yaml -o resumed-$run --max-steps 820)
  case $run in language) ;; *)
    for beam in 1 4; do
      "$headwise" translate $run ../text/test.en --beam $beam > $run.beam$beam.txt
    done ;;
  esac
done
"$checkout/.venv/bin/python" - $runs <<'PY'
import hashlib, json, sys
from pathlib import Path
import torch
from safetensors.torch import load_file

cpu = next((line for line in open("/proc/cpuinfo") if line.startswith("model name")), ":").partition(":")[2].strip()
expected = {"made with": [torch.__version__, torch.backends.cpu.get_cpu_capability(), cpu]}
for run in sys.argv[1:]:
    tensors = load_file(f"resumed-{run}/checkpoints/step-00000820/model.safetensors")
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode() + tensors[name].numpy().tobytes())
    expected[run] = {"sha256": digest.hexdigest(), "norms": {n: round(t.norm().item(), 6) for n, t in sorted(tensors.items())}}
    for beam in (1, 4):
        if Path(f"{run}.beam{beam}.txt").exists():
            expected[run][f"beam {beam}"] = Path(f"{run}.beam{beam}.txt").read_text().splitlines()
Path("expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")
PY
find . -name 'curves.png' -delete; find . -name '.*.lock' -delete; find . -name '.lock' -delete
rm -rf "$folder" resumed-* ./*.txt && cp -r "$work/$2" "$folder" && rm -rf "$work"
