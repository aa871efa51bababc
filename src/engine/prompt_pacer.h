// How many prompt tokens may join a step while others decode, so that a long prompt slows them down by a
// known factor instead of stopping them.
#pragma once

namespace carat {

class PromptPacer {
 public:
  /// `slowdown`: how much longer a step may take than one without prompt tokens; 0: no limit.
  explicit PromptPacer(double slowdown) : slowdown_(slowdown) {}

  /// The part of a step that matters here. `context`: how many tokens the prompt has behind it that has most.
  struct Load {
    int decoding = 0;  // sequences
    int context = 0;
  };

  /// Of `room` tokens that a step has left. None when so many decoding sequences have not been measured
  /// without prompt tokens yet: the step does that.
  int prompt_tokens(const Load& load, int room) const;
  /// What a step took in which `prompt_tokens` were computed.
  void report(const Load& load, int prompt_tokens, double seconds);

 private:
  /// A running average of what is measured at one size, of the batch or of the context.
  struct Cost {
    double seconds = 0;  // 0: not known
    int size = 0;        // at which it was measured last

    bool known_at(int at) const;
    /// The average leans downwards by the weight `down` and upwards by `up`.
    void add(int at, double value, double down, double up);
  };

  double slowdown_;
  Cost decode_step_;   // without prompt tokens, by decoding sequences
  Cost prompt_token_;  // what each one adds, by context
  int tried_ = 0;      // the most prompt tokens of a step with decoding ones, at about this context
};

}  // namespace carat
