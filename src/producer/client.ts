/**
 * A client: what any number of parents in one process share.
 *
 * Owns: the command connection and the subscriber, and the time at which they are opened and closed. Its neighbour
 * `parent.ts` owns what is asked over them; Redis owns all state.
 *
 * 1. Two connections at most, however many parents, readers and waiters there are.
 * 2. Nothing is opened before the first use or {@link Client.start}; after {@link Client.stop} nothing is left open.
 */
import { z } from "zod";
import { type Clock, systemClock } from "../shared/clock.ts";
import { messageOf, SubagentError } from "../shared/errors.ts";
import { createLogger, type Logger } from "../shared/logger.ts";
import { keysUnder } from "../shared/protocol/keys.ts";
import { LimitsWish } from "../shared/protocol/limits.ts";
import { PriceOverrides } from "../shared/protocol/pricing.ts";
import { TIMING, type Timing } from "../shared/protocol/timing.ts";
import { BASE_TOOLS } from "../shared/protocol/worker.ts";
import { type AgentStore, createAgentStore } from "../shared/redis/agent-store.ts";
import { refuseClusterNode } from "../shared/redis/connection.ts";
import { createDeadlineSet, type DeadlineSet } from "../shared/redis/deadline-set.ts";
import { createPause, type Pause, PauseReason, type PauseState } from "../shared/redis/pause.ts";
import { createReplyStream, type ReplyStream } from "../shared/redis/reply-stream.ts";
import { createWakeQueue, type WakeQueue } from "../shared/redis/wake-queue.ts";
import { createWorkerDirectory } from "../shared/redis/worker-directory.ts";
import { parseRedisUrl } from "../shared/redis-url.ts";
import { DEFAULT_PREFIX } from "../shared/variables.ts";
import { beginCall, CALL_BUDGET_MS, type Call } from "./call.ts";
import { readInput } from "./input.ts";
import { openLink } from "./link.ts";
import { ModelId, type OperatorDefaults } from "./profile.ts";
import { createReplyInbox, type ReplyInbox } from "./reply-inbox.ts";
import { createServerGate, type ServerGate } from "./server-gate.ts";
import { createSubscriber, type Subscriber } from "./subscriber.ts";

/** How a client is set up. */
export interface ClientOptions {
  /**
   * `redis://[user:password@]host[:port][/db]`, `rediss://…` or `unix:///path/to/redis.sock`; for a cluster
   * `redis+cluster://[user:password@]host:port[,host:port…]` or `rediss+cluster://…`, with some of its nodes.
   */
  redisUrl: string;
  /** Separates installations on one Redis; 1 to 32 characters of `A-Za-z0-9._-`, default `saq`. */
  prefix?: string;
  /** Default: silent. Failures reach the caller as errors in any case. */
  logger?: Logger;
  clock?: Clock;
  /** Durations of the protocol; every process of one installation uses the same. */
  timing?: Timing;
  /** Host directory of all workspaces, on a volume shared with the workers: for `files` and `readFile` of a parent. */
  workspaceRoot?: string;
  /** Model of parents that name none. */
  model?: string;
  /** The operator's own prices by model id, USD per million tokens. */
  prices?: PriceOverrides;
  /** Production mode: nothing is spawned or sent on a Redis that may lose it (`invalid_config`). Default false. */
  strict?: boolean;
  /** The operator's limits: replace the defaults of spawn and task, and no caller gets beyond them. */
  limits?: LimitsWish;
}

/** See the module's header. */
export interface Client {
  /**
   * Opens the connections and waits for Redis, at most a second. Calling it is optional: the first use opens them too.
   * Rejects with `redis_unavailable` (the client goes on trying to connect), `closed`, or `invalid_config` when the URL
   * names one node of a cluster as if it were a server, or, with `strict`, a Redis that may lose accepted work. Idempotent.
   */
  start(): Promise<void>;
  /** Closes the connections; readers end, waiters reject with `closed`. Agents are not touched. Idempotent. */
  stop(): Promise<void>;
  /**
   * "Stop spending now": no worker of the installation begins a model call or takes a run until {@link Client.resume}; calls
   * in flight may still end. Spawns and messages are still accepted. Resolves to what stands: of two operators the first
   * one's word. `reason`: 1 to 500 characters. Rejects with `invalid_input`, `redis_unavailable`, `outcome_unknown`.
   */
  pause(reason?: string): Promise<PauseState>;
  /** Goes on within about a second; resolves to what stood, undefined when nothing was paused. Rejects as `pause` does. */
  resume(): Promise<PauseState | undefined>;
  /** What the parents of this client work with, opened on first use. Throws `closed` after {@link Client.stop}. */
  open(): OpenClient;
  /** What the operator set for all parents. */
  readonly operator: OperatorDefaults;
}

/** The opened parts of a client, for the rooms of the producer. */
export interface OpenClient {
  readonly store: AgentStore;
  readonly deadlines: DeadlineSet;
  readonly wakes: WakeQueue;
  readonly replies: ReplyStream;
  readonly inbox: ReplyInbox;
  readonly subscriber: Subscriber;
  readonly prices: PriceOverrides;
  readonly workspaceRoot: string | undefined;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Begins a call: its questions share one second. */
  call(): Call;
  /** What new work passes first. */
  readonly admit: ServerGate;
  readonly pause: Pause;
  /** Every tool that some live worker has, at most five seconds old; `wanted` spares the look where it can. */
  knownTools(call: Call, wanted: readonly string[]): Promise<ReadonlySet<string>>;
}

const DIRECTORY_FRESH_MS = 5_000;
const Prefix = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$/, "1 to 32 characters of A-Za-z0-9._-");
const Settings = z.object({
  prefix: Prefix.optional(),
  model: ModelId.optional(),
  prices: PriceOverrides.default({}),
  limits: LimitsWish.default({}),
});

/** Makes a client; connects to nothing yet. Throws `invalid_config` or `invalid_input` on wrong options. */
export function createClient(options: ClientOptions): Client {
  parseRedisUrl(options.redisUrl);
  const { prefix, model, prices, limits } = readInput(Settings, options, "createClient");
  const settings = { ...options, prefix, prices };
  let opened: ReturnType<typeof openParts> | undefined;
  let stopped = false;

  const open = () => {
    if (stopped) throw new SubagentError("closed", "This client was stopped: make a new one.");
    opened ??= openParts(settings);
    return opened;
  };
  const operate = <T>(what: string, work: () => Promise<T>) =>
    open()
      .parts.call()
      .write({ what, key: { prefix: prefix ?? DEFAULT_PREFIX } }, work);
  return {
    operator: { limits, ...(model !== undefined && { model }) },
    open: () => open().parts,
    async pause(reason) {
      const checked = readInput(PauseReason.optional(), reason, "pause");
      const { pause } = open().parts;
      return operate("the pause", () => pause.pause(checked));
    },
    async resume() {
      const { pause } = open().parts;
      return operate("the resume", () => pause.resume());
    },
    async start() {
      await reach(open());
    },
    async stop() {
      stopped = true;
      const ending = opened;
      opened = undefined;
      await ending?.close();
    },
  };
}

/** Waits for Redis, and looks at what it is. */
async function reach({ link, parts }: ReturnType<typeof openParts>): Promise<void> {
  const call = parts.call();
  const ready = await Promise.all([link.whenReady(CALL_BUDGET_MS), parts.subscriber.start(CALL_BUDGET_MS)]);
  if (!ready.every(Boolean)) {
    const why = link.problem && ` (${link.problem})`;
    const sentence = `Redis cannot be reached${why}: start it, or correct its address.`;
    throw new SubagentError("redis_unavailable", sentence);
  }
  await call.read(() => refuseClusterNode(link.redis));
  await parts.admit(call);
}

function openParts({ redisUrl, prefix, prices, ...options }: ClientOptions & { prices: PriceOverrides }) {
  const { clock = systemClock, logger = createLogger({ level: "silent" }), timing = TIMING } = options;
  const keys = keysUnder(prefix);
  const link = openLink(redisUrl, "producer", clock, logger);
  const subscriber = createSubscriber(() => openLink(redisUrl, "subscriber", clock, logger), clock);
  const store = createAgentStore(link.redis, keys, timing);
  const replies = createReplyStream(link.redis, keys, timing, logger);
  const wakes = createWakeQueue(link.redis, keys, logger);
  const call = () => beginCall(link, clock);
  const inbox = createReplyInbox({ store, replies, subscriber, keys, call, logger });
  link.onReady(() => inbox.look());
  const directory = createWorkerDirectory(link.redis, keys);
  let seen: { tools: ReadonlySet<string>; at: number } | undefined;
  const parts: OpenClient = {
    store,
    deadlines: createDeadlineSet(link.redis, keys, timing),
    wakes,
    replies,
    inbox,
    subscriber,
    prices,
    workspaceRoot: options.workspaceRoot,
    logger,
    clock,
    call,
    pause: createPause(link.redis, keys),
    admit: createServerGate(link.redis, options.strict ?? false),
    async knownTools(asking, wanted) {
      const base: readonly string[] = BASE_TOOLS;
      if (wanted.every((tool) => base.includes(tool))) return new Set(base);
      if (!seen || clock.monotonicMs() - seen.at > DIRECTORY_FRESH_MS) {
        const workers = await asking.read(() => directory.list());
        seen = { tools: new Set([...base, ...workers.flatMap((w) => w.tools)]), at: clock.monotonicMs() };
      }
      return seen.tools;
    },
  };
  const close = async () => {
    inbox.stop();
    subscriber.stop();
    link.close();
    await wakes
      .stop()
      .catch((error) => logger.debug({ problem: messageOf(error) }, "closing the queue failed"));
  };
  return { link, parts, close };
}
