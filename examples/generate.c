/* A text continued through the C API.
 *
 *   carat-example-generate models/demo "Once upon a time" */
#include <carat/c.h>
#include <stdio.h>

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, carat_last_error());
  return 1;
}

static int print_reply(carat_reply* reply) {
  enum carat_status status;
  while ((status = carat_reply_next(reply, -1)) == CARAT_MORE) {
    fputs(carat_reply_text(reply), stdout);
    fflush(stdout);
  }
  putchar('\n');
  if (status == CARAT_ERROR) return fail("reading the reply");
  if (carat_reply_finish(reply) == CARAT_FAILED) {
    fprintf(stderr, "the reply failed: %s\n", carat_reply_error(reply));
    return 1;
  }
  carat_usage usage;
  carat_reply_usage(reply, &usage, sizeof usage);
  fprintf(stderr, "[%d prompt tokens, %d in the reply, first one after %.3f s]\n", usage.prompt_tokens,
          usage.reply_tokens, usage.first_token_s);
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s MODEL TEXT\n", argv[0]);
    return 2;
  }
  carat_model_options how;
  carat_init_model_options(&how, sizeof how);
  how.max_sequences = 1;
  carat_model* model = carat_load(argv[1], &how);
  if (!model) return fail(argv[1]);

  carat_generation_options options;
  carat_init_generation_options(&options, sizeof options);
  options.max_tokens = 60;
  options.temperature = 0;
  carat_reply* reply = carat_complete(model, argv[2], &options);
  const int code = reply ? print_reply(reply) : fail("the request");
  carat_free_reply(reply);
  carat_free_model(model);
  return code;
}
