/**
 * Threads of the Agent Protocol, implemented by our agents. Nothing is stored for a thread: its id gives the ids of its agents.
 *
 * 1. A thread's id is the uid of its first agent; its later agents have the same uid except for the last two digits, which
 *    count them. So a thread lives as long as the records of its agents (7 days, 24 hours after its reply was read).
 * 2. A run is an agent with one message, so a finished thread uses no quota of its parent. A message to a busy thread reaches
 *    its current run. A message to an idle thread begins the next agent, with the text of the last one in its prompt.
 * 3. A reply is acked after its thread's state was sent; the state can still be read for a day, unless the thread is deleted.
 */

import { z } from "zod";
import { destroyAgent, send } from "../../producer/agents.ts";
import { type Client, internalsOf } from "../../producer/client.ts";
import { profileOf } from "../../producer/inheritance.ts";
import { notesAfter } from "../../producer/model-text.ts";
import { type ParentContext, withCall, withRead } from "../../producer/parent-context.ts";
import { type SpawnReceipt, spawnAgent } from "../../producer/spawn.ts";
import { checkSpawn } from "../../producer/spawn-input.ts";
import { type ErrorCode, SubagentError, withoutKey } from "../../shared/errors.ts";
import { type AgentRecord, isoTime } from "../../shared/protocol/agent.ts";
import { newUid, Uid } from "../../shared/protocol/ids.ts";
import { agentOf, FIRST_RUN, replyIdOf } from "../../shared/protocol/keys.ts";
import { MESSAGE_MAX_BYTES } from "../../shared/protocol/message.ts";
import { NO_SUMMARY, type Reply, type ReplyStatus } from "../../shared/protocol/reply.ts";
import { quoted } from "../../shared/protocol/text.ts";
import { createCallbacks } from "../../shared/redis/callbacks.ts";
import { keptReply } from "../../shared/redis/replies.ts";
import { onAbort } from "../../shared/stop-signal.ts";
import { markDeleted, requireUndeleted, unknownThread } from "./thread-end.ts";

/** The statuses of a run in the Agent Protocol. */
export const RunStatus = z.enum(["pending", "running", "success", "error", "interrupted"]);
/** See {@link RunStatus}. */
export type RunStatus = z.infer<typeof RunStatus>;

/** A run in the form of the protocol. */
export interface ProtocolRun {
  run_id: string;
  thread_id: string;
  assistant_id: string;
  status: RunStatus;
  created_at: string;
  updated_at: string;
  metadata: Record<string, never>;
  multitask_strategy: "interrupt";
}

/** The end of a run; `problem`: why it brought no result, as a sentence. */
export interface RunEnd {
  status: RunStatus;
  problem?: string;
}

/** The replies of a thread, oldest first: the newest ones, up to {@link STATE_BYTES}. */
export interface ThreadState {
  values: { messages: { id: string; type: "ai"; role: "assistant"; content: string }[] };
  /** Acks the replies in `values`, and no others. Never rejects. */
  ack(): Promise<unknown>;
}

/** The message that begins a run. */
export interface ThreadMessage {
  assistantId: string;
  text: string;
  /** The span that an agent which the message begins belongs to. */
  traceparent?: string | undefined;
  /** The thread of the operator's server that is called back after each run of this thread from now on. */
  callbackThreadId?: string | undefined;
}

/** Maximum agents of a thread: two hex digits count them. */
const MOST_AGENTS = 256;
const PAGE = 16;
/** Size of the reports in a state, bytes, above which the older ones are left out. The newest is always there. */
const STATE_BYTES = 1_024 * 1_024;
/** Mark at the end of a report that was cut for the prompt of the next agent. */
const REPORT_CUT = "\n[the rest of this report is left out: the prompt would be too long]";
/** Maximum attempts of one message while other requests begin runs of the same thread. */
const MOST_TRIES = 8;
/** The callback note of an agent comes due after this time if its spawn or send does not complete before. */
const SPAWN_MS = 10_000;
/** Run status by reply status. `partial` is `success`, because clients of the protocol pass a text on only for `success`. */
const STATUSES: Readonly<Record<ReplyStatus, RunStatus>> = {
  succeeded: "success",
  partial: "success",
  failed: "error",
  cancelled: "interrupted",
};

/** Returns the id of a new thread. */
export function newThreadId(): string {
  return uidOf(newUid(), 0);
}

/** Returns the thread id of an agent. */
export function threadIdOf(uid: string): string {
  return uidOf(uid, 0);
}

/** One thread of one parent. */
export interface Thread {
  /** Returns its runs, oldest first. */
  runs(): Promise<ProtocolRun[]>;
  /** Returns one run. Rejects with `not_found`. */
  run(runId: string): Promise<ProtocolRun>;
  /** Begins a run, or sends the message to the current run. Rejects as spawn and send do. */
  begin(message: ThreadMessage): Promise<ProtocolRun>;
  /** Resolves when the run is over. Rejects with `not_found`, or with `timed_out` if `signal` aborts before. */
  wait(runId: string, signal: AbortSignal): Promise<RunEnd>;
  state(): Promise<ThreadState>;
  /** Destroys the live agents of the thread; with `runId` only that run's agent, if it is live. */
  cancel(runId?: string): Promise<void>;
  /** Deletes the thread and destroys its live agents; it can be read no more. Idempotent. */
  remove(): Promise<void>;
}

/** Opens the thread `threadId` of a parent. Throws `not_found` for a bad thread id, `invalid_input` for a bad parent id. */
export function openThread(client: Client, tenant: string, parentId: string, threadId: string): Thread {
  if (!Uid.safeParse(threadId).success || !threadId.endsWith("00")) throw unknownThread(threadId);
  const { operator, open } = internalsOf(client);
  const profile = profileOf({ tenant, parentId }, operator);
  const context: ParentContext = { profile, operator, open, onStop: () => () => {} };
  const undeleted = async <T>(read: Promise<T>) =>
    (await Promise.all([read, requireUndeleted(context, threadId)]))[0];
  const records = () => undeleted(recordsOf(context, threadId));
  const cancelSome = async (known: AgentRecord[], runId?: string) => {
    const live = known.filter(
      (record) => record.status !== "ended" && (runId === undefined || runIdOf(record) === runId),
    );
    await Promise.all(
      live.map(({ uid, agent_id: agentId }) =>
        withCall(context, (call) => destroyAgent(call, { address: { ...profile.parent, uid }, agentId })),
      ),
    );
  };
  const thread: Thread = {
    runs: async () => (await records()).map((record) => runOf(record, threadId)),
    run: async (runId) => runOf(await undeleted(recordOfRun(context, threadId, runId)), threadId),
    begin: (message) =>
      beginRun(context, threadId, records, message).catch((error: unknown) => {
        throw withoutKey(error, "read the runs of this thread before you send the message again");
      }),
    async wait(runId, signal) {
      const { status } = await thread.run(runId);
      if (status === "pending" || status === "running") await waitForEnd(context, runId, signal);
      return endOf(await recordOfRun(context, threadId, runId));
    },
    state: async () => stateOf(context, await records()),
    cancel: async (runId) => cancelSome(await records(), runId),
    async remove() {
      // Before its agents are read: a message that comes meanwhile begins no run.
      await markDeleted(context, threadId);
      await cancelSome(await recordsOf(context, threadId));
    },
  };
  return thread;
}

async function stateOf(context: ParentContext, records: readonly AgentRecord[]): Promise<ThreadState> {
  const { channels } = await context.open();
  const entries = records.map((record) => ({ record, entry: keptReply(record) }));
  const replied = entries.flatMap(({ record, entry }) => (entry ? [{ record, entry }] : []));
  const sizes = await sizesOf(context, replied);
  let [begin, bytes] = [replied.length, 0];
  while (begin > 0) {
    bytes += sizes[begin - 1] ?? 0;
    if (bytes > STATE_BYTES && begin < replied.length) break;
    begin -= 1;
  }
  const shown = replied.slice(begin);
  const messages = await Promise.all(
    shown.map(async ({ record, entry }) => ({
      id: record.uid,
      type: "ai" as const,
      role: "assistant" as const,
      content: (await textOf(context, record)) + notesAfter(entry.entry),
    })),
  );
  // A client reads the state again and again, and a thread may have hundreds of replies that were acked long ago.
  const unacked = shown.filter(({ record }) => record.end_entry !== undefined);
  const ack = () => Promise.all(unacked.map(({ entry }) => channels.tryAck(context.profile.parent, entry)));
  return { values: { messages }, ack };
}

/** Reads the sizes of the agents' reports, bytes, but not the reports. */
function sizesOf(context: ParentContext, agents: readonly { record: AgentRecord }[]): Promise<number[]> {
  return withRead(context, ({ client, parent }) => {
    const sizeOf = async ({ record: { uid, run, progress } }: { record: AgentRecord }) =>
      (await client.redis.strlen(client.keys.parent(parent).text(replyIdOf(uid, run)))) ||
      Buffer.byteLength(progress?.summary ?? "");
    return Promise.all(agents.map(sizeOf));
  });
}

function uidOf(threadId: string, number: number): string {
  return threadId.slice(0, -2) + number.toString(16).padStart(2, "0");
}

function numberOf(uid: string): number {
  return Number.parseInt(uid.slice(-2), 16);
}

/** Reads the records of a thread's agents, oldest first; older ones may have expired. */
async function recordsOf(context: ParentContext, threadId: string): Promise<AgentRecord[]> {
  const { parent } = context.profile;
  const agents = Array.from({ length: MOST_AGENTS }, (_, n) => agentOf(parent, uidOf(threadId, n)));
  const count = await withRead(context, ({ client: { redis, keys } }) =>
    redis.exists(...agents.map((agent) => keys.agent(agent).record)),
  );
  const found: AgentRecord[] = [];
  // A call for each page: with its reply and its instructions a record may have more than a megabyte.
  for (let at = 0; found.length < count && at < MOST_AGENTS; at += PAGE) {
    const records = await withRead(context, ({ client: { store } }) =>
      Promise.all(agents.slice(at, at + PAGE).map((agent) => store.record(agent))),
    );
    found.push(...records.filter((record) => record !== undefined));
  }
  return found;
}

/** Reads the record of one run's agent, and of no other: clients ask for a run again and again until it is over. `not_found`. */
async function recordOfRun(context: ParentContext, threadId: string, runId: string): Promise<AgentRecord> {
  const unknown = new SubagentError("not_found", `This thread has no run ${quoted(runId)}.`);
  const uid = Uid.safeParse(runId.split(".")[0]).data;
  if (uid === undefined || threadIdOf(uid) !== threadId || runId !== replyIdOf(uid, FIRST_RUN)) throw unknown;
  const record = await withRead(context, ({ client, parent }) => client.store.record(agentOf(parent, uid)));
  if (record) return record;
  throw unknown;
}

function runIdOf({ uid }: Pick<AgentRecord, "uid">): string {
  return replyIdOf(uid, FIRST_RUN);
}

function runOf(record: AgentRecord, threadId: string): ProtocolRun {
  const { uid, name, ended_at } = record;
  const begun = pendingRun(uid, threadId, { name, created_at: isoTime(record.created_at) });
  const updated_at = ended_at === undefined ? begun.created_at : isoTime(ended_at);
  return { ...begun, status: statusOf(record), updated_at };
}

function pendingRun(
  uid: string,
  threadId: string,
  { name, created_at }: Pick<SpawnReceipt, "name" | "created_at">,
): ProtocolRun {
  return {
    run_id: runIdOf({ uid }),
    thread_id: threadId,
    assistant_id: name,
    status: "pending",
    created_at,
    updated_at: created_at,
    metadata: {},
    multitask_strategy: "interrupt",
  };
}

function statusOf(record: AgentRecord): RunStatus {
  if (record.status === "queued" || record.status === "idle") return "pending";
  if (record.status !== "ended") return "running";
  const reply: Reply | undefined = keptReply(record)?.entry;
  if (reply) return STATUSES[reply.status];
  return record.ended_reason === "completed" ? "success" : "error";
}

function endOf(record: AgentRecord): RunEnd {
  const status = statusOf(record);
  if (status === "success") return { status };
  const { stop_reason = "its reply is no longer kept", error } = keptReply(record)?.entry ?? {};
  const why = error === undefined ? "." : `: ${error}`;
  return { status, problem: `The run ended as ${status} (${stop_reason})${why}` };
}

/** Begins a run or sends to the current one; if another request begins the same run meanwhile, sends the message to that run. */
async function beginRun(
  context: ParentContext,
  threadId: string,
  records: () => Promise<AgentRecord[]>,
  message: ThreadMessage,
): Promise<ProtocolRun> {
  const notes = await callbackNotes(context, threadId, message.callbackThreadId);
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    let last = (await records()).at(-1);
    if (last && last.status !== "ended") {
      await notes.begin(last.uid);
      const sent = await send(context, last.agent_id, message.text).catch(unless("agent_ended"));
      if (sent) {
        await notes.begun(last.uid);
        return runOf(last, threadId);
      }
      // The agent ended meanwhile: its record has the final text only now.
      const { uid } = last;
      last = (await records()).at(-1);
      if (last && last.uid !== uid) continue;
    }
    const uid = nextUid(threadId, last);
    const prompt = last ? followUp(await textOf(context, last), message.text) : message.text;
    const { assistantId: name, traceparent } = message;
    const checked = checkSpawn("agent", { name, prompt, traceparent }, context);
    await notes.begin(uid);
    const spawned = await withCall(context, (call) => spawnAgent(call, checked, uid)).catch(
      unless("conflict"),
    );
    if (!spawned) continue;
    await notes.begun(uid);
    // Nothing is read any more: an error would say that no run began.
    return pendingRun(uid, threadId, spawned.receipt);
  }
  throw new SubagentError(
    "conflict",
    "Other requests keep beginning runs of this thread: nothing was done, send the message again.",
  );
}

/** Returns the uid of the agent after `last`. Throws `conflict` if no number is left. */
function nextUid(threadId: string, last: AgentRecord | undefined): string {
  const number = last ? numberOf(last.uid) + 1 : 0;
  if (number < MOST_AGENTS) return uidOf(threadId, number);
  throw new SubagentError(
    "conflict",
    `This thread has had its maximum of ${MOST_AGENTS} runs: begin a new thread.`,
  );
}

/** The notes of agents whose end is to be called back. */
interface CallbackNotes {
  /** Notes the agent of a run before the run begins. Rejects as the call does. */
  begin(uid: string): Promise<void>;
  /** Makes the first check come now, after the run has begun. Never rejects: the note is there already. */
  begun(uid: string): Promise<void>;
}

/** Stores the callback thread, if given. Without one the notes do nothing. */
async function callbackNotes(
  context: ParentContext,
  threadId: string,
  callbackThreadId: string | undefined,
): Promise<CallbackNotes> {
  return withCall(context, async ({ read, client, parent }) => {
    const callbacks = createCallbacks(client.redis, client.keys);
    if (callbackThreadId !== undefined) await read(() => callbacks.set(parent, threadId, callbackThreadId));
    if ((await read(() => callbacks.get(parent, threadId))) === undefined)
      return { begin: async () => {}, begun: async () => {} };
    const note = (uid: string, inMs: number) =>
      withRead(context, () => callbacks.note(agentOf(parent, uid), inMs));
    return { begin: (uid) => note(uid, SPAWN_MS), begun: (uid) => note(uid, 0).catch(() => {}) };
  });
}

/** Returns a handler that ignores the refusal `code`, which means that the state has changed since it was read. */
function unless(code: ErrorCode): (error: unknown) => undefined {
  return (error) => {
    if (error instanceof SubagentError && error.code === code) return undefined;
    throw error;
  };
}

/** Returns the prompt of the next agent; a report that would make it too long for a message is cut, or left out. */
function followUp(report: string, text: string): string {
  const withReport = (shown: string) =>
    `Your earlier report in this conversation:\n\n${shown}\n\nThe follow-up:\n\n${text}`;
  const room = MESSAGE_MAX_BYTES - Buffer.byteLength(withReport(""));
  if (Buffer.byteLength(report) <= room) return withReport(report);
  const kept = room - Buffer.byteLength(REPORT_CUT);
  return kept > 0 ? withReport(firstBytes(report, kept) + REPORT_CUT) : text;
}

/** Returns the beginning of `text` in at most `most` bytes of UTF-8, never cut within a character. */
function firstBytes(text: string, most: number): string {
  // A decoder of a stream holds back a character whose last bytes are missing.
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Buffer.from(text).subarray(0, most), {
    stream: true,
  });
}

async function textOf(context: ParentContext, { uid, run, progress }: AgentRecord): Promise<string> {
  const { parent } = context.profile;
  const whole = await withRead(context, ({ client }) => client.store.fullText(parent, replyIdOf(uid, run)));
  return whole ?? progress?.summary ?? NO_SUMMARY;
}

async function waitForEnd(context: ParentContext, runId: string, signal: AbortSignal): Promise<void> {
  const { channels } = await context.open();
  const uid = runId.split(".")[0] ?? "";
  const reservation = channels.reserve(context.profile.parent, uid);
  const late = new SubagentError(
    "timed_out",
    "The server stops before the run is over; the run goes on: join it again, at another process or later.",
    { thread_id: threadIdOf(uid), run_id: runId },
  );
  const forget = onAbort(signal, () => reservation.cancel(late));
  try {
    await reservation.wait(FIRST_RUN, "even_if_acked");
  } finally {
    forget();
    reservation.release(false);
  }
}
