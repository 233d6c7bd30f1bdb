/** `doctor replay`: repeats the decisions of a run from its transcript, and prints where the log differs. */
import type { Command } from "commander";
import { SubagentError } from "../../shared/errors.ts";
import { Uid } from "../../shared/protocol/ids.ts";
import { agentOf, replyIdOf } from "../../shared/protocol/keys.ts";
import { type Decision, replay } from "../../worker/loop/replay.ts";
import { parentIdOf } from "../as-parent.ts";
import { type CommandContext, EXIT } from "../command.ts";
import {
  firstOf,
  KEPT_MS,
  type Reading,
  readInstallation,
  resolveParents,
  unknownTo,
} from "../local/parents.ts";
import { plainLine, toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue doctor replay sa-0123456789abcdef01234567.1 --parent planner-7

subagent-queue replies --json prints the reply_id of each run that is not acked yet.
What an agent does next follows from its log alone. The transcript of an agent that
has ended is kept until the ack of its end, or as its profile says.

Exit codes: 0 every decision is the same, 1 some differ.`;

/** Command-line flags. */
export interface ReplayFlags {
  parent?: string;
  json: boolean;
}

/** Adds `replay` as a subcommand of `doctor`. */
export function addReplay(
  command: Command,
  act: (replyId: string, flags: ReplayFlags) => Promise<void>,
): void {
  command
    .command("replay <reply_id>")
    .description("repeat the decisions of a run from its transcript and show differences")
    .option(
      "--parent <id>",
      "whose agent it was; default: SUBAGENT_PARENT or cli, and the parents of run and start",
    )
    .addHelpText("after", HELP)
    .action((replyId: string, _flags: unknown, self: Command) =>
      act(replyId, self.optsWithGlobals<ReplayFlags>()),
    );
}

/**
 * Runs the command. Throws `invalid_input` for an invalid id, `unknown_agent` if no parent knows the run's agent,
 * `unknown_transcript` if no transcript is kept.
 */
export async function replayReply(
  context: CommandContext,
  replyId: string,
  flags: ReplayFlags,
): Promise<number> {
  const { config, output } = context;
  const [uid, number = ""] = replyId.split(".");
  if (!Uid.safeParse(uid).success || !/^\d{1,15}$/.test(number))
    throw new SubagentError(
      "invalid_input",
      "Write the reply_id of a run as replies --json prints it, such as sa-….1.",
    );
  const named = flags.parent === undefined ? undefined : parentIdOf(flags.parent);
  const { tenant, parentId } = config;
  const decisions = await readInstallation(context, "doctor replay", async (reading) => {
    const query = { configured: { tenant, parentId }, named, activeWithinMs: KEPT_MS.records };
    const parents = await resolveParents(reading, query);
    const found = await firstOf(parents, (parent) =>
      replayAt(reading, agentOf(parent, uid ?? ""), Number(number)),
    );
    if (!found) throw unknownTo(parents, `run ${replyId}`);
    if (found.decisions) return found.decisions;
    throw new SubagentError(
      "unknown_transcript",
      `No transcript of the run ${replyId} is kept: the ack of its agent's end deletes it, unless the profile sets transcript_ms.`,
    );
  });
  const different = decisions.filter(({ agrees }) => !agrees).length;
  if (flags.json) output.result(toJsonLine({ reply_id: replyId, different, decisions }));
  else output.result([...decisions.map(lineOf), `${decisions.length} decisions, ${different} differ`]);
  return different > 0 ? EXIT.failed : EXIT.done;
}

/** Resolves to undefined if the agent is not known there; without `decisions` if its transcript is not kept. */
async function replayAt(
  { store }: Reading,
  address: Parameters<Reading["store"]["record"]>[0],
  run: number,
): Promise<{ decisions?: Decision[] } | undefined> {
  const record = await store.record(address);
  if (!record) return undefined;
  const log = await store.conversation(address);
  if (log.size === 0) return {};
  const { spec, reply } = record;
  const isItsEnd = reply?.kind === "reply" && reply.reply_id === replyIdOf(address.uid, run);
  return { decisions: replay({ run, spec, log, ended: isItsEnd ? reply.stop_reason : undefined }) };
}

function lineOf({ message, logged, decided, agrees, assumed }: Decision): string {
  if (!agrees)
    return `${message} DIFFERS: the log has ${plainLine(logged)}, the loop decides ${plainLine(decided)}`;
  return `${message} ${decided}${assumed === undefined ? "" : ` (assumed: ${assumed})`}`;
}
