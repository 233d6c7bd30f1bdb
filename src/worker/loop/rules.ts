/**
 * The rules of a run: what its specification and its worker allow it. `run/spec-cache.ts` makes them, once for all runs of a
 * specification; they never change. Types only.
 */
import type { AlertThresholds, Limits } from "../../shared/protocol/limits.ts";
import type { OutputSchema } from "../../shared/protocol/output.ts";
import type { PermissionRules } from "../../shared/protocol/permissions.ts";

/** See the module's header. */
export interface RunRules {
  /** Caps of the run, and the maximum output tokens of one call. */
  limits: Limits;
  /** USD for one more token of a prompt, by the dearest model of the chain; default 0. */
  promptUsd?: number;
  /** Thresholds of the alerts; a capped number without one has 80 % of its cap. */
  alerts?: AlertThresholds;
  /** Requested model; named in replies of runs without an answer. */
  model: string;
  /** Tools that the agent was to have, and that this worker or the parent's list does not have. */
  unknownTools?: readonly string[];
  /** True if this worker has none of the agent's tools: it may only end the run. */
  lacksTools?: boolean;
  /** Tools whose interrupted calls are made again. */
  idempotentTools: ReadonlySet<string>;
  /** True if the parent can be asked. */
  canAsk: boolean;
  /** Layers of rules; every one must permit a call. */
  permissions?: readonly PermissionRules[];
  /** True if the parent can be asked to permit a call. */
  canBePermitted?: boolean;
  /** Prompt and answer tokens of a call from which requests omit old tool results; default 150,000. */
  clearAtTokens?: number;
  /** Schema of the final answer. */
  outputSchema?: OutputSchema | undefined;
}
