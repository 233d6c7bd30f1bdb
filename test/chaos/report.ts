/** Formats the result of a chaos run as figures and text. Pure. */
import { type Evidence, type Lookup, lookUp, type Violation } from "./evidence.ts";
import { isOfRedis } from "./fault-schedule.ts";
import type { ChaosOptions } from "./options.ts";
import { isHeldOverJump } from "./oracle-jumps.ts";
import { bookedBeside } from "./oracle-money.ts";
import { namedCalls } from "./oracle-turns.ts";
import { countWakes } from "./oracle-wakes.ts";
import { timelineOf } from "./timeline.ts";

/** Figures of a chaos run. Times in ms. */
export interface Figures {
  runs: number;
  succeeded: number;
  faults: Record<string, number>;
  /** Faults of each kind that hit at least one active run. */
  hits: Record<string, number>;
  /** Number of active runs that faults hit, counted per fault. */
  runsHit: number;
  claims: number;
  /** How often workers took a wake, and below it the largest ratio of wakes to committed steps of a run. */
  wakes: number;
  mostWakesAStep: number;
  turnsCommitted: number;
  callsServed: number;
  toolsRun: number;
  interrupted: number;
  swallowed: number;
  /** Verbs of workers that had lost their run, whether or not Redis let them write. */
  stale: number;
  repeatedCalls: number;
  /** The parents' reported usage minus the model server's ledger, in tokens. */
  bookedBeside: number;
  redispatch: { count: number; p50: number; p95: number; max: number; slowest?: string | undefined };
  settledMs: number;
  tookMs: number;
}

/** A chaos run and its judgement. */
export interface Verdict {
  figures: Figures;
  violations: Violation[];
  evidence: Evidence;
}

const SHOWN_VIOLATIONS = 20;
const SHOWN_TIMELINES = 3;

/** Computes the figures from the evidence. */
export function countUp(
  evidence: Evidence,
  rest: Pick<Figures, "swallowed" | "settledMs" | "tookMs">,
): Figures {
  const { faults, load, journal } = evidence;
  const lookup = lookUp(evidence);
  const of = (kind: string) => faults.filter((fault) => fault.kind === kind);
  const woken = countWakes(evidence, lookup);
  const kinds = [...new Set(faults.map(({ kind }) => kind))].sort();
  return {
    runs: load.told.reduce((sum, { story }) => sum + story.prompts.length, 0),
    succeeded: load.seen.filter(({ entry }) => entry.kind === "reply" && entry.status === "succeeded").length,
    faults: Object.fromEntries(kinds.map((kind) => [kind, of(kind).length])),
    hits: Object.fromEntries(
      kinds.map((kind) => [kind, of(kind).filter(({ hit }) => hit.length > 0).length]),
    ),
    runsHit: faults.reduce((sum, { hit }) => sum + hit.length, 0),
    claims: [...lookup.claims.values()].reduce((sum, claims) => sum + claims.length, 0),
    wakes: woken.reduce((sum, { wakes }) => sum + wakes, 0),
    mostWakesAStep: Math.max(0, ...woken.map(({ wakes, steps }) => wakes / Math.max(1, steps))),
    turnsCommitted: [...lookup.committedAt.keys()].filter((key) => / \d*[13579]$/.test(key)).length,
    callsServed: namedCalls(evidence.ledger).filter(({ call }) => call.status === "served").length,
    toolsRun: journal.filter(({ what }) => what === "began").length,
    interrupted: [...lookup.results.values()].filter(({ interrupted }) => interrupted).length,
    stale: evidence.staleAsks.length,
    repeatedCalls: load.repeated,
    bookedBeside: bookedBeside(evidence),
    redispatch: redispatch(evidence, lookup),
    ...rest,
  };
}

/**
 * Measures the time from a worker's fault to the next claim of each run it held. Leaves out runs during whose wait Redis was
 * unavailable, or during whose lease its clock jumped.
 */
function redispatch({ faults }: Evidence, { claims }: Lookup): Figures["redispatch"] {
  const waits = faults
    .filter(({ kind }) => !isOfRedis(kind))
    .flatMap(({ at, hit }) =>
      hit.flatMap((held) => {
        const next = claims.get(held.uid)?.find((claim) => claim.epoch > held.epoch);
        if (!next || isHeldOverJump({ faults }, { claims }, held)) return [];
        if (isRedisAway(faults, at, next.at)) return [];
        return [{ uid: held.uid, ms: Math.round(next.at - at) }];
      }),
    )
    .sort((a, b) => a.ms - b.ms);
  const at = (share: number) => waits[Math.min(waits.length - 1, Math.floor(share * waits.length))]?.ms ?? 0;
  const slowest = waits.at(-1);
  return { count: waits.length, p50: at(0.5), p95: at(0.95), max: slowest?.ms ?? 0, slowest: slowest?.uid };
}

function isRedisAway(faults: Evidence["faults"], from: number, to: number): boolean {
  return faults.some(({ kind, at, endedAt }) => kind === "redis" && at < to && endedAt > from);
}

/** Returns the report as text. */
export function reportOf(options: ChaosOptions, { figures, violations, evidence }: Verdict): string {
  const { redispatch: again } = figures;
  const faults = Object.entries(figures.faults).map(
    ([kind, count]) => `${count} x ${kind} (${figures.hits[kind]} hit active runs)`,
  );
  const lines = [
    `chaos: seed ${options.seed}, ${figures.runs} runs, ${options.workers} workers, ${options.timing} timing, ` +
      `faults ${[...options.faults].join(",")}, ${Math.round(figures.tookMs / 1_000)} s`,
    `  faults    ${faults.join(", ")}; ${figures.swallowed} replies swallowed; ${figures.runsHit} active runs hit`,
    `  work      ${figures.succeeded} replies succeeded, ${figures.turnsCommitted} turns committed with ` +
      `${figures.callsServed} calls served, ${figures.toolsRun} tool calls, ${figures.interrupted} reported interrupted, ` +
      `${figures.claims} claims, ${figures.wakes} wakes, at most ${figures.mostWakesAStep.toFixed(2)} a committed step, ` +
      `${figures.stale} stale writes, ${figures.repeatedCalls} calls repeated by parents`,
    `  money     ${figures.bookedBeside} tokens more in the parents' usage than in the model server's ledger`,
    `  again     ${again.count} runs claimed after a fault: p50 ${again.p50} ms, p95 ${again.p95} ms, max ${again.max} ms`,
    `  quiet     ${Math.round(figures.settledMs)} ms after the last reply`,
    violations.length === 0 ? "  verdict   nothing lost, nothing done twice" : "",
  ];
  if (violations.length > 0) lines.push(...complaint(options, violations, evidence));
  return lines.filter((line) => line !== "").join("\n");
}

function complaint(options: ChaosOptions, violations: readonly Violation[], evidence: Evidence): string[] {
  const told = violations.slice(0, SHOWN_VIOLATIONS);
  const uids = [...new Set(violations.flatMap(({ uid }) => (uid ? [uid] : [])))].slice(0, SHOWN_TIMELINES);
  return [
    `  verdict   ${violations.length} VIOLATIONS; repeat with: ${options.command}`,
    ...told.map(({ broken, detail, uid }) => `  - not kept: ${broken}: ${detail}${uid ? ` [${uid}]` : ""}`),
    ...uids.flatMap((uid) => [`  timeline of ${uid}, ms:`, ...timelineOf(uid, evidence)]),
  ];
}
