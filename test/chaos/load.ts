/**
 * The load: parents that have their stories told, each within its quota, and write down everything that reaches them.
 *
 * Owns: the parents, their readers and what these saw. Its neighbours disturb; it only insists, as callers are told to:
 * a call whose outcome is unknown, or that found no Redis, is made again with the same key.
 *
 * 1. Every entry is written down before it is acked, once for each time it came.
 * 2. A story is over when all its replies came, or when the parent was refused; a refusal is a complaint.
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

/** An entry as a parent saw it. */
export interface Seen {
  /** Epoch ms. */
  at: number;
  parentId: string;
  entry: ChannelEntry;
  /** What the ack answered. */
  first?: boolean;
}

/** A story and the agent that lived it. */
export interface Told {
  story: Story;
  parentId: string;
  agentId?: string;
}

/** What the parents have to show. */
export interface LoadRecord {
  seen: Seen[];
  told: Told[];
  /** What no parent should have met: refusals, replies that never came. */
  complaints: { story: number; problem: string }[];
  /** Calls that were made again because Redis did not answer. */
  repeated: number;
}

/** What the load needs. */
export interface LoadOptions {
  redisUrl: string;
  prefix: string;
  timing: Timing;
  stories: readonly Story[];
  /** Agents at a time, at most ten a parent. */
  window: number;
  pace: Pace;
  /** Longest time a parent waits for one reply, ms. */
  patienceMs: number;
  /** Tools that each agent names, by its story; absent: none, so any worker does. */
  toolsOf?: (story: Story) => readonly string[];
}

const PARENTS = 4;
const LOOK_EVERY_MS = 50;

/** The ids of all parents of the load. */
export const PARENT_IDS: readonly string[] = Array.from({ length: PARENTS }, (_, i) => `chaos-${i}`);

/** Has all stories lived; resolves when the last one is over. */
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
      // Faults wait for runs, and runs for faults: those that will never be over count all the same.
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
  /** agent id → what came from it so far. */
  came: ReadonlyMap<string, readonly ChannelEntry[]>;
  /** Calls that Redis has to answer at last. */
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
      everyMs: LOOK_EVERY_MS,
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
