// How many prompt tokens may join a step while others decode, so that a long prompt slows them down by a
// known factor instead of stopping them.
#pragma once

namespace carat {

class PromptPacer {
 public:
  /// `slowdown`: how much longer a step may take than one without prompt tokens; 0: no limit.
  explicit PromptPacer(double slowdown) : slowdown_(slowdown) {}

  /// Of `room` tokens that a step with `decoding` sequences has left. None when so many have not been
  /// measured without prompt tokens yet: the step does that.
  int prompt_tokens(int decoding, int room) const;
  /// What a step took in which `decoding` sequences drew tokens and `prompt_tokens` were computed.
  void report(int decoding, int prompt_tokens, double seconds);

 private:
  bool knows(int decoding) const;
  void report_decoding(int decoding, double seconds);

  double slowdown_;
  double decode_s_ = 0;  // of a step of `measured_` sequences without prompt tokens; 0: not known
  int measured_ = 0;
  double prompt_token_s_ = 0;  // that each prompt token adds; 0: not known
  int tried_ = 0;              // the most prompt tokens of a step that had decoding ones too
};

}  // namespace carat
