/** `doctor`: examines a live installation and prints its troubles; --fix makes the safe repairs. */
import { hostname } from "node:os";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import { withoutPassword } from "../../shared/redis-url.ts";
import { onAbort } from "../../shared/stop-signal.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { diagnose } from "../doctor/checks.ts";
import { examine, openToExamine } from "../doctor/examine.ts";
import type { Facts } from "../doctor/facts.ts";
import { repair, repairedOf } from "../doctor/fix.ts";
import { measure } from "../doctor/measure.ts";
import { DoctorReport, type Repaired, renderReport } from "../doctor/report.ts";
import { createDisposables } from "../local/disposables.ts";
import { askRedis, redisError, requireRedisUrl } from "../local/redis.ts";
import { openBash } from "../local/service.ts";
import { pasteable } from "../shell-command.ts";
import { toJsonLine } from "../terminal/text.ts";
import { addReplay, replayReply } from "./doctor-replay.ts";

const HELP = `
Examples:
  subagent-queue doctor
  subagent-queue doctor --fix
  subagent-queue doctor --measure
  subagent-queue doctor replay sa-0123456789abcdef01234567.1
  subagent-queue doctor --json | jq -r '.findings[] | [.severity, .check, .count] | @tsv'

It examines everything under SUBAGENT_PREFIX on the Redis of REDIS_URL while work
goes on there, and the workspaces of this machine (SUBAGENT_WORKSPACES).
--fix wakes stuck agents, ends overdue ones, frees leaked slots, removes leftover
keys, and deletes workspaces of ended agents that are unchanged for 30 days. It
acks no reply, and changes agents only as a sweeper does. It may run at any time.
--measure spends 47 calls of at most 16 output tokens.

Exit codes:
  0    nothing is wrong, or warnings only
  1    errors
  2    the command line cannot be used
  3    environment or Redis
  130  --measure was interrupted`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  command
    .option("--fix", "repair what is safe", false)
    .option("--measure", "call the model backend to measure how many calls it answers at once", false)
    .option("--json", "the report as JSON on standard output, and nothing else there", false)
    .addHelpText("after", HELP)
    .action(async (flags: DoctorFlags) => done(await doctor(open("warn"), flags)));
  addReplay(command, async (replyId, flags) => done(await replayReply(open("warn"), replyId, flags)));
};

/** Command-line flags. */
interface DoctorFlags {
  /** Print the report as JSON. */
  json: boolean;
  /** Make the safe repairs. */
  fix: boolean;
  /** Measure the model backend. */
  measure: boolean;
}

/**
 * Runs the command. Exit code: 130 if it was interrupted, else 1 with errors, 0 without (warnings included). Throws
 * `invalid_config` without REDIS_URL, `redis_unavailable` if Redis does not answer.
 */
async function doctor(context: CommandContext, flags: DoctorFlags): Promise<number> {
  const { config, output } = context;
  const redisUrl = requireRedisUrl(config, "doctor examines the installation on a Redis");
  output.block([output.style("dim", `Examining ${withoutPassword(redisUrl)} …`)]);
  const examined = await examineAt(context, redisUrl, flags.fix).finally(() => output.block([]));
  if (!examined) return EXIT.interrupted;
  const measured = flags.measure ? await measure(context) : undefined;
  const report = withPasteableAdvice(reportOf(context, redisUrl, examined, measured), context.command);
  const { resultColumns, resultStyle } = output;
  if (flags.json) output.result(toJsonLine(DoctorReport.parse(report)));
  else output.result(renderReport(report, resultColumns, resultStyle));
  if (flags.measure && context.signal.aborted) return EXIT.interrupted;
  return report.errors > 0 ? EXIT.failed : EXIT.done;
}

function withPasteableAdvice(report: DoctorReport, command: string): DoctorReport {
  const findings = report.findings.map((each) => ({ ...each, todo: pasteable(each.todo, command) }));
  return { ...report, findings };
}

interface Examined {
  facts: Facts;
  repaired?: Repaired[];
}

/** Examines, and repairs with `fix`; resolves to undefined at once if a signal interrupts it. Each repair is atomic. */
async function examineAt(
  context: CommandContext,
  redisUrl: string,
  fix: boolean,
): Promise<Examined | undefined> {
  const { config, clock, logger, signal } = context;
  const { prefix, workspaceRoot, production: isProduction } = config;
  // Tells a Redis that does not answer from one that answers slowly. One that cannot write to its disk refuses PING.
  await askRedis(redisUrl, clock, (redis) => redis.time());
  const disposables = createDisposables();
  try {
    const installation = await openToExamine(redisUrl, { prefix, workspaceRoot, clock, logger }, disposables);
    // Of a large installation the examination takes a minute: without its connection it fails at its next command.
    disposables.add(onAbort(signal, () => void disposables.close().catch(() => undefined)));
    const bash = await whyNoBash(context);
    const examineNow = () => examine(installation, { host: hostname(), isProduction, bash });
    const before = await examineNow();
    if (!fix) return { facts: before };
    await repair(installation, before, examineNow);
    const facts = await examineNow();
    return { facts, repaired: repairedOf(diagnose(before).findings, diagnose(facts).findings) };
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error instanceof SubagentError ? error : redisError(redisUrl, error);
  } finally {
    await disposables.close();
  }
}

/** Returns the reason why a worker on this host would offer no bash; undefined: it would. */
async function whyNoBash(context: CommandContext): Promise<string | undefined> {
  try {
    const { tools, sentence } = await openBash(context);
    return tools.length > 0 ? undefined : sentence;
  } catch (error) {
    return messageOf(error);
  }
}

function reportOf(
  { config }: CommandContext,
  redisUrl: string,
  { facts, repaired }: Examined,
  measured: Awaited<ReturnType<typeof measure>> | undefined,
): DoctorReport {
  const diagnosis = diagnose(facts);
  const findings = [...diagnosis.findings, ...(measured?.findings ?? [])];
  const errors = findings.filter(({ severity }) => severity === "error").length;
  const warnings = findings.length - errors;
  return {
    v: 1,
    status: errors > 0 ? "errors" : warnings > 0 ? "warnings" : "healthy",
    checked_at: new Date(facts.nowMs).toISOString(),
    redis: withoutPassword(redisUrl),
    prefix: config.prefix,
    errors,
    warnings,
    areas: [...diagnosis.areas, ...(measured ? [measured.area] : [])],
    findings,
    ...(repaired && { repaired }),
    ...(measured && { measured: measured.levels }),
  };
}
