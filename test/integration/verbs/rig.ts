/**
 * A parent's corner of the shared Redis: its own prefix, the store and its neighbours on one connection, and short ways
 * to bring an agent into a state. Everything is closed at the end of the test.
 */

import { type AgentSpec, PAYLOAD_VERSION } from "../../../src/shared/protocol/agent.ts";
import { newRequestKey, newUid, slugOf } from "../../../src/shared/protocol/ids.ts";
import {
  type AgentAddress,
  type Keys,
  keysUnder,
  type ParentAddress,
} from "../../../src/shared/protocol/keys.ts";
import { IDLE_MS, SPAWN_LIMITS, TIMING, type Timing } from "../../../src/shared/protocol/limits.ts";
import type { InboxMessage } from "../../../src/shared/protocol/message.ts";
import { partsOf, type ReplyBody } from "../../../src/shared/protocol/reply.ts";
import { type AgentStore, createAgentStore } from "../../../src/shared/redis/agent-store.ts";
import { closeRedis, openRedis, type RedisClient } from "../../../src/shared/redis/connection/connection.ts";
import { createDeadlineSet, type DeadlineSet } from "../../../src/shared/redis/deadlines.ts";
import { createReplyStream, type ReplyStream } from "../../../src/shared/redis/replies.ts";
import type { VerbInput } from "../../../src/shared/redis/scripts.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { keysLike, redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";

/** What an agent of the tests is made of. */
export const SPEC: AgentSpec = {
  v: PAYLOAD_VERSION,
  model: "offline-1",
  limits: SPAWN_LIMITS,
  keep_alive: false,
  idle_ms: IDLE_MS,
};

/** A run's result with this summary. */
export function bodyOf(summary: string): ReplyBody {
  return {
    summary,
    truncated: false,
    turns: 1,
    tokens: 3,
    usage: { input_tokens: 1, output_tokens: 2, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
    cost_usd: 0,
    tools_called: {},
    alerts: [],
    duration_ms: 5,
    model: "offline-1",
  };
}

/** How the settle of a run that ended well looks. */
export function wellDone(epoch: number, run = 1): VerbInput<"settle"> {
  return {
    authority: "worker",
    epoch,
    known: 0,
    run,
    target: "ended",
    ended_reason: "completed",
    status: "succeeded",
    stop_reason: "end_turn",
    natural: true,
    ...partsOf(bodyOf("done")),
  };
}
/** How the settle of a run that hands back at a cap looks: no message keeps it going. */
export function handedBack(epoch: number, run = 1): VerbInput<"settle"> {
  return { ...wellDone(epoch, run), status: "partial", stop_reason: "max_turns", natural: false };
}
/** How the settle of a run looks that no worker survives. */
export function workerLost(epoch: number, run = 1): VerbInput<"settle"> {
  const how = { ended_reason: "failed", status: "failed", stop_reason: "worker_lost" } as const;
  return { ...wellDone(epoch, run), ...how, natural: false };
}
/** The parent's destroy. */
export const DESTROY: VerbInput<"settle"> = {
  authority: "parent",
  target: "ended",
  ended_reason: "destroyed",
  status: "cancelled",
  stop_reason: "destroyed",
};
/** The sweeper's end of an agent whose idle time is over. */
export const IDLE_END: VerbInput<"settle"> = {
  authority: "sweeper",
  target: "ended",
  ended_reason: "idle",
  status: "cancelled",
  stop_reason: "idle",
};
/** The sweeper's end of an agent whose message went unanswered for too long. */
export const MAX_AGE_END: VerbInput<"settle"> = {
  authority: "sweeper",
  target: "ended",
  ended_reason: "failed",
  status: "failed",
  stop_reason: "max_age",
};

/** What a run asks; the ids of its questions are `1/<name>`. */
export function questionsOf(
  epoch: number,
  names: readonly string[] = ["a"],
  answerMs = 60_000,
): VerbInput<"ask"> {
  const questions = names.map(
    (name) => [`1/${name}`, '{"v":1,"name":"ask_parent"}', `${name}?`, ""] as const,
  );
  return { epoch, known: 0, running_ms: 5, answer_ms: answerMs, questions, ...partsOf(bodyOf("so far")) };
}

/** What `send` is given for a message of this text; its digest is the text. */
export function sentOf(text: string, messageId: string = newRequestKey(), digest = text): VerbInput<"send"> {
  return { message_id: messageId, payload: JSON.stringify(messageOf(text, messageId)), digest };
}

/** A message in stored form. */
export function messageOf(text: string, messageId: string = newRequestKey()): InboxMessage {
  return { v: PAYLOAD_VERSION, message_id: messageId, text };
}

/** See the file's sentence. */
export interface Rig {
  prefix: string;
  redis: RedisClient;
  keys: Keys;
  store: AgentStore;
  /** The same with the durations of production: what it writes is not over before the test is. */
  patient: AgentStore;
  deadlines: DeadlineSet;
  replies: ReplyStream;
  parent: ParentAddress;
  address(): AgentAddress;
  spawn(options?: {
    name?: string;
    requestKey?: string;
    idleMs?: number;
    digest?: string;
  }): Promise<AgentAddress>;
  send(agent: AgentAddress, text: string, messageId?: string): ReturnType<AgentStore["send"]>;
  /** A spawned agent with one message, whose id is the agent's, not claimed yet. */
  queued(options?: { idleMs?: number }): Promise<AgentAddress>;
  /** An agent whose first run is held by a worker with this epoch. */
  running(options?: { idleMs?: number }): Promise<{ agent: AgentAddress; epoch: number }>;
  claim(agent: AgentAddress, claimId?: string, isolation?: "own_worker"): Promise<number>;
  /** The holder of a {@link queued} agent takes its message from the inbox into the log, which is empty, with what `more` says. */
  readFirst(
    agent: AgentAddress,
    epoch: number,
    more?: Partial<VerbInput<"append">>,
  ): ReturnType<AgentStore["append"]>;
  /** An agent that waits for the answers to the questions `1/<name>`. */
  waiting(names?: readonly string[], answerMs?: number): Promise<{ agent: AgentAddress; epoch: number }>;
  /** The record as Redis holds it. */
  /** Makes the agent's unanswered message older than it may get. */
  age(agent: AgentAddress): Promise<void>;
  raw(agent: AgentAddress): Promise<Record<string, string>>;
  redisNow(): Promise<number>;
  /** Resolves when Redis' own clock has reached `at` (epoch ms). */
  redisReaches(at: number): Promise<void>;
  /** Every key under the prefix with its content; equal before and after means nothing changed. */
  everything(): Promise<Record<string, unknown>>;
}

/** A connection to the shared server, or to the server at `url`, closed at the end of the test. */
export function connected(url = redisUrl()): RedisClient {
  const redis = openRedis(url, "worker");
  closeAtEnd(() => closeRedis(redis));
  return redis;
}

/** A rig on the shared server, on the server at `url`, or on a connection that several rigs share. */
export function verbRig(
  options: { timing?: Partial<Timing>; url?: string; redis?: RedisClient; prefix?: string } = {},
): Rig {
  const { prefix = uniquePrefix() } = options;
  const redis = options.redis ?? connected(options.url);
  const keys = keysUnder(prefix);
  const timing = { ...TIMING, ...options.timing };
  const parent = { tenant: "default", parentId: "planner-7" };
  const store = createAgentStore(redis, keys, timing);
  const rig: Rig = {
    prefix,
    redis,
    keys,
    store,
    patient: createAgentStore(redis, keys),
    deadlines: createDeadlineSet(redis, keys, timing),
    replies: createReplyStream(redis, keys, timing),
    parent,
    address: () => ({ ...parent, uid: newUid() }),
    async spawn({ name = "Researcher", requestKey = newRequestKey(), idleMs = IDLE_MS, digest = "d" } = {}) {
      const agent = rig.address();
      const input = {
        request_key: requestKey,
        digest,
        stem: slugOf(name),
        name,
        spec: JSON.stringify(SPEC),
        idle_ms: idleMs,
      };
      const answer = await store.spawn(agent, input);
      if (answer.status !== "spawned") throw new Error(`not spawned: ${JSON.stringify(answer)}`);
      return agent;
    },
    send: (agent, text, messageId) => store.send(agent, sentOf(text, messageId)),
    async queued(given) {
      const agent = await rig.spawn(given);
      await rig.send(agent, "look", agent.uid);
      return agent;
    },
    async running(given) {
      const agent = await rig.queued(given);
      return { agent, epoch: await rig.claim(agent) };
    },
    async claim(agent, claimId = newRequestKey(), isolation) {
      const answer = await store.claim(agent, { claim_id: claimId, worker: "worker-1", isolation });
      if (answer.status !== "claimed") throw new Error(`not claimed: ${JSON.stringify(answer)}`);
      return answer.epoch;
    },
    readFirst: (agent, epoch, more) =>
      store.append(agent, {
        epoch,
        known: 0,
        running_ms: 1,
        entries: [["0", "{}"]],
        consume_to: 1,
        consume_last: agent.uid,
        ...more,
      }),
    async waiting(names, answerMs) {
      const held = await rig.running();
      const answer = await store.ask(held.agent, questionsOf(held.epoch, names, answerMs));
      if (answer.status !== "asked") throw new Error(`not asked: ${JSON.stringify(answer)}`);
      return held;
    },
    async age(agent) {
      await redis.hset(keys.agent(agent).record, "unanswered_since", "1");
    },
    raw: (agent) => redis.hgetall(keys.agent(agent).record),
    async redisNow() {
      const [seconds, micros] = await redis.time();
      return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
    },
    async redisReaches(at) {
      await until(async () => (await rig.redisNow()) >= at, { everyMs: 1, what: `Redis to reach ${at}` });
    },
    async everything() {
      const names = (await keysLike(redis, `*${prefix}*`)).sort();
      const contents = await Promise.all(names.map((name) => contentOf(redis, name)));
      return Object.fromEntries(
        names.flatMap((name, i) => (contents[i] === null ? [] : [[name, contents[i]]])),
      );
    },
  };
  return rig;
}

/** A key's content, or null when it has run out meanwhile. */
async function contentOf(redis: RedisClient, key: string): Promise<unknown> {
  switch (await redis.type(key)) {
    case "hash":
      return redis.hgetall(key);
    case "list":
      return redis.lrange(key, 0, -1);
    case "stream":
      return redis.xrange(key, "-", "+");
    case "set":
      return (await redis.smembers(key)).sort();
    case "zset":
      return redis.zrange(key, 0, -1, "WITHSCORES");
    default:
      return redis.get(key);
  }
}
