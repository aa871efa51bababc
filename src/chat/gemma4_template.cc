#include "chat/gemma4_template.h"

namespace carat {
namespace {

constexpr std::string_view kGemma4 = R"jinja(
{#- A value in Gemma's notation: bare keys in order, texts between quote tokens, no blanks. -#}
{%- macro notation(value) -%}
  {%- if value is string -%}
    {{- '<|"|>' + value + '<|"|>' -}}
  {%- elif value is none or value is undefined -%}
    null
  {%- elif value is boolean -%}
    {{- 'true' if value else 'false' -}}
  {%- elif value is mapping -%}
    {{- '{' -}}
    {%- for key, item in value | dictsort -%}
      {{- key + ':' + notation(item) + (',' if not loop.last else '') -}}
    {%- endfor -%}
    {{- '}' -}}
  {%- elif value is sequence -%}
    {{- '[' -}}
    {%- for item in value -%}
      {{- notation(item) + (',' if not loop.last else '') -}}
    {%- endfor -%}
    {{- ']' -}}
  {%- else -%}
    {{- value -}}
  {%- endif -%}
{%- endmacro -%}

{#- A JSON schema: the keywords the models know, types in capitals. A type "or null" is a nullable type. -#}
{%- macro schema(value) -%}
  {%- set ns = namespace(parts=[]) -%}
  {%- set types = [value.type] if value.type is string else value.type | default([], true) -%}
  {%- set type = types | reject('equalto', 'null') | first -%}
  {%- if value.description -%}
    {%- set ns.parts = ns.parts + ['description:' + notation(value.description)] -%}
  {%- endif -%}
  {%- if value.enum -%}
    {%- set ns.parts = ns.parts + ['enum:' + notation(value.enum)] -%}
  {%- endif -%}
  {%- if value['items'] is mapping and value.get('items') -%}
    {%- set ns.parts = ns.parts + ['items:{' + schema(value['items']) + '}'] -%}
  {%- endif -%}
  {%- if value.nullable or 'null' in types -%}
    {%- set ns.parts = ns.parts + ['nullable:true'] -%}
  {%- endif -%}
  {%- if value.properties is mapping and value.properties -%}
    {%- set fields = namespace(list=[]) -%}
    {%- for key, field in value.properties | dictsort -%}
      {%- set fields.list = fields.list + [key + ':{' + schema(field) + '}'] -%}
    {%- endfor -%}
    {%- set ns.parts = ns.parts + ['properties:{' + fields.list | join(',') + '}'] -%}
  {%- endif -%}
  {%- if value.required -%}
    {%- set ns.parts = ns.parts + ['required:' + notation(value.required)] -%}
  {%- endif -%}
  {%- if type -%}
    {%- set ns.parts = ns.parts + ['type:' + notation(type | upper)] -%}
  {%- endif -%}
  {{- ns.parts | join(',') -}}
{%- endmacro -%}

{%- macro declaration(function) -%}
  {{- '<|tool>declaration:' + function.name -}}
  {{- '{description:' + notation(function.description | default('')) -}}
  {%- if function.parameters -%}
    {{- ',parameters:{' + schema(function.parameters) + '}' -}}
  {%- endif -%}
  {%- if function.response -%}
    {{- ',response:{' + schema(function.response) + '}' -}}
  {%- endif -%}
  {{- '}<tool|>' -}}
{%- endmacro -%}

{#- The text of a message; a list of parts joined, each with `after` behind it. -#}
{%- macro text_of(message, after='') -%}
  {%- if message.content is string -%}
    {{- message.content | trim -}}
  {%- else -%}
    {%- for part in message.content | default([], true) -%}
      {{- part.text | trim + after -}}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro -%}

{%- macro without_thoughts(text) -%}
  {%- set ns = namespace(kept='') -%}
  {%- for part in text.split('<channel|>') -%}
    {%- set ns.kept = ns.kept + part.split('<|channel>')[0] -%}
  {%- endfor -%}
  {{- ns.kept | trim -}}
{%- endmacro -%}

{{- bos_token -}}
{%- set has_system = messages and messages[0].role in ['system', 'developer'] -%}
{%- if has_system or tools or enable_thinking -%}
  {{- '<|turn>system\n' + ('<|think|>\n' if enable_thinking else '') -}}
  {%- if has_system -%}
    {{- text_of(messages[0], ' ') -}}
  {%- endif -%}
  {%- for tool in tools or [] -%}
    {{- declaration(tool.function) -}}
  {%- endfor -%}
  {{- '<turn|>\n' -}}
{%- endif -%}

{%- set chat = messages[1:] if has_system else messages -%}
{%- set last = namespace(user=-1, calls=[]) -%}
{%- for message in chat -%}
  {%- if message.role == 'user' -%}
    {%- set last.user = loop.index0 -%}
  {%- endif -%}
{%- endfor -%}

{#- All that a model says and its tools answer between two messages of the user is one turn. -#}
{%- set turn = namespace(open=false, last_role='') -%}
{%- for message in chat -%}
  {%- if message.role in ['assistant', 'tool'] -%}
    {{- '<|turn>model\n' if not turn.open -}}
    {%- set turn.open = true -%}
  {%- elif turn.open -%}
    {{- '<turn|>\n' -}}
    {%- set turn.open = false -%}
  {%- endif -%}

  {%- if message.role == 'assistant' -%}
    {%- set reasoning = message.reasoning or message.reasoning_content -%}
    {%- if reasoning and (loop.index0 > last.user or (preserve_thinking and message.tool_calls)) -%}
      {{- '<|channel>thought\n' + reasoning + '\n<channel|>' -}}
    {%- endif -%}
    {{- without_thoughts(text_of(message)) -}}
    {%- set last.calls = message.tool_calls or [] -%}
    {%- for call in last.calls -%}
      {{- '<|tool_call>call:' + call.function.name + notation(call.function.arguments) + '<tool_call|>' -}}
    {%- endfor -%}
  {%- elif message.role == 'tool' -%}
    {%- set answered = last.calls | selectattr('id', 'equalto', message.tool_call_id) | first -%}
    {%- set name = message.name or (answered.function.name if answered else 'unknown') -%}
    {{- '<|tool_response>response:' + name + notation({'value': text_of(message)}) + '<tool_response|>' -}}
  {%- else -%}
    {{- '<|turn>' + ('system' if message.role == 'developer' else message.role) + '\n' -}}
    {{- text_of(message, ' ' if message.role != 'user' else '') + '<turn|>\n' -}}
  {%- endif -%}
  {%- set turn.last_role = message.role -%}
{%- endfor -%}

{%- if turn.last_role == 'tool' -%}
  {{- '<|channel>thought\n' if add_generation_prompt and enable_thinking -}}
{%- elif turn.last_role == 'assistant' and last.calls -%}
  {{- '<|tool_response>' -}}
{%- else -%}
  {{- '<turn|>\n' if turn.open -}}
  {%- if add_generation_prompt -%}
    {{- '<|turn>model\n' -}}
    {{- '<|channel>thought\n<channel|>' if expects_empty_thought and not enable_thinking -}}
  {%- endif -%}
{%- endif -%}
)jinja";

constexpr std::string_view kPlain = R"jinja(
{{- bos_token -}}
{%- for message in messages -%}
  {{- '\n' if not loop.first and message.role != 'assistant' -}}
  {%- if message.content is string -%}
    {{- message.content -}}
  {%- else -%}
    {{- message.content | default([], true) | map(attribute='text') | join -}}
  {%- endif -%}
{%- endfor -%}
)jinja";

}  // namespace

std::string_view gemma4_template() { return kGemma4; }
std::string_view plain_template() { return kPlain; }

}  // namespace carat
