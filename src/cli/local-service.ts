/**
 * Redis, model, worker and client of one process, composed.
 *
 * Owns: everything it started, in that order; stops it in the opposite one.
 *
 * 1. Either all of it stands or none: a failure on the way closes what was open.
 * 2. `signal` aborts with the command's own, and when the private Redis is lost; then `lost` says so.
 */

import { setMaxListeners } from "node:events";
import { realpathSync } from "node:fs";
import { createOfflineModel } from "../offline/server.ts";
import { type Client, createClient } from "../producer/client.ts";
import { SubagentError } from "../shared/errors.ts";
import { createAnthropicModel } from "../worker/model/anthropic.ts";
import type { Model } from "../worker/model/model.ts";
import { type OpenRoot, parseRoots } from "../worker/tools/roots.ts";
import { createWorker } from "../worker/worker.ts";
import { type Closing, createClosing } from "./closing.ts";
import type { CommandContext } from "./command.ts";
import { openRedisSource, type RedisSource } from "./redis-source.ts";

/** So long a service whose Redis is lost may take to stop. */
const LOST_STOP_MS = 1_000;

/** A running service. */
export interface LocalService {
  readonly redis: RedisSource;
  readonly client: Client;
  readonly roots: readonly OpenRoot[];
  readonly signal: AbortSignal;
  /** Why the service cannot go on, once it cannot. */
  readonly lost: SubagentError | undefined;
  /** Releases what runs and stops everything; resolves when nothing is left. Idempotent. */
  stop(): Promise<void>;
}

/** Opens a model for the configured provider, or starts the offline one; both end with `closing`. */
export async function openModel(context: CommandContext, closing: Closing): Promise<Model> {
  const { clock, config } = context;
  let { apiKey = "none", baseUrl } = config.provider ?? {};
  if (!config.provider) {
    const offline = createOfflineModel();
    closing.add(() => offline.stop());
    await offline.start();
    apiKey = "offline";
    baseUrl = offline.url;
  }
  const model = createAnthropicModel({ apiKey, clock, ...(baseUrl !== undefined && { baseUrl }) });
  closing.add(() => model.stop());
  return model;
}

/** Starts everything. `opensCwd`: without SUBAGENT_ROOTS the current directory is open to be read. */
export async function startLocalService(context: CommandContext, opensCwd: boolean): Promise<LocalService> {
  const { config, clock, env } = context;
  const closing = createClosing();
  const health = watchHealth(context.signal, closing);
  try {
    const redis = await openRedisSource(config.redisUrl, env.PATH, clock);
    closing.add(() => redis.stop());
    health.watch(redis.gone);
    const roots = rootsOf(context, opensCwd);
    await openWorker(context, redis.url, roots, closing);
    const client = await openClient(context, redis.url, closing);
    return {
      redis,
      client,
      roots,
      signal: health.signal,
      get lost() {
        return health.lost;
      },
      // Without Redis there is nothing to release: what does not stop at once ends with the process.
      stop: () =>
        health.lost ? Promise.race([closing.close(), clock.sleep(LOST_STOP_MS)]) : closing.close(),
    };
  } catch (error) {
    await closing.close();
    throw error;
  }
}

/** Whether the service can go on: a signal that follows `parent` and aborts when what is watched ends too early. */
function watchHealth(parent: AbortSignal, closing: Closing) {
  const stopping = new AbortController();
  setMaxListeners(0, stopping.signal);
  const follow = () => stopping.abort();
  parent.addEventListener("abort", follow, { once: true });
  if (parent.aborted) follow();
  closing.add(() => parent.removeEventListener("abort", follow));
  const health = {
    signal: stopping.signal,
    lost: undefined as SubagentError | undefined,
    watch(gone: Promise<void>) {
      let isClosing = false;
      closing.add(() => {
        isClosing = true;
      });
      void gone.then(() => {
        if (isClosing) return;
        const sentence = "The private Redis ended by itself: start the command again.";
        health.lost = new SubagentError("redis_unavailable", sentence);
        stopping.abort();
      });
    },
  };
  return health;
}

/** Starts a worker with a model of its own; both end with `closing`. */
async function openWorker(
  context: CommandContext,
  redisUrl: string,
  roots: readonly OpenRoot[],
  closing: Closing,
): Promise<void> {
  const { prefix, prices, concurrency, workspaceRoot, trace } = context.config;
  const { logger, clock } = context;
  const model = await openModel(context, closing);
  const parts = { redisUrl, prefix, model, roots, workspaceRoot, concurrency, prices, trace, logger, clock };
  const worker = createWorker(parts);
  closing.add(() => worker.stop());
  await worker.start();
}

/** Opens a client that ends with `closing`. */
async function openClient(context: CommandContext, redisUrl: string, closing: Closing): Promise<Client> {
  const { prefix, prices, limits, model } = context.config;
  const { logger, clock } = context;
  const client = createClient({ redisUrl, prefix, prices, limits, model, logger, clock });
  closing.add(() => client.stop());
  await client.start();
  return client;
}

/** The directories that are open to tools: those of SUBAGENT_ROOTS, else the current one when `opensCwd`. */
export function rootsOf({ config, cwd, output }: CommandContext, opensCwd: boolean): readonly OpenRoot[] {
  if (config.roots === undefined && !opensCwd) return [];
  if (config.roots === undefined && cwd.includes(",")) {
    return [{ path: cwd, realPath: realpathSync(cwd), mode: "ro" }];
  }
  const parsed = parseRoots(config.roots ?? `${cwd}:ro`);
  if ("roots" in parsed) return parsed.roots;
  if (config.roots !== undefined) throw new SubagentError("invalid_config", parsed.problem);
  output.note(`The current directory stays closed to sub-agents: ${parsed.problem}`);
  return [];
}
