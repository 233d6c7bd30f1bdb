/**
 * The load: parents that run the stories, each within its quota, and record every entry they receive.
 *
 * Owns: the parents, their readers and the received entries. Other modules inject faults. The load only repeats calls, as the
 * documentation tells callers: with the same key, if the outcome is unknown or Redis is unavailable.
 *
 * 1. Every entry is recorded before it is acked, once per delivery.
 * 2. A story is over when all its replies have arrived, or when a call is refused; a refusal is a complaint.
 */
import { type Client, createClient } from "../../src/producer/client.ts";
import { createParent, type Parent } from "../../src/producer/parent.ts";
import type { ReceivedEntry } from "../../src/producer/replies/parent-channel.ts";
import type { Timing } from "../../src/shared/protocol/limits.ts";
import type { ChannelEntry } from "../../src/shared/protocol/reply.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { until } from "../helpers/until.ts";
import type { Pace } from "./fault-schedule.ts";
import { insist } from "./insist.ts";
import { PRICED_MODEL } from "./oracle-money.ts";
import type { Story } from "./stories.ts";

/** An entry that a parent received. */
export interface Seen {
  /** Epoch ms. */
  at: number;
  parentId: string;
  entry: ChannelEntry;
  /** The result of the ack; absent if it has not returned. */
  first?: boolean;
}

/** A story and its agent. */
export interface Told {
  story: Story;
  parentId: string;
  agentId?: string;
}

/** The record of all parents. */
export interface LoadRecord {
  seen: Seen[];
  told: Told[];
  /** Problems that no parent may have: refusals, missing replies. */
  complaints: { story: number; problem: string }[];
  /** Number of calls repeated because Redis did not answer. */
  repeated: number;
}

/** Options of the load. */
export interface LoadOptions {
  redisUrl: string;
  prefix: string;
  timing: Timing;
  stories: readonly Story[];
  /** Number of concurrent agents, at most ten per parent. */
  window: number;
  pace: Pace;
  /** Longest time a parent waits for one reply, ms. */
  patienceMs: number;
  /** Returns the tools that the story's agent names; absent: none, so that any worker can run it. */
  toolsOf?: (story: Story) => readonly string[];
}

const PARENTS = 4;
const POLL_EVERY_MS = 50;

/** The ids of all parents of the load. */
export const PARENT_IDS: readonly string[] = Array.from({ length: PARENTS }, (_, i) => `chaos-${i}`);

/** Runs all stories; resolves when the last one is over. */
export async function runLoad(options: LoadOptions): Promise<LoadRecord> {
  const record: LoadRecord = { seen: [], told: [], complaints: [], repeated: 0 };
  const queue = withRunNumbers(options.stories);
  const lanes = Math.ceil(options.window / PARENTS);
  const parents = PARENT_IDS.map((parentId) => openParent(options, parentId, record));
  const lane = async (teller: Teller) => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const { story, firstRun } = next;
      await options.pace.mayBegin(firstRun);
      const runs = { over: 0 };
      await tell(teller, story, options, record, runs).catch((error: unknown) =>
        record.complaints.push({ story: story.number, problem: String(error) }),
      );
      // Faults and runs wait for each other, so runs that will never end count as over, too.
      for (; runs.over < story.prompts.length; runs.over++) options.pace.runOver();
    }
  };
  await Promise.all(parents.flatMap((teller) => Array.from({ length: lanes }, () => lane(teller))));
  for (const teller of parents) await teller.stop();
  return record;
}

function withRunNumbers(stories: readonly Story[]) {
  let runs = 0;
  return stories.map((story) => {
    const firstRun = runs;
    runs += story.prompts.length;
    return { story, firstRun };
  });
}

/** A parent and its reader. */
interface Teller {
  parent: Parent;
  /** agent id → its entries received so far. */
  came: ReadonlyMap<string, readonly ChannelEntry[]>;
  /** Repeats the call until Redis answers. */
  insist<T>(call: () => Promise<T>): Promise<T>;
  stop(): Promise<void>;
}

function openParent(options: LoadOptions, parentId: string, record: LoadRecord): Teller {
  const { redisUrl, prefix, timing } = options;
  const client: Client = createClient({ redisUrl, prefix, timing, model: PRICED_MODEL });
  closeAtEnd(() => client.stop());
  const parent = createParent({ parentId, client });
  const done = new AbortController();
  const came = new Map<string, ChannelEntry[]>();
  const insisting = <T>(call: () => Promise<T>) =>
    insist(call, () => {
      record.repeated += 1;
    });
  const take = async (received: ReceivedEntry) => {
    const { ack, ...entry } = received;
    const seen: Seen = { at: Date.now(), parentId, entry };
    record.seen.push(seen);
    came.set(entry.agent_id, [...(came.get(entry.agent_id) ?? []), entry]);
    seen.first = await insisting(() => ack());
  };
  const read = async () => {
    for await (const received of parent.replies({ signal: done.signal })) await take(received);
    if (!done.signal.aborted)
      record.complaints.push({ story: -1, problem: `the reader of ${parentId} ended` });
  };
  const reading = read().catch((error: unknown) => {
    record.complaints.push({ story: -1, problem: `the reader of ${parentId} failed: ${String(error)}` });
  });
  return {
    parent,
    came,
    insist: insisting,
    async stop() {
      done.abort();
      await reading;
      await client.stop();
    },
  };
}

async function tell(
  teller: Teller,
  story: Story,
  options: LoadOptions,
  record: LoadRecord,
  runs: { over: number },
) {
  const { parent, came } = teller;
  const { pace, patienceMs } = options;
  const told: Told = { story, parentId: parent.parentId };
  record.told.push(told);
  const { number, prompts } = story;
  const request = {
    name: `story ${number}`,
    request_key: `spawn-${number}`,
    keep_alive: prompts.length > 1,
    ...(options.toolsOf && { tools: [...options.toolsOf(story)] }),
  };
  const { agent_id } = await teller.insist(() => parent.spawn(request));
  told.agentId = agent_id;
  const seen = (what: string, isWanted: (entry: ChannelEntry) => boolean) =>
    until(() => came.get(agent_id)?.some(isWanted), {
      what: `${what} of ${agent_id}`,
      timeoutMs: patienceMs,
      everyMs: POLL_EVERY_MS,
    });
  for (const [part, prompt] of prompts.entries()) {
    const message_id = `story-${number}.${part}`;
    await teller.insist(() => parent.send(agent_id, prompt, { message_id }));
    await seen(`reply ${part + 1}`, (entry) => entry.kind !== "message" && entry.run === part + 1);
    runs.over += 1;
    pace.runOver();
  }
  if (prompts.length === 1) return;
  await teller.insist(() => parent.destroy(agent_id));
  await seen("the end", (entry) => entry.kind === "ended");
}
