/** `doctor`: examines a live installation, says what is wrong, and with --fix repairs what is safe. */
import { hostname } from "node:os";
import { SubagentError } from "../shared/errors.ts";
import { createClosing } from "./closing.ts";
import type { CommandContext } from "./command.ts";
import { cure, curedOf } from "./doctor/cure.ts";
import { renderReport } from "./doctor/doctor-view.ts";
import { examine } from "./doctor/examination.ts";
import type { Facts, WorkspaceFacts } from "./doctor/facts.ts";
import { type Installation, openInstallation } from "./doctor/installation.ts";
import { judge } from "./doctor/judgement.ts";
import { measure } from "./doctor/measure.ts";
import { type Cured, DoctorReport } from "./doctor/report.ts";
import { readWorkspaces } from "./doctor/workspaces.ts";
import { EXIT } from "./exit-code.ts";
import { toJsonLine } from "./json.ts";
import { askRedis, noRedisAt, withoutPassword } from "./redis-source.ts";

/** What the command line says. */
export interface DoctorFlags {
  /** The report as JSON. */
  json: boolean;
  /** Repair what is safe. */
  fix: boolean;
  /** Measure the model backend. */
  measure: boolean;
}

/**
 * Runs the command: 0 when nothing is wrong or only warnings are left, 1 with errors. Throws `invalid_config` without
 * REDIS_URL, `redis_unavailable` when Redis cannot be asked.
 */
export async function doctor(context: CommandContext, flags: DoctorFlags): Promise<number> {
  const { config, output } = context;
  const { redisUrl } = config;
  if (redisUrl === undefined) {
    const sentence =
      "REDIS_URL is not set: doctor examines the installation on a Redis, e.g. redis://host:6379.";
    throw new SubagentError("invalid_config", sentence);
  }
  output.block([output.style("dim", `Examining ${withoutPassword(redisUrl)} …`)]);
  const examined = await examineAt(context, redisUrl, flags.fix).finally(() => output.block([]));
  const measured = flags.measure ? await measure(context) : undefined;
  const report = reportOf(context, redisUrl, examined, measured);
  const { resultColumns, resultStyle } = output;
  if (flags.json) output.result(toJsonLine(DoctorReport.parse(report)));
  else output.result(...renderReport(report, resultColumns, resultStyle));
  return report.errors > 0 ? EXIT.failed : EXIT.done;
}

interface Examined {
  facts: Facts;
  workspaces: WorkspaceFacts;
  cured?: Cured[];
}

async function examineAt(context: CommandContext, redisUrl: string, fix: boolean): Promise<Examined> {
  const { config, clock, logger } = context;
  // One that does not answer is told apart from one that answers slowly.
  await askRedis(redisUrl, clock, (redis) => redis.ping());
  const closing = createClosing();
  try {
    const installation = await openInstallation(redisUrl, { prefix: config.prefix, clock, logger }, closing);
    const first = await lookAtAll(context, installation);
    if (!fix) return first;
    await cure(installation, first.facts, first.workspaces);
    const second = await lookAtAll(context, installation);
    const [before, after] = [first, second].map(({ facts, workspaces }) => judge(facts, workspaces).findings);
    return { ...second, cured: curedOf(before ?? [], after ?? []) };
  } catch (error) {
    throw error instanceof SubagentError ? error : noRedisAt(redisUrl, error);
  } finally {
    await closing.close();
  }
}

async function lookAtAll({ config, clock }: CommandContext, installation: Installation): Promise<Examined> {
  const facts = await examine(installation, { host: hostname(), isProduction: config.production });
  const { store, inspection } = installation;
  const place = { root: config.workspaceRoot, clock, store, inspection };
  return { facts, workspaces: await readWorkspaces(place, facts.agents) };
}

function reportOf(
  { config }: CommandContext,
  redisUrl: string,
  { facts, workspaces, cured }: Examined,
  measured: Awaited<ReturnType<typeof measure>> | undefined,
): DoctorReport {
  const judgement = judge(facts, workspaces);
  const findings = [...judgement.findings, ...(measured?.findings ?? [])];
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
    areas: [...judgement.areas, ...(measured ? [measured.area] : [])],
    findings,
    ...(cured && { cured }),
    ...(measured && { measured: measured.levels }),
  };
}
