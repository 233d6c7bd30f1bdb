/** Whose a key is: the way back from the names in `keys.ts`. Pure. */
import type { ParentAddress } from "./keys.ts";

/** What a key of a parent holds, as far as somebody who walks through all keys wants to know. */
export type OwnedPart = "live" | "registry" | "replies" | "record" | "log" | "inbox" | "life" | "steps";

/** A key of a parent; `uid` where it is one of an agent. */
export interface OwnedKey extends ParentAddress {
  part: OwnedPart;
  uid?: string;
}

const OF_PARENT: ReadonlySet<string> = new Set(["live", "registry", "replies"]);
const OF_AGENT: ReadonlySet<string> = new Set(["log", "inbox", "life", "steps"]);
const FORM = /^\{([^/{}]+)\/([^/{}]+)\}:(?:agent:([^:]+)(?::([a-z]+))?|([a-z]+))$/;

/** A glob for SCAN that matches every key of every parent under `prefix`. */
export function parentKeysGlob(prefix: string): string {
  return `${prefix}:{*`;
}

/** The owner of `key` under `prefix`; undefined for request keys, acks, texts, message ids and whatever is not ours. */
export function ownerOfKey(prefix: string, key: string): OwnedKey | undefined {
  if (!key.startsWith(`${prefix}:`)) return undefined;
  const [, tenant, parentId, uid, ofAgent = "record", ofParent = ""] =
    FORM.exec(key.slice(prefix.length + 1)) ?? [];
  if (tenant === undefined || parentId === undefined) return undefined;
  if (uid === undefined)
    return isPart(ofParent, OF_PARENT) ? { tenant, parentId, part: ofParent } : undefined;
  if (ofAgent === "record") return { tenant, parentId, uid, part: "record" };
  return isPart(ofAgent, OF_AGENT) ? { tenant, parentId, uid, part: ofAgent } : undefined;
}

function isPart(text: string, parts: ReadonlySet<string>): text is OwnedPart {
  return parts.has(text);
}
