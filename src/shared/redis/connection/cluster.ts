/**
 * Connections to a Redis Cluster. Two kinds: a client with a connection to every node, for commands; and an ordinary
 * connection for pub/sub, which a cluster carries to all nodes, that moves to the next node when its own is gone.
 *
 * 1. The client connects to every node at once, so that it knows when all nodes are gone, used or not.
 * 2. Every {@link CHECK_MS} the client asks the nodes for the slot table. A node that just falls silent rejects nothing; its
 *    waiting commands go to its successor when the others have appointed one.
 *
 * No ready check: the node that is asked may be the silent one, and the client would wait for its answer for ever.
 */
import { Cluster, type ClusterOptions, Command, type Redis, type RedisOptions } from "ioredis";
import type { Clock } from "../../clock.ts";
import { SubagentError } from "../../errors.ts";
import type { ClusterNode } from "../../redis-url.ts";
import {
  connectionLost,
  hidePolicy,
  keepOffConsole,
  limitHandshake,
  retryMs,
  ServerConnection,
} from "./server-connection.ts";

/** Time between two reads of the cluster's slot table. */
const CHECK_MS = 5_000;
/** Time in which a node must answer with the table; then another one is asked. */
const ANSWER_MS = 1_000;

const ROLE_OPTIONS = {
  /** CLUSTERDOWN is returned as the answer; a lost node is retried as long as the caller waits. */
  producer: { enableOfflineQueue: false, retryDelayOnClusterDown: 0 },
  /**
   * A command waits without limit for its node, or its node's successor. Each attempt sends all waiting commands, reads the slot
   * table and connects to the nodes that are away: at ioredis' 100 ms a waiting worker used a sixth of a core.
   */
  worker: {
    maxRedirections: Number.POSITIVE_INFINITY,
    retryDelayOnClusterDown: 500,
    retryDelayOnFailover: 500,
  },
  /** CLUSTERDOWN is returned as the answer. A lost node is tried 50 times, every 100 ms. */
  asker: { maxRedirections: 50, retryDelayOnClusterDown: 0, retryDelayOnFailover: 100 },
} satisfies Record<string, ClusterOptions>;

const closing = new WeakSet<Cluster>();

type EndListener = () => void;

/** States of a client that drops its nodes, or has dropped them. */
const DROPS_NODES: ReadonlySet<string> = new Set(["disconnecting", "close", "end"]);

/**
 * ioredis' client with six faults corrected, also in the duplicates that BullMQ makes. (1) It announces once that its nodes
 * are gone: ioredis announces it for each node that it drops, even after it has ended or begun to reconnect, and never
 * recovers. (2) It keeps a node that the slot table names again while its last connection still closes: ioredis forgets the
 * new connection when the old one ends, and never closes it. (3) It refreshes the slot table on our own timer: that of
 * ioredis never stops if the client is closed during a refresh. (4) It publishes all messages of a channel through one node:
 * ioredis picks a node for each message, and messages from different nodes arrive in any order. (5) If it is closed between
 * two attempts to connect, it announces its end: ioredis leaves that to the nodes of an attempt. (6) While it closes, it
 * follows no answer that names another node: ioredis connects to that node, and then neither ends nor recovers.
 */
class SteadyCluster extends Cluster {
  readonly #nodes: ClusterNode[];
  readonly #clock: Clock;
  readonly #announcers = new Map<Redis, EndListener[]>();
  #refreshTimer: { cancel(): void } | undefined;

  constructor(nodes: ClusterNode[], options: ClusterOptions, clock: Clock) {
    super(nodes, options);
    this.#nodes = nodes;
    this.#clock = clock;
    hidePolicy(this);
    this.on("+node", (node: Redis) => {
      const { host, port } = node.options;
      this.#silence(({ options: older }) => older.host === host && older.port === port);
      // Only ioredis listens to a node that it has just made.
      this.#announcers.set(node, node.rawListeners("end") as EndListener[]);
      limitHandshake(node, clock);
      keepOffConsole(node, this);
    });
    this.on("-node", (node: Redis) => this.#announcers.delete(node));
    this.on("close", () => {
      this.#refreshTimer?.cancel();
      this.#silence();
    });
    this.on("ready", () => this.#scheduleRefresh());
  }

  override duplicate(_nodes?: unknown, options: ClusterOptions = {}): Cluster {
    return new SteadyCluster(this.#nodes, { ...this.options, ...options }, this.#clock);
  }

  override sendCommand(...[command, stream, node]: Parameters<Cluster["sendCommand"]>): unknown {
    if (node || command.name !== "publish") return super.sendCommand(command, stream, node);
    // ioredis computes slots of keys only, and a channel is no key.
    const slot = new Command("exists", command.args.slice(0, 1)).getSlot();
    return super.sendCommand(command, stream, { slot });
  }

  override handleError(...[error, ttl, handlers]: Parameters<Cluster["handleError"]>): void {
    const isElsewhere = /^(?:MOVED|ASK) /.test(error.message);
    if (isElsewhere && DROPS_NODES.has(this.status)) handlers.maxRedirections(connectionLost());
    else super.handleError(error, ttl, handlers);
  }

  override disconnect(reconnect = false): void {
    const endsHere = this.status === "reconnecting" && !reconnect;
    if (endsHere) this.#silence();
    super.disconnect(reconnect);
    if (!endsHere) return;
    callInside(this, "setStatus", "end");
    callInside(this, "flushQueue", new SubagentError("closed", "The connection to Redis was closed."));
  }

  /** Removes the end listeners of these nodes; default: of all. */
  #silence(isMeant: (node: Redis) => boolean = () => true): void {
    for (const [node, listeners] of this.#announcers) {
      if (!isMeant(node)) continue;
      for (const listener of listeners) node.off("end", listener);
      this.#announcers.delete(node);
    }
  }

  #scheduleRefresh(): void {
    this.#refreshTimer?.cancel();
    this.#refreshTimer = this.#clock.timeout(CHECK_MS, () => {
      this.refreshSlotsCache();
      this.#scheduleRefresh();
    });
  }
}

/** Calls a private method of ioredis. */
function callInside(cluster: Cluster, name: string, ...args: unknown[]): void {
  const method: unknown = Reflect.get(cluster, name);
  if (typeof method === "function") Reflect.apply(method, cluster, args);
}

/** Opens a client for the commands of `role`. */
export function openCluster(
  nodes: ClusterNode[],
  role: keyof typeof ROLE_OPTIONS,
  options: RedisOptions,
  clock: Clock,
): Cluster {
  const settings: ClusterOptions = {
    ...ROLE_OPTIONS[role],
    redisOptions: { ...options, lazyConnect: false },
    clusterRetryStrategy: (times) => (closing.has(cluster) ? null : retryMs(times)),
    enableReadyCheck: false,
    slotsRefreshTimeout: ANSWER_MS,
    // Host names are not resolved: certificates contain them, and an unresolvable one is a node that is away.
    dnsLookup: (name, found) => found(null, name),
  };
  const cluster: Cluster = new SteadyCluster(nodes, settings, clock);
  return cluster;
}

/** Opens a connection for pub/sub to the first of `nodes`, and to the next one each time it is lost. */
export function openClusterSubscriber(nodes: ClusterNode[], options: RedisOptions, clock: Clock): Redis {
  let turn = 0;
  return new ServerConnection(clock, { ...options, ...nodes[0] }, (redis) => {
    turn += 1;
    Object.assign(redis.options, nodes[turn % nodes.length]);
  });
}

/**
 * Closes a cluster's client at once; unanswered commands reject. A connecting client announces its end when its last node is
 * gone, so one that has found none yet is closed when it tries the first.
 */
export function closeCluster(cluster: Cluster): void {
  closing.add(cluster);
  if (cluster.status === "reconnecting" || cluster.nodes().length > 0) cluster.disconnect();
  else cluster.once("+node", () => process.nextTick(() => cluster.disconnect()));
}

/** Prefix of the problem of a server that was named as a cluster but is none; waiting does not help. */
export const NO_CLUSTER = "that Redis is no cluster";

/** ioredis' error for a command without a connection, its own handshake included. */
export const UNSENT = "Stream isn't writeable";
/** Problem of a connection whose handshake was given up. */
export const UNANSWERED = "not connected, no answer";

/** ioredis' error for a command that has found no node for its key. */
const NO_NODE = "Too many Cluster redirections";
/** Problem of a cluster one of whose parts no node serves. */
export const PART_AWAY = "a node of the cluster is away, and none has taken its place";

/** Returns the problem of a connection, for people: if no node could be asked, the error of the last node. */
export function connectionProblem(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.message.startsWith(UNSENT)) return UNANSWERED;
  if (error.message.startsWith(NO_NODE)) return PART_AWAY;
  if (!("lastNodeError" in error)) return error.message || error.name;
  const said = error.lastNodeError instanceof Error ? error.lastNodeError.message : "";
  if (said.includes("cluster support disabled")) return `${NO_CLUSTER}: write redis://host:port`;
  return said === "" || said === "Connection is closed." ? "no node of the cluster can be reached" : said;
}
