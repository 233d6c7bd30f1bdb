/**
 * Decides which addresses a connection may reach. It checks the address that is dialled, after its name was resolved, so a
 * name that changes its address between two lookups gains nothing. For webhooks and for the commands of sub-agents.
 */
import { isIP, type LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";
import { type ResolveName, resolveName } from "./dns.ts";

/** Returns true if an address, given as text, may be reached. */
export type MayReach = (address: string) => boolean;

/** Public part of IPv6; the rest may embed other addresses (`::127.0.0.1`). */
const GLOBAL_UNICAST = ipaddr.parseCIDR("2000::/3");

/** Length of a range's prefix, bits. */
const PREFIX_LENGTH = /^(?:0|[1-9]\d{0,2})$/;

/**
 * Returns true for an IP address, false for a name. IPv4 has four decimal parts: `ipaddr.js` also reads `10` as 0.0.0.10 and
 * `010.0.0.1` as 8.0.0.1.
 */
export function isAddress(text: string): boolean {
  return isIP(text) !== 0 && ipaddr.isValid(text);
}

/** Returns true for an address of the public internet. An IPv4 address mapped into IPv6 is judged as the IPv4 address. */
export function isPublic(address: string): boolean {
  if (!isAddress(address)) return false;
  const found = ipaddr.process(address);
  if (found.range() !== "unicast") return false;
  return found.kind() === "ipv4" || found.match(GLOBAL_UNICAST);
}

/** Parses ranges such as `10.0.0.0/8,fd00::/8`, or single addresses; returns undefined if one is neither. */
export function parseRanges(text: string): MayReach | undefined {
  const parts = text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
  const ranges = parts.map(parseRange);
  const known = ranges.filter((range) => range !== undefined);
  if (known.length < ranges.length) return undefined;
  return (address) => {
    const found = isAddress(address) ? ipaddr.process(address) : undefined;
    return known.some(
      (range) => found !== undefined && found.kind() === range[0].kind() && found.match(range),
    );
  };
}

function parseRange(text: string) {
  const [address = "", length = address.includes(":") ? "128" : "32", ...others] = text.split("/");
  const isWellFormed = isAddress(address) && PREFIX_LENGTH.test(length) && others.length === 0;
  const range = `${address}/${length}`;
  return isWellFormed && ipaddr.isValidCIDR(range) ? ipaddr.parseCIDR(range) : undefined;
}

/**
 * Returns a lookup for a connection, which dials its result. The lookup fails with `refused` for a name with any address
 * that may not be reached. Node does not call it for an address in place of a name, which it dials directly.
 */
export function guardedLookup(
  mayReach: MayReach,
  refused: (address: string) => Error,
  resolve: ResolveName = resolveName,
): LookupFunction {
  const find = async (hostname: string) => {
    const addresses = await resolve(hostname);
    const hidden = addresses.find(({ address }) => !mayReach(address));
    if (hidden) throw refused(hidden.address);
    return addresses;
  };
  return (hostname, options, done) => {
    find(hostname).then(
      (addresses) => {
        const [first] = addresses;
        if (options.all) done(null, [...addresses]);
        else if (first) done(null, first.address, first.family);
        else done(refused(hostname), "", 0);
      },
      (error: NodeJS.ErrnoException) => done(error, "", 0),
    );
  };
}
