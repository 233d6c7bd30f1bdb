/** From what was seen to what is said: the findings, the worst first, and one line an area. Pure. */
import { isLive } from "../../shared/redis/agent-sight.ts";
import { formatCount, formatPlural } from "../figures.ts";
import type { Facts, WorkspaceFacts } from "./facts.ts";
import { judgeAgents } from "./judge-agents.ts";
import { judgeHoldUps, judgeReplies, judgeServers, judgeWorkers } from "./judge-installation.ts";
import { judgeWorkspaces } from "./judge-workspaces.ts";
import type { Area, DoctorReport, Finding, Severity } from "./report.ts";

/** Areas with their state, and what was found. */
export type Judgement = Pick<DoctorReport, "areas" | "findings">;

/** Judges what was seen. */
export function judge(facts: Facts, workspaces: WorkspaceFacts): Judgement {
  const findings = [
    ...judgeServers(facts),
    ...judgeWorkers(facts),
    ...judgeHoldUps(facts),
    ...judgeAgents(facts),
    ...judgeReplies(facts),
    ...judgeWorkspaces(workspaces),
  ];
  const area = (name: Area, summary: string) => ({ area: name, severity: worstOf(name, findings), summary });
  return {
    areas: [
      area("redis", serverSummary(facts)),
      area("workers", workersSummary(facts)),
      area("agents", agentsSummary(facts)),
      area("replies", repliesSummary(facts)),
      area("workspaces", workspacesSummary(workspaces)),
    ],
    findings: findings.sort((a, b) => rank(a) - rank(b)),
  };
}

function worstOf(area: Area, findings: readonly Finding[]): Severity {
  const found = findings.filter((finding) => finding.area === area).map(({ severity }) => severity);
  return found.includes("error") ? "error" : (found[0] ?? "ok");
}

function rank({ severity }: Finding): number {
  return severity === "error" ? 0 : 1;
}

function serverSummary({ servers }: Facts): string {
  const [server] = servers;
  if (!server) return "unknown";
  const { product, version, aof, appendfsync, evictionPolicy, usedMemoryBytes, maxMemoryBytes } = server;
  const limit = maxMemoryBytes > 0 ? ` of ${megabytes(maxMemoryBytes)}` : "";
  return [
    `${product} ${version}`,
    ...(servers.length > 1 ? [`${servers.length} nodes`] : []),
    aof === "on" ? `AOF ${appendfsync}` : aof === "off" ? "no AOF" : "AOF unknown",
    evictionPolicy,
    `${megabytes(usedMemoryBytes)}${limit} in use`,
  ].join(" · ");
}

function megabytes(bytes: number): string {
  return `${formatCount(Math.ceil(bytes / 1_048_576))} MB`;
}

function workersSummary({ workers, wakes }: Facts): string {
  if (workers.length === 0)
    return `none live · ${formatPlural(wakes.waiting + wakes.delayed, "wake")} waiting`;
  const hosts = new Set(workers.map(({ worker }) => worker.host)).size;
  const places = workers.reduce((sum, { worker }) => sum + worker.concurrency, 0);
  return [
    `${formatCount(workers.length)} live on ${formatPlural(hosts, "host")}`,
    `${formatCount(wakes.active)} of ${formatPlural(places, "place")} taken`,
    `${formatCount(wakes.waiting)} waiting`,
  ].join(" · ");
}

const STATUSES = ["idle", "queued", "running", "waiting"];

function agentsSummary({ agents }: Facts): string {
  const live = agents.filter(isLive);
  const counts = STATUSES.map(
    (status) => [status, live.filter(({ record }) => record.status === status).length] as const,
  );
  const shown = counts
    .filter(([, count]) => count > 0)
    .map(([status, count]) => `${formatCount(count)} ${status}`);
  return [
    `${formatCount(live.length)} live`,
    ...shown,
    `${formatCount(agents.length - live.length)} ended`,
  ].join(" · ");
}

function repliesSummary({ channels, oldReplies }: Facts): string {
  if (channels === 0) return "nothing unacked";
  const old =
    oldReplies.length === 0 ? "none unacked for over 1 h" : `${formatCount(oldReplies.length)} with old ones`;
  return `${formatPlural(channels, "parent")} with a reply channel · ${old}`;
}

function workspacesSummary({ root, isThere, directories, isCut }: WorkspaceFacts): string {
  if (!isThere) return `not looked at: there is no ${root} here (SUBAGENT_WORKSPACES)`;
  return `${isCut ? "the first " : ""}${formatCount(directories.length)} in ${root}`;
}
