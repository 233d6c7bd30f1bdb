/** How hard a model is to try, and the tokens that it is told it has: which model takes what, and what is narrower. Pure. */
import { z } from "zod";
import { CEILING } from "./limits.ts";

/** How thorough a model is to be, from least to most. */
export const Effort = z.enum(["low", "medium", "high", "xhigh", "max"]);
/** See {@link Effort}. */
export type Effort = z.infer<typeof Effort>;

/** Tokens that the model is told it has for a run, to pace itself by; the provider takes no fewer. Advice, not a cap. */
export const TaskBudget = z.int().min(20_000).max(CEILING.max_total_tokens);

/** What a model is told about how much to do. */
export interface Pace {
  effort?: Effort | undefined;
  task_budget?: number | undefined;
}

const UP_TO_HIGH: readonly Effort[] = ["low", "medium", "high"];
const ALL: readonly Effort[] = Effort.options;

/**
 * The models that do not take all of it, as of November 2026. Others do, or are of other providers, which alone know: what they
 * are asked for is sent.
 */
const LIMITED: Readonly<Record<string, { efforts: readonly Effort[]; task_budget: boolean }>> = {
  "claude-sonnet-5": { efforts: ALL, task_budget: false },
  "claude-opus-4-6": { efforts: [...UP_TO_HIGH, "max"], task_budget: false },
  "claude-sonnet-4-6": { efforts: [...UP_TO_HIGH, "max"], task_budget: false },
  "claude-opus-4-5": { efforts: UP_TO_HIGH, task_budget: false },
  "claude-sonnet-4-5": { efforts: [], task_budget: false },
  "claude-haiku-4-5": { efforts: [], task_budget: false },
};
const SNAPSHOT_DATE = /-\d{8}$/;

/** What `model` takes of a pace: the next lower effort that it knows, where it does not know this one. */
export function paceFor(model: string, { effort, task_budget }: Pace): Pace {
  const id = model.replace(SNAPSHOT_DATE, "");
  const limited = Object.hasOwn(LIMITED, id) ? LIMITED[id] : undefined;
  const known = limited?.efforts ?? ALL;
  const taken = effort && known.findLast((each) => ALL.indexOf(each) <= ALL.indexOf(effort));
  const isBudgeted = task_budget !== undefined && limited?.task_budget !== false;
  return { ...(taken && { effort: taken }), ...(isBudgeted && { task_budget }) };
}

/** The lesser of two efforts; one that is absent is no bound. */
export function leastEffort(a: Effort | undefined, b: Effort | undefined): Effort | undefined {
  if (!a || !b) return a ?? b;
  return ALL.indexOf(a) <= ALL.indexOf(b) ? a : b;
}
