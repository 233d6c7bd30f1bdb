/** What the verbs about single agents have in common: they act as one parent on the Redis of REDIS_URL, and end. */
import type { Command } from "commander";
import type { Client } from "../producer/client.ts";
import { createParent, type Parent } from "../producer/parent.ts";
import { OFFLINE_MODEL, PARENT_FORM } from "../shared/config.ts";
import { messageOf, SubagentError } from "../shared/errors.ts";
import { ParentId } from "../shared/protocol/ids.ts";
import { quoted } from "../shared/protocol/text.ts";
import type { WorkerAnnouncement } from "../shared/protocol/worker.ts";
import { withoutPassword } from "../shared/redis-url.ts";
import { type CommandContext, EXIT } from "./command.ts";
import { lookUpModel, modelToAsk, openClient, whoIsThere } from "./local/client.ts";
import { createDisposables, type Disposables } from "./local/disposables.ts";
import { KEPT_MS, readInstallation, resolveParents } from "./local/parents.ts";
import { notePause } from "./local/pause.ts";
import { neededRedisUrl } from "./local/redis.ts";

/** The verbs that hand new work over. */
const HANDING_OVER = ["spawn", "send", "continue", "mcp"];

/** The verbs that, without --parent, also see what run and start do: of parents that were active so long ago, ms. */
const SEES_ALL: Readonly<Record<string, number>> = { list: KEPT_MS.records, usage: KEPT_MS.usage };

/** What every such verb may be told. */
export interface ActingFlags {
  /** The parent to act as; default SUBAGENT_PARENT. */
  parent?: string;
  /** Results as JSON. */
  json: boolean;
}

/** What `<agent_id>` means in the help of a verb. */
export const AGENT_ID = "the agent's id, as spawn and list print it";

/** Adds the flags that every such verb has. */
export function actingOptions(command: Command): Command {
  return command
    .option("--parent <id>", "the parent to act as, default SUBAGENT_PARENT or cli")
    .option("--json", "results as JSON on standard output, and nothing else there", false);
}

/** A parent at work on a Redis that answers. */
export interface ParentSession {
  readonly context: CommandContext;
  readonly client: Client;
  readonly parent: Parent;
  /** Without --parent: the parents that run and start made for themselves beside it, the last active first. */
  readonly others: readonly Parent[];
  /** The workers that were live when the command began. */
  readonly workers: readonly WorkerAnnouncement[];
  /** The Redis, fit to be shown. */
  readonly redis: string;
}

/**
 * Runs `work` as the parent that the flags or the environment name, and closes what was opened. Throws `invalid_input`
 * for a wrong --parent, `invalid_config` without REDIS_URL, `redis_unavailable`.
 */
export async function actAsParent(
  context: CommandContext,
  verb: string,
  flags: ActingFlags,
  work: (acting: ParentSession) => Promise<number>,
): Promise<number> {
  const { config, clock } = context;
  const parentId = flags.parent === undefined ? config.parentId : parentIdOf(flags.parent);
  const { prefix, tenant } = config;
  const redisUrl = neededRedisUrl(config, `${verb} acts on the agents of a Redis`);
  const disposables = createDisposables();
  try {
    const { workers, paused } = await whoIsThere(redisUrl, prefix, clock);
    notePause(context, paused);
    const model = modelFor(verb, context, { redisUrl, workers, disposables });
    // Looking, stopping and fetching replies work on any Redis; new work needs one that keeps it.
    const production = config.production && HANDING_OVER.includes(verb);
    const client = await openClient(
      { ...context, config: { ...config, production } },
      redisUrl,
      model,
      disposables,
    );
    const configured = { tenant, parentId };
    const seenMs = SEES_ALL[verb];
    const wish = { configured, named: flags.parent, sinceMs: clock.now() - (seenMs ?? 0) };
    const family =
      seenMs === undefined
        ? [configured]
        : await readInstallation(context, verb, (reading) => resolveParents(reading, wish));
    const [parent, ...others] = family.map((address) => createParent({ ...address, client }));
    if (!parent) return EXIT.failed;
    for (const each of [parent, ...others]) disposables.add(() => each.stop());
    return await work({ context, client, parent, others, workers, redis: withoutPassword(redisUrl) });
  } catch (error) {
    throw inTermsOf(verb, error, parentId);
  } finally {
    await disposables.close();
  }
}

/**
 * The model of what a verb hands over. An MCP client asks for as long as it likes, so the model is looked up; a schedule keeps
 * its model for good, so it gets none where none is known, and is refused; an agent gets the offline one then, and spawn says so.
 */
function modelFor(
  verb: string,
  context: CommandContext,
  there: { redisUrl: string; workers: readonly WorkerAnnouncement[]; disposables: Disposables },
): string | (() => string | undefined) {
  if (verb === "mcp") return lookUpModel(context, there.redisUrl, there.workers, there.disposables);
  const model = modelToAsk(context.config, there.workers);
  return verb === "schedule" ? () => model : (model ?? OFFLINE_MODEL);
}

/** Says that a message waits where no worker would take it. */
export function noteMissingWorkers({ context, workers, redis }: ParentSession): void {
  if (workers.length > 0) return;
  context.output.note(
    `No worker is live on ${redis}: the run waits until one joins (subagent-queue worker).`,
  );
}

/** The parent that --parent names. Throws `invalid_input`. */
export function parentIdOf(text: string): string {
  const checked = ParentId.safeParse(text);
  if (checked.success) return checked.data;
  const shown = quoted(text);
  throw new SubagentError("invalid_input", `--parent ${shown} cannot be used: write ${PARENT_FORM}.`);
}

/** The options that make a call repeatable, by what the library calls them. */
const REPEATABLE_BY: Readonly<Record<string, string>> = {
  request_key: "--request-key",
  message_id: "--message-id",
  question_id: "--question",
};

/**
 * An error of the library as it is said on a command line: "this parent" names no parent there, so the sentence says who it is
 * and how to be another; and of what makes the same call safe it names the option of `verb`.
 */
export function inTermsOf(verb: string, error: unknown, parentId: string): unknown {
  if (!(error instanceof SubagentError)) return error;
  const { code, details } = error;
  if (code === "outcome_unknown") {
    const sentence = messageOf(error).replace(/ with (\w+) "/, (words, field: string) => {
      // The first message of a spawn has the key of the spawn for its id.
      const option = verb === "spawn" ? REPEATABLE_BY.request_key : REPEATABLE_BY[field];
      return option === undefined ? words : ` with ${option} "`;
    });
    return new SubagentError(code, sentence, details, error);
  }
  if (code !== "unknown_agent") return error;
  const sentence = messageOf(error).replace("This parent", `Parent "${parentId}"`);
  const hint = `${sentence.replace(/\.$/, "")}; --parent names another parent.`;
  return new SubagentError(code, hint, details, error);
}
