/** The hosts and addresses that commands may reach, as the operator lists them. */
import {
  type guardedLookup,
  isAddress,
  isPublic,
  type MayReach,
  parseRanges,
} from "../../../shared/address-range.ts";

/** Hosts and addresses that commands may reach. */
export interface EgressPolicy {
  /** The hosts, as the operator wrote them. */
  readonly hosts: readonly string[];
  /** Checks whether a host (lower case, IPv6 without brackets) and port are on the list. */
  isListed(host: string, port: number): boolean;
  readonly mayReach: MayReach;
  /** Resolves host names; default: the system's resolver. */
  readonly resolve?: Parameters<typeof guardedLookup>[2];
}

const DEFAULT_PORTS = [80, 443];
const HOST = /^(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/;
/** End of a short or octal address, such as `10.1` or `010.0.0.1`; no name ends so. */
const ENDS_IN_NUMBER = /(?:^|\.)(?:\d+|0x[0-9a-f]*)$/;

/**
 * Parses a list of hosts, `registry.npmjs.org,*.github.com,git.example.com:8443`, and of private ranges that may be dialled
 * (`10.0.0.0/8`). A host without a port means 80 and 443, and `*.` every name below. Returns the problem of an invalid list.
 */
export function parseEgress(hosts: string, ranges = ""): EgressPolicy | { problem: string } {
  const inside = parseRanges(ranges);
  if (inside === undefined)
    return { problem: `${JSON.stringify(ranges)} is no list such as 10.0.0.0/8,fd00::/8` };
  const listed: { name: string; ports: readonly number[] }[] = [];
  const items = hosts.split(",").map((part) => part.trim().toLowerCase());
  for (const item of items.filter((part) => part !== "")) {
    const [, name = "", port] = /^(\[[0-9a-f:.]+\]|[^:[\]]+)(?::(\d{1,5}))?$/.exec(item) ?? [];
    const bare = asInUrls(name.replace(/^\[|\]$/g, ""));
    if (
      !(isAddress(bare) || (HOST.test(bare) && !ENDS_IN_NUMBER.test(bare))) ||
      (port !== undefined && !(Number(port) >= 1 && Number(port) <= 65_535))
    ) {
      return {
        problem: `${JSON.stringify(item)} is no host such as registry.npmjs.org, *.github.com or 10.1.2.3:8080`,
      };
    }
    listed.push({ name: bare, ports: port === undefined ? DEFAULT_PORTS : [Number(port)] });
  }
  return {
    hosts: items.filter((part) => part !== ""),
    isListed: (host, port) =>
      listed.some(({ name, ports }) => {
        const isNamed = name.startsWith("*.") ? host.endsWith(name.slice(1)) : host === name;
        return isNamed && ports.includes(port);
      }),
    mayReach: (address) => isPublic(address) || inside(address),
  };
}

/** Spells an IPv6 address as every URL spells it; returns any other host unchanged. */
function asInUrls(host: string): string {
  return host.includes(":") && isAddress(host) ? new URL(`http://[${host}]`).hostname.slice(1, -1) : host;
}
