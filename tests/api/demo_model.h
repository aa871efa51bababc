// The demo model, and one that chats: the same with a template.
#pragma once
#include <filesystem>
#include <string>

#include "support/temp_directory.h"

namespace carat {

const std::string kDemoModel = CARAT_SOURCE_DIR "/models/demo";

inline std::string make_chat_model(const TempDirectory& to) {
  std::filesystem::copy(kDemoModel, to.path(), std::filesystem::copy_options::recursive);
  to.write("chat_template.jinja",
           "{{ bos_token }}{% for m in messages %}<|turn>{{ m.role }}\n{{ m.content }}<turn|>\n{% endfor %}"
           "<|turn>model\n");
  return to.path();
}

}  // namespace carat
