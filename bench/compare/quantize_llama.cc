// llama.cpp's own quantisation, through its library. prepare.sh compiles and runs it.
//
//   quantize_llama IN.gguf OUT.gguf Q8_0|Q4_0 THREADS
#include <cstdlib>
#include <cstring>

#include "llama.h"

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  llama_backend_init();
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.ftype = std::strcmp(argv[3], "Q8_0") == 0 ? LLAMA_FTYPE_MOSTLY_Q8_0 : LLAMA_FTYPE_MOSTLY_Q4_0;
  params.nthread = std::atoi(argv[4]);
  return llama_model_quantize(argv[1], argv[2], &params) == 0 ? 0 : 1;
}
