/**
 * A parent: the face of everything its sub-agents do for it.
 *
 * Owns: its profile, and which of its readers and tasks are open in this process. Its neighbours: the client owns the
 * connections, Redis owns the agents; another parent object with the same id sees and may do the same.
 *
 * 1. Every call is checked before anything is sent, and answers or rejects within a second; only `task` and the
 *    iterators wait.
 * 2. After {@link Parent.stop} nothing of it waits any more. Its agents go on.
 */

import { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import type { AgentView } from "../shared/protocol/agent.ts";
import type { ProgressEvent } from "../shared/protocol/event.ts";
import { newRequestKey, RequestKey } from "../shared/protocol/ids.ts";
import { MessageText } from "../shared/protocol/message.ts";
import type { Reply } from "../shared/protocol/reply.ts";
import { parseEvent } from "../shared/redis/event-channel.ts";
import { type Client, createClient } from "./client.ts";
import { readInput } from "./input.ts";
import {
  type DestroyReceipt,
  destroyAgent,
  type FinishReceipt,
  findAgent,
  finishAgent,
  getAgent,
  listAgents,
  readFullText,
  type SendReceipt,
  sendMessage,
} from "./managing.ts";
import { type Profile, type ProfileInput, profileOf } from "./profile.ts";
import { pushedStream } from "./pushed-stream.ts";
import type { ReceivedEntry } from "./received-entry.ts";
import { prepareSpawn, type SpawnInput, type TaskInput } from "./spawn-arguments.ts";
import { type SpawnReceipt, spawnAgent } from "./spawning.ts";
import { runTask } from "./task.ts";

/**
 * Who a parent is and what its sub-agents inherit. `parentId`: 1 to 64 characters of `A-Za-z0-9._-`; `tenant`: its
 * owner, default `default`; `model`: required here, in the client or in each spawn; `system`: replaces the standard
 * instructions; `tools`: exactly these (default: all of the worker's); `limits`: narrow the operator's; `alerts`:
 * thresholds; `keepAlive`: agents take further messages after a reply (default false); `idleMs`: idle time after which
 * an agent is destroyed (default 600,000 ms, at most 24 h). `client` is shared and stays its owner's; without one the
 * parent makes its own on `redisUrl`, default `redis://127.0.0.1:6379`.
 */
export type ParentOptions = z.input<typeof ProfileInput> & { client?: Client; redisUrl?: string };

/** Ends an iteration when aborted. */
export interface IterationOptions {
  signal?: AbortSignal;
}

/** See the module's header. Calls reject with a `SubagentError`; its `code` says why, its message what to do. */
export interface Parent {
  readonly parentId: string;
  readonly tenant: string;
  /** Makes an agent that waits for its first message. `invalid_input`, `unknown_price`, `conflict`, `quota_exceeded`. */
  spawn(input: SpawnInput): Promise<SpawnReceipt>;
  /** Sends a message; a `message_id` makes the call repeatable. `unknown_agent`, `agent_ended`, `conflict`, `inbox_full`. */
  send(agentId: string, text: string, options?: { message_id?: string }): Promise<SendReceipt>;
  /** The live agents, oldest first. */
  list(): Promise<AgentView[]>;
  /** One agent, also an ended one while its record is kept. `unknown_agent`. */
  get(agentId: string): Promise<AgentView>;
  /** Ends an agent at once, whatever it is doing. `unknown_agent`. */
  destroy(agentId: string): Promise<DestroyReceipt>;
  /** Asks a run to hand back what it has. `unknown_agent`. */
  finish(agentId: string): Promise<FinishReceipt>;
  /**
   * Gives a prompt to a fresh agent and resolves with its reply, acked, however the agent ended. Aborting `signal`
   * destroys the agent and rejects with the signal's reason.
   */
  task(input: TaskInput & { signal?: AbortSignal }): Promise<Reply>;
  /** Every unacked entry, oldest first, also those from before, then what comes. Waits; ends with `signal` or `stop`. */
  replies(options?: IterationOptions): AsyncIterableIterator<ReceivedEntry>;
  /** Progress from now on. A hint: what is not taken in time is dropped, oldest first, beyond 1,000 events. */
  events(options?: IterationOptions): AsyncIterableIterator<ProgressEvent>;
  /** The whole text of a reply whose summary was cut; undefined where it was not, or is no longer kept. */
  fullText(replyId: string): Promise<string | undefined>;
  /** Ends its iterations; waiting tasks reject with `closed` and their agents go on. Stops a client of its own. Idempotent. */
  stop(): Promise<void>;
}

const DEFAULT_REDIS_URL = "redis://127.0.0.1:6379";
const EVENTS_KEPT = 1_000;
const Message = z.object({ text: MessageText, message_id: RequestKey.default(() => newRequestKey()) });

/** A parent. Throws `invalid_input`, `nested_spawn` (the identity of a sub-agent) or `invalid_config` (wrong URL). */
export function createParent(options: ParentOptions): Parent {
  const { client: shared, redisUrl = DEFAULT_REDIS_URL, ...rest } = options;
  const client = shared ?? createClient({ redisUrl });
  const profile = profileOf(rest, client.operator);
  const ends = new Set<(reason: unknown) => void>();
  let stopped = false;
  const room: Room = {
    profile,
    operator: client.operator,
    client() {
      if (stopped) throw new SubagentError("closed", "This parent was stopped: make a new one.");
      return client.open();
    },
    enter(end) {
      ends.add(end);
      return () => void ends.delete(end);
    },
  };
  return {
    ...profile.parent,
    ...managedBy(room),
    ...streamsOf(room),
    async stop() {
      stopped = true;
      const reason = new SubagentError("closed", "This parent was stopped; the reply stays in its channel.");
      for (const end of [...ends]) end(reason);
      if (!shared) await client.stop();
    },
  };
}

/** What the methods of one parent share. */
interface Room {
  profile: Profile;
  operator: Client["operator"];
  /** The opened client; throws `closed` after the parent's stop. */
  client(): ReturnType<Client["open"]>;
  /** Registers what the parent's stop ends; the returned function takes it back. */
  enter(end: (reason: unknown) => void): () => void;
}

function managedBy({ profile, operator, client: open, enter }: Room) {
  const { parent } = profile;
  const prepare = (kind: "spawn" | "task", input: unknown) => {
    const client = open();
    return { client, prepared: prepareSpawn(kind, input, { profile, operator, prices: client.prices }) };
  };
  const found = async (agentId: string) => {
    const client = open();
    const call = client.call();
    return [client, call, await findAgent(client, call, parent, agentId)] as const;
  };
  return {
    async spawn(input) {
      const { client, prepared } = prepare("spawn", input);
      return (await spawnAgent(client, client.call(), profile, prepared)).receipt;
    },
    async send(agentId, text, { message_id } = {}) {
      const message = readInput(Message, { text, message_id }, "send");
      return sendMessage(...(await found(agentId)), { text: message.text, messageId: message.message_id });
    },
    async list() {
      const client = open();
      return listAgents(client, client.call(), parent);
    },
    get: async (agentId) => getAgent(...(await found(agentId))),
    destroy: async (agentId) => destroyAgent(...(await found(agentId))),
    finish: async (agentId) => finishAgent(...(await found(agentId))),
    async task({ signal, ...input }) {
      const { client, prepared } = prepare("task", input);
      return runTask({ client, profile, signal, open: enter }, prepared);
    },
    async fullText(replyId) {
      const client = open();
      return readFullText(client, client.call(), parent, replyId);
    },
  } satisfies Partial<Parent>;
}

function streamsOf({ profile, client: open, enter }: Room): Pick<Parent, "replies" | "events"> {
  const { parent } = profile;
  return {
    replies({ signal } = {}) {
      const { inbox } = open();
      const left = enter(() => stream.end());
      const stream = inbox.read(parent, { signal, onEnd: left });
      return stream;
    },
    events({ signal } = {}) {
      const { subscriber, store } = open();
      const left = enter(() => stream.end());
      let unwatch = () => {};
      const stream = pushedStream<ProgressEvent>({
        signal,
        capacity: EVENTS_KEPT,
        onEnd: () => {
          left();
          unwatch();
        },
      });
      if (signal?.aborted) return stream;
      unwatch = subscriber.watch(store.keys.parent(parent).events, {
        onMessage(text) {
          const event = parseEvent(text);
          if (event) stream.push(event);
        },
        onGap: () => {},
        onStop: () => stream.end(),
      });
      return stream;
    },
  };
}
