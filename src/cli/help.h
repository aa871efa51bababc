// How `carat --help` and `carat COMMAND --help` look: one column of names, one of meanings.
#pragma once
#include <memory>

namespace CLI {
class FormatterBase;
}

namespace carat {

std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace carat
