/** How the doctor calls parents, agents and spans of time. Pure. */
import type { AgentAddress, ParentAddress } from "../../shared/protocol/keys.ts";

const DEFAULT_TENANT = "default";
const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
] as const;

/** A parent by its id, with its tenant unless that is the default one. */
export function ownerName({ tenant, parentId }: ParentAddress): string {
  return tenant === DEFAULT_TENANT ? parentId : `${tenant}/${parentId}`;
}

/** An agent as `parent/agent`; by uid where its name is gone. */
export function agentName(address: AgentAddress, agentId = ""): string {
  return `${ownerName(address)}/${agentId || address.uid}`;
}

/** A span in its largest whole unit: `3 d`, `7 h`, `12 s`. */
export function formatSpan(ms: number): string {
  const [unit, size] = UNITS.find(([, length]) => ms >= length) ?? ["s", 1_000];
  return `${Math.floor(ms / size)} ${unit}`;
}
