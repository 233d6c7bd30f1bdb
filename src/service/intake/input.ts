/** Reads the requests of other programs. The input is not trusted: size, field names and values are checked first. Pure. */
import { z } from "zod";
import { ModelId, ProfileInput, readInput } from "../../producer/input.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import { RequestKey } from "../../shared/protocol/ids.ts";
import {
  INTAKE_FIELDS,
  INTAKE_MAX_BYTES,
  INTAKE_MAX_FIELDS,
  INTAKE_MAX_VALUES,
  INTAKE_NAME_MAX_CHARS,
  IntakeInput,
  IntakeSender,
  intakeBytes,
} from "../../shared/protocol/intake.ts";
import type { ParentAddress } from "../../shared/protocol/keys.ts";
import { ScheduleId } from "../../shared/protocol/schedule.ts";
import { clip, depthOf, exceededBound, JSON_MAX_DEPTH, quoted } from "../../shared/protocol/text.ts";
import { pairs } from "../../shared/redis/codec.ts";

/** The parent of a request, and its request key. */
export interface Sender {
  parent: ParentAddress;
  requestKey: string | undefined;
}

/**
 * The data of a job. `profile`: options of its parent, which narrow the registered profile as the options of `createParent`
 * do. They allow nothing that the other fields could not request.
 */
const IntakeJobInput = IntakeInput.extend({ profile: ProfileInput.optional() });
/** The data of a scheduled job: it may also name its schedule, and the model that counts if no other one is named. */
const ScheduledJobInput = IntakeJobInput.extend({
  schedule_id: ScheduleId.optional(),
  default_model: ModelId.optional(),
});
/** One request, from an entry or a job. */
export type IntakeRequest = Omit<z.output<typeof ScheduledJobInput>, "schedule_id">;

const TOO_DEEP = `it nests deeper than ${JSON_MAX_DEPTH} levels`;
const TOO_MANY = `it has more than ${INTAKE_MAX_VALUES} values`;
const IntakeSchedule = z.object({ schedule_id: ScheduleId });
const IntakeKey = z.object({ request_key: RequestKey });
type FieldName = keyof typeof INTAKE_FIELDS;
/** Fields that a message to an agent may have: `keep_alive` only if it is false. */
const OF_A_MESSAGE: ReadonlySet<string> = new Set<keyof IntakeRequest>([
  "v",
  "tenant",
  "parent_id",
  "prompt",
  "request_key",
  "agent_id",
  "keep_alive",
  "reply",
  "profile",
  "default_model",
]);

/** Reads the request in the fields of a stream entry. Throws `invalid_input`. */
export function inputOfEntry(flat: readonly string[]): IntakeInput {
  if (flat.length > 2 * INTAKE_MAX_FIELDS) throw refused(`it has more than ${INTAKE_MAX_FIELDS} fields`);
  requireSize(flat.reduce((bytes, word) => bytes + Buffer.byteLength(word), 0));
  const fields: Record<string, unknown> = {};
  for (const [name, text] of pairs(flat)) {
    if (!isField(name)) throw unknownField(name);
    fields[name] = readField(name, text);
  }
  return withoutUnheeded(readInput(IntakeInput, { ...fields, reply: "channel" }, "intake"));
}

/** Reads a job's request. `unread`: why its data was not read; `isScheduled`: a schedule added it. Throws `invalid_input`. */
export function inputOfJob(
  { data, unread }: { data: unknown; unread?: string },
  isScheduled: boolean,
): IntakeRequest {
  if (unread !== undefined) throw refused(unread);
  // Checked first: JSON.stringify below fails on deeply nested data.
  if (depthOf(data) > JSON_MAX_DEPTH) throw refused(TOO_DEEP);
  const fields = data !== null && typeof data === "object" ? Object.keys(data) : [];
  if (fields.length > INTAKE_MAX_FIELDS) throw refused(`it has more than ${INTAKE_MAX_FIELDS} fields`);
  const form = isScheduled ? ScheduledJobInput : IntakeJobInput;
  const unknown = fields.find((name) => !Object.hasOwn(form.shape, name));
  if (unknown !== undefined) throw unknownField(unknown);
  requireSize(intakeBytes(JSON.stringify(data) ?? ""));
  const { schedule_id: _, ...request }: z.output<typeof ScheduledJobInput> = readInput(form, data, "intake");
  return withoutUnheeded(request);
}

/** Returns the request. Throws `invalid_input` if it is a message to an agent and has options that only a new agent takes. */
function withoutUnheeded<Request extends IntakeRequest>(request: Request): Request {
  const { agent_id, keep_alive } = request;
  if (agent_id === undefined) return request;
  const unheeded = Object.keys(request).filter((name) => !OF_A_MESSAGE.has(name));
  if (keep_alive) unheeded.unshift("keep_alive");
  if (unheeded.length === 0) return request;
  throw refused(
    `a message to ${quoted(agent_id)} cannot change its ${unheeded.join(", ")}: leave them out, or leave out agent_id for a new agent`,
  );
}

/** Returns the `schedule_id` in the data of a job; undefined if it cannot be read. */
export function scheduleIdIn(data: unknown): string | undefined {
  return IntakeSchedule.safeParse(data).data?.schedule_id;
}

/** Returns the sender of a request; undefined if no parent can be read, so that no channel can get a refusal. */
export function senderOf(source: unknown): Sender | undefined {
  const sender = IntakeSender.safeParse(source).data;
  if (!sender) return undefined;
  const key = IntakeKey.safeParse(source).data?.request_key;
  return { parent: { tenant: sender.tenant, parentId: sender.parent_id }, requestKey: key };
}

/** Returns the sender of an entry; see {@link senderOf}. */
export function senderOfEntry(flat: readonly string[]): Sender | undefined {
  const named: Record<string, unknown> = {};
  for (const [name, text] of pairs(flat.slice(0, 2 * INTAKE_MAX_FIELDS)))
    if (["tenant", "parent_id", "request_key"].includes(name)) named[name] = text;
  return senderOf(named);
}

function unknownField(name: string): SubagentError {
  return refused(
    ["files", "images"].includes(name)
      ? "it brings no files or images: put them into a directory that is open to the workers, and name them in the prompt"
      : `it has no field ${quoted(name, INTAKE_NAME_MAX_CHARS)}`,
  );
}

function isField(name: string): name is FieldName {
  return Object.hasOwn(INTAKE_FIELDS, name);
}

function readField(name: FieldName, text: string): unknown {
  switch (INTAKE_FIELDS[name]) {
    case "number":
      return Number(text);
    case "flag":
      return ["1", "true"].includes(text) || (["0", "false", ""].includes(text) ? false : text);
    case "names":
      return text.trimStart().startsWith("[") ? parsed(name, text) : splitNames(text);
    case "json":
      return parsed(name, text);
    default:
      return text;
  }
}

function splitNames(text: string): string[] {
  const names = text.split(",", INTAKE_MAX_VALUES + 1);
  if (names.length > INTAKE_MAX_VALUES) throw refused(TOO_MANY);
  return names.filter((each) => each.trim());
}

function parsed(name: string, text: string): unknown {
  const exceeded = exceededBound(text, { levels: JSON_MAX_DEPTH, values: INTAKE_MAX_VALUES });
  if (exceeded) throw refused(exceeded === "levels" ? TOO_DEEP : TOO_MANY);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw refused(`its field ${name} is no JSON (${clip(messageOf(error), 100)})`);
  }
}

function requireSize(bytes: number): void {
  if (bytes > INTAKE_MAX_BYTES) throw refused(`it has more than ${INTAKE_MAX_BYTES} bytes`);
}

function refused(why: string): SubagentError {
  return new SubagentError("invalid_input", `intake refused, nothing was done: ${why}.`);
}
