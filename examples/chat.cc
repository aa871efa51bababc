// A conversation through the C++ API: each line of standard input is the user's turn, each reply is streamed.
//
//   carat-example-chat google/gemma-4-E2B-it
#include <carat/engine.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void talk(const carat::Model& model) {
  std::vector<carat::Message> conversation;
  for (std::string line; std::getline(std::cin, line);) {
    conversation.push_back({"user", line});
    carat::Generation reply = model.chat(conversation, {.max_tokens = 200});
    while (const auto chunk = reply.next()) std::cout << chunk->text << std::flush;
    const carat::Completion& all = reply.so_far();
    if (all.finish == carat::FinishReason::error) throw std::runtime_error(all.error);
    std::cout << "\n";
    // What the next turn repeats isn't computed again: the engine keeps it.
    std::cerr << "[" << all.usage.prompt_tokens << " prompt tokens, " << all.usage.cached_tokens
              << " of them cached; " << all.usage.reply_tokens << " in the reply]\n";
    conversation.push_back({"assistant", all.text});
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " MODEL < LINES\n";
    return 2;
  }
  try {
    talk(carat::Model::load(argv[1]));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
