/** Progress over HTTP: events of a parent's agents, live or after a number, with AG-UI's event names. */

import { z } from "zod";
import { EventNumber, type NumberedEvent } from "../../../producer/events.ts";
import type { Parent } from "../../../producer/parent.ts";
import { refuseFutureCursor } from "../../../producer/stream-id.ts";
import { SubagentError } from "../../../shared/errors.ts";
import { isBehind } from "../../../shared/protocol/reply.ts";
import { lastEventIdOf, type ServerSentEvent, streamEvents } from "../event-stream.ts";
import { type Route, route } from "../route.ts";
import { Timeline } from "../schema.ts";

const tag = "events";
const EventQuery = z.strictObject({
  after: EventNumber.optional().describe(
    "Only events after this number; 0: all kept events. Default: new events only.",
  ),
});

/** The rows of these routes. */
export const eventRoutes: readonly Route[] = [
  route({
    method: "get",
    path: "/v1/parents/{parent}/events",
    id: "followEvents",
    tag,
    says: "The progress of a parent's agents, as server-sent events; `Last-Event-ID` continues after an event.",
    scope: "read",
    query: EventQuery,
    answers: { 200: { says: "The events.", media: "text/event-stream" } },
    async handle(call) {
      const after = lastEventIdOf(call.request) ?? call.query.after;
      if (after !== undefined) await refuseFutureCursor(await call.open(), after);
      const { waiting: signal } = call;
      const parent = call.parent();
      const events = parent.events({ signal, ...(after !== undefined && { after }) });
      await streamEvents(
        call,
        inAgUi(events, (event) => openAfter(parent, event, after)),
      );
      return "streamed";
    },
  }),
  route({
    method: "get",
    path: "/v1/parents/{parent}/agents/{agent}/timeline",
    id: "readTimeline",
    tag,
    says: "The events kept of one agent's runs, oldest first.",
    scope: "read",
    answers: { 200: { says: "The events.", schema: Timeline } },
    handle: async (call) => ({
      status: 200,
      body: { events: await call.parent().timeline(call.param("agent")) },
    }),
  }),
];

/** AG-UI's names of our event types; an event without one is `CUSTOM`. */
const NAMES: Partial<Record<NumberedEvent["type"], string>> = {
  run_started: "RUN_STARTED",
  turn_started: "STEP_STARTED",
  turn_finished: "STEP_FINISHED",
  text_delta: "TEXT_MESSAGE_CHUNK",
  tool_started: "TOOL_CALL_START",
  tool_finished: "TOOL_CALL_END",
  ended: "RUN_FINISHED",
};

/** The AG-UI events that end what has begun in a run: its step, under {@link STEP}, and each tool call, under its id. */
type OpenParts = Map<string, { type: string; [field: string]: unknown }>;

const STEP = "step";
/** Events after which no step and no tool call of the run is in progress. */
const ENDS_ALL: ReadonlySet<NumberedEvent["type"]> = new Set([
  "released",
  "worker_lost",
  "run_continued",
  "ended",
]);

/**
 * Yields events under AG-UI's names. A run may lose its worker in the middle of a step or call, and its next worker begins
 * them again. AG-UI's clients refuse that, so what was open is ended first, in events without a number. `openBefore` returns
 * what was open of an agent before the first event.
 */
async function* inAgUi(
  events: AsyncIterable<NumberedEvent>,
  openBefore: (event: NumberedEvent) => Promise<OpenParts>,
): AsyncGenerator<ServerSentEvent> {
  // Agents whose runs go on: an agent has an entry from its first event here to the end of its run.
  const agents = new Map<string, OpenParts>();
  for await (const event of events) {
    const { agent_id } = event;
    const type = isError(event) ? "RUN_ERROR" : (NAMES[event.type] ?? "CUSTOM");
    if (event.type !== "text_delta") {
      const begins = event.type === "run_started";
      const open = agents.get(agent_id) ?? (begins ? new Map() : await openBefore(event));
      const ended = takeEnded(event, open);
      noteOpen(event, open);
      if (event.type === "ended") agents.delete(agent_id);
      else agents.set(agent_id, open);
      // An error may come at any time.
      if (type !== "RUN_ERROR")
        for (const end of ended) yield { event: end.type, data: { ...end, ...timeOf(event) } };
    }
    yield { id: event.number, event: type, data: dataOf(type, event) };
  }
}

/** Returns what a client that continues after an event has seen begin, and not end, of a run. */
async function openAfter(parent: Parent, { agent_id, run }: NumberedEvent, after = "0"): Promise<OpenParts> {
  const open: OpenParts = new Map();
  if (after === "0") return open;
  const kept = await parent.timeline(agent_id).catch((error: unknown) => {
    if (error instanceof SubagentError && error.code === "unknown_agent") return [];
    throw error;
  });
  // Only the last event of each step has a number.
  let step: NumberedEvent[] = [];
  for (const event of kept) {
    step.push(event);
    if (event.number === undefined) continue;
    if (isBehind(after, event.number)) break;
    for (const each of step) {
      if (each.run !== run) continue;
      takeEnded(each, open);
      noteOpen(each, open);
    }
    step = [];
  }
  return open;
}

/** Takes the parts out of `open` that are over when `event` comes. */
function takeEnded({ type }: NumberedEvent, open: OpenParts) {
  const ended = [...open].filter(
    ([part]) => ENDS_ALL.has(type) || (type === "turn_started" && part === STEP),
  );
  for (const [part] of ended) open.delete(part);
  return ended.map(([, end]) => end);
}

function noteOpen(event: NumberedEvent, open: OpenParts): void {
  const ids = idsOf(event);
  switch (event.type) {
    case "turn_started":
      return void open.set(STEP, { type: "STEP_FINISHED", ...ids, ...stepOf(event) });
    case "turn_finished":
      return void open.delete(STEP);
    case "tool_started":
      return void open.set(`call ${event.tool_use_id}`, { type: "TOOL_CALL_END", ...ids, ...callOf(event) });
    case "tool_finished":
      return void open.delete(`call ${event.tool_use_id}`);
  }
}

function isError(event: NumberedEvent): boolean {
  return event.type === "ended" && event.status === "failed";
}

/** Returns an event with AG-UI's fields; `rawEvent` has our own event. */
function dataOf(type: string, event: NumberedEvent): Record<string, unknown> {
  const ids = idsOf(event);
  return { type, ...ids, ...timeOf(event), ...fieldsOf(event, ids.runId), rawEvent: event };
}

function idsOf({ agent_id, run }: NumberedEvent) {
  return { threadId: agent_id, runId: `${agent_id}.${run}` };
}

function timeOf({ at }: NumberedEvent): { timestamp?: number } {
  return at === undefined ? {} : { timestamp: Date.parse(at) };
}

const stepOf = ({ turn }: { turn: number }) => ({ stepName: `turn ${turn}` });
const callOf = ({ tool_use_id }: { tool_use_id: string }) => ({ toolCallId: tool_use_id });

function fieldsOf(event: NumberedEvent, runId: string): Record<string, unknown> {
  switch (event.type) {
    case "turn_started":
    case "turn_finished":
      return stepOf(event);
    case "text_delta":
      return { messageId: `${runId}/${event.turn}`, role: "assistant", delta: event.text };
    case "tool_started":
      return { ...callOf(event), toolCallName: event.tool };
    case "tool_finished":
      return callOf(event);
    case "ended":
      return endFields(event);
    case "run_started":
      return {};
    default:
      return { name: event.type, value: event };
  }
}

/** AG-UI reads an end without `outcome` as a success. */
function endFields({
  status,
  stop_reason,
}: Extract<NumberedEvent, { type: "ended" }>): Record<string, unknown> {
  if (status === "failed") return { message: stop_reason, code: stop_reason };
  return status === "cancelled" ? { outcome: { type: "cancelled" } } : {};
}
