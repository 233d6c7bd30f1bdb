/**
 * The open resources of a client: the command connection, the subscriber, the installation, the calls, and the profile cache.
 * The module is loaded when a client is first used, so that importing the package stays cheap: other modules import only its
 * types.
 */
import { type Clock, systemClock } from "../shared/clock.ts";
import { DEFAULT_PREFIX } from "../shared/config.ts";
import { messageOf, SubagentError } from "../shared/errors.ts";
import { createLine, linesByKey, type RunInLine } from "../shared/event-loop.ts";
import { createLogger, type Logger } from "../shared/logger.ts";
import { isoTime } from "../shared/protocol/agent.ts";
import { type ParentAddress, parentMember } from "../shared/protocol/keys.ts";
import type { Budgets, LimitsInput, Timing } from "../shared/protocol/limits.ts";
import { jsonIn } from "../shared/protocol/text.ts";
import type { PriceOverrides } from "../shared/protocol/usage.ts";
import { BASE_TOOLS } from "../shared/protocol/worker.ts";
import type { AgentStore } from "../shared/redis/agent-store.ts";
import { inOneFlight, type RedisClient, refuseWrongServer } from "../shared/redis/connection/connection.ts";
import { checkServers, serverRefusal } from "../shared/redis/connection/server-check.ts";
import { type Installation, openInstallation } from "../shared/redis/installation.ts";
import { createPause, type Pause, PauseReason, type SteppedPause } from "../shared/redis/pause.ts";
import { luaSource } from "../shared/redis/scripts.ts";
import { stepsOf } from "../shared/redis/steps.ts";
import { readParents } from "../shared/redis/survey.ts";
import { ProfileInput, type RegisteredProfile, readInput, UNREGISTERED } from "./input.ts";
import {
  CALL_BUDGET_MS,
  type Connection,
  createRedisCalls,
  openConnection,
  type RedisCall,
  type RedisCalls,
  type RunRead,
} from "./redis-call.ts";
import { createReplyChannels, type ReplyChannels } from "./replies/client-channels.ts";
import { createSubscriber, type Subscriber } from "./subscriber.ts";
import { type TaskWaits, watchTaskWaits } from "./task-wait-reasons.ts";

/** Options of a client. */
export interface ClientOptions {
  /**
   * `redis://[user:password@]host[:port][/db]`, `rediss://…[?ca=/path&cert=/path&key=/path]` or `unix:///path/to/redis.sock`; for a cluster
   * `redis+cluster://[user:password@]host:port[,host:port…]` or `rediss+cluster://…`, with some of its nodes.
   */
  redisUrl: string;
  /** Prefix of all keys, separates installations on one Redis; 1 to 32 characters of `A-Za-z0-9._-`, default `saq`. */
  prefix?: string;
  /**
   * Default: silent, except for a process warning (`SUBAGENT_NO_WORKER`) if tasks wait and no worker is live. The caller gets
   * failures as errors in any case.
   */
  logger?: Logger;
  clock?: Clock;
  /** Durations of the protocol; every process of one installation must use the same. */
  timing?: Timing;
  /** Host directory of all workspaces, on a volume shared with the workers: for `files` and `readFile` of a parent. */
  workspaceRoot?: string;
  /** Model of parents that name none; a function is called at each spawn and returns undefined if no model is known yet. */
  model?: string | (() => string | undefined);
  /** The operator's own prices by model id, USD per million tokens. */
  prices?: PriceOverrides;
  /**
   * Folders of agent definitions (markdown files with front matter), read again when they change. If several folders have the
   * same name, the first one counts. It also replaces one of the package (`explorer`, `code-reviewer`) that has its name.
   */
  agents?: readonly string[];
  /** Model ids by common name; they override Anthropic's `haiku`, `sonnet` and `opus`. */
  models?: Readonly<Record<string, string>>;
  /** Production mode: refuses spawns and messages on a Redis that may lose them (`invalid_config`). Default false. */
  strict?: boolean;
  /** The operator's limits: they replace the defaults of spawn and task, and no caller can exceed them. */
  limits?: LimitsInput;
  /** The operator's budgets: `agent` and `parent` bind each agent and parent, `tenant` all parents of a tenant together. */
  budgets?: Budgets;
}

/** A parent and its last activity: spawn, send, answer or finish. `active_at`: ISO 8601, Redis' clock. */
export interface ActiveParent {
  parent_id: string;
  tenant: string;
  active_at: string;
}

/**
 * The tools of all live workers that have announced themselves. `areAll`: there is one, and none may be about to come back, so no
 * worker has a tool that is not in `names`.
 */
export interface KnownTools {
  names: ReadonlySet<string>;
  areAll: boolean;
}

/**
 * A client's cache of registered profiles, so that a spawn need not read the profile first: the script compares the
 * versions, and a spawn under an older version is sent again.
 */
interface ProfileCache {
  /** Returns the cached profile; undefined: none, or it was dropped to keep the cache small. */
  known(parent: ParentAddress): RegisteredProfile | undefined;
  /** Caches a profile that Redis returned. Throws `protocol_violation` if a newer version of the package registered it. */
  learn(
    parent: ParentAddress,
    stored: { profile_version: number; content?: string | undefined },
  ): RegisteredProfile;
  /** Reads the profile from Redis. Rejects as the call does, and as {@link ProfileCache.learn} throws. */
  read(call: RedisCall, parent: ParentAddress): Promise<RegisteredProfile>;
}

/** See the module's header. */
export interface ClientResources extends Omit<Installation, "pause">, RedisCalls {
  readonly pause: Pause;
  readonly channels: ReplyChannels;
  readonly profiles: ProfileCache;
  readonly subscriber: Subscriber;
  readonly taskWaits: TaskWaits;
  readonly workspaceRoot: string | undefined;
  readonly logger: Logger;
  readonly clock: Clock;
  /**
   * Returns the reads of single pages, those that a tenant's requests ask for once; few of them run at a time: a page of replies may have
   * megabytes, and hundreds of them would fill the connection that all calls share, until no answer came in time.
   */
  singlePageLineOf(tenant: string): RunRead;
  /**
   * Returns the line of a tenant's lists of files: a list opens up to 10,000 files, seconds of work for the threads that all file
   * accesses of this process share.
   */
  listingLineOf(tenant: string): RunInLine;
  /** Runs `send`; the commands that it sends synchronously leave in one packet, in order. Not on a cluster. */
  inOneFlight<T>(send: () => T): T;
  /**
   * Returns the line of a tenant's readers in the background that follow events. It reads few pages at a time: each costs this process
   * some milliseconds, a parent may have many readers, and while Redis is away each page takes a whole deadline.
   */
  eventLineOf(tenant: string): RunInLine;
  /** Registers work that no caller awaits and that never rejects; `close` waits for it, at most a second. */
  inBackground(work: Promise<unknown>): void;
  /** With `strict`, rejects with `invalid_config` on a Redis that may lose new work; checks once per connection. */
  requireDurable(call: RedisCall): Promise<void>;
  /**
   * Returns the workers' tools, cached for 5 s; for 200 ms if one of `wanted` is missing, because a worker with it may have come
   * since. Does not read Redis if `wanted` are all base tools.
   */
  knownTools(call: RedisCall, wanted: readonly string[]): Promise<KnownTools>;
  /** Returns the parents that were active since `sinceMs` (epoch ms), the last active first. */
  parentsSince(sinceMs: number): Promise<ActiveParent[]>;
  /** Waits for Redis and checks the server. Rejects as `Client.start` does. */
  reach(): Promise<void>;
  /** Closes everything; readers end and waiters reject as {@link ReplyChannels.stop} says. Idempotent. */
  close(): Promise<void>;
}

/** Number of each kind that one tenant has at a time: calls for single pages, lists, pages of readers that follow events. */
const SINGLE_PAGES_AT_A_TIME = 2;
const LISTINGS_AT_A_TIME = 2;
const EVENT_PAGES_AT_A_TIME = 2;

/** Opens a client's resources; connects in the background. */
export function openClientResources(options: ClientOptions): ClientResources {
  const { redisUrl, clock = systemClock, workspaceRoot, strict = false } = options;
  const { logger = createLogger({ level: "silent" }) } = options;
  const connection = openConnection(redisUrl, "producer", clock, logger);
  const subscriber = createSubscriber(() => openConnection(redisUrl, "subscriber", clock, logger), clock);
  const installation = openInstallation(connection.redis, { ...options, logger });
  const calls = createRedisCalls(connection);
  const { call, read } = calls;
  const channels = createReplyChannels({ ...installation, ...calls, subscriber, logger });
  const requireDurable = durabilityCheck(connection.redis, strict);
  const background = openBackground(clock);
  connection.onReady(() => loadFirst(connection.redis));
  return {
    ...installation,
    channels,
    profiles: knownProfiles(installation.store),
    subscriber,
    taskWaits: watchTaskWaits({ ...installation, clock, logger: options.logger, read }),
    workspaceRoot,
    logger,
    clock,
    ...calls,
    singlePageLineOf: linesByKey(() => createRedisCalls(connection, SINGLE_PAGES_AT_A_TIME).read),
    listingLineOf: linesByKey(() => createLine(LISTINGS_AT_A_TIME)),
    pause: pauseByCalls(installation, calls, options),
    inOneFlight: (send) => inOneFlight(connection.redis, send),
    eventLineOf: linesByKey(() => createLine(EVENT_PAGES_AT_A_TIME)),
    inBackground: background.add,
    requireDurable,
    knownTools: toolDirectory(installation, clock),
    parentsSince: (sinceMs) => read(() => activeParents(installation, sinceMs)),
    async reach() {
      const ready = [connection.whenReady(CALL_BUDGET_MS), subscriber.start(CALL_BUDGET_MS)];
      if ((await Promise.all(ready)).includes(false)) throw unreachable(connection);
      await call(async (each) => {
        await each.read(() => refuseWrongServer(connection.redis));
        await requireDurable(each);
      });
    },
    async close() {
      channels.stop();
      await background.settled(CALL_BUDGET_MS);
      subscriber.stop();
      connection.close();
      const failed = (error: unknown) =>
        logger.debug({ problem: messageOf(error) }, "closing the queue failed");
      await Promise.all([installation.wakes.stop(), installation.intakeQueue.stop()]).catch(failed);
    },
  };
}

/**
 * Loads the scripts of a spawn on a new connection. Otherwise Redis could miss one script of a flight, and the client would
 * send it again after the commands that should follow it: Redis 7.4 and later evict scripts that came with EVAL.
 */
function loadFirst(redis: RedisClient): void {
  if (redis.isCluster) return;
  for (const verb of ["deadline-hint", "spawn"] as const)
    redis.script("LOAD", luaSource(verb)).catch(() => {});
}

/** Creates the set of work that no caller awaits; `settled` resolves when all of it is over, at the latest after `ms`. */
function openBackground(clock: Clock) {
  const underWay = new Set<Promise<unknown>>();
  return {
    add(work: Promise<unknown>) {
      underWay.add(work);
      work.finally(() => underWay.delete(work));
    },
    settled(ms: number): Promise<void> {
      if (underWay.size === 0) return Promise.resolve();
      return new Promise((resolve) => {
        const timer = clock.timeout(ms, resolve);
        Promise.allSettled(underWay).then(() => {
          timer.cancel();
          resolve();
        });
      });
    },
  };
}

/** Returns the pause with checked input and each change as one call. */
function pauseByCalls(
  { redis, keys, pause }: Installation,
  { call, read }: RedisCalls,
  { prefix = DEFAULT_PREFIX, clock }: ClientOptions,
): Pause {
  const { known } = createPause(redis, keys, clock);
  const operate = <T>(what: string, work: (pausing: SteppedPause) => Promise<T>) =>
    call((each) => work(createPause(redis, keys, clock, stepsOf(each, { what, key: { prefix } }))));
  return {
    async pause(reason) {
      const checked = readInput(PauseReason.optional(), reason, "pause");
      const inForce = await operate("the pause", (pausing) => pausing.begin(checked));
      await known();
      return inForce;
    },
    resume: () => operate("the resume", (pausing) => pausing.resume()),
    state: () => read(pause.state),
  };
}

/** Returns the error for a Redis that refused the connection or did not answer in time. */
function unreachable({ problem, closed }: Connection): SubagentError {
  if (closed) return new SubagentError("closed", "This client was stopped: make a new one.");
  return new SubagentError(
    "redis_unavailable",
    problem === ""
      ? `Redis has not answered within ${CALL_BUDGET_MS} ms and did not refuse the connection: Redis, the network or this machine is busy; start again.`
      : `Redis cannot be reached (${problem}): start it, or correct its address.`,
  );
}

/** Returns a check of the server that runs once per connection; without `strict` it accepts every server. */
function durabilityCheck(redis: RedisClient, strict: boolean): ClientResources["requireDurable"] {
  if (!strict) return async () => {};
  let hasPassed = false;
  redis.on("close", () => {
    hasPassed = false;
  });
  return async (call) => {
    if (hasPassed) return;
    const refusal = serverRefusal(await call.read(() => checkServers(redis)), strict);
    if (refusal) throw refusal;
    hasPassed = true;
  };
}

async function activeParents({ redis, keys }: Installation, sinceMs: number): Promise<ActiveParent[]> {
  const found = await readParents(redis, keys, sinceMs);
  return found.map(({ parent, activeAtMs }) => ({
    parent_id: parent.parentId,
    tenant: parent.tenant,
    active_at: isoTime(activeAtMs),
  }));
}

/** Age, ms, from which the workers' tools are read again. */
const DIRECTORY_FRESH_MS = 5_000;
/** The same where a wanted tool is missing. */
const LACKING_FRESH_MS = 200;

function toolDirectory({ workers }: Installation, clock: Clock): ClientResources["knownTools"] {
  const base: readonly string[] = BASE_TOOLS;
  let seen: { tools: KnownTools; atMs: number } | undefined;
  return async (call, wanted) => {
    if (wanted.every((tool) => base.includes(tool))) return { names: new Set(base), areAll: true };
    const hasAll = wanted.every((tool) => seen?.tools.names.has(tool));
    const freshMs = hasAll ? DIRECTORY_FRESH_MS : LACKING_FRESH_MS;
    if (!seen || clock.monotonicMs() - seen.atMs > freshMs) {
      const live = await call.read(() => workers.list());
      const names = new Set([...base, ...live.flatMap((worker) => worker.tools)]);
      const areAll = live.length > 0 && !live.some(({ returned }) => returned);
      seen = { tools: { names, areAll }, atMs: clock.monotonicMs() };
    }
    return seen.tools;
  };
}

/** Bounds of the cache: parents, and characters of their profiles. The oldest are dropped first, and never the newest. */
const MOST_KNOWN = 10_000;
const MOST_KNOWN_CHARS = 2 * 1024 * 1024;

function knownProfiles(store: AgentStore): ProfileCache {
  const seen = new Map<string, { registered: RegisteredProfile; chars: number }>();
  let chars = 0;
  const forget = (member: string) => {
    chars -= seen.get(member)?.chars ?? 0;
    seen.delete(member);
  };
  const remember = (parent: ParentAddress, registered: RegisteredProfile, content = "") => {
    const member = parentMember(parent);
    forget(member);
    seen.set(member, { registered, chars: content.length });
    chars += content.length;
    for (const oldest of seen.keys()) {
      const isWithin = seen.size <= MOST_KNOWN && chars <= MOST_KNOWN_CHARS;
      if (isWithin || oldest === member) break;
      forget(oldest);
    }
    return registered;
  };
  const profiles: ProfileCache = {
    known: (parent) => seen.get(parentMember(parent))?.registered,
    learn: (parent, { profile_version, content }) =>
      remember(
        parent,
        content === undefined ? UNREGISTERED : { version: profile_version, profile: profileIn(content) },
        content,
      ),
    async read(call, parent) {
      const stored = await call.read(() => store.profile(parent));
      return stored ? profiles.learn(parent, stored) : remember(parent, UNREGISTERED);
    },
  };
  return profiles;
}

/** Parses a registered profile. Throws if this version cannot read it, because it would not enforce all of its rules. */
function profileIn(content: string): RegisteredProfile["profile"] {
  const read = ProfileInput.safeParse(jsonIn(content));
  if (read.success) return read.data;
  throw new SubagentError(
    "protocol_violation",
    "The registered profile of this parent cannot be read: a newer version wrote it; upgrade this process, or register it again.",
  );
}
