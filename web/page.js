/**
 * The live page: parents, their sub-agents, and the entries of their channels. It reads only the routes of the API.
 *
 * 1. Text from a model or a parent is shown as text: the page creates the nodes and sets texts with `textContent`.
 * 2. The key stays in `sessionStorage` of this tab and is sent only as `Authorization`.
 * 3. It reads one page of parents and one parent, so the size of an installation does not change its load. A hidden page
 *    reads nothing.
 */
import { followEvents, Refused, read } from "./client.js";
import { agentsAfter, createSightings } from "./sightings.js";
import { agentCard, byId, keep, noParents, parentRow, replyCard, waitOfAll } from "./view.js";

const KEY = "subagent-queue key";
const PARENTS_A_PAGE = 20;
const REPLIES_A_PAGE = 10;
const POLL_EVERY_MS = 2_000;
const SOONEST_MS = 300;

/** Cursors of the shown pages, and the id of the shown parent. */
const at = { parents: "0", replies: "", parent: chosenParent() };
/** Cursors of the next pages; "" if there is none. */
const next = { parents: "", replies: "" };
let sightings = createSightings();
let following = new AbortController();
/** Counts the choices, so that answers for an earlier choice are not shown. */
let choice = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** True if the next poll is scheduled after `SOONEST_MS`. */
let isSoon = false;
let isLooking = false;
let isWanted = false;
/** True while the page waits for a key: it reads nothing and shows nothing. */
let needsKey = false;
/** True until the parent that was picked from the list has been read. */
let isPicked = false;
/** True until a parent is shown; until then the only parent of an installation is shown without a choice. */
let isFirst = true;

function chosenParent() {
  const [, name = ""] = /^#parent=(.*)$/.exec(location.hash) ?? [];
  try {
    return decodeURIComponent(name);
  } catch {
    return "";
  }
}

function key() {
  return sessionStorage.getItem(KEY) ?? undefined;
}

/** @param {string} path */
const ask = (path) => read(path, key());
const ofParent = () => `v1/parents/${encodeURIComponent(at.parent)}`;

/** Reads all shown data and updates the page; only one poll runs at a time. */
async function look() {
  clearTimeout(timer);
  isSoon = false;
  if (needsKey) return;
  if (isLooking) {
    isWanted = true;
    return;
  }
  isLooking = true;
  isWanted = false;
  let waitMs = POLL_EVERY_MS;
  let mine = choice;
  try {
    await showParents();
    mine = choice;
    if (at.parent !== "" && !needsKey) await showParent();
    if (!needsKey) say("live", "live");
  } catch (error) {
    // The refusal of an earlier choice, or of a forgotten key, says nothing of what is shown now.
    if (mine === choice) waitMs = told(error);
  }
  isLooking = false;
  if (document.hidden || needsKey) return;
  timer = setTimeout(look, isWanted ? SOONEST_MS : waitMs);
}

async function showParents() {
  const mine = choice;
  const {
    parents,
    unreadable = [],
    waits,
    cursor,
  } = await ask(`v1/parents?limit=${PARENTS_A_PAGE}&after=${at.parents}`);
  if (mine !== choice) return;
  const rows = [...parents, ...unreadable];
  byId("key").hidden = true;
  byId("content").hidden = false;
  byId("forget").hidden = key() === undefined;
  showWaits(waits);
  next.parents = cursor ?? "";
  if (isFirst && parents.length === 1 && rows.length === 1 && !cursor && at.parents === "0")
    show(parents[0].parent_id);
  byId("parent-title").hidden = rows.length === 0 && at.parent === "";
  keep(byId("parents"), rows, (each) => each.parent_id, parentRow(at.parent, pick));
  byId("no-parents").hidden = rows.length > 0;
  byId("no-parents").textContent = noParents(at.parents === "0");
  byId("parents-pager").hidden = next.parents === "" && at.parents === "0";
  byId("parents-first", HTMLButtonElement).disabled = at.parents === "0";
  byId("parents-next", HTMLButtonElement).disabled = next.parents === "";
}

/** Shows what every run waits for. @param {import("./view.js").Waits | undefined} waits */
function showWaits(waits) {
  const line = byId("waits");
  line.hidden = waits === undefined;
  const text = waits === undefined ? "" : waitOfAll(waits);
  if (line.textContent !== text) line.textContent = text;
}

async function showParent() {
  const mine = choice;
  const after = at.replies === "" ? "" : `&after=${at.replies}`;
  const { replies, cursor } = await ask(`${ofParent()}/replies?limit=${REPLIES_A_PAGE}${after}`);
  if (mine !== choice) return;
  // The agents are read after the entries: a question that no agent has then can no longer be answered.
  const { sub_agents: live } = await ask(`${ofParent()}/agents`);
  if (mine !== choice) return;
  // All entries of a later page were acked meanwhile.
  if (replies.length === 0 && at.replies !== "") return turn("replies", "");
  const agents = agentsAfter(sightings, live);
  keep(byId("agents"), agents, (each) => each.agent_id, agentCard(readWhole));
  keep(byId("replies"), replies, (each) => each.reply_id, replyCard(live));
  next.replies = replies.length === REPLIES_A_PAGE ? cursor : "";
  byId("no-agents").hidden = agents.length > 0;
  byId("no-replies").hidden = replies.length > 0;
  byId("replies-pager").hidden = next.replies === "" && at.replies === "";
  byId("replies-first", HTMLButtonElement).disabled = at.replies === "";
  byId("replies-next", HTMLButtonElement).disabled = next.replies === "";
  if (isPicked) showTitle();
}

/** Reads the whole text of an agent's last run. @param {string} agentId */
async function readWhole(agentId) {
  try {
    const { text } = await ask(`${ofParent()}/agents/${encodeURIComponent(agentId)}/reply`);
    return text;
  } catch (error) {
    return error instanceof Error ? error.message : "It cannot be read now.";
  }
}

/** Shows a parent and follows the events of its agents. @param {string} parentId */
function choose(parentId) {
  const hash = parentId === "" ? "" : `#parent=${encodeURIComponent(parentId)}`;
  if (location.hash !== hash) history.pushState(undefined, "", hash || location.pathname);
  show(parentId);
  void look();
}

/** @param {string} parentId */
function show(parentId) {
  if (parentId !== "") isFirst = false;
  choice += 1;
  at.parent = parentId;
  at.replies = "";
  sightings = createSightings();
  byId("parent").hidden = parentId === "";
  byId("parent-title").textContent = parentId === "" ? "Choose a parent" : parentId;
  showRefusal("");
  for (const id of ["agents", "replies"]) byId(id).replaceChildren();
  follow();
}

/** Shows a parent, and scrolls to it as soon as it is read: in one column the list of parents is above it. @param {string} parentId */
function pick(parentId) {
  isPicked = true;
  choose(parentId);
}

function showTitle() {
  isPicked = false;
  const title = byId("parent-title");
  const { top } = title.getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2) title.scrollIntoView();
}

/** Follows the parent's events. An event brings the next poll forward, and names the tool that an agent uses. */
function follow() {
  following.abort();
  following = new AbortController();
  if (at.parent === "" || document.hidden) return;
  const mine = sightings;
  void followEvents(`${ofParent()}/events?after=0`, key, following.signal, mine.number, (event, number) => {
    mine.number = number ?? mine.number;
    if (!mine.hear(event) || isSoon) return;
    clearTimeout(timer);
    isSoon = true;
    timer = setTimeout(look, SOONEST_MS);
  });
}

/** Shows an error; returns the delay of the next poll, ms. @param {unknown} error */
function told(error) {
  if (!(error instanceof Refused)) {
    say("away", "The server does not answer. Trying again until it does.");
    return POLL_EVERY_MS;
  }
  if (error.status === 401 || error.status === 403) {
    byId("refused").textContent = key() === undefined ? "" : error.message;
    forget();
    return POLL_EVERY_MS;
  }
  if (at.parent !== "" && (error.status === 400 || error.status === 404)) {
    // Replaced, not left: the button "back" would come to it again.
    history.replaceState(undefined, "", location.pathname);
    choose("");
    showRefusal(error.message);
    return POLL_EVERY_MS;
  }
  say("away", `${error.message} This page tries again by itself.`);
  return error.retryAfterMs;
}

/** Shows why the parent that the address named cannot be shown; "": nothing. @param {string} text */
function showRefusal(text) {
  byId("refusal").hidden = text === "";
  byId("refusal").textContent = text;
}

/** Deletes the key, hides all data and asks for a key. */
function forget() {
  sessionStorage.removeItem(KEY);
  needsKey = true;
  choice += 1;
  following.abort();
  clearTimeout(timer);
  byId("content").hidden = true;
  showWaits(undefined);
  byId("forget").hidden = true;
  byId("key").hidden = false;
  for (const id of ["parents", "agents", "replies"]) byId(id).replaceChildren();
  say("key", "a key is needed");
  byId("token").focus();
}

/** @param {string} state @param {string} text */
function say(state, text) {
  const line = byId("state");
  line.dataset.state = state;
  if (line.textContent !== text) line.textContent = text;
}

/** @param {string} id @param {() => void} act */
const onClick = (id, act) => byId(id).addEventListener("click", act);

/** Shows another page of a list. @param {"parents" | "replies"} list @param {string} cursor */
function turn(list, cursor) {
  choice += 1;
  at[list] = cursor;
  void look();
}

byId("key").addEventListener("submit", (event) => {
  event.preventDefault();
  const input = byId("token", HTMLInputElement);
  sessionStorage.setItem(KEY, input.value.trim());
  input.value = "";
  needsKey = false;
  choose(at.parent);
});
onClick("forget", forget);
onClick("parents-first", () => turn("parents", "0"));
onClick("parents-next", () => turn("parents", next.parents));
onClick("replies-first", () => turn("replies", ""));
onClick("replies-next", () => turn("replies", next.replies));
addEventListener("popstate", () => choose(chosenParent()));
document.addEventListener("visibilitychange", () => {
  follow();
  if (!document.hidden) void look();
});
choose(at.parent);
