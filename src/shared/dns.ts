/**
 * Finds the addresses of host names that others choose: in the hosts file, else at the name servers of the system.
 *
 * Owns: the lookups under way, one for each name.
 *
 * 1. A lookup holds no thread of the process: a name server that does not answer delays only lookups of its own names.
 * 2. Concurrent lookups of one name are one lookup.
 */
import type { LookupAddress } from "node:dns";
import { Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import { codeOf } from "./errors.ts";

/** Returns the addresses of a host name, at least one. Rejects with the code of the DNS, such as `ENOTFOUND`. */
export type ResolveName = (name: string) => Promise<readonly LookupAddress[]>;

/** Sources of addresses; the defaults are those of the system. */
export interface NameSources {
  /** Name servers, such as `127.0.0.1:53`. */
  servers?: readonly string[];
  hostsFile?: string;
  /** File with the domains of short names. */
  searchFile?: string;
}

/** Time for the first answer of a name server; the second and last attempt has twice the time. */
const ANSWER_MS = 1_500;
const ATTEMPTS = 2;
/** An answer with one of these codes says that there is no such name, or none with such an address. */
const HAS_NONE = ["ENOTFOUND", "ENODATA"];
const LOOPBACK = ["127.0.0.1", "::1"];

/** Creates a resolver of names. */
export function createResolver({
  servers,
  hostsFile = "/etc/hosts",
  searchFile = "/etc/resolv.conf",
}: NameSources = {}): ResolveName {
  const underWay = new Map<string, ReturnType<ResolveName>>();
  const find = async (name: string) => {
    const bare = name.replace(/\.$/, "");
    const listed = addressesIn(await textOf(hostsFile), bare);
    if (listed.length > 0) return listed.map(asAddress);
    if (/(?:^|\.)localhost$/.test(bare)) return LOOPBACK.map(asAddress);
    return ask(wholeNames(name, await textOf(searchFile)), servers);
  };
  return (name) => {
    const key = name.toLowerCase();
    const lookup = underWay.get(key) ?? find(key).finally(() => underWay.delete(key));
    underWay.set(key, lookup);
    return lookup;
  };
}

/** Resolves names with the sources of the system. */
export const resolveName = createResolver();

/** Asks for each of `names` until one has an address; rejects with the first problem, or that there is no such name. */
async function ask(names: readonly string[], servers: NameSources["servers"]): ReturnType<ResolveName> {
  // A resolver of its own: it has read the settings of now, and its sockets close after the lookup.
  const resolver = new Resolver({ timeout: ANSWER_MS, tries: ATTEMPTS });
  if (servers) resolver.setServers(servers);
  const problems: unknown[] = [];
  for (const name of names) {
    const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
    const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    if (found.length > 0) return found.map(asAddress);
    problems.push(...answers.flatMap((answer) => (answer.status === "rejected" ? [answer.reason] : [])));
  }
  throw problems.find((problem) => !saysNone(problem)) ?? problems[0];
}

function saysNone(problem: unknown): boolean {
  return HAS_NONE.includes(codeOf(problem) ?? "");
}

/** Returns the names that `name` may stand for, in the order in which the system asks for them (resolv.conf(5)). */
function wholeNames(name: string, settings: string): string[] {
  if (name.endsWith(".")) return [name];
  const [, listed = ""] = [...settings.matchAll(/^(?:search|domain)[ \t]+(.*)$/gm)].at(-1) ?? [];
  const domains = listed.split(/\s+/).filter((domain) => domain !== "" && domain !== ".");
  const dotsOfWhole = Number(/^options\b.*\bndots:(\d+)/m.exec(settings)?.[1] ?? 1);
  const below = domains.map((domain) => `${name}.${domain}`);
  return name.split(".").length > dotsOfWhole ? [name, ...below] : [...below, name];
}

/** Returns the addresses of `name` in the text of a hosts file. */
function addressesIn(hosts: string, name: string): string[] {
  return hosts.split("\n").flatMap((line) => {
    const [address = "", ...names] = line.replace(/#.*/, "").trim().toLowerCase().split(/\s+/);
    return names.includes(name) && isIP(address) !== 0 ? [address] : [];
  });
}

function asAddress(address: string): LookupAddress {
  return { address, family: isIP(address) };
}

/** Returns the text of a file; a system without it has no such settings. */
async function textOf(file: string): Promise<string> {
  return readFile(file, "utf8").catch(() => "");
}
