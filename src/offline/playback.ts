/** Sends a composed answer as JSON or as a stream of events, broken where the plan says so. */
import { setImmediate as nextRoundOfEvents } from "node:timers/promises";
import { errorBody, statusOf } from "./api-error.ts";
import { type Exchange, pause, sendError, sendJson } from "./exchange.ts";
import type { StreamFault } from "./scenario.ts";
import { brokenJson, encodeEvent, eventsOf, type StreamEvent } from "./sse.ts";
import type { AnswerMessage } from "./wire.ts";

/** How sending went, as far as the server is concerned: a whole answer, a scripted fault of this type, or left to the client. */
export type Played = { kind: "whole" } | { kind: "fault"; errorType: string };

type Break = { at: number; kind: "error" | "stall" | "reset" | "truncate"; errorType: string };

/** Sends the answer and resolves when nothing more will be written. */
export async function playAnswer(
  exchange: Exchange,
  message: AnswerMessage,
  stream: boolean,
  fault: StreamFault | undefined,
): Promise<Played> {
  if (stream) return playStream(exchange, message, fault);
  const broken = breakOf(fault);
  if (broken !== undefined) return playJsonFault(exchange, broken);
  sendJson(exchange, 200, fault?.invalidJsonInput === true ? withBrokenInputs(message) : message);
  return { kind: "whole" };
}

async function playStream(
  exchange: Exchange,
  message: AnswerMessage,
  fault: StreamFault | undefined,
): Promise<Played> {
  const { response } = exchange;
  const events = eventsOf(message, { invalidJsonInput: fault?.invalidJsonInput });
  const broken = breakOf(fault);
  response.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
  });
  const sent = broken === undefined ? events : events.slice(0, broken.at);
  if (!(await writeEvents(exchange, sent, fault?.chunkDelayMs ?? 0))) return { kind: "whole" };
  if (broken === undefined || broken.at >= events.length) {
    response.end();
    return { kind: "whole" };
  }
  await breakOff(exchange, broken);
  return { kind: "fault", errorType: broken.errorType };
}

/** Writes events, in one go when there is no delay between them. Answers `false` when the client left. */
async function writeEvents(
  exchange: Exchange,
  events: readonly StreamEvent[],
  delayMs: number,
): Promise<boolean> {
  if (delayMs === 0) {
    const text = events.map(encodeEvent).join("");
    if (text !== "") exchange.response.write(text);
    return !exchange.gone.aborted;
  }
  exchange.response.flushHeaders();
  for (const event of events) {
    if (!(await pause(exchange, delayMs))) return false;
    exchange.response.write(encodeEvent(event));
  }
  return true;
}

async function breakOff(exchange: Exchange, broken: Break): Promise<void> {
  const { response } = exchange;
  response.flushHeaders();
  if (broken.kind === "stall") return;
  if (broken.kind === "reset") {
    await nextRoundOfEvents();
    response.socket?.resetAndDestroy();
    return;
  }
  const data = errorBody(
    { type: broken.errorType, message: `Scripted ${broken.errorType}.` },
    exchange.requestId,
  );
  response.end(broken.kind === "error" ? encodeEvent({ ...data }) : undefined);
}

function playJsonFault(exchange: Exchange, broken: Break): Played {
  if (broken.kind === "error") {
    const message = `Scripted ${broken.errorType}.`;
    sendError(exchange, { status: statusOf(broken.errorType), type: broken.errorType, message });
  } else if (broken.kind !== "stall") {
    exchange.response.socket?.resetAndDestroy();
  }
  return { kind: "fault", errorType: broken.errorType };
}

function breakOf(fault: StreamFault | undefined): Break | undefined {
  const breaks: { at: number | undefined; kind: Break["kind"]; errorType: string }[] = [
    { at: fault?.errorAfterChunks, kind: "error", errorType: fault?.errorType ?? "overloaded_error" },
    { at: fault?.stallAfterChunks, kind: "stall", errorType: "stall" },
    { at: fault?.resetAfterChunks, kind: "reset", errorType: "reset" },
    { at: fault?.truncateAfterChunks, kind: "truncate", errorType: "truncated" },
  ];
  return breaks
    .flatMap(({ at, ...rest }) => (at === undefined ? [] : [{ at, ...rest }]))
    .sort((a, b) => a.at - b.at)[0];
}

function withBrokenInputs(message: AnswerMessage) {
  const content = message.content.map((block) =>
    block.type === "tool_use" ? { ...block, input: brokenJson(block.input) } : block,
  );
  return { ...message, content };
}
