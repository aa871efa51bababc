// What needs the tokenizer and the chat template only: /tokenize, /detokenize and /apply-template, in the
// spellings of llama.cpp and vLLM.
#pragma once
#include <string>

#include "server/api_fields.h"
#include "server/api_model.h"

namespace carat {

// From the body of a request to that of its response. Throw ApiError.
std::string tokenize_json(const ApiFields& body, const ServedModel& model);
std::string detokenize_json(const ApiFields& body, const ServedModel& model);
std::string apply_template_json(const ApiFields& body, const ServedModel& model);

}  // namespace carat
