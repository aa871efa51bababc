#include "engine/runner.h"

#include "base/error.h"

namespace carat {

RunnerOptions one_row_each(RunnerOptions limits) {
  limits.max_step_tokens = limits.max_sequences;
  return limits;
}

std::vector<int32_t> Runner::draft(const DraftRows&, int) {
  fail(ErrorKind::unsupported, "the device ", info().device, " has no drafter");
}

void Runner::time_phases(bool) {
  fail(ErrorKind::unsupported, "the device ", info().device, " doesn't tell the phases of a step apart");
}

}  // namespace carat
