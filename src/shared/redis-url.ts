/** Parser of Redis URLs: one server, or the nodes from which a cluster is discovered. Pure. */
import { SubagentError } from "./errors.ts";

/** A node of a cluster. */
export interface ClusterNode {
  host: string;
  port: number;
}

/** Address and login of Redis. With `nodes` it is a cluster; all its nodes take the same login and TLS. */
export interface RedisAddress extends Partial<ClusterNode> {
  path?: string;
  nodes?: ClusterNode[];
  username?: string;
  password?: string;
  db?: number;
  tls?: Record<string, never>;
}

/** The forms of a Redis URL, as the end of "write …". */
export const REDIS_URL_FORMS =
  "redis://host:port, rediss://host:port, unix:///path/to/redis.sock, or for a cluster redis+cluster://host:port,host:port";

const DEFAULT_PORT = 6379;
/** Captures scheme, login and hosts. A cluster has only database 0. */
const CLUSTER = /^(rediss?)\+cluster:\/\/([^@/?#]*@)?([^@/?#]+)(?:\/0?)?$/;

/**
 * Parses a Redis URL: `redis://[user:password@]host[:port][/db]`, `rediss://…` (TLS), `unix:///path/to/redis.sock`,
 * `redis+cluster://[user:password@]host[:port][,host[:port]…]` or `rediss+cluster://…`. Throws `invalid_config` with the
 * expected forms; also if there are settings after a `?`, because they would have no effect.
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
  if (search !== "" || hash !== "") return undefined;
  if (protocol === "unix:" && pathname.length > 1) return { path: decodeURIComponent(pathname) };
  if ((protocol !== "redis:" && protocol !== "rediss:") || hostname === "") return undefined;
  const db = pathname.slice(1);
  if (!/^\d*$/.test(db)) return undefined;
  return { ...nodeOf(url), ...loginOf(url), ...(db && { db: Number(db) }), ...tlsOf(protocol) };
}

function clusterOf([, scheme, login = "", hosts = ""]: RegExpExecArray): RedisAddress | undefined {
  const urls = hosts.split(",").map((host) => new URL(`redis://${login}${host}`));
  const [first] = urls;
  if (!first || urls.some(({ hostname }) => hostname === "")) return undefined;
  return { nodes: urls.map(nodeOf), ...loginOf(first), ...tlsOf(`${scheme}:`) };
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

function tlsOf(protocol: string): Pick<RedisAddress, "tls"> {
  return protocol === "rediss:" ? { tls: {} } : {};
}
