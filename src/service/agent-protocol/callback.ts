/**
 * Callbacks to a LangGraph server at the end of a run, like `createCompletionCallbackMiddleware` of deepagents for its own
 * sub-agents: the thread that began the run gets a new run with a message. Owns one loop; any number of processes may run it.
 *
 * 1. The status comes from the runtime. The sub-agent's text is quoted, so that no part of it can imitate the status.
 * 2. A callback acks nothing: the parent itself reads the full text.
 * 3. Each pass goes through all due notes, for any number of running agents, and waits for no request: a server that does not
 *    answer delays at most {@link MOST_REQUESTS} callbacks.
 *
 * The operator names the server; a request names only the thread.
 */
import { type Client, internalsOf } from "../../producer/client.ts";
import type { ClientResources } from "../../producer/client-resources.ts";
import { shorten } from "../../producer/model-text.ts";
import { quoted } from "../../producer/text-boundary.ts";
import { type Clock, systemClock } from "../../shared/clock.ts";
import { messageOf } from "../../shared/errors.ts";
import { guardedLogger, type Logger } from "../../shared/logger.ts";
import { networkProblem } from "../../shared/network-problem.ts";
import type { AgentRecord } from "../../shared/protocol/agent.ts";
import { newRequestKey } from "../../shared/protocol/ids.ts";
import type { AgentAddress } from "../../shared/protocol/keys.ts";
import { clip } from "../../shared/protocol/text.ts";
import { DAY_MS } from "../../shared/protocol/usage.ts";
import {
  type CallbackNote,
  type Callbacks,
  createCallbacks,
  NOTES_AT_A_TIME,
} from "../../shared/redis/callbacks.ts";
import { keptReply } from "../../shared/redis/replies.ts";
import { createStartable } from "../../shared/start-stop.ts";
import { threadIdOf } from "./thread.ts";

/** Options of a callback sender. */
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
  /** Delay after a failed attempt, ms, default 30,000. */
  retryMs?: number;
}

/** See the module's header. */
export interface CallbackSender {
  /** Starts the loop. Idempotent. */
  start(): void;
  /** Stops the loop and aborts running requests; another process or the next start repeats them. Idempotent. */
  stop(): Promise<void>;
}

const CHECK_MS = 1_000;
/** Maximum interval at which a running agent is checked, ms: with 30,000 agents it costs 3,000 checks a second. */
const LONGEST_CHECK_MS = 10_000;
const RETRY_MS = 30_000;
const ANSWER_MS = 15_000;
const MOST_REQUESTS = 64;
/** If a process dies during a callback, another process may repeat it after this time. */
const SENT_WITHIN_MS = 60_000;
/** Time after the run's end at which callbacks to a failing server are given up. */
const GIVEN_UP_MS = DAY_MS;
const MOST_SAID_CHARS = 500;

/** Creates a sender, not started. */
export function createCallbackSender(options: CallbackOptions): CallbackSender {
  const logger = options.logger && { logger: guardedLogger(options.logger) };
  return createStartable(() => {
    const over = new AbortController();
    const running = sendCallbacks({ ...options, ...logger }, over.signal);
    return () => {
      over.abort();
      return running;
    };
  });
}

async function sendCallbacks(options: CallbackOptions, signal: AbortSignal): Promise<void> {
  const { client, clock = systemClock, logger } = options;
  const token = newRequestKey();
  const requests = new Set<Promise<void>>();
  while (!signal.aborted) {
    await sendDue({ ...options, clock }, { token, requests, signal }).catch((error: unknown) =>
      logger?.debug({ problem: messageOf(error) }, "Callbacks could not be read; trying again soon"),
    );
    await clock.sleep(CHECK_MS, signal);
  }
  await Promise.all(requests);
  // If this fails, the turn expires.
  await internalsOf(client)
    .open()
    .then(({ redis, keys }) => createCallbacks(redis, keys).giveUp(token))
    .catch(() => {});
}

interface SendContext {
  readonly token: string;
  /** Running callback requests. */
  readonly requests: Set<Promise<void>>;
  readonly signal: AbortSignal;
}

type ClockedOptions = CallbackOptions & { clock: Clock };

/** Goes once through all due notes. It postpones each note that it has read, so that the next page has other notes. */
async function sendDue(options: ClockedOptions, { token, requests, signal }: SendContext): Promise<void> {
  const open = await internalsOf(options.client).open();
  const callbacks = createCallbacks(open.redis, open.keys);
  const { read } = open;
  const untilMs = await read(callbacks.nowMs);
  let page: CallbackNote[];
  do {
    page = await read(() => callbacks.due(token, untilMs));
    const that = (status: CallbackNote["status"]) => page.filter((note) => note.status === status);
    const ended = that("ended");
    const toSend = ended.splice(0, MOST_REQUESTS - requests.size);
    const postponed = [
      ...that("at_work").map(({ agent, ageMs }) => ({ agent, inMs: checkDelayMs(ageMs) })),
      ...ended.map(({ agent }) => ({ agent, inMs: CHECK_MS })),
      ...toSend.map(({ agent }) => ({ agent, inMs: SENT_WITHIN_MS })),
    ];
    await read(() => callbacks.forget(that("unknown").map(({ agent }) => agent)));
    await read(() => callbacks.later(postponed));
    for (const { agent } of toSend) {
      // A note whose record this version cannot read must not block the others.
      const request = sendCallback(options, { open, callbacks }, agent, signal)
        .catch(() => callbacks.later([{ agent, inMs: options.retryMs ?? RETRY_MS }]))
        .catch(() => {})
        .finally(() => requests.delete(request));
      requests.add(request);
    }
  } while (page.length === NOTES_AT_A_TIME && !signal.aborted);
}

/** Returns the interval for checking a running agent: a tenth of its age, at most 10 s. A callback is late by at most that. */
function checkDelayMs(ageMs: number): number {
  return Math.min(LONGEST_CHECK_MS, Math.max(CHECK_MS, ageMs / 10));
}

/** Sends the callback of one agent, or postpones its note. */
async function sendCallback(
  options: ClockedOptions,
  { open, callbacks }: { open: ClientResources; callbacks: Callbacks },
  agent: AgentAddress,
  signal: AbortSignal,
): Promise<void> {
  const { logger, retryMs = RETRY_MS } = options;
  const threadId = threadIdOf(agent.uid);
  const record = await open.store.record(agent);
  const callbackThreadId = await callbacks.get(agent, threadId);
  const content = record && wordOn(record, threadId);
  if (!record || callbackThreadId === undefined || content === undefined) return callbacks.forget([agent]);
  const problem = await post(options, callbackThreadId, content, signal);
  if (problem === undefined) return callbacks.forget([agent]);
  if (signal.aborted) return callbacks.later([{ agent, inMs: 0 }]);
  const isGivenUp = (await callbacks.nowMs()) - (record.ended_at ?? record.created_at) > GIVEN_UP_MS;
  logger?.warn({ thread: threadId, problem, given_up: isGivenUp }, "A thread could not be called back");
  await (isGivenUp ? callbacks.forget([agent]) : callbacks.later([{ agent, inMs: retryMs }]));
}

/** Returns the message about an ended run; undefined for a cancelled run, because its client knows. */
function wordOn(record: AgentRecord, threadId: string): string | undefined {
  const reply = keptReply(record)?.entry;
  if (!reply || reply.status === "cancelled") return undefined;
  const head = `[task_id=${threadId}]`;
  if (reply.status === "failed") {
    const why = reply.error === undefined ? "" : ` ${shorten(quoted(reply.error), MOST_SAID_CHARS)}`;
    return `${head}The agent failed: ${reply.stop_reason}.${why}`;
  }
  const said = quoted(reply.summary);
  const more = `\nThe result is longer: check_async_task(task_id='${threadId}') returns all of it.`;
  const text = shorten(said, MOST_SAID_CHARS);
  return `${head}Completed. Result: ${text}${text === said ? "" : more}`;
}

/** Begins a run in the callback thread. Returns undefined if the server accepted it, else the problem. */
async function post(
  { url, apiKey, assistantId = "agent", clock }: ClockedOptions,
  callbackThreadId: string,
  content: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const late = new AbortController();
  const timer = clock.timeout(ANSWER_MS, () => late.abort());
  try {
    const path = `/threads/${encodeURIComponent(callbackThreadId)}/runs`;
    const target = new URL(url.replace(/\/+$/, "") + path);
    // A thread `..` would lead to another part of the server, with the operator's key.
    if (!target.pathname.endsWith(path)) return "The thread's id makes no address of a thread.";
    const response = await fetch(target, {
      method: "POST",
      redirect: "manual",
      headers: {
        "content-type": "application/json",
        "x-auth-scheme": "langsmith",
        ...(apiKey !== undefined && { "x-api-key": apiKey }),
      },
      body: JSON.stringify({ assistant_id: assistantId, input: { messages: [{ role: "user", content }] } }),
      signal: AbortSignal.any([signal, late.signal]),
    });
    await response.body?.cancel();
    return response.ok ? undefined : `The server answered ${response.status}.`;
  } catch (error) {
    return clip(networkProblem(error) ?? messageOf(error), 200);
  } finally {
    timer.cancel();
  }
}
