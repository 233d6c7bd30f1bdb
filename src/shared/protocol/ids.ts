/**
 * Names and identifiers of tenants, parents and sub-agents. Also the directory of an agent's files, and the trace of its
 * runs (W3C trace context, as a record carries it). Pure, except for random ids.
 */
import { createHash, randomFillSync } from "node:crypto";
import { z } from "zod";

const OWNER = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const OWNER_FORM = "1 to 64 characters of A-Z a-z 0-9 . _ -, starting with a letter or digit";
const UID = /^sa-[0-9a-f]{24}$/;
const NAME_MAX_CHARS = 100;
const SLUG_MAX_CHARS = 48;

/** Owner of parents; 1 to 64 characters of `A-Za-z0-9._-`. */
export const TenantId = z.string().regex(OWNER, OWNER_FORM);

/** The parent's name in a request. It has the form of a tenant, as a sub-agent's uid has, whose refusal is its own: `nested_spawn`. */
export const ParentName = z.string().regex(OWNER, OWNER_FORM);

/** Id of a parent: a {@link ParentName} that is no sub-agent's uid, because sub-agents do not spawn. */
export const ParentId = ParentName.refine(
  (id) => !UID.test(id),
  "a sub-agent's uid is not a parent: sub-agents cannot spawn",
);

/** The form of a {@link Prefix}, for people. */
export const PREFIX_FORM = "1 to 32 characters of A-Za-z0-9._-, starting with a letter or digit";

/** Name that separates installations on one Redis; see {@link PREFIX_FORM}. */
export const Prefix = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$/, PREFIX_FORM);

/** The random name of an agent in every key: `sa-` and 24 hex digits. */
export const Uid = z.string().regex(UID);

/** The name of an agent for people and models, e.g. `data_collector_2`. */
export const AgentId = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_]{0,63}$/, "an agent_id such as data_collector, as spawn returned it");

/** A display name: 1 to 100 characters, no path separators, no control characters. */
export const AgentName = z
  .string()
  .trim()
  .min(1, 'give the sub-agent a name, e.g. "Data Collector"')
  .max(NAME_MAX_CHARS, `at most ${NAME_MAX_CHARS} characters`)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: refusing control characters is the purpose
  .regex(/^[^/\\\u0000-\u001f\u007f]*$/u, "no slashes, backslashes or control characters");

/** A caller's idempotency key or message id: 1 to 128 printable ASCII characters without spaces. */
export const RequestKey = z
  .string()
  .regex(/^[\x21-\x7e]{1,128}$/, "1 to 128 printable ASCII characters without spaces");

/** Number of names per draw of random bytes: a draw for one of them costs the same. */
const NAMES_A_DRAW = 256;
const NAME_BYTES = 12;
const drawn = Buffer.alloc(NAMES_A_DRAW * NAME_BYTES);
let used = drawn.length;

/** Returns 24 random hex digits. */
function randomName(): string {
  if (used === drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  used += NAME_BYTES;
  return drawn.toString("hex", used - NAME_BYTES, used);
}

/** Returns a new random uid. */
export function newUid(): string {
  return `sa-${randomName()}`;
}

/** Returns a new random key for one request, message or claim. */
export function newRequestKey(): string {
  return randomName();
}

/**
 * Returns the stem of an agent_id: `Data Collector` gives `data_collector`; a name without ASCII letters gives `agent`.
 * `spawn` makes it unique among the parent's agents by a number (`data_collector_2`).
 */
export function slugOf(name: string): string {
  const plain = name.normalize("NFKD").toLowerCase();
  const slug = plain
    .replace(/[\u0300-\u036f]/g, "")
    .replace(/[^a-z0-9]+/g, "_")
    .replace(/^_+/, "")
    .slice(0, SLUG_MAX_CHARS)
    .replace(/_+$/, "");
  return /[a-z]/.test(slug) ? slug : "agent";
}

/**
 * Returns the directory name of a tenant or parent: `Planner` gives `+planner`. Many disks ignore case, and `planner` may be another's
 * name.
 */
export function folderOf(owner: string): string {
  return owner.replace(/[A-Z]/g, (letter) => `+${letter.toLowerCase()}`);
}

/** The directory name that {@link folderOf} gives; its value is the owner's name. */
export const OwnerFolder = z
  .string()
  .regex(/^[a-z0-9+._-]+$/)
  .transform((name) => name.replace(/\+([a-z])/g, (_, letter: string) => letter.toUpperCase()))
  .pipe(TenantId);

/** Returns the components of the agent's directory; it holds the stamp and, in {@link FILES_NAME}, the files. */
export function agentSegments(
  { tenant, parentId }: { tenant: string; parentId: string },
  agentId: string,
): string[] {
  return [folderOf(tenant), folderOf(parentId), "agents", agentId];
}

/** The directory that tools see as `.`. */
export const FILES_NAME = "workspace";
/** File of the stamp: next to the workspace, where its tools cannot reach it. */
export const STAMP_NAME = ".stamp.json";
/** Name prefix of half-written files in a workspace. */
export const DRAFT_PREFIX = ".subagent-queue-draft-";

/** Stamp of a workspace: it belongs to the agent with this uid, of the installation with this prefix. */
export const WorkspaceStamp = z.object({
  v: z.literal(1),
  uid: z.string(),
  prefix: z.string().optional(),
  created_at: z.string(),
});

const FORM = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;
const SAMPLED = "01";

/** The header `traceparent` of version 00: the caller's trace and span, and whether they are sampled. */
export const Traceparent = z
  .string()
  .regex(FORM, "a W3C traceparent: 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, lower case");

/** The same header of any version but `ff`, the invalid one; later versions may have more fields. */
const ANY_VERSION = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})(-.*)?$/;

/** Reads the header of a request, as W3C says: a later version as version 00, and what cannot be read as no header. */
export function traceparentIn(header: string | undefined): string | undefined {
  const [, version, fields, more] = ANY_VERSION.exec(header ?? "") ?? [];
  return version === "00" && more !== undefined ? undefined : Traceparent.safeParse(`00-${fields}`).data;
}

/** A span as other processes know it. */
export interface RemoteSpan {
  /** 32 hex digits. */
  traceId: string;
  /** 16 hex digits. */
  spanId: string;
  /** Bit 1: sampled. */
  traceFlags: number;
}

/** Returns the header of a span. */
export function traceparentOf({ traceId, spanId, traceFlags }: RemoteSpan): string {
  return `00-${traceId}-${spanId}-${(traceFlags & 0xff).toString(16).padStart(2, "0")}`;
}

/**
 * Returns the span to which run `run` of agent `uid` belongs: the span whose caller spawned the agent, else one of its own.
 * The ids determine that one, so each worker that continues the run finds the same; it counts as sampled.
 */
export function spanOfRun(uid: string, run: number, traceparent?: string): RemoteSpan {
  const [, traceId, spanId, flags] = FORM.exec(traceparent ?? ownTrace(uid, run)) ?? [];
  return { traceId: traceId ?? "", spanId: spanId ?? "", traceFlags: Number.parseInt(flags ?? "0", 16) };
}

function ownTrace(uid: string, run: number): string {
  const digest = createHash("sha256").update(`${uid}.${run}`).digest("hex");
  return `00-${digest.slice(0, 32)}-${digest.slice(32, 48)}-${SAMPLED}`;
}
