// The chat: what was said, the request that asks for the next reply, and the keys. Everything it keeps is in this
// browser's storage.
const find = (id) => document.getElementById(id);
const log = find("log"), input = find("input"), send = find("send"), stop = find("stop"), status = find("status");
const settingsDialog = find("settings"), invitation = find("invitation");
const fields = [...settingsDialog.querySelectorAll("[name]")];

let turns = [];       // {role, text, thinking, note}
let running = null;   // the AbortController of the reply that is being written

function stored(name, otherwise) {
  try { return JSON.parse(localStorage.getItem(name)) ?? otherwise; } catch { return otherwise; }
}

function store(name, value) {
  try { localStorage.setItem(name, JSON.stringify(value)); } catch { /* private windows may keep nothing */ }
}

const settings = {thinking: false, ...stored("carat-settings", {})};

function headers() {
  return {"Content-Type": "application/json", ...(settings.key ? {Authorization: `Bearer ${settings.key}`} : {})};
}

// --- What is shown ---------------------------------------------------------------------------------------------

function button(text, action, title) {
  const node = document.createElement("button");
  node.type = "button";
  node.textContent = text;
  if (title) node.title = title;
  node.addEventListener("click", action);
  return node;
}

/** The nodes of one turn; `show()` brings them up to date with it. */
function turnView(turn) {
  const root = document.createElement("article");
  root.className = `turn ${turn.role}`;
  root.setAttribute("aria-label", turn.role === "user" ? "You" : "Reply");
  const thinking = document.createElement("details");
  thinking.className = "thinking";
  const summary = document.createElement("summary"), thoughts = document.createElement("div");
  thinking.append(summary, thoughts);
  const body = document.createElement("div");
  body.className = "body";
  const foot = document.createElement("div");
  foot.className = "foot";
  root.append(...(turn.role === "user" ? [] : [thinking]), body, foot);

  const show = (busy = false) => {
    root.classList.toggle("busy", busy);
    thinking.hidden = !turn.thinking;
    summary.textContent = busy && !turn.text ? "Thinking…" : "Thoughts";
    if (thoughts.textContent !== (turn.thinking ?? "")) thoughts.textContent = turn.thinking ?? "";
    if (turn.role === "user") body.textContent = turn.text;
    else showMarkdown(body, turn.text);
    foot.replaceChildren(...footOf(turn, busy));
  };
  show();
  return {root, show};
}

function footOf(turn, busy) {
  if (busy) return [];
  if (turn.role === "user") return [button("Edit", () => edit(turn), "Take this message back and write it anew")];
  const nodes = [button("Copy", () => navigator.clipboard.writeText(turn.text))];
  if (turn === turns.at(-1)) nodes.push(button("Regenerate", regenerate, "Another reply (Alt+R)"));
  const note = document.createElement("span");
  note.textContent = turn.note ?? "";
  note.className = turn.failed ? "wrong" : "";
  return [...nodes, note];
}

function showAll() {
  log.replaceChildren(...(turns.length ? turns.map((turn) => turnView(turn).root) : [empty]));
  log.scrollTop = log.scrollHeight;
}
const empty = find("empty");

/** Runs `change`, and stays at the end of the log if it was there: who scrolled up to read isn't pulled down. */
function following(change) {
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  change();
  if (atEnd) log.scrollTop = log.scrollHeight;
}

// --- Asking ----------------------------------------------------------------------------------------------------

function requestBody() {
  const messages = turns.filter((turn) => !turn.failed || turn.text)
    .map(({role, text}) => ({role, content: text}));
  if (settings.system) messages.unshift({role: "system", content: settings.system});
  const body = {messages, stream: true, return_token_ids: true};
  if (find("model").textContent) body.model = find("model").textContent;
  for (const name of ["temperature", "top_p", "top_k", "min_p", "seed", "max_tokens"]) {
    if (settings[name] !== undefined && settings[name] !== "") body[name] = Number(settings[name]);
  }
  body.chat_template_kwargs = {enable_thinking: Boolean(settings.thinking)};
  return body;
}

async function failureText(response) {
  const text = await response.text();
  if (response.status === 401) return "The server asks for an API key: put it into the settings.";
  try { return JSON.parse(text).error.message; } catch { return `${response.status} ${response.statusText}`; }
}

/** The data of the server's events, one by one. */
async function* events(stream) {
  let rest = "";
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield part.slice(6);
  }
}

/** Reads a reply into `turn`, and how fast it comes into `pace`; `changed` is called after each piece. */
async function readReply(turn, response, pace, changed) {
  let reason = null, whole = false;
  for await (const data of events(response.body)) {
    if (data === "[DONE]") { whole = true; break; }
    const event = JSON.parse(data);
    if (event.error) throw new Error(event.error.message);
    const choice = event.choices?.[0];
    const {content = "", reasoning_content: thought = ""} = choice?.delta ?? {};
    count(choice?.token_ids?.length ?? 0, pace);
    turn.text += content ?? "";
    turn.thinking += thought ?? "";
    reason = choice?.finish_reason ?? reason;
    changed();
  }
  if (!whole) throw new Error("The connection ended before the reply did.");
  turn.note = noteOf(pace, reason === "length" ? "cut: the longest reply or the context is full" : "");
}

/** What comes first says nothing about the pace: it waited for the prompt. */
function count(tokens, pace) {
  if (!tokens) return;
  pace.last = performance.now();
  if (!pace.tokens) { pace.first = pace.last; pace.before = tokens; }
  pace.tokens += tokens;
}

function noteOf(pace, end) {
  const parts = [];
  if (pace.tokens) parts.push(`${pace.tokens} ${pace.tokens === 1 ? "token" : "tokens"}`);
  const seconds = (pace.last - pace.first) / 1000;
  if (seconds > 0) parts.push(`${((pace.tokens - pace.before) / seconds).toFixed(1)} tokens/s`);
  if (end) parts.push(end);
  return parts.join(", ");
}

/** Asks for the reply to the turns so far. */
async function ask() {
  const turn = {role: "assistant", text: "", thinking: "", note: ""}, pace = {tokens: 0};
  const body = JSON.stringify(requestBody());
  turns.push(turn);
  showAll();
  const view = turnView(turn);
  log.lastElementChild.replaceWith(view.root);
  log.scrollTop = log.scrollHeight;
  running = new AbortController();
  busy(true);
  let waiting = false;
  const changed = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; if (running) following(() => view.show(true)); });
  };
  view.show(true);
  try {
    const response = await fetch("v1/chat/completions", {method: "POST", headers: headers(), body, signal: running.signal});
    if (!response.ok) throw new Error(await failureText(response));
    await readReply(turn, response, pace, changed);
  } catch (error) {
    turn.failed = error.name !== "AbortError";
    turn.note = turn.failed ? error.message : noteOf(pace, "stopped");
  }
  running = null;
  busy(false);
  store("carat-turns", turns);
  following(() => view.show());
  status.textContent = turn.failed ? "The reply failed." : "";
}

function busy(is) {
  send.hidden = is;
  stop.hidden = !is;
  status.textContent = is ? "Writing…" : "";
}

function submit() {
  const text = input.value.trim();
  if (!text || running) return;
  input.value = "";
  grow();
  turns.push({role: "user", text});
  store("carat-turns", turns);
  ask();
}

function regenerate() {
  if (running || turns.at(-1)?.role !== "assistant") return;
  turns.pop();
  ask();
}

function edit(turn) {
  if (running) return;
  turns = turns.slice(0, turns.indexOf(turn));
  input.value = turn.text;
  grow();
  store("carat-turns", turns);
  showAll();
  input.focus();
}

function newChat() {
  running?.abort();
  turns = [];
  store("carat-turns", turns);
  showAll();
  input.focus();
}

// --- Settings, keys, start -------------------------------------------------------------------------------------

function applySettings() {
  if (settings.theme) document.documentElement.dataset.theme = settings.theme;
  else delete document.documentElement.dataset.theme;
}

function grow() {
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight + 2}px`;
}

async function showModel() {
  try {
    const response = await fetch("v1/models", {headers: headers()});
    if (!response.ok) throw new Error(await failureText(response));
    const model = (await response.json()).data[0];
    find("model").textContent = model.id;
    invitation.textContent = model.continues_text ? "Write how a text begins; the model goes on with it."
                                                  : "Ask something.";
    input.placeholder = model.continues_text ? "The beginning of a text" : "Message";
    status.textContent = "";
  } catch (error) {
    status.textContent = error.message;
  }
}

for (const field of fields) {
  if (field.type === "checkbox") field.checked = Boolean(settings[field.name]);
  else field.value = settings[field.name] ?? "";
  field.addEventListener("input", () => {
    settings[field.name] = field.type === "checkbox" ? field.checked : field.value;
    store("carat-settings", settings);
    applySettings();
  });
}
settingsDialog.addEventListener("close", () => { showModel(); input.focus(); });
find("settings-open").addEventListener("click", () => settingsDialog.showModal());
find("new").addEventListener("click", newChat);
find("composer").addEventListener("submit", (event) => { event.preventDefault(); submit(); });
stop.addEventListener("click", () => running?.abort());
input.addEventListener("input", grow);
input.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); submit(); }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !settingsDialog.open) running?.abort();
  if (!event.altKey || event.ctrlKey || event.metaKey) return;
  const action = {KeyN: newChat, KeyR: regenerate, KeyS: () => settingsDialog.showModal()}[event.code];
  if (action) { event.preventDefault(); action(); }
});

turns = stored("carat-turns", []);
applySettings();
showAll();
showModel();
