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
  /// Whatever the averages say: twice as many as went well at about this context, or half as many as took too
  /// long. One measurement that was off can't be followed by many long steps.
  int most_ = 0;
};

}  // namespace carat
