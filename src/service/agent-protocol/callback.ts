/**
 * Tells a LangGraph server that a run is over, as `createCompletionCallbackMiddleware` of deepagents does for its own
 * sub-agents: the thread that began the run gets a new run with a message. Owns one loop; any number of processes may have it.
 *
 * 1. The status is the runtime's word. What the sub-agent said is quoted: nothing in it passes for that word.
 * 2. Nothing is acked here: the parent reads the whole text where it reads all.
 *
 * The operator names the server; a request names the thread alone.
 */
import { type Client, internalsOf } from "../../producer/client.ts";
import type { ClientResources } from "../../producer/client-resources.ts";
import { shorten } from "../../producer/model-text.ts";
import { quoted } from "../../producer/text-boundary.ts";
import { type Clock, systemClock } from "../../shared/clock.ts";
import { messageOf } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import type { AgentRecord } from "../../shared/protocol/agent.ts";
import { newRequestKey } from "../../shared/protocol/ids.ts";
import type { AgentAddress } from "../../shared/protocol/keys.ts";
import { clip } from "../../shared/protocol/text.ts";
import { type Callbacks, createCallbacks } from "../../shared/redis/callbacks.ts";
import { keptReply } from "../../shared/redis/replies.ts";
import { createStartable } from "../../shared/start-stop.ts";
import { threadIdOf } from "./thread.ts";

/** Where runs are reported. */
export interface CallbackOptions {
  client: Client;
  /** A LangGraph server, e.g. `http://langgraph:2024`. */
  url: string;
  /** Its API key, sent as `x-api-key`; default: none is sent. */
  apiKey?: string | undefined;
  /** The assistant that gets the message, default `agent`. */
  assistantId?: string;
  clock?: Clock;
  logger?: Logger;
  /** Pause after a try that failed, ms, default 30,000. */
  retryMs?: number;
}

/** See the module's header. */
export interface CallbackSender {
  /** Idempotent. */
  start(): void;
  /** Cuts off a request that is under way; it is made again by another process, or after the next start. Idempotent. */
  stop(): Promise<void>;
}

const LOOK_MS = 1_000;
const RETRY_MS = 30_000;
const ANSWER_MS = 15_000;
/** After that a server that does not answer is not told any more. */
const GIVEN_UP_MS = 24 * 3_600_000;
const MOST_SAID_CHARS = 500;

/** A sender, not started. */
export function createCallbackSender(options: CallbackOptions): CallbackSender {
  return createStartable(() => {
    const over = new AbortController();
    const running = tellEnds(options, over.signal);
    return () => {
      over.abort();
      return running;
    };
  });
}

async function tellEnds(options: CallbackOptions, signal: AbortSignal): Promise<void> {
  const { client, clock = systemClock, logger } = options;
  const token = newRequestKey();
  const tick = async () => {
    const open = await internalsOf(client).open();
    const callbacks = createCallbacks(open.redis, open.keys);
    const due = await open.call(({ read }) => read(() => callbacks.due(token)));
    // One that cannot be read, or not by this version, must not keep the others from it.
    const later = (agent: AgentAddress) => callbacks.later(agent, options.retryMs ?? RETRY_MS);
    await Promise.all(
      due.map((agent) =>
        tellEnd({ ...options, clock }, { open, callbacks }, agent, signal).catch(() => later(agent)),
      ),
    );
  };
  while (!signal.aborted) {
    await tick().catch((error: unknown) =>
      logger?.debug({ problem: messageOf(error) }, "Callbacks could not be looked at; again soon"),
    );
    await clock.sleep(LOOK_MS, signal);
  }
  // A turn that is not given up ends by itself.
  await internalsOf(client)
    .open()
    .then(({ redis, keys }) => createCallbacks(redis, keys).giveUp(token))
    .catch(() => {});
}

/** Tells the end of one agent, or looks at it again later. */
async function tellEnd(
  options: CallbackOptions & { clock: Clock },
  { open, callbacks }: { open: ClientResources; callbacks: Callbacks },
  agent: AgentAddress,
  signal: AbortSignal,
): Promise<void> {
  const { clock, logger, retryMs = RETRY_MS } = options;
  const threadId = threadIdOf(agent.uid);
  const record = await open.store.record(agent);
  const callbackThreadId = await callbacks.get(agent, threadId);
  if (!record || callbackThreadId === undefined) return callbacks.forget(agent);
  if (record.status !== "ended") return callbacks.later(agent, LOOK_MS);
  const content = wordOn(record, threadId);
  if (content === undefined) return callbacks.forget(agent);
  const problem = await post(options, callbackThreadId, content, signal);
  if (problem === undefined) return callbacks.forget(agent);
  if (signal.aborted) return;
  const isGivenUp = clock.now() - (record.ended_at ?? record.created_at) > GIVEN_UP_MS;
  logger?.warn({ thread: threadId, problem, given_up: isGivenUp }, "A thread could not be called back");
  await (isGivenUp ? callbacks.forget(agent) : callbacks.later(agent, retryMs));
}

/** The message about a run that is over; undefined for one that was cancelled, as its client knows. */
function wordOn(record: AgentRecord, threadId: string): string | undefined {
  const reply = keptReply(record)?.entry;
  if (!reply || reply.status === "cancelled") return undefined;
  const head = `[task_id=${threadId}]`;
  if (reply.status === "failed") return `${head}The agent failed: ${reply.stop_reason}.`;
  const said = quoted(reply.summary);
  const more = `\nThe result is longer: check_async_task(task_id='${threadId}') returns all of it.`;
  const text = shorten(said, MOST_SAID_CHARS);
  return `${head}Completed. Result: ${text}${text === said ? "" : more}`;
}

/** Begins a run in the thread. Undefined when the server took it, else what went wrong. */
async function post(
  { url, apiKey, assistantId = "agent", clock }: CallbackOptions & { clock: Clock },
  callbackThreadId: string,
  content: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const late = new AbortController();
  const timer = clock.timeout(ANSWER_MS, () => late.abort());
  try {
    const response = await fetch(
      `${url.replace(/\/+$/, "")}/threads/${encodeURIComponent(callbackThreadId)}/runs`,
      {
        method: "POST",
        redirect: "manual",
        headers: {
          "content-type": "application/json",
          "x-auth-scheme": "langsmith",
          ...(apiKey !== undefined && { "x-api-key": apiKey }),
        },
        body: JSON.stringify({ assistant_id: assistantId, input: { messages: [{ role: "user", content }] } }),
        signal: AbortSignal.any([signal, late.signal]),
      },
    );
    await response.body?.cancel();
    return response.ok ? undefined : `The server answered ${response.status}.`;
  } catch (error) {
    return clip(messageOf(error), 200);
  } finally {
    timer.cancel();
  }
}
