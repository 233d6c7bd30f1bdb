/** The page's nodes. All external text is set with `textContent` and cut to a readable length. */

const MOST_TEXT = 4_000;

/**
 * Returns the element with this id; throws if there is none.
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @param {{ new (): T }} [kind]
 * @returns {T}
 */
export function byId(id, kind) {
  const found = document.getElementById(id);
  if (found instanceof (kind ?? HTMLElement)) return /** @type {T} */ (found);
  throw new Error(`The page has no ${id}.`);
}

/**
 * Creates a node with a class and a text or children.
 * @param {string} tag @param {string} name @param {string | Node[]} [content]
 */
function node(tag, name, content = []) {
  const made = document.createElement(tag);
  made.className = name;
  if (typeof content === "string") made.textContent = cut(content);
  else made.append(...content);
  return made;
}

/** @param {unknown} text */
function cut(text) {
  const whole = String(text ?? "");
  return whole.length > MOST_TEXT ? `${whole.slice(0, MOST_TEXT)}…` : whole;
}

/** @param {unknown} value */
const number = (value) => Number(value ?? 0).toLocaleString("en");
/** @param {unknown} usd */
const money = (usd) => `$${Number(usd ?? 0).toLocaleString("en", { maximumFractionDigits: 4 })}`;
/** @param {number} count @param {string} noun */
const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

/** @param {string} iso */
function ago(iso) {
  const seconds = Math.max(0, (Date.now() - Date.parse(iso)) / 1_000);
  for (const [unit, size] of /** @type {const} */ ([
    ["d", 86_400],
    ["h", 3_600],
    ["min", 60],
  ]))
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  return "just now";
}

/**
 * Makes a list show `items`. A row with the same key keeps its node, so that focus and scroll position stay.
 * @template T
 * @param {HTMLElement} list
 * @param {T[]} items
 * @param {(item: T) => string} keyOf
 * @param {(item: T, row: HTMLElement) => void} fill
 */
export function keep(list, items, keyOf, fill) {
  const rows = new Map(
    [...list.children].map((row) => [row instanceof HTMLElement ? row.dataset.key : "", row]),
  );
  const wanted = items.map((item) => {
    const known = rows.get(keyOf(item));
    const row = known instanceof HTMLElement ? known : document.createElement("li");
    row.dataset.key = keyOf(item);
    fill(item, row);
    return row;
  });
  if (wanted.length !== list.children.length || wanted.some((row, n) => list.children[n] !== row))
    list.replaceChildren(...wanted);
}

/** Rebuilds a row if its data has changed. @param {HTMLElement} row @param {unknown} shown @param {() => Node[]} make */
function when(row, shown, make) {
  const text = JSON.stringify(shown);
  if (row.dataset.shown === text) return;
  row.dataset.shown = text;
  row.replaceChildren(...make());
}

/** Sets the text of a line if it has changed. @param {Element | null} line @param {string} text */
function setText(line, text) {
  if (line && line.textContent !== text) line.textContent = text;
}

/** @param {string} status */
function pill(status) {
  const made = node("span", "status", status);
  made.dataset.status = status;
  return made;
}

/** Longest name that an id holds whole. */
const MOST_IN_ID = 48;

/**
 * Returns the nodes that name an agent: its id, and its name where that says more than the id, which holds only `a-z 0-9 _`.
 * @param {{ agent_id: string, name: string }} agent
 */
function namesOf({ agent_id, name }) {
  const isInId = name.length <= MOST_IN_ID && /^[ -~]*$/.test(name);
  return [node("span", "name", agent_id), ...(isInId ? [] : [node("span", "called", name)])];
}

/** @typedef {{ for: "resume" | "worker", since?: string, reason?: string }} Waits */

/** Returns as a sentence what every run waits for. @param {Waits} waits */
export function waitOfAll({ for: what, since = "", reason }) {
  if (what === "worker") return "No worker is live: what is queued waits until one joins.";
  const why = reason === undefined ? "" : ` (${cut(reason)})`;
  return `All runs wait until an operator resumes them: paused since ${utc(since)}${why}.`;
}

/** Returns the sentence of a page without parents: the first one, or one of older parents. @param {boolean} isFirst */
export function noParents(isFirst) {
  return isFirst
    ? "No parent has spawned a sub-agent yet."
    : "No older parent is left here: Newest shows the others.";
}

/** Returns a time without seconds, UTC. @param {string} iso */
function utc(iso) {
  return `${iso.slice(0, 16).replace("T", " ")} UTC`;
}

/** Returns what a row says of a parent. @param {any} parent */
function factsOf({ problem, live, unacked, today, active_at }) {
  if (problem !== undefined) return [`its data in Redis cannot be read (${cut(problem)})`];
  const { running, queued, waiting, idle } = live;
  const agents = Object.entries({ running, queued, waiting, idle }).filter(([, count]) => count > 0);
  return [
    ...agents.map(([status, count]) => `${number(count)} ${status}`),
    ...(unacked > 0 ? [`${number(unacked)} unacked`] : []),
    `${money(today.cost_usd)} today`,
    ago(active_at),
  ];
}

/**
 * Returns a function that fills the row of a parent, or of one whose data cannot be read: that has a `problem`.
 * @param {string} chosen @param {(parentId: string) => void} choose
 * @returns {(parent: any, row: HTMLElement) => void}
 */
export function parentRow(chosen, choose) {
  return (parent, row) => {
    let button = row.querySelector("button");
    if (!button) {
      button = document.createElement("button");
      button.type = "button";
      button.append(node("span", "name", parent.parent_id), node("span", "facts"));
      button.addEventListener("click", () => choose(parent.parent_id));
      row.append(button);
    }
    setText(button.lastElementChild, factsOf(parent).join(" · "));
    button.setAttribute("aria-current", String(parent.parent_id === chosen));
  };
}

/**
 * Returns a function that fills the card of an agent; `readWhole` reads the text of its last run.
 * @param {(agentId: string) => Promise<string>} readWhole
 * @returns {(agent: import("./sightings.js").Sight, row: HTMLElement) => void}
 */
export function agentCard(readWhole) {
  return (agent, row) => {
    row.className = "card";
    when(row, agent, () => {
      const shown = [...row.querySelectorAll(".whole")];
      const used = document.createElement("meter");
      used.max = Math.max(1, agent.maxTurns);
      used.value = agent.turns;
      used.setAttribute("aria-label", "turns used");
      const { turns, maxTurns } = agent;
      const facts = [
        maxTurns > 0 ? `${turns}/${maxTurns} turns` : plural(turns, "turn"),
        plural(agent.tokens, "token"),
        money(agent.cost),
      ].join(" · ");
      const whole = node("button", "", "Last text");
      whole.setAttribute("type", "button");
      whole.addEventListener("click", async () => {
        const text = node("p", "text whole", await readWhole(agent.agent_id));
        for (const old of row.querySelectorAll(".whole")) old.remove();
        row.append(text);
      });
      return [
        node("div", "head", [
          ...namesOf(agent),
          pill(agent.status),
          ...(maxTurns > 0 ? [used] : []),
          node("span", "facts", facts),
          ...(agent.tool === "" ? [] : [node("span", "tool", agent.tool)]),
          // An agent before its first run has no last text, nor has a run in progress.
          ...(agent.run === 0 || (agent.isLive && agent.status !== "idle") ? [] : [whole]),
        ]),
        ...(agent.waits === "" ? [] : [node("p", "text", agent.waits)]),
        ...(agent.question === "" ? [] : [node("p", "text", `Asks: ${agent.question}`)]),
        ...shown,
      ];
    });
  };
}

/**
 * Returns a function that fills the card of a channel entry; `live` are the agents, read after the entry.
 * @param {any[]} live
 * @returns {(entry: any, row: HTMLElement) => void}
 */
export function replyCard(live) {
  return (entry, row) => {
    row.className = "card";
    when(row, entry.reply_id, () => [
      node("div", "head", [
        ...namesOf(entry),
        pill(isEnd(entry) ? entry.status : entry.kind),
        node("span", "facts"),
      ]),
      node("p", "text", entry.summary ?? entry.text ?? entry.question ?? ""),
      ...(entry.error ? [node("p", "text error", entry.error)] : []),
    ]);
    // An entry never changes, but its facts do: the line is set by itself, so that the text keeps its scroll position.
    setText(row.querySelector(".facts"), entryFacts(entry, live));
  };
}

/** @param {any} entry */
const isEnd = ({ kind }) => kind === "reply" || kind === "ended";

/** Returns until when a question can be answered, and its default; or that it cannot be. @param {any} entry @param {any[]} live */
function answerIn({ kind, agent_id, question_id, answer_by, default_answer }, live) {
  if (kind !== "question") return [];
  const asker = live.find((each) => each.agent_id === agent_id);
  if (asker === undefined) return ["over"];
  if (!asker.questions?.some((/** @type {any} */ open) => open.question_id === question_id))
    return ["answered"];
  return [
    `answer by ${utc(answer_by)}`,
    ...(default_answer === undefined ? [] : [`by default: ${cut(default_answer)}`]),
  ];
}

/** Returns what a card says of an entry. @param {any} entry @param {any[]} live */
export function entryFacts(entry, live) {
  const { stop_reason, turns, tokens, cost_usd, created_at } = entry;
  const facts = isEnd(entry)
    ? [stop_reason, plural(turns, "turn"), plural(tokens, "token"), money(cost_usd)]
    : [];
  return [...facts, ...answerIn(entry, live), ago(created_at)].join(" · ");
}
