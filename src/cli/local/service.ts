/**
 * Composes Redis, model, worker and client of one process.
 *
 * Owns all that it starts, in that order, and stops them in the opposite order.
 *
 * 1. All parts start or none: a failure closes those that are open.
 * 2. `signal` aborts with the command's signal, or when the private Redis has ended; then `failure` has the error.
 */

import { createOfflineModel } from "../../offline/server.ts";
import type { Client } from "../../producer/client.ts";
import { type Config, OFFLINE_MODEL } from "../../shared/config.ts";
import { SubagentError } from "../../shared/errors.ts";
import type { WorkerAnnouncement } from "../../shared/protocol/worker.ts";
import type { PauseState } from "../../shared/redis/pause.ts";
import { withoutPassword } from "../../shared/redis-url.ts";
import { onAbort, unlessAborted } from "../../shared/stop-signal.ts";
import { createAnthropicModel } from "../../worker/model/anthropic/model.ts";
import type { Model } from "../../worker/model/model.ts";
import { openSkills, type SkillLibrary } from "../../worker/skills/library.ts";
import { bashTool, type NetworkLog } from "../../worker/tools/builtin/bash.ts";
import { type OpenRoot, parseRoot, parseRoots } from "../../worker/tools/roots.ts";
import { chooseRunner } from "../../worker/tools/sandbox/choose.ts";
import type { Tool } from "../../worker/tools/tool.ts";
import { createWorker, type SubagentWorker } from "../../worker/worker.ts";
import type { CommandContext } from "../command.ts";
import { renderBanner } from "../terminal/banner.ts";
import { askWorkersAndPause, defaultModel, openClient } from "./client.ts";
import { createDisposables, type Disposables } from "./disposables.ts";
import { openIntake } from "./intake.ts";
import { refuseOffline } from "./offline.ts";
import { notePause } from "./pause.ts";
import { openRedisSource, type RedisSource } from "./redis.ts";

/** Time limit for the stop of a service without its Redis. */
const STOP_WITHOUT_REDIS_MS = 1_000;

/** A running service. */
export interface LocalService {
  readonly redis: RedisSource;
  readonly client: Client;
  readonly roots: readonly OpenRoot[];
  /** Sentence: how `bash` runs in the worker started here, or why it is not offered. */
  readonly bash: string | undefined;
  readonly signal: AbortSignal;
  /** Model of agents that name none. */
  readonly model: string;
  /** The live workers of other processes that do the work; empty: a worker was started here. */
  readonly workers: readonly WorkerAnnouncement[];
  /** The pause in force when it was started; it has been printed. */
  readonly paused: PauseState | undefined;
  /** The error if the service cannot go on. */
  readonly failure: SubagentError | undefined;
  /** Releases the runs of the worker started here; resolves when the usage of its runs is booked. Idempotent. */
  release(): Promise<void>;
  /** Releases the runs and stops all parts; resolves when all have stopped. Idempotent. */
  stop(): Promise<void>;
}

/** Returns the model that a worker announces; the offline model is never announced under another name. */
export function modelAnnounced({ provider, model }: Config): string {
  return provider ? model : OFFLINE_MODEL;
}

/** Opens a model for the configured provider, or starts the offline one; `disposables` stops both. */
export async function openModel(
  context: CommandContext,
  disposables: Disposables,
  offlineLatencyMs = 0,
): Promise<Model> {
  const { clock, config } = context;
  let { apiKey = "none", baseUrl } = config.provider ?? {};
  if (!config.provider) {
    const offline = createOfflineModel({ latencyMs: offlineLatencyMs });
    disposables.add(() => offline.stop());
    await offline.start();
    apiKey = "offline";
    baseUrl = offline.url;
  }
  const model = createAnthropicModel({ apiKey, clock, ...(baseUrl !== undefined && { baseUrl }) });
  disposables.add(() => model.stop());
  return model;
}

/**
 * Starts all parts. Tools may read the current directory unless SUBAGENT_ROOTS is set. If workers are already live on the
 * Redis of REDIS_URL, `others` decides: `use` gives them the work and starts no worker, `join` starts one beside them.
 * If the command is stopped while a worker waits for Redis, throws the signal's reason. A started service stops in two
 * steps. Throws `invalid_config` if its worker would use the offline model for another model's work; see `refuseOffline`.
 */
export async function startLocalService(
  command: CommandContext,
  others: "use" | "join",
): Promise<LocalService> {
  const context = { ...command, signal: command.stopInTwoSteps() };
  const { config, clock, env } = context;
  const disposables = createDisposables();
  const health = watchHealth(context.signal, disposables);
  try {
    const redis = await openRedisSource(config, env.PATH, clock);
    disposables.add(() => redis.stop());
    health.watch(redis.gone);
    const there = redis.isPrivate ? undefined : await askWorkersAndPause(redis.url, config.prefix, clock);
    const live = there?.workers ?? [];
    notePause(context, there?.paused);
    const workers = others === "use" ? live : [];
    if (workers.length === 0 && !redis.isPrivate) await refuseOffline(context, live, redis.url);
    const roots = workers.length > 0 ? [] : rootsOf(context, true);
    const own =
      workers.length === 0
        ? await unlessAborted(command.signal, openWorker(context, redis.url, roots, disposables))
        : undefined;
    const model = defaultModel(config, workers) ?? config.model;
    const client = await openClient(context, redis.url, model, disposables);
    if (workers.length === 0) openIntake(context, redis.url, model, disposables);
    return {
      redis,
      client,
      roots,
      bash: own?.bash,
      model,
      workers,
      paused: there?.paused,
      signal: health.signal,
      get failure() {
        return health.failure;
      },
      release: async () => own?.worker.stop(),
      // Without Redis nothing can be released: parts that do not stop in time end with the process.
      stop: () =>
        health.failure
          ? Promise.race([disposables.close(), clock.sleep(STOP_WITHOUT_REDIS_MS)])
          : disposables.close(),
    };
  } catch (error) {
    await disposables.close();
    throw error;
  }
}

/** Creates the service's signal: it aborts with `parent`, or when a watched promise resolves before the service closes. */
function watchHealth(parent: AbortSignal, disposables: Disposables) {
  const stopping = new AbortController();
  disposables.add(onAbort(parent, () => stopping.abort()));
  const health = {
    signal: stopping.signal,
    failure: undefined as SubagentError | undefined,
    watch(gone: Promise<void>) {
      let isClosing = false;
      disposables.add(() => {
        isClosing = true;
      });
      void gone.then(() => {
        if (isClosing) return;
        const sentence = "The private Redis stopped unexpectedly: start the command again.";
        health.failure = new SubagentError("redis_unavailable", sentence);
        stopping.abort();
      });
    },
  };
  return health;
}

/** Returns the tool `bash` if commands can run here, and a sentence: how they run, or why they do not. */
export async function openBash({
  config,
  clock,
  logger,
}: CommandContext): Promise<{ tools: Tool[]; sentence: string }> {
  const { mode, acceptRisk: acceptUnsandboxed } = config.bash;
  const { production, egress } = config;
  const { runner, sentence } = await chooseRunner({ clock, mode, production, acceptUnsandboxed, egress });
  const log: NetworkLog = (use, { agentId, uid, run }) =>
    logger.info({ agent_id: agentId, uid, run, ...use }, "Network of a command");
  return { tools: runner === undefined ? [] : [bashTool(runner, clock, log)], sentence };
}

/** Starts a worker with its own model; `disposables` stops both. `bash`: the sentence of {@link openBash}. */
async function openWorker(
  context: CommandContext,
  redisUrl: string,
  roots: readonly OpenRoot[],
  disposables: Disposables,
): Promise<{ worker: SubagentWorker; bash: string }> {
  const {
    prefix,
    prices,
    concurrency,
    workspaceRoot,
    trace,
    production: strict,
    sendTraceparent,
    mcpServers,
  } = context.config;
  const { logger, clock } = context;
  const model = await openModel(context, disposables);
  const { tools, sentence: bash } = await openBash(context);
  const work = {
    roots,
    tools,
    mcpServers,
    ...(await skillsOf(context)),
    workspaceRoot,
    concurrency,
    prices,
    trace,
    strict,
    sendTraceparent,
  };
  const modelId = modelAnnounced(context.config);
  const worker = createWorker({ redisUrl, prefix, model, modelId, ...work, logger, clock });
  disposables.addBeside(() => worker.stop());
  await worker.start();
  return { worker, bash };
}

/** Opens the skills of SUBAGENT_SKILLS; logs the unusable ones with their paths. Returns none without folders. */
export async function skillsOf({ config, logger }: CommandContext): Promise<{ skills?: SkillLibrary }> {
  if (config.skills.length === 0) return {};
  const skills = await openSkills(config.skills);
  for (const { path, message } of skills.problems) logger.warn({ path, problem: message }, "Skill not used");
  logger.info({ skills: skills.skills.map(({ name }) => name) }, "Skills");
  return { skills };
}

/** Returns the directories that tools may use: those of SUBAGENT_ROOTS, else the current one if `opensCwd`. */
export function rootsOf({ config, cwd, output }: CommandContext, opensCwd: boolean): readonly OpenRoot[] {
  if (config.roots !== undefined) {
    const parsed = parseRoots(config.roots);
    if ("roots" in parsed) return parsed.roots;
    throw new SubagentError("invalid_config", parsed.problem);
  }
  if (!opensCwd) return [];
  const own = parseRoot(`${cwd}:ro`);
  if (!("problem" in own)) return [own];
  output.note(`The current directory stays closed to sub-agents: ${own.problem}`);
  return [];
}

/** Prints the banner of a running service. */
export function showBanner(
  { config, output, version }: CommandContext,
  { redis, roots, workers, model, bash }: LocalService,
): void {
  const others = workers.length > 0 ? { workers, on: withoutPassword(redis.url), model } : undefined;
  const facts = { version, config, redis: redis.description, roots, bash, ...(others && { others }) };
  output.note(renderBanner(facts, output.size.columns, output.style));
}
