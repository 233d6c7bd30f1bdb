/** The addresses that a webhook may reach: those of the public internet, unless the operator allows all. */
import type { LookupFunction } from "node:net";
import { guardedLookup, isAddress, isPublic } from "../../shared/address-range.ts";
import type { ResolveName } from "../../shared/dns.ts";
import { SubagentError } from "../../shared/errors.ts";

/** `public`: addresses of the public internet over https; `any`: all, also over http. */
export type Reach = "public" | "any";

const ALLOWED = "The operator can allow all: api --webhooks-anywhere.";

/** Throws `invalid_input` for a URL that may not be reached. Checks only the URL; {@link lookupFor} checks its addresses. */
export function requireReachable(url: string, reach: Reach): void {
  if (reach === "any") return;
  const { protocol, hostname } = new URL(url);
  if (protocol !== "https:")
    throw new SubagentError(
      "invalid_input",
      `Webhooks are not sent in clear text: use an https address. ${ALLOWED}`,
    );
  const literal = hostname.replace(/^\[|\]$/g, "");
  if (isAddress(literal) && !isPublic(literal)) throw refused(literal);
}

/** Returns a DNS lookup for connections; it fails for a name with any address that may not be reached. `resolve` is for tests. */
export function lookupFor(reach: Reach, resolve?: ResolveName): LookupFunction {
  return guardedLookup(reach === "any" ? () => true : isPublic, refused, resolve);
}

function refused(address: string): SubagentError {
  const sentence = `Webhooks reach public addresses only, and ${address} is none. ${ALLOWED}`;
  return new SubagentError("invalid_input", sentence);
}
