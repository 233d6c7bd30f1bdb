/** Parser of Redis URLs: one server, or the nodes from which a cluster is discovered. Pure. */
import { isAbsolute } from "node:path";
import { SubagentError } from "./errors.ts";

/** A node of a cluster. */
export interface ClusterNode {
  host: string;
  port: number;
}

/** Absolute paths of PEM files: the CA to trust instead of Node's own, and the client's certificate with its key. */
export type TlsFiles = Partial<Record<"ca" | "cert" | "key", string>>;

/** Address and login of Redis. With `nodes` it is a cluster; all its nodes take the same login and TLS. */
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
/** Captures scheme, login, hosts and TLS files. A cluster has only database 0. */
const CLUSTER = /^(rediss?)\+cluster:\/\/([^@/?#]*@)?([^@/?#]+)(?:\/0?)?(\?[^#]*)?$/;
const TLS_FILES: ReadonlySet<string> = new Set(["ca", "cert", "key"] satisfies (keyof TlsFiles)[]);

/**
 * Parses a Redis URL: `redis://[user:password@]host[:port][/db]`, `rediss://…` (TLS), `unix:///path/to/redis.sock`,
 * `redis+cluster://[user:password@]host[:port][,host[:port]…]` or `rediss+cluster://…`. With TLS the paths of its files may follow a
 * `?`, percent-encoded. Throws `invalid_config` with the expected forms; also if there are other settings after a `?`, because they
 * would have no effect.
 */
export function parseRedisUrl(url: string): RedisAddress {
  const address = addressOf(url);
  if (address) return address;
  throw new SubagentError(
    "invalid_config",
    `redisUrl "${withoutPassword(url)}" is not a Redis address: write ${REDIS_URL_FORMS}.`,
  );
}

/** Masks a URL of Redis or of a provider so that it can be shown: everything before the last `@` and after a `?`. */
export function withoutPassword(url: string): string {
  return url.replace(/\/\/.*@/, "//***@").replace(/\?.+/, "?***");
}

/** Returns true if {@link parseRedisUrl} accepts the URL. */
export function isRedisUrl(url: string): boolean {
  return addressOf(url) !== undefined;
}

function addressOf(url: string): RedisAddress | undefined {
  try {
    const cluster = CLUSTER.exec(url);
    return cluster ? clusterOf(cluster) : serverOf(new URL(url));
  } catch {
    // Not a URL, or a login that cannot be decoded.
    return undefined;
  }
}

function serverOf(url: URL): RedisAddress | undefined {
  const { protocol, hostname, pathname, search, hash } = url;
  if (hash !== "") return undefined;
  // With two slashes in place of three the first name would be a host, and the path another one.
  if (protocol === "unix:" && hostname === "" && search === "" && pathname.length > 1)
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
