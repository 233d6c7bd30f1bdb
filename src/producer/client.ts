/**
 * A client: the connections that any number of parents in one process share.
 *
 * Owns: when its connections are opened and closed. Its neighbours: `client-resources.ts` holds the open resources,
 * `parent.ts` makes the calls over them; Redis owns all state.
 *
 * 1. Two connections at most, however many parents, readers and waiters there are.
 * 2. Nothing is loaded or opened before the first use or {@link Client.start}; after {@link Client.stop} nothing is left
 *    open.
 */
import { z } from "zod";
import { CLOCK_FORM, isClock, systemClock } from "../shared/clock.ts";
import { SubagentError } from "../shared/errors.ts";
import { guardedLogger, isLogger, LOGGER_FORM } from "../shared/logger.ts";
import type { Definitions } from "../shared/protocol/definition.ts";
import { Prefix } from "../shared/protocol/ids.ts";
import { Budgets, isTiming, LimitsInput, TIMING_FORM } from "../shared/protocol/limits.ts";
import { PriceOverrides } from "../shared/protocol/usage.ts";
import type { PauseState } from "../shared/redis/pause.ts";
import { parseRedisUrl } from "../shared/redis-url.ts";
import { telemetryApi } from "../shared/telemetry.ts";
import type { ActiveParent, ClientOptions, ClientResources } from "./client-resources.ts";
import { openDefinitions } from "./definitions/folders.ts";
import { ModelId, type OperatorDefaults, readInput, readOptions } from "./input.ts";

/** See the module's header. */
export interface Client {
  /**
   * Loads the Redis modules (some 200 ms, once a process), opens the connections and waits for Redis, at most a second.
   * Calling it is optional: the first use does the same.
   * Rejects with `redis_unavailable` (the client keeps trying to connect), `closed`, or `invalid_config`: the URL names one
   * node of a cluster as if it were a single server, or, with `strict`, the Redis may lose accepted work. Idempotent.
   */
  start(): Promise<void>;
  /** Closes the connections; readers end, waiters reject with `closed`. Agents go on. Idempotent. */
  stop(): Promise<void>;
  /**
   * Stops spending now: no worker of the installation begins a model call or claims a run until {@link Client.resume}; calls
   * in flight may still end. Spawns and messages are still accepted. Resolves to the pause in force: if the installation is
   * paused already, the first reason is kept. `reason`: 1 to 500 characters. Rejects with `invalid_input`,
   * `redis_unavailable`, `outcome_unknown`.
   */
  pause(reason?: string): Promise<PauseState>;
  /**
   * Returns the parents that were active since `since`, the last active first. They come from an index, which may be
   * incomplete and forgets a parent 90 days after its last activity. Rejects with `invalid_input`, `redis_unavailable`.
   */
  parents(options?: { since?: Date | string }): Promise<ActiveParent[]>;
  /** Returns the agent definitions that a spawn may name (`agent: "explorer"`), and the invalid files with their lines. */
  definitions(): Definitions;
  /** Ends the pause: workers go on within about a second. Resolves to the ended pause, if any. Rejects as `pause` does. */
  resume(): Promise<PauseState | undefined>;
}

/** The internals of a client. */
export interface ClientInternals {
  /** The operator's settings for all parents. */
  readonly operator: OperatorDefaults;
  /** Returns the open resources; opens them on first use. Rejects with `closed` after {@link Client.stop}. */
  open(): Promise<ClientResources>;
}

const internals = new WeakMap<Client, ClientInternals>();

/** Returns the internals of a client made by {@link createClient}. Throws `invalid_config` for any other object. */
export function internalsOf(client: Client): ClientInternals {
  const inside = internals.get(client);
  if (inside) return inside;
  throw new SubagentError(
    "invalid_config",
    "This is no client of this copy of subagent-queue: make it with createClient.",
  );
}

const ParentsInput = z.strictObject({ since: z.coerce.date().min(new Date(0)).default(new Date(0)) });
const Settings = z.strictObject({
  redisUrl: z.string(),
  prefix: Prefix.optional(),
  model: z
    .union([ModelId, z.custom<() => string | undefined>((value) => typeof value === "function")])
    .optional(),
  prices: PriceOverrides.default({}),
  limits: LimitsInput.default({}),
  budgets: Budgets.default({}),
  models: z.record(z.string(), ModelId).default({}),
  agents: z.array(z.string().min(1)).max(32).default([]),
  workspaceRoot: z.string().min(1).optional(),
  strict: z.boolean().optional(),
  logger: z.custom(isLogger, `must be ${LOGGER_FORM}`).optional(),
  clock: z.custom(isClock, `must be ${CLOCK_FORM}`).optional(),
  timing: z.custom(isTiming, `must be ${TIMING_FORM}`).optional(),
});

async function openResources(options: ClientOptions): Promise<ClientResources> {
  const [{ openClientResources }] = await Promise.all([import("./client-resources.ts"), telemetryApi()]);
  const { logger } = options;
  return openClientResources({ ...options, ...(logger && { logger: guardedLogger(logger) }) });
}

/** Closes what was opened. A failure to open was the answer to the calls that opened; nothing is left to close. */
async function closeOpened(ending: Promise<ClientResources> | undefined): Promise<void> {
  await (await ending?.catch(() => undefined))?.close();
}

/**
 * Creates a client; does not connect yet, and keeps the options as they are now: the caller may make another client's out of the
 * same object. Throws `invalid_config` or `invalid_input` on wrong options.
 */
export function createClient(options: ClientOptions): Client {
  const settings = readInput(Settings, options, "createClient");
  const { prefix, model, prices, limits, budgets, models, agents } = settings;
  parseRedisUrl(settings.redisUrl);
  const own = { ...options, ...(prefix !== undefined && { prefix }) };
  const definitions = openDefinitions(agents, own.clock ?? systemClock);
  let opened: Promise<ClientResources> | undefined;
  let stopping: Promise<void> | undefined;

  /** Opens everything; after a failure the next call tries again. */
  const open = () =>
    openResources(own).catch((error: unknown) => {
      opened = undefined;
      throw error;
    });
  const inside: ClientInternals = {
    operator: {
      ...{ limits, budgets, prices, models, definitions, isModelLookedUp: typeof model === "function" },
      get model() {
        return typeof model === "function" ? model() : model;
      },
    },
    async open() {
      if (stopping) throw new SubagentError("closed", "This client was stopped: make a new one.");
      opened ??= open();
      return opened;
    },
  };
  const client: Client = {
    pause: async (reason) => (await inside.open()).pause.pause(reason),
    async parents(options = {}) {
      const { since } = readOptions(ParentsInput, options, "parents");
      return (await inside.open()).parentsSince(since.getTime());
    },
    definitions: () => definitions.list(),
    resume: async () => (await inside.open()).pause.resume(),
    async start() {
      const { reach } = await inside.open();
      await reach();
    },
    stop() {
      stopping ??= closeOpened(opened);
      return stopping;
    },
  };
  internals.set(client, inside);
  return client;
}
