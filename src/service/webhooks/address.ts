/**
 * Which addresses a webhook may reach: those of the public internet, unless the operator allows all. Decided on the address
 * that is dialled, after its name was resolved, so that a name that changes its address between two looks gains nothing.
 */
import { lookup } from "node:dns";
import type { LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";
import { SubagentError } from "../../shared/errors.ts";

/** `public`: addresses of the public internet over https; `any`: all, also over http. */
export type Reach = "public" | "any";

/** Whether an address is one of the public internet; an IPv4 address in the clothes of an IPv6 one is judged as what it is. */
function isPublic(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.process(address).range() === "unicast";
}

/** Throws `invalid_input` for a URL that may not be reached, as far as the URL alone tells. */
export function requireReachable(url: string, reach: Reach): void {
  if (reach === "any") return;
  const { protocol, hostname } = new URL(url);
  if (protocol !== "https:")
    throw new SubagentError(
      "invalid_input",
      "This webhook would be sent in clear text: use an https address.",
    );
  const literal = hostname.replace(/^\[|\]$/g, "");
  if (ipaddr.isValid(literal) && !isPublic(literal)) throw refused(literal);
}

/** Resolves names for a connection; fails for a name with any address that may not be reached. */
export function lookupFor(reach: Reach, resolve: typeof lookup = lookup): LookupFunction {
  return (hostname, options, done) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const [first] = addresses ?? [];
      if (error || first === undefined) return done(error ?? refused(hostname), "", 0);
      const hidden = reach === "public" && addresses.find(({ address }) => !isPublic(address));
      if (hidden) return done(refused(hidden.address), "", 0);
      if (options.all) done(null, addresses);
      else done(null, first.address, first.family);
    });
  };
}

function refused(address: string): SubagentError {
  const sentence = `Webhooks reach public addresses only, and ${address} is none: the operator can allow all (api --webhooks-anywhere).`;
  return new SubagentError("invalid_input", sentence);
}
