// What the engine makes of a model on the CPU: many requests against one, the gap that a long prompt tears
// into running replies, drafts on a text that repeats, and memory under a random load.
//   bench_engine MODEL_DIRECTORY [SOAK_SECONDS]

#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "core_watch.h"
#include "cpu/cpu_runner.h"
#include "io/model_config.h"
#include "io/safetensors.h"
#include "model/gemma4_plan.h"

namespace carat {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The time between two tokens of running replies while a prompt arrives, and what of it the machine took.
struct Gaps {
  double median_ms = 0;           // of all, also those without the prompt
  std::vector<double> beside_ms;  // beside the prompt
  std::vector<double> own_ms;     // of these, what is left without the time that a core was stopped
  double longest_stop_ms = 0;
  double first_token_s = 0;  // of the prompt

  double ratio() const { return std::ranges::max(beside_ms) / median_ms; }
  double own_ratio() const { return std::ranges::max(own_ms) / median_ms; }
};

class EngineBench {
 public:
  explicit EngineBench(const std::string& directory)
      : plan_(make_plan(load_model_config(directory), Checkpoint::open(directory))) {}

  std::unique_ptr<Engine> make_engine(int sequences, EngineOptions options = {}) const {
    options.max_positions = std::min(plan_.max_positions, kContext);
    const RunnerOptions limits = size_kv(plan_.kv_groups, options.max_positions, sequences, 512);
    return std::make_unique<Engine>(make_cpu_runner(plan_, limits, {}), nullptr, options);
  }

  Request request(uint64_t seed, int prompt, int tokens) const {
    Request request;
    for (int i = 0; i < prompt; ++i)
      request.prompt.push_back(static_cast<int32_t>(random_bits(seed, static_cast<uint64_t>(i)) %
                                                    static_cast<uint64_t>(plan_.vocab)));
    request.max_tokens = tokens;
    request.ignore_eos = true;
    return request;
  }

  void concurrency() const;
  void gaps() const;
  void drafts() const;
  void soak(double seconds) const;

 private:
  static constexpr int kContext = 5000, kPrompt = 4000;

  Gaps measure_gaps(double slowdown) const;

  const ModelPlan plan_;
};

/// Real-time priority is stopped for 50 ms when it has had a core for 950 of 1000 ms: begin a new second.
void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(1100)); }

double at_quantile(std::vector<double>& values, double quantile) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(quantile * static_cast<double>(values.size() - 1))];
}

void EngineBench::concurrency() const {
  constexpr int kRequests = 64, kTokens = 64, kRounds = 5;
  const auto engine = make_engine(kRequests);
  uint64_t seed = 0;  // no prompt twice: the prefix cache would have it
  std::vector<double> alone, together, ratios;
  const auto rate = [&](int count) {
    std::vector<Request> requests;
    for (int i = 0; i < count; ++i) requests.push_back(request(++seed, 32, kTokens));
    const auto start = Clock::now();
    engine->generate(requests, {});
    return count * kTokens / seconds_since(start);
  };
  rate(1), rate(kRequests);  // warm
  for (int round = 0; round < kRounds; ++round) {
    rest();
    alone.push_back(rate(1));
    together.push_back(rate(kRequests));
    ratios.push_back(together.back() / alone.back());
  }
  const double ratio = at_quantile(ratios, 0.5);
  std::printf("one request: %.0f tok/s; %d at once: %.0f tok/s, %.1f times one (%.1f to %.1f)\n",
              at_quantile(alone, 0.5), kRequests, at_quantile(together, 0.5), ratio, ratios.front(),
              ratios.back());
}

Gaps EngineBench::measure_gaps(double slowdown) const {
  constexpr int kRunning = 4, kTokens = 600;
  EngineOptions options;
  options.slowdown = slowdown;
  const auto engine = make_engine(kRunning + 1, options);
  std::vector<Request> requests;
  for (int i = 0; i < kRunning; ++i) requests.push_back(request(static_cast<uint64_t>(i), 32, kTokens));
  rest();
  CoreWatch watch;
  const auto start = Clock::now();
  const auto at = [&](double drawn_s) {
    return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(drawn_s));
  };
  RequestHandle running = engine->submit(requests), prompt;
  std::vector<double> drawn_s, all_ms;
  double asked_s = 0;
  while (const auto event = running.next()) {
    if (event->request != 0 || event->token < 0) continue;
    drawn_s.push_back(event->drawn_s);
    if (drawn_s.size() != kTokens / 4) continue;
    asked_s = seconds_since(start);
    prompt = engine->submit(request(99, kPrompt, 1));
  }
  Gaps gaps;
  while (const auto event = prompt.next())
    if (event->finish) gaps.first_token_s = event->finish->first_token_s;
  const std::vector<CoreWatch::Stop> stops = watch.finish();
  for (std::size_t i = 1; i < drawn_s.size(); ++i) {
    all_ms.push_back(1000 * (drawn_s[i] - drawn_s[i - 1]));
    if (drawn_s[i] < asked_s || drawn_s[i - 1] > asked_s + gaps.first_token_s) continue;
    gaps.beside_ms.push_back(all_ms.back());
    gaps.own_ms.push_back(all_ms.back());
    for (CoreWatch::Stop stop : stops) {
      stop = {std::max(stop.from, at(drawn_s[i - 1])), std::min(stop.to, at(drawn_s[i]))};
      gaps.own_ms.back() -= std::max(0., stop.ms());
      gaps.longest_stop_ms = std::max(gaps.longest_stop_ms, stop.ms());
    }
  }
  gaps.median_ms = at_quantile(all_ms, 0.5);
  return gaps;
}

void EngineBench::gaps() const {
  constexpr int kRounds = 15;
  constexpr double kTarget = 3;  // times the median
  const bool watched = CoreWatch().works();
  std::printf("4 replies run and a prompt of %d tokens arrives:\n", kPrompt);
  int good = 0, good_of_ours = 0;
  for (int round = 0; round <= kRounds; ++round) {
    const bool paced = round < kRounds;
    Gaps gaps = measure_gaps(paced ? 2 : 0);
    good += paced && gaps.ratio() < kTarget;
    good_of_ours += paced && gaps.own_ratio() < kTarget;
    const double longest = at_quantile(gaps.beside_ms, 1);
    std::printf(
        "  slowdown %d: gaps %.2f ms (median), beside the prompt %.2f (99 %%), %.2f (longest, %.1f x)",
        paced ? 2 : 0, gaps.median_ms, at_quantile(gaps.beside_ms, 0.99), longest, gaps.ratio());
    if (watched)
      std::printf("; %.1f x without the machine's stops, of at most %.2f ms", gaps.own_ratio(),
                  gaps.longest_stop_ms);
    std::printf("; first token after %.2f s\n", gaps.first_token_s);
  }
  std::printf("  longest below %.0f x in %d of %d rounds", kTarget, good, kRounds);
  if (watched) std::printf("; in %d without the machine's stops", good_of_ours);
  std::printf("%s\n", watched ? "" : "; run by `chrt -f 1` it tells the machine's stops apart");
}

void EngineBench::drafts() const {
  constexpr int kTokens = 256, kRounds = 5;
  constexpr DraftMethod kMethods[] = {DraftMethod::none, DraftMethod::ngram, DraftMethod::suffix};
  constexpr const char* kNames[] = {"none", "ngram", "suffix"};
  Request repeating = request(7, 24, kTokens);
  const std::vector<int32_t> phrase = repeating.prompt;
  for (int i = 0; i < 6; ++i) repeating.prompt.insert(repeating.prompt.end(), phrase.begin(), phrase.end());
  std::vector<std::unique_ptr<Engine>> engines;
  for (const DraftMethod method : kMethods) {
    EngineOptions options;
    options.draft = method;
    options.draft_tokens = 16;
    engines.push_back(make_engine(1, options));
    engines.back()->generate(repeating, {});  // warm
  }
  std::vector<double> rates[std::size(kMethods)];
  Usage usage[std::size(kMethods)];
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < std::size(kMethods); ++i) {
      const Reply reply = engines[i]->generate(repeating, {});
      rates[i].push_back((kTokens - 1) / (reply.total_s - reply.first_token_s));
      usage[i] = reply.usage;
    }
  }
  const double plain = at_quantile(rates[0], 0.5);
  for (std::size_t i = 0; i < std::size(kMethods); ++i) {
    const double rate = at_quantile(rates[i], 0.5);
    std::printf("drafts %-6s: %.0f tok/s, %.2f times; %d of %d drafts accepted\n", kNames[i], rate,
                rate / plain, usage[i].accepted_tokens, usage[i].drafted_tokens);
  }
}

std::size_t resident_kilobytes() {
  std::ifstream status("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  status >> total >> resident;
  return resident * 4;
}

/// Requests of all kinds, a third of them dropped half-way; prints memory ten times.
void EngineBench::soak(double seconds) const {
  EngineOptions options;
  options.prefix_cache = true;
  options.draft = DraftMethod::suffix;
  const auto engine = make_engine(8, options);
  std::deque<RequestHandle> open;
  uint64_t counter = 0;
  int64_t finished = 0, dropped = 0;
  const auto start = Clock::now();
  for (int tenth = 1; tenth <= 10; ++tenth) {
    while (seconds_since(start) < seconds * tenth / 10) {
      const auto random = [&](uint64_t below) { return random_bits(1, counter++) % below; };
      Request next = request(random(5), 8 + static_cast<int>(random(300)), 1 + static_cast<int>(random(60)));
      next.samples = 1 + static_cast<int>(random(3));
      next.sampling.temperature = random(2) == 0 ? 0.f : 1.f;
      next.sampling.seed = counter;
      open.push_back(engine->submit(std::move(next)));
      if (open.size() < 16) continue;
      if (random(3) == 0) {
        ++dropped;
      } else {
        while (open.front().next()) {
        }
        ++finished;
      }
      open.pop_front();
    }
    const EngineStats stats = engine->stats();
    std::printf("%5.0f s: %lld finished, %lld dropped, %lld preempted, %zu MB resident\n",
                seconds_since(start), static_cast<long long>(finished), static_cast<long long>(dropped),
                static_cast<long long>(stats.preemptions), resident_kilobytes() / 1024);
  }
  open.clear();
  const bool drained = engine->drain(std::chrono::seconds(60));
  const EngineStats stats = engine->stats();
  std::printf("%s; %s\n", drained ? "all ended" : "SOME ARE STUCK",
              stats.free_pages == stats.total_pages ? "all pages free" : "PAGES ARE LOST");
}

}  // namespace
}  // namespace carat

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: bench_engine MODEL_DIRECTORY [SOAK_SECONDS]\n", stderr);
    return 2;
  }
  try {
    const carat::EngineBench bench(argv[1]);
    if (argc > 2) {
      bench.soak(std::atof(argv[2]));
      return 0;
    }
    bench.concurrency();
    bench.gaps();
    bench.drafts();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
