/** The agents' state from a parent's events, merged with its list of live agents. */

const MOST_ENDED = 20;

/**
 * @typedef {{ agent_id: string, name: string, status: string, run: number, turns: number, maxTurns: number, tokens: number,
 *   cost: number, tool: string, question: string, waits: string, isLive: boolean }} Sight
 */

/** Creates the state from events, by agent; `number` is that of the last event. */
export function createSightings() {
  /** @type {Map<string, Sight>} */
  const seen = new Map();
  return {
    number: "0",
    seen,
    /** Applies an event; returns true if it should bring a poll forward. @param {any} message */
    hear({ rawEvent: event }) {
      if (!event || event.type === "text_delta") return false;
      const before = seen.get(event.agent_id);
      const same = before !== undefined && before.run === event.run ? before : newSight(event);
      seen.delete(event.agent_id);
      seen.set(event.agent_id, {
        ...same,
        turns: Math.max(same.turns, turnsBy(event)),
        ...changeOf(event, same),
      });
      return true;
    },
  };
}

/** @param {any} event @returns {Sight} */
function newSight({ agent_id, name, run }) {
  return {
    ...{ agent_id, name, run, status: "running", turns: 0, maxTurns: 0, tokens: 0, cost: 0 },
    ...{ tool: "", question: "", waits: "", isLive: true },
  };
}

/** Returns how many turns of its run have an answer, as far as the event tells. @param {any} event @returns {number} */
function turnsBy({ type, turn }) {
  return type === "turn_started" || type === "model_retry" ? turn - 1 : turn;
}

/** @param {any} event @param {Sight} before @returns {Partial<Sight>} */
function changeOf(event, before) {
  switch (event.type) {
    case "run_started":
      return { status: "running", maxTurns: event.max_turns, question: "" };
    case "run_continued":
      return { status: "running", question: "", tool: "" };
    case "worker_lost":
      return { status: "queued", tool: "" };
    case "turn_finished":
      return { tokens: before.tokens + event.tokens, cost: before.cost + event.cost_usd };
    case "tool_started":
      return { tool: event.tool, question: "" };
    case "tool_finished":
      return { tool: "" };
    case "waiting_for_tools":
      return { waits: `Waits for a worker that has ${event.tools.join(", ")}` };
    case "waiting":
      return { question: event.question, tool: "" };
    case "ended":
      return { status: event.status, isLive: false, tool: "", question: "", waits: "" };
    default:
      return {};
  }
}

/**
 * Returns the live agents from the list, with details from events; then the ended agents, the last one first.
 * @param {ReturnType<typeof createSightings>} sightings
 * @param {any[]} live
 * @returns {Sight[]}
 */
export function agentsAfter({ seen }, live) {
  const rows = live.map((view) => {
    const heard = seen.get(view.agent_id);
    const sight = heard && heard.run === view.run && heard.isLive ? heard : newSight(view);
    const { turns = 0, tokens = 0, cost_usd = 0 } = view.progress ?? {};
    return {
      ...sight,
      status: view.status,
      turns: Math.max(sight.turns, turns),
      tokens: Math.max(sight.tokens, tokens),
      cost: Math.max(sight.cost, cost_usd),
      maxTurns: view.limits.max_turns,
      tool: view.status === "running" ? sight.tool : "",
      question: view.questions?.[0]?.text ?? "",
      waits: waitOf(view, sight),
    };
  });
  const ids = new Set(live.map((view) => view.agent_id));
  const ended = [...seen.values()].filter(({ agent_id, isLive }) => !isLive && !ids.has(agent_id)).reverse();
  for (const { agent_id } of ended.slice(MOST_ENDED)) seen.delete(agent_id);
  return [...rows, ...ended.slice(0, MOST_ENDED)];
}

/** Returns what keeps a queued agent, as a sentence; "" if nothing does. @param {any} view @param {Sight} sight */
function waitOf({ status, provider_wait: wait }, sight) {
  if (status === "waiting_for_tools") return sight.waits;
  if (!wait) return "";
  return `Waits for ${wait.provider} (${wait.reason}), which is asked again at ${wait.next_try_at.slice(11, 19)} UTC`;
}
