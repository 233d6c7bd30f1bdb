/** The common part of the verbs about single agents: each acts as one parent on the Redis of REDIS_URL, then ends. */
import type { Command } from "commander";
import type { Client } from "../producer/client.ts";
import { createParent, type Parent } from "../producer/parent.ts";
import { type Config, OFFLINE_MODEL, PARENT_FORM } from "../shared/config.ts";
import { messageOf, SubagentError } from "../shared/errors.ts";
import type { VisibleStatus } from "../shared/protocol/agent.ts";
import { ParentId } from "../shared/protocol/ids.ts";
import { quoted } from "../shared/protocol/text.ts";
import type { WorkerAnnouncement } from "../shared/protocol/worker.ts";
import { withoutPassword } from "../shared/redis-url.ts";
import { type CommandContext, EXIT } from "./command.ts";
import { defaultModel, lookupModel, openClient, readWorkersAndPause } from "./local/client.ts";
import { createDisposables, type Disposables } from "./local/disposables.ts";
import { KEPT_MS, type Reading, readInstallation, resolveParents } from "./local/parents.ts";
import { notePause } from "./local/pause.ts";
import { askInstallation, requireRedisUrl } from "./local/redis.ts";
import { renderNoWorker } from "./local/wait.ts";

/** The verbs that create agents or give them messages, whatever their flags. */
const HANDING_OVER = ["spawn", "send", "continue", "mcp"];

/** Verbs that, without --parent, also show the parents of run and start; value: how recently those were active, ms. */
const SEES_ALL: Readonly<Record<string, number>> = { list: KEPT_MS.records, usage: KEPT_MS.usage };

/** Flags of every such verb. */
export interface ActingFlags {
  /** The parent to act as; default SUBAGENT_PARENT. */
  parent?: string;
  /** Results as JSON. */
  json: boolean;
  /** True if a verb that does not always hand over new work does so with these flags. */
  handsOver?: boolean;
}

/** Help text of the argument `<agent_id>`. */
export const AGENT_ID = "the agent's id, as spawn and list print it";

/** Help text of --parent of a verb that, without it, also reads the parents of run and start; its help says which. */
export const SEEN_PARENT = "one parent; default: see below";

/** Adds --parent; `whose`: its help text. */
export function parentOption(
  command: Command,
  whose = "the parent to act as, default SUBAGENT_PARENT or cli",
): Command {
  return command.option("--parent <id>", whose);
}

/** Adds the flags of every such verb with results; `whose`: the help text of --parent. */
export function actingOptions(command: Command, whose?: string): Command {
  return parentOption(command, whose).option(
    "--json",
    "results as JSON on standard output, and nothing else there",
    false,
  );
}

/** The open parent of a verb, on a Redis that answers. */
export interface ParentSession {
  readonly context: CommandContext;
  readonly client: Client;
  readonly parent: Parent;
  /** Parents that run and start created for themselves, the last active first; empty with --parent. */
  readonly others: readonly Parent[];
  /** The workers that were live when the command began. */
  readonly workers: readonly WorkerAnnouncement[];
  /** URL of the Redis without its password. */
  readonly redis: string;
  /** Redis' time, epoch ms: ages of what Redis stores are counted by it, because the clock of this host may be wrong. */
  readonly redisNowMs: () => number;
}

/**
 * Runs `work` as the parent that the flags or the environment name, then closes all connections. Throws `invalid_input`
 * for a wrong --parent, `invalid_config` without REDIS_URL, `redis_unavailable`.
 */
export async function actAsParent(
  context: CommandContext,
  verb: string,
  flags: ActingFlags,
  work: (acting: ParentSession) => Promise<number>,
): Promise<number> {
  const { config } = context;
  const parentId = flags.parent === undefined ? config.parentId : parentIdOf(flags.parent);
  const { prefix, tenant } = config;
  const redisUrl = requireRedisUrl(config, `${verb} acts on the agents of a Redis`);
  const disposables = createDisposables();
  try {
    const configured = { tenant, parentId };
    const seenMs = SEES_ALL[verb];
    const query = { configured, named: flags.parent, activeWithinMs: seenMs ?? 0 };
    const read = (reading: Reading) =>
      Promise.all([
        readWorkersAndPause(reading, context.clock),
        seenMs === undefined ? [configured] : resolveParents(reading, query),
      ]);
    const [{ workers, paused, redisNowMs }, family] = await (seenMs === undefined
      ? askInstallation(redisUrl, prefix, context.clock, read)
      : readInstallation(context, verb, read));
    notePause(context, paused);
    const model = modelFor(verb, context, { redisUrl, workers, disposables });
    // Only new work needs a Redis that keeps it; reading, stopping and fetching replies work on any Redis.
    const production = config.production && (flags.handsOver ?? HANDING_OVER.includes(verb));
    const client = await openClient(
      { ...context, config: { ...config, production } },
      redisUrl,
      model,
      disposables,
    );
    const [parent, ...others] = family.map((address) => createParent({ ...address, client }));
    if (!parent) return EXIT.failed;
    for (const each of [parent, ...others]) disposables.add(() => each.stop());
    const redis = withoutPassword(redisUrl);
    return await work({ context, client, parent, others, workers, redis, redisNowMs });
  } catch (error) {
    throw rewordError(verb, error, parentId);
  } finally {
    await disposables.close();
  }
}

/**
 * Returns the model for the new work of a verb. `mcp` runs long, so it looks the model up for each call. If no model is known,
 * a schedule gets none and is refused, because it keeps its model; an agent gets the offline model, and spawn says so.
 */
function modelFor(
  verb: string,
  context: CommandContext,
  there: { redisUrl: string; workers: readonly WorkerAnnouncement[]; disposables: Disposables },
): string | (() => string | undefined) {
  if (verb === "mcp") return lookupModel(context, there.redisUrl, there.workers, there.disposables);
  const model = defaultModel(context.config, there.workers);
  return verb === "schedule" ? () => model : (model ?? OFFLINE_MODEL);
}

/** Prints a note if no worker is live, because the message then waits. */
export function noteMissingWorkers({ context, workers, redis }: ParentSession): void {
  if (workers.length === 0) context.output.note(renderNoWorker(redis, "the run waits"));
}

/** Returns the command that answers the open question of an agent of this parent. */
export function answerCommand(
  { context, parent }: { context: { config: Pick<Config, "parentId"> }; parent: Pick<Parent, "parentId"> },
  agentId: string,
): string {
  const isNamed = parent.parentId !== context.config.parentId;
  return `subagent-queue answer ${agentId} "…"${isNamed ? ` --parent ${parent.parentId}` : ""}`;
}

/** Prints a note if an agent is queued and no worker is live, because it then waits for one. */
export function noteQueuedWithoutWorker(
  { context, workers, redis }: Pick<ParentSession, "context" | "workers" | "redis">,
  agents: readonly { status: VisibleStatus }[],
): void {
  const isWaiting = agents.some(({ status }) => status === "queued" || status === "waiting_for_tools");
  if (workers.length === 0 && isWaiting) context.output.note(renderNoWorker(redis, "what is queued waits"));
}

/** Parses --parent. Throws `invalid_input`. */
export function parentIdOf(text: string): string {
  const checked = ParentId.safeParse(text);
  if (checked.success) return checked.data;
  const shown = quoted(text);
  throw new SubagentError("invalid_input", `--parent ${shown} cannot be used: write ${PARENT_FORM}.`);
}

/** The command-line options that make a call idempotent, by the library's name of the field. */
const REPEATABLE_BY: Readonly<Record<string, string>> = {
  request_key: "--request-key",
  message_id: "--message-id",
  question_id: "--question",
};

/** A field and its value, where an error names the key of a call: `with message_id "k1"`, or at its beginning. */
const NAMED_KEY = /(^| with )(request_key|message_id|question_id) "/;

/**
 * Rewords an error of the library for the command line. "This parent" becomes the parent's id, with a hint at --parent; calls
 * of the library are left out.
 * The field that makes a second call safe, or was used before, becomes the option of `verb`.
 */
export function rewordError(verb: string, error: unknown, parentId: string): unknown {
  if (!(error instanceof SubagentError)) return error;
  const { code, details } = error;
  const [words = "", before = "", field = ""] = NAMED_KEY.exec(messageOf(error)) ?? [];
  // The first message of a spawn has the spawn's request key as its id.
  const option = verb === "spawn" ? REPEATABLE_BY.request_key : REPEATABLE_BY[field];
  if ((code === "outcome_unknown" || code === "conflict") && field in details)
    return new SubagentError(code, messageOf(error).replace(words, `${before}${option} "`), details, error);
  if (code !== "unknown_agent" && code !== "unknown_schedule") return error;
  const sentence = messageOf(error)
    .replace("This parent", `Parent "${parentId}"`)
    .replace(", or schedules(),", "");
  const hint = `${sentence.replace(/\.$/, "")}; --parent names another parent.`;
  return new SubagentError(code, hint, details, error);
}
