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
import type { ReceivedEntry } from "../../src/producer/received-entry.ts";
import type { ChannelEntry } from "../../src/shared/protocol/reply.ts";
import type { Timing } from "../../src/shared/protocol/timing.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { until } from "../helpers/until.ts";
import type { Pace } from "./fault-schedule.ts";
import { insist } from "./insist.ts";
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
      await tell(teller, story, options, record).catch((error: unknown) =>
        record.complaints.push({ story: story.number, problem: String(error) }),
      );
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
  stop(): Promise<void>;
}

function openParent(options: LoadOptions, parentId: string, record: LoadRecord): Teller {
  const { redisUrl, prefix, timing } = options;
  const client: Client = createClient({ redisUrl, prefix, timing, model: "offline-1" });
  closeAtEnd(() => client.stop());
  const parent = createParent({ parentId, client });
  const done = new AbortController();
  const repeats = () => {
    record.repeated += 1;
  };
  const take = async (received: ReceivedEntry) => {
    const { ack, ...entry } = received;
    const seen: Seen = { at: Date.now(), parentId, entry };
    record.seen.push(seen);
    seen.first = await insist(() => ack(), repeats);
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
    async stop() {
      done.abort();
      await reading;
      await client.stop();
    },
  };
}

async function tell({ parent }: Teller, story: Story, options: LoadOptions, record: LoadRecord) {
  const { pace, patienceMs } = options;
  const repeats = () => {
    record.repeated += 1;
  };
  const name = `story ${story.number}`;
  const told: Told = { story, parentId: parent.parentId };
  record.told.push(told);
  const request = { name, request_key: `spawn-${story.number}`, keep_alive: story.prompts.length > 1 };
  const { agent_id } = await insist(() => parent.spawn(request), repeats);
  told.agentId = agent_id;
  const seen = (what: string, wanted: (entry: ChannelEntry) => boolean) =>
    until(
      () =>
        record.seen.some(
          ({ entry, parentId }) =>
            parentId === parent.parentId && entry.agent_id === agent_id && wanted(entry),
        ),
      { what: `${what} of ${agent_id}`, timeoutMs: patienceMs, everyMs: LOOK_EVERY_MS },
    );
  for (const [part, prompt] of story.prompts.entries()) {
    const message_id = `story-${story.number}.${part}`;
    await insist(() => parent.send(agent_id, prompt, { message_id }), repeats);
    await seen(`reply ${part + 1}`, (entry) => entry.kind !== "message" && entry.run === part + 1);
    pace.runOver();
  }
  if (story.prompts.length === 1) return;
  await insist(() => parent.destroy(agent_id), repeats);
  await seen("the end", (entry) => entry.kind === "ended");
}
