/** `doctor --measure`: makes tiny calls to the model backend, at rising concurrency, and reports how many it takes. */
import type { Clock } from "../../shared/clock.ts";
import { newRequestKey } from "../../shared/protocol/ids.ts";
import { onAbort } from "../../shared/stop-signal.ts";
import type { CallControl, Model, ModelRequest } from "../../worker/model/model.ts";
import { messageJson, requestHead } from "../../worker/model/request.ts";
import type { CommandContext } from "../command.ts";
import { createDisposables } from "../local/disposables.ts";
import { openModel } from "../local/service.ts";
import { modelText } from "../terminal/banner.ts";
import { formatPlural } from "../terminal/numbers.ts";
import type { Finding } from "./report.ts";

/** Concurrency and number of calls of each level; the first level opens connections and is not counted. */
const LEVELS = [
  { concurrency: 1, calls: 1 },
  { concurrency: 1, calls: 4 },
  { concurrency: 2, calls: 6 },
  { concurrency: 4, calls: 12 },
  { concurrency: 8, calls: 24 },
] as const;
const MAX_TOKENS = 16;
/** Timeout of a call. */
const CALL_LIMIT_MS = 60_000;
/** Latency of the built-in offline model, like that of a remote backend. */
const OFFLINE_LATENCY_MS = 100;

/** Measures the configured backend, or the offline model; first prints the number and size of the calls. */
export async function measure(context: CommandContext) {
  const { config, output, clock, signal } = context;
  const total = LEVELS.reduce((sum, { calls }) => sum + calls, 0);
  const backend = config.provider ? modelText(config) : `the offline model (${OFFLINE_LATENCY_MS} ms a call)`;
  output.note(
    `Measuring ${backend}: ${formatPlural(total, "call")} of at most ${MAX_TOKENS} output tokens each.`,
  );
  const disposables = createDisposables();
  try {
    const model = await openModel(context, disposables, OFFLINE_LATENCY_MS);
    const levels = await callAtAllLevels({ model, modelId: config.model, clock, signal });
    return measurementOf(levels, config.concurrency);
  } finally {
    await disposables.close();
  }
}

/** The measured backend; `signal` ends the calls. */
interface Backend {
  model: Model;
  modelId: string;
  clock: Clock;
  signal: AbortSignal;
}

/** Makes the calls of each level, until one fails. */
export async function callAtAllLevels(backend: Backend): Promise<Level[]> {
  const levels: Level[] = [];
  for (const { concurrency, calls } of LEVELS) {
    const level: Level = { concurrency, callsMs: [] };
    let left = calls;
    const callInTurn = async () => {
      while (left-- > 0 && !level.failure) {
        const startedMs = backend.clock.monotonicMs();
        const problem = await callOnce(backend);
        if (problem) level.failure ??= problem;
        else level.callsMs.push(backend.clock.monotonicMs() - startedMs);
      }
    };
    await Promise.all(Array.from({ length: concurrency }, callInTurn));
    levels.push(level);
    if (level.failure) break;
  }
  return levels.length > 1 ? levels.slice(1) : levels;
}

/** Makes one call; returns its failure, or undefined if the backend answered. */
async function callOnce({ model, modelId, clock, signal }: Backend): Promise<Level["failure"]> {
  const deadlineMs = clock.monotonicMs() + CALL_LIMIT_MS;
  const control: CallControl = { mayBegin: () => !signal.aborted, abortCall: null, deadlineMs };
  const forget = onAbort(signal, () => control.abortCall?.("measuring was interrupted"));
  const outcome = await model.call(requestFor(modelId), control).finally(forget);
  if (signal.aborted) return { isLimit: false, problem: "it was interrupted" };
  if (outcome.status === "answer") return undefined;
  if (outcome.status === "aborted")
    return { isLimit: false, problem: `a call took longer than ${CALL_LIMIT_MS / 1_000} s` };
  const { kind, message } = outcome.failure;
  return { isLimit: kind === "rate_limited" || kind === "overloaded", problem: message };
}

function requestFor(model: string): ModelRequest {
  return {
    model,
    head: requestHead({ maxTokens: MAX_TOKENS, system: "", tools: [] }),
    messages: messageJson({ role: "user", content: [{ type: "text", text: "Answer with the word ok." }] }),
    cachedLength: 0,
    extra: "",
    purchaseId: `measure-${newRequestKey()}`,
    maxTokens: MAX_TOKENS,
    stream: false,
  };
}

/** Returns the report on the levels, for workers with `concurrency` runs at a time. */
export function measurementOf(levels: readonly Level[], concurrency: number) {
  const { summary, finding } = diagnoseParallelism(levels, concurrency);
  const figures = levels
    .filter(({ failure }) => !failure)
    .map((level) => ({
      concurrency: level.concurrency,
      calls: level.callsMs.length,
      calls_per_second: Math.round(callsPerSecond(level) * 100) / 100,
    }));
  const speeds = figures.map((level) => `${level.concurrency}: ${level.calls_per_second.toFixed(1)}/s`);
  const said = [summary, speeds.join("  ")].filter(Boolean).join(" · ");
  const area = { area: "model", severity: finding?.severity ?? "ok", summary: said } as const;
  return { area, findings: finding ? [finding] : [], levels: figures };
}

/** The calls at one concurrency. */
export interface Level {
  concurrency: number;
  /** Duration of each answered call, ms. */
  callsMs: number[];
  /** The first failure, if any; `isLimit`: the provider asked for fewer calls. */
  failure?: { isLimit: boolean; problem: string };
}

/** A call below this measures this host, not the backend. */
const TOO_QUICK_MS = 15;
/** Share of the ideal speed that counts as parallel, because backends slow down a little under load. */
const NEARLY = 0.7;

/** Returns the calls per second of a level, from its median call, which one slow call does not change. */
export function callsPerSecond({ concurrency, callsMs }: Level): number {
  return (concurrency * 1_000) / Math.max(median(callsMs), 0.001);
}

/** Returns how many calls the backend takes at a time, and a finding. Levels: in rising order, none after a failure. */
export function diagnoseParallelism(
  levels: readonly Level[],
  concurrency: number,
): { summary: string; finding?: Finding } {
  const whole = levels.filter(({ failure }) => !failure);
  const failure = levels.find((level) => level.failure)?.failure;
  if (failure && (!failure.isLimit || whole.length === 0)) {
    const what = `the model backend could not be measured: ${failure.problem}`;
    return { summary: "not measured", finding: findingOf("model_failed", "error", what, "") };
  }
  // The time of a call that does not wait: the best of all levels, because the first calls meet cold caches.
  const callMs = Math.min(...whole.map((level) => median(level.callsMs)));
  const best = Math.max(...whole.map((level) => (level.concurrency * callMs) / median(level.callsMs)));
  const most = whole.at(-1)?.concurrency ?? 1;
  if (callMs < TOO_QUICK_MS) return { summary: `a call takes ${callMs.toFixed(1)} ms: too quick to tell` };
  if (failure) {
    const tooMuch = tooMany(most, concurrency, "takes no more than", "is refused and tried again later");
    return { summary: `refuses more than ${formatPlural(most, "call")} at a time`, ...tooMuch };
  }
  if (best >= most * NEARLY) return { summary: `answers ${most} calls side by side without waiting` };
  const takes = Math.max(1, Math.round(best));
  const summary = `answers ${formatPlural(takes, "call")} at a time`;
  return { summary, ...tooMany(takes, concurrency, "answers", "only queues") };
}

/** Returns a finding if `concurrency` exceeds twice `takes`: so many keep the backend busy while some runs use tools. */
function tooMany(takes: number, concurrency: number, does: string, then: string): { finding?: Finding } {
  const enough = 2 * takes;
  if (concurrency <= enough) return {};
  const what = `the model backend ${does} ${formatPlural(takes, "call")} at a time: SUBAGENT_CONCURRENCY above ${enough} ${then}`;
  const todo = `set SUBAGENT_CONCURRENCY=${enough} for all workers together (it is ${concurrency} here)`;
  return { finding: findingOf("serial_model", "warn", what, todo) };
}

function findingOf(check: string, severity: Finding["severity"], what: string, todo: string): Finding {
  return { check, area: "model", severity, what, count: 1, names: [], todo, fixable: false };
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const at = (place: number) => sorted[Math.trunc(place)] ?? 0;
  return (at((sorted.length - 1) / 2) + at(sorted.length / 2)) / 2;
}
