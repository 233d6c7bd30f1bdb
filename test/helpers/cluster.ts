/**
 * Starts a Redis Cluster for tests: three masters with a replica each, real processes on 127.0.0.1. Does not use vitest, so
 * that the global setup can use it too.
 *
 * Owns: six servers and how they find each other. `redis-server.ts` owns each process.
 *
 * 1. `startCluster` resolves when every node reports the cluster as ok and every replica has its master's data.
 * 2. A killed node keeps its node id, port and data. After a restart it is a replica of its successor.
 */
import { Redis } from "ioredis";
import { freePort, type RedisServer, startRedisServer } from "./redis-server.ts";
import { until } from "./until.ts";

/** Time (ms) after which the other nodes consider a silent node failed. */
export const NODE_TIMEOUT_MS = 2_000;
const MASTERS = 3;
const SLOTS = 16_384;
const FORMS_WITHIN_MS = 30_000;

/** A node of the cluster. */
export interface ClusterServer extends RedisServer {
  /** Returns true between `freeze` and `thaw`. */
  isFrozen(): boolean;
  /** Sends one command to this node over a new connection, and closes it. */
  ask(...command: string[]): Promise<string>;
  /**
   * Ends it in the middle of its calls, once its replica has been sent all that it did. A SIGKILL can come after the answer to a
   * client and before the replica's copy: that loses an acknowledged write, as Redis may.
   */
  endReplicated(): Promise<void>;
}

/** See the module's header. */
export interface RedisCluster {
  /** `redis+cluster://127.0.0.1:PORT,…` with all nodes. */
  readonly url: string;
  readonly servers: readonly ClusterServer[];
  /** Asks a live node which master serves a key now, and which replica follows it. */
  holderOf(key: string): Promise<{ master: ClusterServer; replica: ClusterServer | undefined }>;
  /** Resolves to the new master as soon as all live nodes agree that a node other than `before` serves the key. */
  takenOver(key: string, before: ClusterServer): Promise<ClusterServer>;
  /**
   * Starts and thaws all nodes that are down. Resolves when every node reports the cluster as ok, every replica follows its
   * master, and no node rewrites its append-only file: a node that still writes its first one refuses to exit.
   */
  repair(): Promise<void>;
  /** Kills all nodes and removes their directories. Idempotent. */
  stop(): Promise<void>;
}

/** Starts a cluster; the caller must stop it. `extra`: additional `redis-server` arguments of each node. */
export async function startCluster(extra: readonly string[] = []): Promise<RedisCluster> {
  const starting = await Promise.allSettled(Array.from({ length: 2 * MASTERS }, () => startNode(extra)));
  const nodes = starting.flatMap((start) => (start.status === "fulfilled" ? [start.value] : []));
  const cluster = clusterOf(nodes.map(({ server }) => server));
  try {
    for (const start of starting) if (start.status === "rejected") throw start.reason;
    await form(nodes);
    await cluster.repair();
  } catch (failure) {
    await cluster.stop();
    throw failure;
  }
  return cluster;
}

interface Node {
  server: ClusterServer;
  busPort: number;
}

async function startNode(extra: readonly string[]): Promise<Node> {
  const busPort = await freePort();
  const server = await startRedisServer([
    ...["--cluster-enabled", "yes", "--cluster-port", String(busPort)],
    ...["--cluster-node-timeout", String(NODE_TIMEOUT_MS), "--cluster-replica-validity-factor", "0"],
    ...["--repl-diskless-sync-delay", "0"],
    ...extra,
  ]);
  const { freeze, thaw } = server;
  let frozen = false;
  const more = {
    ask: (...command: string[]) => ask(server.port, command),
    async endReplicated() {
      // It ends without an answer.
      await ask(server.port, ["SHUTDOWN", "NOSAVE", "NOW", "FORCE"]).catch(() => {});
      await server.kill();
    },
    isFrozen: () => frozen,
    freeze() {
      frozen = true;
      freeze();
    },
    thaw() {
      frozen = false;
      thaw();
    },
  };
  return { server: Object.assign(server, more), busPort };
}

async function form(nodes: readonly Node[]): Promise<void> {
  const [first, ...others] = nodes;
  if (!first) return;
  await Promise.all(
    nodes.slice(0, MASTERS).map(async ({ server }, i) => {
      const from = Math.floor((i * SLOTS) / MASTERS);
      const to = Math.floor(((i + 1) * SLOTS) / MASTERS) - 1;
      await server.ask("CLUSTER", "SET-CONFIG-EPOCH", String(i + 1));
      await server.ask("CLUSTER", "ADDSLOTSRANGE", String(from), String(to));
    }),
  );
  for (const { server } of others)
    await server.ask("CLUSTER", "MEET", "127.0.0.1", String(first.server.port), String(first.busPort));
  const allMet = async () =>
    (await Promise.all(nodes.map(({ server }) => nodesSeenBy(server)))).every(
      (seen) => seen.length === nodes.length && seen.every(({ flags }) => !flags.includes("handshake")),
    );
  await until(allMet, { what: "all nodes to know each other", timeoutMs: FORMS_WITHIN_MS });
  await Promise.all(
    nodes.slice(MASTERS).map(async ({ server }, i) => {
      const master = await nodes[i]?.server.ask("CLUSTER", "MYID");
      await server.ask("CLUSTER", "REPLICATE", master ?? "");
    }),
  );
}

function clusterOf(servers: readonly ClusterServer[]): RedisCluster {
  const live = () => servers.filter((server) => server.pid !== undefined && !server.isFrozen());
  const byPort = (port: number) => servers.find((server) => server.port === port);
  const heldBy = async (asked: ClusterServer | undefined, key: string) => {
    const slot = Number(await asked?.ask("CLUSTER", "KEYSLOT", key));
    const seen = asked ? await nodesSeenBy(asked) : [];
    const holder = seen.find((node) => node.holds(slot));
    const following = seen.find(
      (node) => node.master === holder?.id && !node.flags.some((flag) => flag.startsWith("fail")),
    );
    const master = byPort(holder?.port ?? 0);
    if (!holder || !master) throw new Error(`no node serves ${key}`);
    return { master, replica: byPort(following?.port ?? 0) };
  };
  const holderOf = (key: string) => heldBy(live()[0], key);
  return {
    url: `redis+cluster://${servers.map(({ port }) => `127.0.0.1:${port}`).join(",")}`,
    servers,
    holderOf,
    takenOver: (key, before) =>
      until(
        async () => {
          const masters = await Promise.all(live().map(async (server) => (await heldBy(server, key)).master));
          const [master] = masters;
          const agreed = await Promise.all(live().map((server) => isSound(server)));
          const isOne = masters.every((each) => each === master);
          return master !== before && isOne && agreed.every(Boolean) && master;
        },
        { what: `another node to serve ${key}`, timeoutMs: FORMS_WITHIN_MS },
      ),
    async repair() {
      for (const server of servers) server.thaw();
      await Promise.all(servers.map((server) => server.start()));
      const allSound = async () => {
        if (!(await Promise.all(servers.map(isSound))).every(Boolean)) return false;
        if ((await Promise.all(servers.map(isRewriting))).some(Boolean)) return false;
        const views = await Promise.all(servers.map(nodesSeenBy));
        return views.every(
          (seen) =>
            !seen.some(({ flags }) => flags.some((flag) => /^fail|^handshake/.test(flag))) &&
            followers(seen) === MASTERS,
        );
      };
      await until(allSound, { what: "a sound cluster", timeoutMs: FORMS_WITHIN_MS, everyMs: 20 });
    },
    async stop() {
      await Promise.all(servers.map((server) => server.stop()));
    },
  };
}

function followers(seen: readonly SeenNode[]): number {
  return new Set(seen.flatMap(({ master }) => (master === "-" ? [] : [master]))).size;
}

/** Resolves when the replica has all writes that the master received before this call. */
export async function caughtUp(master: ClusterServer, replica: ClusterServer): Promise<void> {
  const offsetOf = async (server: ClusterServer) =>
    Number(/^master_repl_offset:(\d+)/m.exec(await server.ask("INFO", "replication"))?.[1]);
  const wanted = await offsetOf(master);
  await until(async () => (await offsetOf(replica)) >= wanted, { what: "a replica that has caught up" });
}

async function isSound(server: ClusterServer): Promise<boolean> {
  const [info, replication] = await Promise.all([
    server.ask("CLUSTER", "INFO"),
    server.ask("INFO", "replication"),
  ]);
  const assigned = /^cluster_slots_ok:16384/m.test(info) && /^cluster_state:ok/m.test(info);
  return assigned && (/^role:master/m.test(replication) || /^master_link_status:up/m.test(replication));
}

async function isRewriting(server: ClusterServer): Promise<boolean> {
  return /^aof_rewrite_(?:in_progress|scheduled):1/m.test(await server.ask("INFO", "persistence"));
}

interface SeenNode {
  id: string;
  port: number;
  flags: string[];
  /** Node id of its master; `-` if the node is a master. */
  master: string;
  holds(slot: number): boolean;
}

/** Returns all nodes as `server` reports them (`CLUSTER NODES`). */
async function nodesSeenBy(server: ClusterServer): Promise<SeenNode[]> {
  const lines = (await server.ask("CLUSTER", "NODES")).trim().split("\n");
  return lines.map((line) => {
    const [id = "", address = "", flags = "", master = "", , , , , ...ranges] = line.split(" ");
    return {
      id,
      port: Number(/:(\d+)@/.exec(address)?.[1]),
      flags: flags.split(","),
      master,
      holds: (slot) =>
        ranges.some((range) => {
          const [from = "", to = from] = range.split("-");
          return slot >= Number(from) && slot <= Number(to);
        }),
    };
  });
}

async function ask(port: number, [name = "", ...rest]: readonly string[]): Promise<string> {
  const redis = new Redis(port, "127.0.0.1", { retryStrategy: () => null, lazyConnect: true });
  redis.on("error", () => {});
  try {
    return String(await redis.call(name, ...rest));
  } finally {
    redis.disconnect();
  }
}
