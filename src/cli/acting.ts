/** What the verbs about single agents have in common: they act as one parent on the Redis of REDIS_URL, and end. */
import type { Client } from "../producer/client.ts";
import { createParent, type Parent } from "../producer/parent.ts";
import { messageOf, SubagentError } from "../shared/errors.ts";
import { ParentId } from "../shared/protocol/ids.ts";
import type { WorkerAnnouncement } from "../shared/protocol/worker.ts";
import { PARENT_FORM } from "../shared/variables.ts";
import { createClosing } from "./closing.ts";
import type { CommandContext } from "./command.ts";
import { modelToAsk, whoIsThere } from "./live-workers.ts";
import { openClient } from "./local-service.ts";
import { notePause } from "./pause.ts";
import { withoutPassword } from "./redis-source.ts";

/** The verbs that hand new work over. */
const HANDING_OVER = ["spawn", "send"];

/** What every such verb may be told. */
export interface ActingFlags {
  /** The parent to act as; default SUBAGENT_PARENT. */
  parent?: string;
  /** Results as JSON. */
  json: boolean;
}

/** A parent at work on a Redis that answers. */
export interface Acting {
  readonly context: CommandContext;
  readonly client: Client;
  readonly parent: Parent;
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
  work: (acting: Acting) => Promise<number>,
): Promise<number> {
  const { config, clock } = context;
  const parentId = parentIdOf(flags, config.parentId);
  const { redisUrl, prefix, tenant } = config;
  if (redisUrl === undefined) {
    const sentence = `REDIS_URL is not set: ${verb} acts on the agents of a Redis, e.g. redis://host:6379.`;
    throw new SubagentError("invalid_config", sentence);
  }
  const closing = createClosing();
  try {
    const { workers, paused } = await whoIsThere(redisUrl, prefix, clock);
    notePause(context, paused);
    const model = modelToAsk(config, workers);
    // Whoever looks, stops or fetches replies may do so on any Redis; new work needs one that keeps it.
    const production = config.production && HANDING_OVER.includes(verb);
    const client = await openClient(
      { ...context, config: { ...config, production } },
      redisUrl,
      model,
      closing,
    );
    const parent = createParent({ parentId, tenant, client, model });
    closing.add(() => parent.stop());
    return await work({ context, client, parent, workers, redis: withoutPassword(redisUrl) });
  } catch (error) {
    throw namingParent(error, parentId);
  } finally {
    await closing.close();
  }
}

/** Says that a message waits where no worker would take it. */
export function noteMissingWorkers({ context, workers, redis }: Acting): void {
  if (workers.length > 0) return;
  context.output.note(`No worker is live on ${redis}: it waits until one joins (subagent-queue worker).`);
}

function parentIdOf(flags: ActingFlags, configured: string): string {
  if (flags.parent === undefined) return configured;
  const checked = ParentId.safeParse(flags.parent);
  if (checked.success) return checked.data;
  const shown = JSON.stringify(flags.parent.slice(0, 70));
  throw new SubagentError("invalid_input", `--parent ${shown} cannot be used: write ${PARENT_FORM}.`);
}

/** "This parent" is nobody in particular on a command line: the sentence says who it is, and how to be another. */
function namingParent(error: unknown, parentId: string): unknown {
  if (!(error instanceof SubagentError) || error.code !== "unknown_agent") return error;
  const sentence = messageOf(error).replace("This parent", `Parent "${parentId}"`);
  const hint = `${sentence.replace(/\.$/, "")}; --parent names another parent.`;
  return new SubagentError("unknown_agent", hint, error.details, error);
}
