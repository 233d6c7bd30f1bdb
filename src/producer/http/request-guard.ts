/**
 * Who may ask a server that has no login: pure decisions over a request's headers.
 *
 * A page of another site can make a browser send requests to loopback, and with a name that it points at 127.0.0.1
 * (DNS rebinding) it can read the answers. The Host header tells the second, the fetch metadata and Origin the first.
 */
import type { IncomingHttpHeaders } from "node:http";

/** Names in Host headers that are answered; `any` when the operator opened the server to a network. */
export type AllowedHosts = readonly string[] | "any";

const HOST_HEADER = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i;
const LOOPBACK_ADDRESS = /^127(?:\.\d{1,3}){3}$/;
const OWN_SITES: ReadonlySet<string> = new Set(["same-origin", "none"]);

/** Whether an address or name can only be reached from this machine. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[|\]$/g, "");
  return name === "localhost" || name === "::1" || LOOPBACK_ADDRESS.test(name);
}

/** The hosts a server bound to `host` answers: loopback names and `named`; any when it is open and none is named. */
export function allowedHosts(host: string, named: readonly string[] = []): AllowedHosts {
  return isLoopback(host) || named.length > 0 ? named : "any";
}

/** Why a request is refused, as a sentence, or undefined when it may pass. Loopback names always may. */
export function refusalOf(headers: IncomingHttpHeaders, hosts: AllowedHosts): string | undefined {
  const { host = "", origin } = headers;
  const name = HOST_HEADER.exec(host)?.[1];
  if (name === undefined) return "The Host header is missing or malformed.";
  if (hosts !== "any" && !isLoopback(name) && !hosts.includes(name.toLowerCase())) {
    return "This server answers to loopback names only: open it as http://127.0.0.1 or http://localhost.";
  }
  const foreign = origin !== undefined && hostOf(origin) !== host.toLowerCase();
  if (foreign || !isOwnFetch(headers)) return "Requests made by other sites are not answered.";
  return undefined;
}

/** Following a link is allowed: the other site sees nothing of the page that opens. */
function isOwnFetch(headers: IncomingHttpHeaders): boolean {
  const site = headers["sec-fetch-site"];
  if (site === undefined || (typeof site === "string" && OWN_SITES.has(site))) return true;
  return headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document";
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}
