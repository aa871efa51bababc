/* The C API, for bindings: the same as carat/engine.h with opaque handles. docs/api.md has the whole story.
 *
 * Texts are UTF-8 and end with a zero byte. Pointers that a function returns belong to the library; each
 * comment says how long they last. Functions that can fail return NULL or CARAT_ERROR and leave one line that
 * says what is wrong in carat_last_error(). No C++ exception leaves the library.
 *
 * A carat_model may be used by any number of threads, a carat_reply by one at a time, but for
 * carat_reply_cancel(). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct carat_model carat_model;
typedef struct carat_reply carat_reply;

/* Of the library that is linked: "0.1.0". */
const char* carat_version(void);

/* What went wrong in this thread's last call that failed; "" when none has. Valid until the next that fails.
 */
const char* carat_last_error(void);

/* Options are structs that begin with their size, so that a library can be newer than the program: fill one
 * with carat_init_*(&options, sizeof options), then change what you want. Texts may be NULL for the default;
 * they are read during the call that takes the options. */
typedef struct carat_model_options {
  size_t size;
  const char* device;    /* "cpu" (the default), "cuda:0", "ref" */
  const char* format;    /* weights as "bf16", "int8" or "int4"; default: as stored */
  const char* kv_memory; /* a share of what the weights leave free ("0.9") or an amount ("8GiB") */
  const char* draft;     /* guess ahead: "ngram", "suffix" or the directory of a drafter; default: no */
  int threads;           /* cpu; 0: the cores this process may use */
  int mmap;              /* cpu: 1 to read the files in place instead of repacking them */
  int context;           /* tokens of the longest prompt plus reply; 0: as model and memory allow */
  int max_sequences;     /* replies computed at once */
  int max_step_tokens;   /* tokens of one pass over the weights, of all requests; 0: as suits the device */
  int prefix_cache;      /* 1: what a text shares with an earlier one isn't computed again */
  int draft_tokens;      /* guesses per step, at most */
  const char* kv_type;   /* K and V as "f32" (cpu), "f16" or "int8"; default: as exact as the weights */
} carat_model_options;
void carat_init_model_options(carat_model_options* options, size_t size);

typedef struct carat_generation_options {
  size_t size;
  int max_tokens;
  /* Negative: the checkpoint's default. */
  float temperature; /* 0: the likeliest token always */
  int top_k;         /* 0: all */
  float top_p, min_p;
  float repetition_penalty;
  float presence_penalty, frequency_penalty; /* 0 for none */
  int has_seed;                              /* 0: another reply each time; 1: `seed` decides */
  uint64_t seed;
  const char* const* stop; /* stop_count texts that end the reply and are no part of it */
  size_t stop_count;
  int ignore_eos;
  int priority;           /* -1000 to 1000: each unit overtakes up to 64 requests */
  const char* cache_salt; /* only requests with the same salt share cached prefixes */
  int think;              /* chat: 1 to let the model think before it answers */
  const char* tools;      /* chat: JSON list of tools, as in OpenAI's API */
} carat_generation_options;
void carat_init_generation_options(carat_generation_options* options, size_t size);

/* Blocks until the weights are in place. `model`: a directory, or "org/name" in the Hugging Face cache.
 * `options` may be NULL. Free with carat_free_model(), which cancels what still runs. */
carat_model* carat_load(const char* model, const carat_model_options* options);
void carat_free_model(carat_model* model);

/* 0: the model wasn't trained on turns, and carat_chat() goes on with the texts of the messages. */
int carat_is_chat_model(const carat_model* model);
int carat_max_context(const carat_model* model);

/* The next turn of a conversation. `messages`: a JSON list as in OpenAI's API, such as
 * [{"role": "user", "content": "Why is the sky blue?"}]. `options` may be NULL. Free with
 * carat_free_reply(), which cancels it; a reply may outlive its model, which ends it. */
carat_reply* carat_chat(carat_model* model, const char* messages, const carat_generation_options* options);
/* Goes on with a text as it is. What is for chats, think and tools, is refused. */
carat_reply* carat_complete(carat_model* model, const char* text, const carat_generation_options* options);
void carat_free_reply(carat_reply* reply);

enum carat_status { CARAT_ERROR = -1, CARAT_END = 0, CARAT_MORE = 1, CARAT_TIMEOUT = 2 };

/* Waits for more of the reply, at most `timeout_ms` (negative: as long as it takes). After CARAT_MORE
 * carat_reply_text() and carat_reply_thought() are what is new. CARAT_END: all has been read. */
enum carat_status carat_reply_next(carat_reply* reply, int timeout_ms);
/* Of the last CARAT_MORE, maybe ""; valid until the next carat_reply_next(). */
const char* carat_reply_text(const carat_reply* reply);
const char* carat_reply_thought(const carat_reply* reply);
/* All tool calls so far, as JSON: [{"name": "f", "arguments": {}}]. Valid until the next call of this
 * function for this reply. */
const char* carat_reply_tool_calls(carat_reply* reply);
/* Ends the reply with the engine's next step. From any thread. */
void carat_reply_cancel(carat_reply* reply);

/* The rest is set after CARAT_END. */
enum carat_finish { CARAT_STOP = 0, CARAT_LENGTH = 1, CARAT_CANCELLED = 2, CARAT_FAILED = 3 };
enum carat_finish carat_reply_finish(const carat_reply* reply);
/* What went wrong, for CARAT_FAILED. Valid as long as the reply. */
const char* carat_reply_error(const carat_reply* reply);

typedef struct carat_usage {
  size_t size;
  int prompt_tokens;
  int cached_tokens; /* of the prompt: found in the cache instead of computed */
  int reply_tokens;
  int drafted_tokens, accepted_tokens; /* guessed by speculation; of these, part of the reply */
  double first_token_s, total_s;       /* since the request */
} carat_usage;
/* Fills the part of `usage` that the caller's `size` covers. */
void carat_reply_usage(const carat_reply* reply, carat_usage* usage, size_t size);

#ifdef __cplusplus
}
#endif
