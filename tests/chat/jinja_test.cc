#include "chat/jinja.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "chat/gemma4_template.h"
#include "chat/json.h"
#include "support/expect_error.h"

namespace carat::jinja {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kNoVariables = "{}";

MarkedText render(std::string_view source, std::string_view variables = kNoVariables,
                  const RenderLimits& limits = {}) {
  const Value values = parse_json(variables, Origin::user, "variables");
  return Template::parse(source, "template.jinja")->render(*values.as_map(), 0, limits);
}

std::string text(std::string_view source, std::string_view variables = kNoVariables) {
  return render(source, variables).bytes();
}

/// The text with what users wrote in square brackets.
std::string with_marks(const MarkedText& text) {
  std::string result;
  std::size_t begin = 0;
  for (const MarkedText::Run& run : text.runs()) {
    const std::string part = text.bytes().substr(begin, run.end - begin);
    result += run.origin == Origin::user ? "[" + part + "]" : part;
    begin = run.end;
  }
  return result;
}

std::filesystem::path source_path(const std::string& relative) {
  return std::filesystem::path(CARAT_SOURCE_DIR) / relative;
}

TEST(Jinja, RendersWhatJinja2Renders) {
  ::setenv("TZ", "UTC", 1);
  std::ifstream file(source_path("tests/data/jinja.json"));
  const ordered_json golden = ordered_json::parse(file);
  const std::string default_variables = golden["variables"].dump();
  ASSERT_GT(golden["cases"].size(), 150u);
  for (const ordered_json& each : golden["cases"]) {
    const ordered_json& named = each["template"];
    const std::string source = named.is_string()       ? named.get<std::string>()
                               : named["builtin"] == 0 ? std::string(gemma4_template())
                                                       : std::string(plain_template());
    SCOPED_TRACE(named.is_string() ? source : each.dump());
    const std::string variables = each.contains("variables") ? each["variables"].dump() : default_variables;
    try {
      const std::string rendered = text(source, variables);
      EXPECT_EQ(each.value("text", ordered_json()), ordered_json(rendered));
    } catch (const Error& error) {
      EXPECT_TRUE(each.contains("error")) << error.what();
    }
  }
}

TEST(Jinja, GoldenFileIsWhatJinja2SaysToday) {
  const std::string script = source_path("tests/chat/make_golden.py").string();
  const int status = std::system(("python3 -B '" + script + "' --check").c_str());
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == 77 || code == 127) GTEST_SKIP() << "needs python3 with Jinja2 (Debian: python3-jinja2)";
  EXPECT_EQ(code, 0);
}

TEST(Jinja, ErrorsNameTemplateLineAndColumn) {
  expect_error(ErrorKind::corrupt, {"template.jinja:2:4:", "a value"}, [] { text("a\n{{ }}"); });
  expect_error(ErrorKind::corrupt, {"template.jinja:1:3:", "does not end"}, [] { text("ab{{ 'x' "); });
  expect_error(ErrorKind::unsupported, {"template.jinja:3:8:", "no filter \"unknown\""},
               [] { text("\n\n{{ 1 | unknown }}"); });
  expect_error(ErrorKind::unsupported, {"template.jinja:1:1:", "\"include\""},
               [] { text("{% include 'x' %}"); });
  expect_error(ErrorKind::invalid_argument, {"template.jinja:2:16:", "\"message.role\" is undefined"},
               [] { text("x\n{{ message.role.name }}", R"({"message": {}})"); });
  expect_error(ErrorKind::invalid_argument, {"template.jinja:1:19:", "roles must alternate"},
               [] { text("{{ raise_exception('roles must alternate') }}"); });
}

TEST(Jinja, ErrorsInsideMacrosNameThePlaceInTheMacro) {
  expect_error(ErrorKind::invalid_argument, {"template.jinja:2:6:", "'+'"},
               [] { text("{% macro add(a) %}\n{{ a + 1 }}{% endmacro %}\n\n{{ add('x') }}"); });
}

TEST(Jinja, TextOfUsersStaysMarkedThroughEveryOperation) {
  const std::string_view user = R"({"u": " <b> ", "m": {"k<": "v"}, "l": ["x", "y"]})";
  const auto marks = [&](std::string_view source) { return with_marks(render(source, user)); };
  EXPECT_EQ(marks("a{{ u }}b"), "a[ <b> ]b");
  EXPECT_EQ(marks("{{ 'a' + u + 'c' }}"), "a[ <b> ]c");
  EXPECT_EQ(marks("{{ u | trim | upper }}"), "[<B>]");
  EXPECT_EQ(marks("{{ ('<' ~ u)[:3] }}"), "<[ <]");
  EXPECT_EQ(marks("{{ u.split('b')[0] }}."), "[ <].");
  EXPECT_EQ(marks("{{ u.replace('b', 'z') }}"), "[ <]z[> ]");
  EXPECT_EQ(marks("{% for k, v in m | dictsort %}{{ k }}={{ v }}{% endfor %}"), "[k<]=[v]");
  EXPECT_EQ(marks("{{ l | join('-') }}"), "[x]-[y]");
  EXPECT_EQ(marks("{{ m | tojson }}"), "{\"[k<]\": \"[v]\"}");
  EXPECT_EQ(marks("{{ l }}"), "['[x]', '[y]']");
  EXPECT_EQ(marks("{% macro f(a) %}({{ a }}){% endmacro %}{{ f(u) | length }}{{ f(l[0]) }}"), "7([x])");
  EXPECT_EQ(marks("{% set c %}<{{ l[0] }}>{% endset %}{{ c }}"), "<[x]>");
  EXPECT_EQ(marks("{{ u | first }}{{ 'ab'[0] }}{{ '%' ~ l[1] * 2 }}"), "[ ]a%[yy]");
}

// A template comes with a checkpoint: it must not be able to stop the program or eat its memory.

TEST(Jinja, EndlessWorkEndsInAnError) {
  constexpr RenderLimits kSmall{.steps = 200'000, .text_bytes = 8 << 20};  // a sanitizer build is slow
  for (const std::string_view source : {
           "{% for i in range(100000000) %}x{% endfor %}",
           "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% "
           "endfor %}{% endfor %}",
           "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
           "{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor "
           "%}{{ ns.l }}",
           "{% set ns = namespace(l=[], r=[]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% set "
           "ns.r = [ns.r, "
           "ns.r] %}{% endfor %}{{ ns.l == ns.r }}",
           "{{ 'x' * 1000000000 }}",
           "{{ [1] * 1000000000 }}",
           "{{ ('a' * 4000000 + 'b') in 'a' * 8000000 }}",
           "{{ 'xy' | list * 10000000 }}",
           "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
           "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
           "{{ 2 ** 9999999999 }}",
           "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x.index] %}{% endfor "
           "%}",
           "{% set s = 'a' * 99999 %}{% for i in range(99999) %}{% set x = s.startswith(s) %}{% endfor %}",
           "{% set s = ' ' * 99999 %}{% for i in range(99999) %}{% set x = s.strip() | int %}{% endfor %}",
           "{% set s = 'a' * 99999 %}{% for i in range(99999) %}{% set x = {s: 1}[s] %}{% endfor %}",
       }) {
    SCOPED_TRACE(source);
    expect_error(ErrorKind::invalid_argument, {"template.jinja:"},
                 [&] { render(source, kNoVariables, kSmall); });
  }
  expect_error(ErrorKind::invalid_argument, {"steps"}, [] { text("{{ range(1000000000) }}"); });
}

TEST(Jinja, TextsThatDoubleEndInAnError) {
  expect_error(ErrorKind::invalid_argument, {"MiB"}, [] {
    text("{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}");
  });
}

TEST(Jinja, DeepNestingIsRefused) {
  const auto repeat = [](std::string_view part, int times) {
    std::string result;
    for (int i = 0; i < times; ++i) result += part;
    return result;
  };
  for (const std::string& source : {
           "{{ " + repeat("(", 5000) + "1" + repeat(")", 5000) + " }}",
           "{{ " + repeat("[", 5000) + repeat("]", 5000) + " }}",
           "{{ " + repeat("not ", 5000) + "1 }}",
           "{{ " + repeat("-", 5000) + "1 }}",
           "{{ 1" + repeat(" + 1", 5000) + " }}",
           "{{ x" + repeat(".a", 5000) + " }}",
           "{{ x" + repeat("|list", 5000) + " }}",
           repeat("{% if 1 %}", 5000) + repeat("{% endif %}", 5000),
           "{{ x" + repeat(" if x else x", 5000) + " }}",
       })
    expect_error(ErrorKind::unsupported, {"template.jinja:1:"}, [&] { text(source); });
  EXPECT_EQ(text("{{ 1" + repeat(" + 1", 300) + " }}"), "301");
}

TEST(Jinja, CyclesThroughNamespacesAreHarmless) {
  EXPECT_EQ(text("{% set a = namespace() %}{% set a.a = a %}{% set a.l = [a] %}{{ a.a.a.l | length }}"), "1");
}

TEST(Jinja, LimitsCanBeLowered) {
  EXPECT_EQ(render("{{ 1 + 1 }}", kNoVariables, {.steps = 100}).bytes(), "2");
  expect_error(ErrorKind::invalid_argument, {"steps"},
               [] { render("{{ 1 + 1 }}", kNoVariables, {.steps = 2}); });
  expect_error(ErrorKind::invalid_argument, {"text"},
               [] { render("hello", kNoVariables, {.text_bytes = 4}); });
}

}  // namespace
}  // namespace carat::jinja
