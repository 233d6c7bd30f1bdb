/** What is wrong with Redis, the workers and the reply channels, from what was seen of them. Pure. */
import { TIMING } from "../../shared/protocol/timing.ts";
import { isLive } from "../../shared/redis/agent-sight.ts";
import type { GateState } from "../../shared/redis/provider-gate.ts";
import { findingOf } from "./checks.ts";
import type { Facts } from "./facts.ts";
import { formatSpan, ownerName } from "./names.ts";
import type { Finding } from "./report.ts";

/** Replies that are older than this wait for a parent that may not come back. */
export const OLD_REPLIES_MS = 3_600_000;
/** Unacked replies that will be gone within this time are about to be lost. */
const EXPIRES_WITHIN_MS = 86_400_000;
const SKEW_MS = 5_000;
const NEARLY_FULL_PERCENT = 90;

/** What was found at the servers; what all nodes of a cluster have in common is said once. */
export function judgeServers({ servers, isProduction }: Facts): Finding[] {
  const problems = new Map(
    servers.flatMap((server) =>
      server.problems.map(({ severity, sentence }) => [sentence, severity] as const),
    ),
  );
  const isError = (severity: string) => severity === "unusable" || (severity === "unsafe" && isProduction);
  const troubles = distinct(servers.flatMap((server) => server.troubles));
  const used = servers.map(
    ({ usedMemoryBytes, maxMemoryBytes }) => usedMemoryBytes / (maxMemoryBytes || Number.POSITIVE_INFINITY),
  );
  const fullest = Math.round(100 * Math.max(0, ...used));
  return [
    ...[...problems].flatMap(([what, severity]) =>
      findingOf("redis_settings", [], { what, count: 1, severity: isError(severity) ? "error" : "warn" }),
    ),
    ...troubles.flatMap((what) => findingOf("redis_trouble", [], { what, count: 1 })),
    ...findingOf("redis_memory", [], {
      count: fullest >= NEARLY_FULL_PERCENT && troubles.length === 0 ? 1 : 0,
      what: `Redis uses ${fullest} % of its memory: beyond 100 % spawns and messages are refused`,
    }),
  ];
}

/** What holds all workers up: an operator, or the provider. */
export function judgeHoldUps({ pause, gates, wakes }: Facts): Finding[] {
  const gateNames = (states: readonly GateState["state"][]) =>
    gates
      .filter(({ state }) => states.includes(state))
      .map(
        ({ name, state, reason, until }) => `${name} ${state} (${reason})${until ? ` until ${until}` : ""}`,
      );
  const because = pause?.reason === undefined ? "" : `: ${pause.reason}`;
  const isPausedByHand = wakes.isPaused && pause === undefined;
  return [
    ...findingOf("paused", pause ? [`since ${pause.at}${because}`] : []),
    ...findingOf("queue_paused", [], { count: isPausedByHand ? 1 : 0 }),
    ...findingOf("provider_denied", gateNames(["denied"])),
    ...findingOf("provider_closed", gateNames(["closed", "slowed"])),
  ];
}

/** What was found at the workers and at the wakes they should take. */
export function judgeWorkers(facts: Facts): Finding[] {
  const workers = facts.workers.map(({ worker }) => worker);
  if (workers.length === 0) {
    const waiting = facts.agents.filter(
      (sight) => isLive(sight) && ["queued", "running"].includes(sight.record.status),
    ).length;
    return [
      ...findingOf(waiting > 0 ? "work_without_workers" : "no_workers", [], { count: waiting || 1 }),
      ...judgeClocks(facts),
    ];
  }
  const versions = distinct(workers.map(({ version }) => version));
  const models = distinct(workers.flatMap(({ model }) => model ?? []));
  const tools = distinct(workers.flatMap((worker) => worker.tools));
  const missing = tools.filter((tool) => workers.some((worker) => !worker.tools.includes(tool)));
  return [
    ...findingOf("wakes_not_taken", [], { count: facts.areWakesStuck ? facts.wakes.waiting : 0 }),
    ...findingOf("mixed_versions", versions.length > 1 ? versions : []),
    ...findingOf("differing_tools", missing),
    ...findingOf("differing_models", models.length > 1 ? models : []),
    ...judgeClocks(facts),
  ];
}

/** Clocks that differ from Redis': one line a host, this machine included. */
function judgeClocks({ workers, nowMs, hostNowMs, host }: Facts): Finding[] {
  const skews = new Map([[host, hostNowMs - nowMs]]);
  for (const { worker, announcedAtMs } of workers) {
    if (worker.now !== undefined && worker.host !== host) skews.set(worker.host, worker.now - announcedAtMs);
  }
  const wrong = [...skews].filter(([, skewMs]) => Math.abs(skewMs) > SKEW_MS);
  const named = wrong.map(([name, skewMs]) => {
    return `${name} ${formatSpan(Math.abs(skewMs))} ${skewMs > 0 ? "ahead" : "behind"}`;
  });
  return findingOf("clock_skew", named);
}

/** What was found at the reply channels. */
export function judgeReplies({ oldReplies }: Facts): Finding[] {
  const isExpiring = ({ oldestMs }: { oldestMs: number }) => oldestMs > TIMING.replyTtlMs - EXPIRES_WITHIN_MS;
  const named = (some: Facts["oldReplies"]) =>
    [...some]
      .sort((a, b) => b.oldestMs - a.oldestMs)
      .map(
        ({ parent, unacked, oldestMs }) =>
          `${ownerName(parent)} (${unacked}, oldest ${formatSpan(oldestMs)})`,
      );
  return [
    ...findingOf("expiring_replies", named(oldReplies.filter(isExpiring))),
    ...findingOf("unacked_replies", named(oldReplies.filter((replies) => !isExpiring(replies)))),
  ];
}

function distinct(texts: readonly string[]): string[] {
  return [...new Set(texts)].sort();
}
