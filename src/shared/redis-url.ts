/** What a Redis URL stands for: one server, or the nodes at which a cluster is found. Pure. */
import { isAbsolute } from "node:path";
import { SubagentError } from "./errors.ts";

/** A node of a cluster. */
export interface ClusterNode {
  host: string;
  port: number;
}

/** Absolute paths of PEM files: the CA that is trusted in place of Node's own, and what the client shows of itself. */
export type TlsFiles = Partial<Record<"ca" | "cert" | "key", string>>;

/** Where Redis is and how to log in. With `nodes` it is a cluster, all of whose nodes take the same login and TLS. */
export interface RedisAddress extends Partial<ClusterNode> {
  path?: string;
  nodes?: ClusterNode[];
  username?: string;
  password?: string;
  db?: number;
  tls?: TlsFiles;
}

/** The forms of a Redis URL, as the end of "write …". */
export const REDIS_URL_FORMS =
  "redis://host:port, rediss://host:port, unix:///path/to/redis.sock, or for a cluster redis+cluster://host:port,host:port; with TLS also ?ca=/path&cert=/path&key=/path";

const DEFAULT_PORT = 6379;
/** Scheme, login, hosts, files of TLS. Database 0 is the only one of a cluster. */
const CLUSTER = /^(rediss?)\+cluster:\/\/([^@/?#]*@)?([^@/?#]+)(?:\/0?)?(\?[^#]*)?$/;
const TLS_FILES: ReadonlySet<string> = new Set(["ca", "cert", "key"] satisfies (keyof TlsFiles)[]);

/**
 * Where a Redis URL leads: `redis://[user:password@]host[:port][/db]`, `rediss://…` (TLS), `unix:///path/to/redis.sock`,
 * `redis+cluster://[user:password@]host[:port][,host[:port]…]` or `rediss+cluster://…`; with TLS the paths of its files may stand
 * behind a `?`, percent-encoded. Throws `invalid_config` with the expected forms; also for any other setting behind a `?`, which
 * would count for nothing.
 */
export function parseRedisUrl(url: string): RedisAddress {
  const address = addressOf(url);
  if (address) return address;
  throw new SubagentError(
    "invalid_config",
    `redisUrl "${withoutPassword(url)}" is not a Redis address: write ${REDIS_URL_FORMS}.`,
  );
}

/** An address fit to be shown, of Redis or of a provider: what stands before the last `@` or behind a `?` is masked. */
export function withoutPassword(url: string): string {
  return url.replace(/\/\/.*@/, "//***@").replace(/\?.+/, "?***");
}

/** Whether {@link parseRedisUrl} would take it. */
export function isRedisUrl(url: string): boolean {
  return addressOf(url) !== undefined;
}

function addressOf(url: string): RedisAddress | undefined {
  try {
    const cluster = CLUSTER.exec(url);
    return cluster ? clusterOf(cluster) : serverOf(new URL(url));
  } catch {
    // No URL, or a login that cannot be decoded.
    return undefined;
  }
}

function serverOf(url: URL): RedisAddress | undefined {
  const { protocol, hostname, pathname, search, hash } = url;
  if (hash !== "") return undefined;
  if (protocol === "unix:" && search === "" && pathname.length > 1)
    return { path: decodeURIComponent(pathname) };
  if ((protocol !== "redis:" && protocol !== "rediss:") || hostname === "") return undefined;
  const db = pathname.slice(1);
  const tls = tlsOf(protocol, search);
  if (!/^\d*$/.test(db) || !tls) return undefined;
  return { ...nodeOf(url), ...loginOf(url), ...(db && { db: Number(db) }), ...tls };
}

function clusterOf([, scheme, login = "", hosts = "", search = ""]: RegExpExecArray):
  | RedisAddress
  | undefined {
  const urls = hosts.split(",").map((host) => new URL(`redis://${login}${host}`));
  const [first] = urls;
  const tls = tlsOf(`${scheme}:`, search);
  if (!first || urls.some(({ hostname }) => hostname === "") || !tls) return undefined;
  return { nodes: urls.map(nodeOf), ...loginOf(first), ...tls };
}

function nodeOf({ hostname, port }: URL): ClusterNode {
  return { host: hostname.replace(/^\[|\]$/g, ""), port: port === "" ? DEFAULT_PORT : Number(port) };
}

function loginOf({ username, password }: URL): Pick<RedisAddress, "username" | "password"> {
  return {
    ...(username && { username: decodeURIComponent(username) }),
    ...(password && { password: decodeURIComponent(password) }),
  };
}

/** Undefined for settings that are none of TLS. */
function tlsOf(protocol: string, search: string): Pick<RedisAddress, "tls"> | undefined {
  if (protocol !== "rediss:" && search === "") return {};
  const files = new Map(search === "" ? [] : search.slice(1).split("&").map(fileOf));
  const isRead = [...files].every(([name, path]) => TLS_FILES.has(name) && isAbsolute(path));
  const isEachOnce = files.size === search.split("=").length - 1;
  if (protocol !== "rediss:" || !isRead || !isEachOnce || files.has("cert") !== files.has("key"))
    return undefined;
  return { tls: Object.fromEntries(files) };
}

function fileOf(setting: string): [name: string, path: string] {
  const [name = "", path = ""] = setting.split("=");
  return [name, decodeURIComponent(path)];
}
