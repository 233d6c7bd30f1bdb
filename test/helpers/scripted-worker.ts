/** A worker for tests of the parent's side: it calls the verbs directly, with the results that the test gives. */
import { type Keys, keysUnder, type ParentAddress } from "../../src/shared/protocol/keys.ts";
import { TIMING, type Timing } from "../../src/shared/protocol/limits.ts";
import { partsOf, type ReplyBody } from "../../src/shared/protocol/reply.ts";
import { type AgentStore, createAgentStore } from "../../src/shared/redis/agent-store.ts";
import { closeRedis, openRedis, type RedisClient } from "../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "./cleanup.ts";
import { until } from "./until.ts";

/** The result of a scripted run. */
export interface Script {
  /** The reply's summary; default: the run's messages, joined by line feeds. */
  summary?: string;
  fullText?: string;
  /** Whether the agent becomes idle instead of ended; default false. */
  keepAlive?: boolean;
  /** A progress message to the parent before the end. */
  interim?: string;
  /** Whether the doorbell of the reply is lost; default false. */
  unheard?: boolean;
}

/** See the module's header. */
export interface ScriptedWorker {
  readonly redis: RedisClient;
  readonly store: AgentStore;
  /** Returns the uid of an agent id, as soon as it is registered. */
  uidOf(agentId: string): Promise<string>;
  /** Waits until the agent is queued, claims it and consumes its messages; `texts`: their texts. */
  claim(agentId: string): Promise<{ uid: string; epoch: number; texts: string[] }>;
  /** Waits until the agent is queued, runs it to its reply, and returns the texts of its messages. */
  run(agentId: string, script?: Script): Promise<string[]>;
  /** Returns the ids of the agents that are queued now. */
  queued(): Promise<string[]>;
}

/** Returns the body of a reply that cost nothing. */
export function bodyOf(summary: string): ReplyBody {
  return {
    summary,
    truncated: false,
    turns: 1,
    tokens: 0,
    usage: {
      input_tokens: 0,
      output_tokens: 0,
      cache_read_input_tokens: 0,
      cache_creation_input_tokens: 0,
    },
    cost_usd: 0,
    tools_called: {},
    alerts: [],
    duration_ms: 1,
    model: "offline-1",
  };
}

/** Returns a scripted worker for one parent's agents. The test's end closes its connection. */
export function scriptedWorker(
  url: string,
  prefix: string,
  parent: ParentAddress,
  timing: Timing = TIMING,
): ScriptedWorker {
  const redis = openRedis(url, "worker");
  closeAtEnd(() => closeRedis(redis));
  const keys = keysUnder(prefix);
  const store = createAgentStore(redis, keys, timing);
  let claims = 0;
  const worker: ScriptedWorker = {
    redis,
    store,
    uidOf: (agentId) => until(() => store.uidOf(parent, agentId), { what: `${agentId} to be registered` }),
    async claim(agentId) {
      const uid = await worker.uidOf(agentId);
      const address = { ...parent, uid };
      claims += 1;
      const claimed = await until(
        async () => {
          const answer = await store.claim(address, { claim_id: `claim-${claims}`, worker: "scripted" });
          return answer.status === "claimed" && answer;
        },
        { what: `${agentId} to be queued` },
      );
      const unread = await store.inbox(address);
      const epoch = claimed.epoch;
      await store.append(address, {
        epoch,
        known: 0,
        running_ms: 0,
        entries: [["0", "{}"]],
        consume_to: unread.length,
        consume_last: unread.at(-1)?.message_id,
        consume_ids: unread.map(({ message_id }) => message_id),
      });
      return { uid, epoch, texts: unread.map((message) => message.text) };
    },
    async run(agentId, { summary, fullText, keepAlive = false, interim, unheard = false } = {}) {
      const { uid, epoch, texts } = await worker.claim(agentId);
      const address = { ...parent, uid };
      const run = (await store.record(address))?.run ?? 0;
      if (interim !== undefined) {
        const entries = [["1", "{}"]] as const;
        await store.append(address, {
          epoch,
          known: 0,
          running_ms: 0,
          entries,
          interim_id: `${uid}.i`,
          interim,
        });
      }
      if (fullText !== undefined) {
        const entries = [["2", "{}"]] as const;
        await store.append(address, {
          epoch,
          known: 0,
          running_ms: 0,
          entries,
          run,
          summary: summary ?? texts.join("\n"),
          whole_text: fullText,
        });
      }
      const settling = unheard ? createAgentStore(redis, withoutDoorbells(keys), timing) : store;
      await settling.settle(address, {
        authority: "worker",
        epoch,
        known: 0,
        run,
        target: keepAlive ? "idle" : "ended",
        ...(!keepAlive && { ended_reason: "completed" as const }),
        status: "succeeded",
        stop_reason: "end_turn",
        natural: true,
        progress: partsOf(bodyOf("")).progress,
        ...(fullText === undefined && { summary: summary ?? texts.join("\n") }),
        idle_ms: 600_000,
      });
      return texts;
    },
    async queued() {
      const uids = await store.liveUids(parent);
      const records = await Promise.all(uids.map((uid) => store.record({ ...parent, uid })));
      return records.flatMap((record) => (record?.status === "queued" ? [record.agent_id] : []));
    },
  };
  return worker;
}

/** Returns the same keys, except that a parent's doorbell channel is one without listeners. */
function withoutDoorbells(keys: Keys): Keys {
  const parent: Keys["parent"] = (of) =>
    Object.defineProperty(keys.parent(of), "doorbell", { value: `${keys.parent(of).doorbell}:unheard` });
  return { ...keys, parent };
}
