/**
 * Redis, model, worker and client of one process, composed.
 *
 * Owns: everything it started, in that order; stops it in the opposite one.
 *
 * 1. Either all of it stands or none: a failure on the way closes what was open.
 * 2. `signal` aborts with the command's own, and when the private Redis is lost; then `lost` says so.
 */

import { setMaxListeners } from "node:events";
import { createOfflineModel } from "../../offline/server.ts";
import type { Client } from "../../producer/client.ts";
import { type Config, OFFLINE_MODEL } from "../../shared/config.ts";
import { SubagentError } from "../../shared/errors.ts";
import type { WorkerAnnouncement } from "../../shared/protocol/worker.ts";
import { withoutPassword } from "../../shared/redis-url.ts";
import { onAbort, whenAborted } from "../../shared/stop-signal.ts";
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
import { modelToAsk, openClient, whoIsThere } from "./client.ts";
import { createDisposables, type Disposables } from "./disposables.ts";
import { openIntake } from "./intake.ts";
import { refuseOffline } from "./offline.ts";
import { notePause } from "./pause.ts";
import { openRedisSource, type RedisSource } from "./redis.ts";

/** So long a service whose Redis is lost may take to stop. */
const LOST_STOP_MS = 1_000;

/** A running service. */
export interface LocalService {
  readonly redis: RedisSource;
  readonly client: Client;
  readonly roots: readonly OpenRoot[];
  /** How `bash` runs in the worker that was started here, or why it is not offered, as a sentence. */
  readonly bash: string | undefined;
  readonly signal: AbortSignal;
  /** Model of the agents that are given none. */
  readonly model: string;
  /** The live workers of others that do the work; none: one was started here. */
  readonly workers: readonly WorkerAnnouncement[];
  /** Why the service cannot go on, once it cannot. */
  readonly lost: SubagentError | undefined;
  /** Hands on what runs in the worker that was started here; resolves when all that its runs have bought is booked. Idempotent. */
  release(): Promise<void>;
  /** Releases what runs and stops everything; resolves when nothing is left. Idempotent. */
  stop(): Promise<void>;
}

/** What a worker announces as its model: the offline one never stands there under another name. */
export function modelAnnounced({ provider, model }: Config): string {
  return provider ? model : OFFLINE_MODEL;
}

/** Opens a model for the configured provider, or starts the offline one; both end with `disposables`. */
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
 * Starts everything, with the current directory open to be read unless SUBAGENT_ROOTS says otherwise. Where workers are
 * live on the Redis of REDIS_URL already, `others` says what becomes of them: `use` gives them the work and starts none;
 * `join` starts one beside them. A stop of the command ends the wait for a worker that waits for Redis: then the signal's
 * reason is thrown. Once the service stands, it stops in two steps. Throws `invalid_config` where one that is started would
 * answer by rule what was meant for another model; see `refuseOffline`.
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
    const there = redis.isPrivate ? undefined : await whoIsThere(redis.url, config.prefix, clock);
    const live = there?.workers ?? [];
    notePause(context, there?.paused);
    const workers = others === "use" ? live : [];
    if (workers.length === 0 && !redis.isPrivate) await refuseOffline(context, live, redis.url);
    const roots = workers.length > 0 ? [] : rootsOf(context, true);
    const own =
      workers.length === 0
        ? await unlessStopped(command.signal, openWorker(context, redis.url, roots, disposables))
        : undefined;
    const model = modelToAsk(config, workers) ?? config.model;
    const client = await openClient(context, redis.url, model, disposables);
    if (workers.length === 0) openIntake(context, redis.url, model, disposables);
    return {
      redis,
      client,
      roots,
      bash: own?.bash,
      model,
      workers,
      signal: health.signal,
      get lost() {
        return health.lost;
      },
      release: async () => own?.worker.stop(),
      // Without Redis there is nothing to release: what does not stop at once ends with the process.
      stop: () =>
        health.lost ? Promise.race([disposables.close(), clock.sleep(LOST_STOP_MS)]) : disposables.close(),
    };
  } catch (error) {
    await disposables.close();
    throw error;
  }
}

/** What `beginning` resolves to, unless `signal` aborts before: then its reason is thrown. */
async function unlessStopped<T>(signal: AbortSignal, beginning: Promise<T>): Promise<T> {
  const stopped = whenAborted(signal).then((): never => {
    throw signal.reason;
  });
  return Promise.race([beginning, stopped]);
}

/** Whether the service can go on: a signal that follows `parent` and aborts when what is watched ends too early. */
function watchHealth(parent: AbortSignal, disposables: Disposables) {
  const stopping = new AbortController();
  setMaxListeners(0, stopping.signal);
  disposables.add(onAbort(parent, () => stopping.abort()));
  const health = {
    signal: stopping.signal,
    lost: undefined as SubagentError | undefined,
    watch(gone: Promise<void>) {
      let isClosing = false;
      disposables.add(() => {
        isClosing = true;
      });
      void gone.then(() => {
        if (isClosing) return;
        const sentence = "The private Redis stopped unexpectedly: start the command again.";
        health.lost = new SubagentError("redis_unavailable", sentence);
        stopping.abort();
      });
    },
  };
  return health;
}

/** The tool `bash` where commands can be run, and the sentence that says how they run or why they do not. */
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

/** Starts a worker with a model of its own; both end with `disposables`. `bash`: how it runs there. */
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

/** The skills of SUBAGENT_SKILLS; those that cannot be used are logged with their paths. None without folders. */
export async function skillsOf({ config, logger }: CommandContext): Promise<{ skills?: SkillLibrary }> {
  if (config.skills.length === 0) return {};
  const skills = await openSkills(config.skills);
  for (const { path, message } of skills.problems) logger.warn({ path, problem: message }, "Skill not used");
  logger.info({ skills: skills.skills.map(({ name }) => name) }, "Skills");
  return { skills };
}

/** The directories that are open to tools: those of SUBAGENT_ROOTS, else the current one when `opensCwd`. */
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
  output.note(...renderBanner(facts, output.size.columns, output.style));
}
