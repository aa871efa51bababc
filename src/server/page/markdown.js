// Markdown -> DOM nodes, for text that is still being written: an open fence or list is shown as far as it goes.
// Text only ever becomes text nodes, so nothing in a reply can run or load anything.

function element(name, children = [], attributes = {}) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const inlineForms = [
  {pattern: /(`+)(.+?)\1(?!`)/s, make: (m) => element("code", [m[2].replace(/^ (.+) $/s, "$1")])},
  {pattern: /\*\*(?=\S)(.+?)(?<=\S)\*\*/s, make: (m) => element("strong", inline(m[1]))},
  {pattern: /(?<![\p{L}\p{N}_])__(?=\S)(.+?)(?<=\S)__(?![\p{L}\p{N}_])/su, make: (m) => element("strong", inline(m[1]))},
  {pattern: /\*(?=[^\s*])(.+?)(?<=[^\s*])\*(?!\*)/s, make: (m) => element("em", inline(m[1]))},
  {pattern: /(?<![\p{L}\p{N}_])_(?=[^\s_])(.+?)(?<=[^\s_])_(?![\p{L}\p{N}_])/su, make: (m) => element("em", inline(m[1]))},
  {pattern: /~~(?=\S)(.+?)(?<=\S)~~/s, make: (m) => element("del", inline(m[1]))},
  {
    pattern: /\[([^\[\]]+)\]\(((?:https?:\/\/|mailto:)[^\s()]*(?:\([^\s()]*\)[^\s()]*)*)\)/,
    make: (m) => element("a", inline(m[1]), {href: m[2], target: "_blank", rel: "noopener noreferrer"}),
  },
];

/** Nodes for one run of text without block structure. */
function inline(text) {
  let first = null;
  for (const {pattern, make} of inlineForms) {
    const match = pattern.exec(text);
    if (match && (!first || match.index < first.match.index)) first = {match, make};
  }
  if (!first) return text ? [document.createTextNode(text)] : [];
  const {match, make} = first;
  return [...inline(text.slice(0, match.index)), make(match), ...inline(text.slice(match.index + match[0].length))];
}

const fence = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)/;
const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

/** The source of a text's blocks. A finished block never changes when more text comes. */
export function splitBlocks(text) {
  const blocks = [];
  let block = [], closing = null;
  const finish = () => { if (block.length) blocks.push(block.join("\n")); block = []; };
  for (const line of text.split("\n")) {
    const mark = fence.exec(line);
    if (closing) {
      block.push(line);
      if (closing.test(line)) { closing = null; finish(); }
    } else if (mark) {
      finish();
      block.push(line);
      closing = new RegExp(`^ {0,3}\\${mark[1][0]}{${mark[1].length},}\\s*$`);
    } else if (line.trim() === "") {
      finish();
    } else {
      block.push(line);
    }
  }
  finish();
  return blocks;
}

function codeBlock(lines) {
  const [, mark, language] = fence.exec(lines[0]);
  const closed = lines.length > 1 && lines.at(-1).trim().startsWith(mark);
  const code = lines.slice(1, closed ? -1 : undefined).join("\n");
  const copy = element("button", ["Copy"], {type: "button", "aria-label": "Copy code"});
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(code);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
  const body = element("code", [code], language ? {"data-language": language} : {});
  return element("div", [element("pre", [body], {tabindex: "0"}), copy], {class: "block"});
}

function list(lines) {
  const [, indent, mark] = item.exec(lines[0]);
  const ordered = /\d/.test(mark);
  const items = [];
  for (const line of lines) {
    const match = item.exec(line);
    if (match && match[1].length <= indent.length) items.push([match[3]]);
    else items.at(-1).push(line.slice(Math.min(indent.length + 2, line.search(/\S/))));
  }
  const nodes = items.map(([head, ...rest]) => {
    const nested = rest.findIndex((line) => item.test(line));
    const text = [head, ...(nested < 0 ? rest : rest.slice(0, nested))].join("\n");
    return element("li", [...inline(text), ...(nested < 0 ? [] : [list(rest.slice(nested))])]);
  });
  return element(ordered ? "ol" : "ul", nodes, ordered ? {start: parseInt(mark, 10)} : {});
}

const tableRule = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => inline(cell.trim()));
  const row = (line, name) => element("tr", cells(line).map((cell) => element(name, cell)));
  const [head, , ...rest] = lines;
  return element("table", [
    element("thead", [row(head, "th")]),
    element("tbody", rest.map((line) => row(line, "td"))),
  ]);
}

/** Nodes for one block as splitBlocks() gives it. */
export function renderBlock(source) {
  const lines = source.split("\n");
  if (fence.test(lines[0])) return [codeBlock(lines)];
  const nodes = [];
  const heading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/.exec(lines[0]);
  if (heading) {
    nodes.push(element(`h${Math.min(heading[1].length, 4)}`, inline(heading[2])));
    if (lines.length > 1) nodes.push(...renderBlock(lines.slice(1).join("\n")));
  } else if (/^ {0,3}([-*_])(\s*\1){2,}\s*$/.test(lines[0])) {
    nodes.push(element("hr"));
    if (lines.length > 1) nodes.push(...renderBlock(lines.slice(1).join("\n")));
  } else if (lines.length > 1 && lines[0].includes("|") && tableRule.test(lines[1])) {
    nodes.push(table(lines));
  } else if (/^ {0,3}>/.test(lines[0])) {
    nodes.push(element("blockquote", renderBlock(lines.map((line) => line.replace(/^ {0,3}> ?/, "")).join("\n"))));
  } else {
    const begin = lines.findIndex((line) => item.test(line));
    const text = begin < 0 ? lines : lines.slice(0, begin);
    if (text.length) nodes.push(element("p", inline(text.join("\n"))));
    if (begin >= 0) nodes.push(list(lines.slice(begin)));
  }
  return nodes;
}

/** Makes `target` show `text`, leaving alone the blocks that it already shows. */
export function showMarkdown(target, text) {
  const shown = target.blocks ?? [];
  const blocks = splitBlocks(text).map((source, i) => {
    if (shown[i]?.source === source) return shown[i];
    return {source, nodes: renderBlock(source)};
  });
  const same = blocks.findIndex((block, i) => block !== shown[i]);
  const keep = same < 0 ? blocks.length : same;
  for (const {nodes} of shown.slice(keep)) nodes.forEach((node) => node.remove());
  for (const {nodes} of blocks.slice(keep)) target.append(...nodes);
  target.blocks = blocks;
}
