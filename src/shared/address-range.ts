/**
 * Which addresses a connection may reach, decided on the address that is dialled, after its name was resolved: a name that
 * changes its address between two looks gains nothing. For webhooks and for the commands of sub-agents.
 */
import { lookup } from "node:dns";
import type { LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";

/** Says of an address, as text, whether it may be reached. */
export type MayReach = (address: string) => boolean;

/** What IPv6 gives to the public internet; the rest of it holds other addresses in new clothes (`::127.0.0.1`). */
const GLOBAL_UNICAST = ipaddr.parseCIDR("2000::/3");

/** Whether a text is an IP address, and no name. */
export function isAddress(text: string): boolean {
  return ipaddr.isValid(text);
}

/** Whether an address is one of the public internet; an IPv4 address in the clothes of an IPv6 one is judged as what it is. */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const found = ipaddr.process(address);
  if (found.range() !== "unicast") return false;
  return found.kind() === "ipv4" || found.match(GLOBAL_UNICAST);
}

/** Reads ranges such as `10.0.0.0/8,fd00::/8`, or single addresses; undefined where one is neither. */
export function parseRanges(text: string): MayReach | undefined {
  const parts = text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
  const ranges = parts.map((part) => {
    if (ipaddr.isValidCIDR(part)) return ipaddr.parseCIDR(part);
    return ipaddr.isValid(part) ? ipaddr.parseCIDR(`${part}/${part.includes(":") ? 128 : 32}`) : undefined;
  });
  const known = ranges.filter((range) => range !== undefined);
  if (known.length < ranges.length) return undefined;
  return (address) => {
    const found = ipaddr.isValid(address) ? ipaddr.process(address) : undefined;
    return known.some(
      (range) => found !== undefined && found.kind() === range[0].kind() && found.match(range),
    );
  };
}

/**
 * Resolves names for a connection, which dials what this answers. Fails with `refused` for a name with any address that may
 * not be reached. An address in the place of a name is not asked for here: Node dials it as it is.
 */
export function guardedLookup(
  mayReach: MayReach,
  refused: (address: string) => Error,
  resolve: typeof lookup = lookup,
): LookupFunction {
  return (hostname, options, done) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const [first] = addresses ?? [];
      if (error || first === undefined) return done(error ?? refused(hostname), "", 0);
      const hidden = addresses.find(({ address }) => !mayReach(address));
      if (hidden) return done(refused(hidden.address), "", 0);
      if (options.all) done(null, addresses);
      else done(null, first.address, first.family);
    });
  };
}
