/** From facts to the diagnosis: the findings, and one line of figures an area. Pure. */
import { isLive } from "../../shared/redis/inspection.ts";
import { formatCount, formatPlural } from "../terminal/numbers.ts";
import { findingsIn } from "./checks.ts";
import type { Facts } from "./facts.ts";
import { Area, type DoctorReport, type Finding } from "./report.ts";

/** Areas with their state, and what was found, errors first. */
export type Diagnosis = Pick<DoctorReport, "areas" | "findings">;

/** From facts to what is said about them. Pure. */
export function diagnose(facts: Facts): Diagnosis {
  const findings = findingsIn(facts);
  const areas = Object.entries(SUMMARIES).map(([name, summary]): Diagnosis["areas"][number] => {
    const found = findings.filter(({ area }) => area === name).map(({ severity }) => severity);
    const severity = found.includes("error") ? "error" : (found[0] ?? "ok");
    return { area: Area.parse(name), severity, summary: summary(facts) };
  });
  const rank = ({ severity }: Finding) => (severity === "error" ? 0 : 1);
  return { areas, findings: findings.sort((a, b) => rank(a) - rank(b)) };
}

/** One line of figures an area. */
const SUMMARIES = {
  redis({ servers }) {
    const [server] = servers;
    if (!server) return "unknown";
    const { product, version, aof, appendfsync, evictionPolicy, usedMemoryBytes, maxMemoryBytes } = server;
    const nodes = servers.length > 1 ? ` · ${servers.length} nodes` : "";
    const disk = aof === "on" ? `AOF ${appendfsync}` : aof === "off" ? "no AOF" : "AOF unknown";
    const limit = maxMemoryBytes > 0 ? ` of ${megabytes(maxMemoryBytes)}` : "";
    return `${product} ${version}${nodes} · ${disk} · ${evictionPolicy} · ${megabytes(usedMemoryBytes)}${limit} in use`;
  },
  workers({ workers, wakes, bash }) {
    const waiting = wakes.waiting + wakes.delayed;
    if (workers.length === 0) return `none live · ${formatPlural(waiting, "wake")} waiting`;
    const hosts = formatPlural(new Set(workers.map(({ worker }) => worker.host)).size, "host");
    const places = workers.reduce((sum, { worker }) => sum + worker.concurrency, 0);
    const taken = `${formatCount(wakes.active)} of ${formatPlural(places, "place")} taken`;
    const isOffered = bash === undefined || workers.some(({ worker }) => worker.tools.includes("bash"));
    const commands = isOffered ? "" : ` · ${bash.replace(/\.$/, "")}`;
    return `${formatCount(workers.length)} live on ${hosts} · ${taken} · ${formatCount(wakes.waiting)} waiting${commands}`;
  },
  agents({ agents }) {
    const live = agents.filter(isLive);
    const inStatus = (status: string) => live.filter(({ record }) => record.status === status).length;
    const shown = ["idle", "queued", "running", "waiting"]
      .filter((status) => inStatus(status) > 0)
      .map((status) => `${formatCount(inStatus(status))} ${status}`);
    const ended = `${formatCount(agents.length - live.length)} ended`;
    return [`${formatCount(live.length)} live`, ...shown, ended].join(" · ");
  },
  replies({ channels, oldReplies }) {
    if (channels === 0) return "nothing unacked";
    const count = oldReplies.length;
    const old = count === 0 ? "none unacked for over 1 h" : `${formatCount(count)} with old ones`;
    return `${formatPlural(channels, "parent")} with a reply channel · ${old}`;
  },
  workspaces({ workspaces: { root, isThere, directories, isCut } }) {
    if (!isThere) return `not looked at: there is no ${root} here (SUBAGENT_WORKSPACES)`;
    return `${isCut ? "the first " : ""}${formatCount(directories.length)} in ${root}`;
  },
} satisfies Partial<Record<Area, (facts: Facts) => string>>;

function megabytes(bytes: number): string {
  return `${formatCount(Math.ceil(bytes / 1_048_576))} MB`;
}
