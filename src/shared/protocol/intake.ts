/**
 * Input from programs without this library: an entry of the intake stream (flat fields), or a job of the intake queue (the
 * same names in JSON). Both become a task, or a message to a live agent.
 */
import { z } from "zod";
import { ParentId, ParentName, RequestKey, TenantId } from "./ids.ts";
import { AlertThresholds, Effort, LimitsInput, TaskBudget } from "./limits.ts";
import { MESSAGE_MAX_BYTES, MessageText } from "./message.ts";
import { OutputSchema } from "./output.ts";
import { PermissionRules } from "./permissions.ts";

/** Maximum number of fields of one stream entry, and of characters of a field's name. */
export const INTAKE_MAX_FIELDS = 32;
/** See {@link INTAKE_MAX_FIELDS}. */
export const INTAKE_NAME_MAX_CHARS = 64;
/** Maximum bytes of one stream entry or job: the longest prompt and instructions, and some room. */
export const INTAKE_MAX_BYTES = 3 * MESSAGE_MAX_BYTES;
/** Length of `\u0000`, the longest escape of JSON. */
const UNICODE_ESCAPE_CHARS = 6;
/** Maximum characters of the JSON of a request, which may have each byte escaped. */
export const INTAKE_MAX_CHARS = UNICODE_ESCAPE_CHARS * INTAKE_MAX_BYTES;
/** Maximum number of values in the JSON of a field or a job: the longest output schema may have 16,000, the lists some 2,000. */
export const INTAKE_MAX_VALUES = 20_000;

/**
 * Returns the size of a request in its JSON, as it counts towards {@link INTAKE_MAX_BYTES}: bytes of UTF-8, each escape as one. So
 * an entry that becomes a job grows only by the quotes and commas around its fields.
 */
export function intakeBytes(json: string): number {
  let [spared, length] = [0, 0];
  for (let at = json.indexOf("\\"); at >= 0; at = json.indexOf("\\", at + length)) {
    length = json[at + 1] === "u" ? UNICODE_ESCAPE_CHARS : 2;
    spared += length - 1;
  }
  return Buffer.byteLength(json) - spared;
}

/**
 * One request. With `agent_id` the prompt is a message to that agent, and options of a new one are refused; with `keep_alive`
 * the new agent takes further messages; otherwise it is a task. `request_key` makes the request repeatable for 24 hours, a task
 * until a day after its ack; default: the id of the entry or job. `reply`, of a job only: `return` (the default) makes the reply
 * of a task the job's return value, `channel` leaves it to the parent; replies to messages are always the parent's. `agent` names
 * a definition. It and the other fields are those of `Parent.spawn`, which checks them, as `Parent.send` does `agent_id`.
 */
export const IntakeInput = z.strictObject({
  v: z.literal(1).default(1),
  tenant: TenantId.default("default"),
  parent_id: ParentName,
  prompt: MessageText,
  request_key: RequestKey.optional(),
  agent_id: z.string().trim().optional(),
  keep_alive: z.boolean().optional(),
  agent: z.string().optional(),
  name: z.string().optional(),
  description: z.string().optional(),
  model: z.string().optional(),
  system: z.string().optional(),
  fallback_models: z.array(z.string()).optional(),
  tools: z.array(z.string()).optional(),
  disallowed_tools: z.array(z.string()).optional(),
  skills: z.array(z.string()).optional(),
  hooks: z.array(z.string()).optional(),
  permissions: PermissionRules.optional(),
  limits: LimitsInput.optional(),
  alerts: AlertThresholds.optional(),
  effort: Effort.optional(),
  task_budget: TaskBudget.optional(),
  transcript_ms: z.int().optional(),
  output_schema: OutputSchema.optional(),
  reply: z.enum(["return", "channel"]).default("return"),
});
/** See {@link IntakeInput}. */
export type IntakeInput = z.output<typeof IntakeInput>;

/** Sender of a request, for the answer to a refused one; a sub-agent has no channel that could hold it. */
export const IntakeSender = z.object({ tenant: IntakeInput.shape.tenant, parent_id: ParentId });

/**
 * Spelling of each field in the stream. `text`: unchanged; `number`: a number; `flag`: `1` or `0`; `names`: JSON, or names
 * separated by commas; `json`: a JSON object.
 */
export const INTAKE_FIELDS = {
  v: "number",
  tenant: "text",
  parent_id: "text",
  prompt: "text",
  request_key: "text",
  agent_id: "text",
  keep_alive: "flag",
  agent: "text",
  name: "text",
  description: "text",
  model: "text",
  system: "text",
  fallback_models: "names",
  tools: "names",
  disallowed_tools: "names",
  skills: "names",
  hooks: "names",
  permissions: "json",
  limits: "json",
  alerts: "json",
  effort: "text",
  task_budget: "number",
  transcript_ms: "number",
  output_schema: "json",
} as const satisfies Partial<Record<keyof IntakeInput, "text" | "number" | "flag" | "names" | "json">>;
